-- What was moved into this database, so that what is written there later can be brought after it: which register, and up to where.
CREATE TABLE daftar.origin (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    register bytea NOT NULL,
    sequence bigint NOT NULL,
    code_table_parts bigint NOT NULL,
    audit bigint NOT NULL,
    -- The value of the audit log that tells of the last removal: it is written again with each step of that.
    audit_removal bigint
);
