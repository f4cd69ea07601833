-- What the register keeps. Values are the stored forms that the embedded store writes too; whatever is searched stands beside them.

-- One row. Whoever writes locks it first, so that writes of all processes happen one after the other and keys have no gaps.
CREATE TABLE daftar.last (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    register bytea NOT NULL,
    individual bigint NOT NULL DEFAULT 0,
    "group" bigint NOT NULL DEFAULT 0,
    program bigint NOT NULL DEFAULT 0,
    membership bigint NOT NULL DEFAULT 0,
    consent bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    code_table_parts bigint NOT NULL DEFAULT 0,
    audit bigint NOT NULL DEFAULT 0,
    -- Lines of the audit log that no summary tells of yet.
    audit_unsummed bigint NOT NULL DEFAULT 0,
    -- Raised when clients are changed.
    clients_generation bigint NOT NULL DEFAULT 0,
    -- Raised when the deployment decides something: settings, codes that get numbers, plugins.
    deployment_generation bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

-- The last group of writes of each process: how one that lost its connection while it committed finds out what became of it.
CREATE TABLE daftar.writer (
    id bytea PRIMARY KEY,
    written bigint NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 20);

-- Kinds: 1 individual, 2 group, 3 program, 4 membership, 5 consent.
CREATE TABLE daftar.record (
    kind smallint NOT NULL,
    id bigint NOT NULL,
    version bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, id)
) WITH (autovacuum_analyze_scale_factor = 0.02);

-- Versions before the present one.
CREATE TABLE daftar.earlier_version (
    kind smallint NOT NULL,
    id bigint NOT NULL,
    version bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, id, version)
);

-- Who carries or carried an identifier.
CREATE TABLE daftar.identifier (
    kind smallint NOT NULL,
    system text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    id bigint NOT NULL,
    is_open boolean NOT NULL,
    PRIMARY KEY (kind, system, value, id)
) WITH (autovacuum_analyze_scale_factor = 0.02);

-- The database keeps the promise too, whatever else would write to it.
CREATE UNIQUE INDEX identifier_open ON daftar.identifier (kind, system, value) WHERE is_open;

-- Which membership is open.
CREATE TABLE daftar.open_membership (
    program bigint NOT NULL,
    beneficiary_kind smallint NOT NULL,
    beneficiary bigint NOT NULL,
    membership bigint NOT NULL,
    PRIMARY KEY (program, beneficiary_kind, beneficiary)
);

CREATE TABLE daftar.photo (
    digest bytea PRIMARY KEY,
    bytes bytea NOT NULL
);
-- Pictures are packed already.
ALTER TABLE daftar.photo ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE daftar.client (
    id text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE daftar.setting (
    kind smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, key)
);

CREATE TABLE daftar.code_table_part (
    number bigint PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE daftar.counter (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 50);

-- Requests that were done, by what their clients called them.
CREATE TABLE daftar.request (
    client text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    at_ms bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (client, key, part)
);
CREATE INDEX request_at ON daftar.request (at_ms);

-- The order of writes. `touched`: what counts as touched besides the records of the value, nine bytes each.
CREATE TABLE daftar.change (
    sequence bigint PRIMARY KEY,
    value bytea NOT NULL,
    touched bytea
);

CREATE TABLE daftar.audit (
    number bigint PRIMARY KEY,
    value bytea NOT NULL
);

-- Summaries of stretches of the audit log, by the number of the last value of each.
CREATE TABLE daftar.audit_segment (
    last_value bigint PRIMARY KEY,
    value bytea NOT NULL
);
