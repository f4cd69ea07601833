-- The contents of the register. Records are stored JSON; other values have the stored forms of the embedded store.

COMMENT ON SCHEMA daftar IS 'The register of daftar: records, audit log, search index and shared state of the servers. Reports read the schema reporting.';

-- The program creates this table before the first step, and adds a row with each step.
COMMENT ON TABLE daftar.layout_history IS 'The steps of the layout that were applied. A program reads it when it starts; the owner of the tables alone writes it.';
COMMENT ON COLUMN daftar.layout_history.version IS 'Number of the step.';
COMMENT ON COLUMN daftar.layout_history.name IS 'Name of the step.';
COMMENT ON COLUMN daftar.layout_history.applied_on IS 'Time at which it was applied, as text (RFC 3339).';
COMMENT ON COLUMN daftar.layout_history.checksum IS 'Checksum of its statements.';
COMMENT ON CONSTRAINT layout_history_pkey ON daftar.layout_history IS 'A step is applied once.';

-- Default privileges give the role of servers the same rights to it as to every other table. It only reads it.
DO $$
DECLARE
    role text;
BEGIN
    FOR role IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END
        FROM pg_class AS class CROSS JOIN LATERAL aclexplode(class.relacl) AS acl
        WHERE class.oid = 'daftar.layout_history'::regclass AND acl.grantee <> class.relowner
    LOOP
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON daftar.layout_history FROM %s', role);
    END LOOP;
END
$$;

CREATE TABLE daftar.last (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    register bytea NOT NULL,
    oldest_layout bigint NOT NULL DEFAULT 1,
    individual bigint NOT NULL DEFAULT 0,
    "group" bigint NOT NULL DEFAULT 0,
    program bigint NOT NULL DEFAULT 0,
    membership bigint NOT NULL DEFAULT 0,
    consent bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    code_table_parts bigint NOT NULL DEFAULT 0,
    clients_generation bigint NOT NULL DEFAULT 0,
    deployment_generation bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

COMMENT ON TABLE daftar.last IS 'One row. A process that writes locks it first, so that the writes of all processes are serialized and keys have no gaps. '
    'Every write changes it: the page is mostly empty, so that a new version of the row needs no index entry (HOT), and vacuum runs every 1,000 versions.';
COMMENT ON COLUMN daftar.last.is_only IS 'Keeps the table at one row.';
COMMENT ON COLUMN daftar.last.register IS 'The id of the register, 16 bytes, generated when the tables were created.';
COMMENT ON COLUMN daftar.last.oldest_layout IS 'The oldest layout that a program must know to use these tables. A step that is incompatible with older programs raises it.';
COMMENT ON COLUMN daftar.last.individual IS 'The last assigned key of individuals.';
COMMENT ON COLUMN daftar.last."group" IS 'The last assigned key of groups.';
COMMENT ON COLUMN daftar.last.program IS 'The last assigned key of programs.';
COMMENT ON COLUMN daftar.last.membership IS 'The last assigned key of memberships in programs.';
COMMENT ON COLUMN daftar.last.consent IS 'The last assigned key of consents.';
COMMENT ON COLUMN daftar.last.sequence IS 'The number of the last write (daftar.change.sequence).';
COMMENT ON COLUMN daftar.last.code_table_parts IS 'Incremented when codes or editions get numbers.';
COMMENT ON COLUMN daftar.last.clients_generation IS 'Incremented when clients are changed.';
COMMENT ON COLUMN daftar.last.deployment_generation IS 'Incremented when the configuration of the deployment changes: settings, codes that get numbers, plugins.';
COMMENT ON CONSTRAINT last_pkey ON daftar.last IS 'With the CHECK: at most one row.';
COMMENT ON CONSTRAINT last_is_only_check ON daftar.last IS 'The key has one value.';

CREATE TABLE daftar.writer (
    id bytea PRIMARY KEY,
    written bigint NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

COMMENT ON TABLE daftar.writer IS 'The last group of writes of each process, by which a process that lost its connection during a commit resolves the outcome. One row per process, changed by each of its writes: fill factor and vacuum as for daftar.last.';
COMMENT ON COLUMN daftar.writer.id IS 'The process, by a random number generated at its start.';
COMMENT ON COLUMN daftar.writer.written IS 'The number of its last group of writes.';
COMMENT ON COLUMN daftar.writer.at IS 'Time of that write.';
COMMENT ON CONSTRAINT writer_pkey ON daftar.writer IS 'One row for each process.';

CREATE TABLE daftar.record (
    kind smallint NOT NULL CHECK (kind BETWEEN 1 AND 5),
    id bigint NOT NULL CHECK (id > 0),
    version bigint NOT NULL CHECK (version > 0),
    value jsonb NOT NULL CHECK (jsonb_typeof(value) = 'object'),
    PRIMARY KEY (kind, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
COMMENT ON TABLE daftar.record IS 'Every record of the register, in its current version. '
    'Vacuumed at 5 % and analyzed at 2 % of changed rows, not at 20 % and 10 %: a table of ten million rows would wait for two million changes, whose old versions need space.';
COMMENT ON COLUMN daftar.record.kind IS '1 individual, 2 group, 3 program, 4 membership, 5 consent.';
COMMENT ON COLUMN daftar.record.id IS 'The key of the record. It is not shown to clients; other records refer to it.';
COMMENT ON COLUMN daftar.record.version IS 'Number of writes of the record; the same as meta.version_id of the value.';
COMMENT ON COLUMN daftar.record.value IS 'The record as stored JSON: members have the names of the API, and a code has its URI and its number in daftar.code.';
COMMENT ON CONSTRAINT record_pkey ON daftar.record IS 'A key belongs to one record of a kind.';
COMMENT ON CONSTRAINT record_kind_check ON daftar.record IS 'A kind of record that this layout knows.';
COMMENT ON CONSTRAINT record_id_check ON daftar.record IS 'Keys are counted from 1.';
COMMENT ON CONSTRAINT record_version_check ON daftar.record IS 'Versions are counted from 1.';
COMMENT ON CONSTRAINT record_value_check ON daftar.record IS 'A record is a JSON object.';

-- Foreign keys are checked at the end of a transaction: the rows of a group of writes are written in any order.
CREATE TABLE daftar.earlier_version (
    kind smallint NOT NULL,
    id bigint NOT NULL,
    version bigint NOT NULL CHECK (version > 0),
    value jsonb NOT NULL CHECK (jsonb_typeof(value) = 'object'),
    PRIMARY KEY (kind, id, version),
    CONSTRAINT earlier_version_record FOREIGN KEY (kind, id) REFERENCES daftar.record DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON TABLE daftar.earlier_version IS 'Versions of records before the current one.';
COMMENT ON COLUMN daftar.earlier_version.kind IS 'As in daftar.record.';
COMMENT ON COLUMN daftar.earlier_version.id IS 'The record: daftar.record.id.';
COMMENT ON COLUMN daftar.earlier_version.version IS 'The version of the record.';
COMMENT ON COLUMN daftar.earlier_version.value IS 'The record in that version, as stored JSON.';
COMMENT ON CONSTRAINT earlier_version_pkey ON daftar.earlier_version IS 'A version of a record is stored once.';
COMMENT ON CONSTRAINT earlier_version_version_check ON daftar.earlier_version IS 'Versions are counted from 1.';
COMMENT ON CONSTRAINT earlier_version_value_check ON daftar.earlier_version IS 'A record is a JSON object.';
COMMENT ON CONSTRAINT earlier_version_record ON daftar.earlier_version IS 'The record exists. Checked at the end of the transaction.';

CREATE TABLE daftar.identifier (
    kind smallint NOT NULL,
    system text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    id bigint NOT NULL,
    is_open boolean NOT NULL,
    PRIMARY KEY (kind, system, value, id),
    CONSTRAINT identifier_record FOREIGN KEY (kind, id) REFERENCES daftar.record DEFERRABLE INITIALLY DEFERRED
) WITH (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX identifier_open ON daftar.identifier (kind, system, value) WHERE is_open;

COMMENT ON TABLE daftar.identifier IS 'The records that have or had an identifier. Reads by identifier need only the index: vacuum runs at 5 % of new rows, not at 20 %, so that the visibility map permits index-only scans. Analyzed at 2 % of changed rows, as daftar.record.';
COMMENT ON COLUMN daftar.identifier.kind IS 'Kind of the record, as in daftar.record.';
COMMENT ON COLUMN daftar.identifier.system IS 'The system of the identifier, a URI.';
COMMENT ON COLUMN daftar.identifier.value IS 'The value within that system.';
COMMENT ON COLUMN daftar.identifier.id IS 'Key of the record (daftar.record.id).';
COMMENT ON COLUMN daftar.identifier.is_open IS 'True if the record has the identifier now; false if it had it in an earlier version.';
COMMENT ON CONSTRAINT identifier_pkey ON daftar.identifier IS 'A record has an identifier once.';
COMMENT ON CONSTRAINT identifier_record ON daftar.identifier IS 'The record exists. Checked at the end of the transaction.';
COMMENT ON INDEX daftar.identifier_open IS 'Guard: no two records of a kind have an identifier at the same time, in writes of any program or session. No query uses it, so it has no scans: do not drop it.';

-- References of a membership have no foreign keys: a register with dangling references can be moved and verified too.
CREATE TABLE daftar.open_membership (
    program bigint NOT NULL,
    beneficiary_kind smallint NOT NULL CHECK (beneficiary_kind IN (1, 2)),
    beneficiary bigint NOT NULL,
    membership bigint NOT NULL,
    membership_kind smallint NOT NULL DEFAULT 4 CHECK (membership_kind = 4),
    PRIMARY KEY (program, beneficiary_kind, beneficiary),
    CONSTRAINT open_membership_record FOREIGN KEY (membership_kind, membership) REFERENCES daftar.record DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON TABLE daftar.open_membership IS 'The open membership of a beneficiary in a program: at most one.';
COMMENT ON COLUMN daftar.open_membership.program IS 'The program: daftar.record.id of kind 3.';
COMMENT ON COLUMN daftar.open_membership.beneficiary_kind IS 'Kind of the beneficiary, as in daftar.record.';
COMMENT ON COLUMN daftar.open_membership.beneficiary IS 'The beneficiary: daftar.record.id.';
COMMENT ON COLUMN daftar.open_membership.membership IS 'The open membership: daftar.record.id of kind 4.';
COMMENT ON COLUMN daftar.open_membership.membership_kind IS 'Always 4, for the foreign key.';
COMMENT ON CONSTRAINT open_membership_pkey ON daftar.open_membership IS 'Guard: a beneficiary has at most one open membership in a program.';
COMMENT ON CONSTRAINT open_membership_beneficiary_kind_check ON daftar.open_membership IS 'The beneficiary is an individual or a group.';
COMMENT ON CONSTRAINT open_membership_membership_kind_check ON daftar.open_membership IS 'The kind of memberships.';
COMMENT ON CONSTRAINT open_membership_record ON daftar.open_membership IS 'The membership exists. Checked at the end of the transaction. Program and beneficiary have no foreign keys: a register with dangling references can be moved and verified too.';

CREATE TABLE daftar.photo (
    digest bytea PRIMARY KEY,
    bytes bytea NOT NULL
);
ALTER TABLE daftar.photo ALTER COLUMN bytes SET STORAGE EXTERNAL;

COMMENT ON TABLE daftar.photo IS 'Photos, each once.';
COMMENT ON COLUMN daftar.photo.digest IS 'SHA-256 of the photo, by which records reference it.';
COMMENT ON CONSTRAINT photo_pkey ON daftar.photo IS 'A photo is stored once.';
COMMENT ON COLUMN daftar.photo.bytes IS 'The file. Images are compressed already: PostgreSQL does not compress them again (STORAGE EXTERNAL).';

CREATE TABLE daftar.client (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    status text COLLATE "C" NOT NULL CONSTRAINT client_status_is_known CHECK (status IN ('active', 'deleted', 'disabled')),
    value bytea NOT NULL
);

COMMENT ON TABLE daftar.client IS 'API clients, with their grants and limits; secrets as hashes.';
COMMENT ON COLUMN daftar.client.id IS 'The id of the client, as in daftar.audit.client.';
COMMENT ON COLUMN daftar.client.name IS 'The display name, for SQL: servers read it from the value.';
COMMENT ON COLUMN daftar.client.status IS 'The status, for SQL: servers read it from the value. Of a deleted client only the id is left.';
COMMENT ON COLUMN daftar.client.value IS 'The client in the stored form of the embedded store; daftar client show displays it.';
COMMENT ON CONSTRAINT client_pkey ON daftar.client IS 'An id is given to one client.';
COMMENT ON CONSTRAINT client_status_is_known ON daftar.client IS 'The statuses of clients. A release that adds one changes this first.';

CREATE TABLE daftar.setting (
    kind smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (kind, key)
);

COMMENT ON TABLE daftar.setting IS 'Settings of the register by administrators: local codes, concept groups, identifier systems and the like.';
COMMENT ON COLUMN daftar.setting.kind IS 'Kind of setting.';
COMMENT ON COLUMN daftar.setting.key IS 'Its key within the kind.';
COMMENT ON COLUMN daftar.setting.value IS 'The setting in the stored form of the embedded store.';
COMMENT ON CONSTRAINT setting_pkey ON daftar.setting IS 'A setting is stored once.';

CREATE TABLE daftar.code (
    number bigint PRIMARY KEY CHECK (number >= 0),
    system text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    part bigint NOT NULL CHECK (part >= 0),
    UNIQUE (system, code)
);
CREATE INDEX code_part ON daftar.code (part);
COMMENT ON TABLE daftar.code IS 'The number of every code that was ever used. A number is assigned once; rows are never changed.';
COMMENT ON COLUMN daftar.code.number IS 'The number of the code, the same in records and in search tables.';
COMMENT ON COLUMN daftar.code.system IS 'The URI of the vocabulary. The URI of the code is system || ''#'' || code.';
COMMENT ON COLUMN daftar.code.code IS 'The code within its vocabulary.';
COMMENT ON COLUMN daftar.code.part IS 'Codes that got their numbers together have one part; daftar.last counts the parts, so that other servers detect new rows.';
COMMENT ON CONSTRAINT code_pkey ON daftar.code IS 'A number belongs to one code.';
COMMENT ON CONSTRAINT code_system_code_key ON daftar.code IS 'A code has one number.';
COMMENT ON CONSTRAINT code_number_check ON daftar.code IS 'Numbers are counted from 0.';
COMMENT ON CONSTRAINT code_part_check ON daftar.code IS 'Parts are counted from 0.';
COMMENT ON INDEX daftar.code_part IS 'For the parts that a server has not read.';

CREATE TABLE daftar.edition (
    number bigint PRIMARY KEY CHECK (number >= 0),
    system text COLLATE "C" NOT NULL,
    edition text COLLATE "C" NOT NULL,
    part bigint NOT NULL CHECK (part >= 0),
    UNIQUE (system, edition)
);
CREATE INDEX edition_part ON daftar.edition (part);
COMMENT ON TABLE daftar.edition IS 'The number of every version of a vocabulary that was ever used. A number is assigned once; rows are never changed.';
COMMENT ON COLUMN daftar.edition.number IS 'The number of the version: edition_number in records.';
COMMENT ON COLUMN daftar.edition.system IS 'The URI of the vocabulary.';
COMMENT ON COLUMN daftar.edition.edition IS 'The version of the vocabulary.';
COMMENT ON COLUMN daftar.edition.part IS 'As in daftar.code; both share one count.';
COMMENT ON CONSTRAINT edition_pkey ON daftar.edition IS 'A number belongs to one version of a vocabulary.';
COMMENT ON CONSTRAINT edition_system_edition_key ON daftar.edition IS 'A version of a vocabulary has one number.';
COMMENT ON CONSTRAINT edition_number_check ON daftar.edition IS 'Numbers are counted from 0.';
COMMENT ON CONSTRAINT edition_part_check ON daftar.edition IS 'Parts are counted from 0.';
COMMENT ON INDEX daftar.edition_part IS 'For the parts that a server has not read.';

CREATE TABLE daftar.counter (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL,
    taken bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON TABLE daftar.counter IS 'Counters that servers share, such as the calls of a client on a day. A few rows that change often: pages are half empty for new versions (HOT), and vacuum runs early.';
COMMENT ON COLUMN daftar.counter.name IS 'Name of the counter.';
COMMENT ON COLUMN daftar.counter.value IS 'The count.';
COMMENT ON COLUMN daftar.counter.taken IS 'Number that the last process reserved.';
COMMENT ON CONSTRAINT counter_pkey ON daftar.counter IS 'A name belongs to one counter.';

CREATE TABLE daftar.request (
    client text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    at timestamptz NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (client, key, part)
);
CREATE INDEX request_at ON daftar.request (at);

COMMENT ON TABLE daftar.request IS 'Completed requests, by the idempotency keys of their clients, so that a repeated request is not executed twice.';
COMMENT ON COLUMN daftar.request.client IS 'The id of the client.';
COMMENT ON COLUMN daftar.request.key IS 'The idempotency key.';
COMMENT ON COLUMN daftar.request.part IS 'Part of the request, if it has several.';
COMMENT ON COLUMN daftar.request.at IS 'Time of completion, to the millisecond.';
COMMENT ON COLUMN daftar.request.value IS 'Stored data of the request and its response.';
COMMENT ON CONSTRAINT request_pkey ON daftar.request IS 'A part of a request is stored once for each key of a client.';
COMMENT ON INDEX daftar.request_at IS 'For the removal of old requests.';

CREATE TABLE daftar.change (
    sequence bigint PRIMARY KEY,
    value bytea NOT NULL,
    touched bytea
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_freeze_min_age = 0);

COMMENT ON TABLE daftar.change IS 'The change log, one row per write, from which servers read the writes of others. Rows are inserted and not changed: the vacuum at 10 % of new rows freezes them, so that no later vacuum has to read the table again.';
COMMENT ON COLUMN daftar.change.sequence IS 'The number of the write.';
COMMENT ON COLUMN daftar.change.value IS 'The records that it wrote.';
COMMENT ON COLUMN daftar.change.touched IS 'Other items that count as changed, nine bytes each.';
COMMENT ON CONSTRAINT change_pkey ON daftar.change IS 'A number belongs to one write.';

-- Shared state of processes besides records.

CREATE UNLOGGED TABLE daftar.minute (
    name text COLLATE "C" PRIMARY KEY,
    full_at bigint NOT NULL,
    per_minute bigint NOT NULL,
    asked_at bigint NOT NULL,
    given bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON TABLE daftar.minute IS 'Calls per minute of clients: a token bucket each, stored as the time at which it is full again. Not logged: empty after a crash of the database, and then all buckets are full. Fill factor and vacuum as for daftar.counter.';
COMMENT ON COLUMN daftar.minute.name IS 'Owner of the bucket.';
COMMENT ON COLUMN daftar.minute.full_at IS 'Time at which it is full again, in nanoseconds since 1970-01-01.';
COMMENT ON COLUMN daftar.minute.per_minute IS 'The limit of its last use.';
COMMENT ON COLUMN daftar.minute.asked_at IS 'Time of the last request, in nanoseconds since 1970-01-01.';
COMMENT ON COLUMN daftar.minute.given IS 'Number of calls that were permitted then.';
COMMENT ON CONSTRAINT minute_pkey ON daftar.minute IS 'An owner has one bucket.';

CREATE FUNCTION daftar.minute_cell(per_minute bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(60000000000 / per_minute, 1)
$$;

COMMENT ON FUNCTION daftar.minute_cell IS 'Time in which one call is refilled, in nanoseconds.';

CREATE FUNCTION daftar.minute_until(full_at bigint, before bigint, now_ns bigint, per_minute bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(
        daftar.minute_cell(per_minute) * per_minute,
        CASE WHEN before = per_minute THEN greatest(full_at - now_ns, 0)
        ELSE (greatest(full_at - now_ns, 0) + daftar.minute_cell(before) - 1) / daftar.minute_cell(before) * daftar.minute_cell(per_minute) END
    )
$$;

COMMENT ON FUNCTION daftar.minute_until IS 'Time until a bucket is full again; after a change of the limit, based on the use under the previous one.';

CREATE FUNCTION daftar.minute_given(until_full bigint, per_minute bigint, wanted bigint, most bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN room < wanted THEN 0 ELSE least(room, most) END
    FROM (
        SELECT per_minute - (until_full + daftar.minute_cell(per_minute) - 1) / daftar.minute_cell(per_minute) AS room
    ) AS rooms
$$;

COMMENT ON FUNCTION daftar.minute_given IS 'Number of calls that a bucket permits that is full again after until_full: as many as it has, up to most; none if those are fewer than wanted.';

CREATE TABLE daftar.plugin_list (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    revision bigint NOT NULL,
    list bytea NOT NULL,
    named bytea[] NOT NULL
);

COMMENT ON TABLE daftar.plugin_list IS 'The installed plugins; one row.';
COMMENT ON COLUMN daftar.plugin_list.is_only IS 'Keeps the table at one row.';
COMMENT ON COLUMN daftar.plugin_list.revision IS 'Incremented with each change.';
COMMENT ON COLUMN daftar.plugin_list.list IS 'The list, with the signatures of the plugins.';
COMMENT ON COLUMN daftar.plugin_list.named IS 'The digests of the files in the list; others are removed from daftar.plugin_file.';
COMMENT ON CONSTRAINT plugin_list_pkey ON daftar.plugin_list IS 'With the CHECK: at most one row.';
COMMENT ON CONSTRAINT plugin_list_is_only_check ON daftar.plugin_list IS 'The key has one value.';

INSERT INTO daftar.plugin_list (revision, list, named) VALUES (0, '', '{}');

CREATE TABLE daftar.plugin_file (
    digest bytea NOT NULL,
    part integer NOT NULL,
    parts integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (digest, part)
);

COMMENT ON TABLE daftar.plugin_file IS 'Files of installed plugins, in chunks.';
COMMENT ON COLUMN daftar.plugin_file.digest IS 'SHA-256 of the file.';
COMMENT ON COLUMN daftar.plugin_file.part IS 'Number of the chunk, counted from 0.';
COMMENT ON COLUMN daftar.plugin_file.parts IS 'Number of chunks of the file.';
COMMENT ON COLUMN daftar.plugin_file.bytes IS 'The chunk.';
COMMENT ON CONSTRAINT plugin_file_pkey ON daftar.plugin_file IS 'A chunk of a file is stored once.';

CREATE TABLE daftar.kept_once (
    name text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

COMMENT ON TABLE daftar.kept_once IS 'Values that are written once for the whole life of a register, such as the marker of the key for client secrets.';
COMMENT ON COLUMN daftar.kept_once.name IS 'Name of the value.';
COMMENT ON COLUMN daftar.kept_once.value IS 'The value.';
COMMENT ON CONSTRAINT kept_once_pkey ON daftar.kept_once IS 'A name has one value.';

CREATE UNLOGGED TABLE daftar.call_window (
    name text COLLATE "C" PRIMARY KEY,
    calls bigint[] NOT NULL,
    asked_at bigint NOT NULL,
    is_taken boolean NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON TABLE daftar.call_window IS 'Calls in sliding windows of a minute, such as requests for tokens from one address. Not logged: all windows are empty after a crash of the database. Fill factor and vacuum as for daftar.counter.';
COMMENT ON COLUMN daftar.call_window.name IS 'Owner of the window.';
COMMENT ON COLUMN daftar.call_window.calls IS 'Time of each call, in nanoseconds since 1970-01-01.';
COMMENT ON COLUMN daftar.call_window.asked_at IS 'Time of the last request, in nanoseconds since 1970-01-01.';
COMMENT ON COLUMN daftar.call_window.is_taken IS 'True if the last call was permitted.';
COMMENT ON CONSTRAINT call_window_pkey ON daftar.call_window IS 'An owner has one window.';

CREATE FUNCTION daftar.window_calls(calls bigint[], now_ns bigint) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(call ORDER BY call), '{}') FROM unnest(calls) AS call
    WHERE call > now_ns - 60000000000 AND call <= now_ns + 60000000000
$$;

COMMENT ON FUNCTION daftar.window_calls IS 'The calls of the last 60 seconds, in ascending order. Calls far in the future are from before the clock was set back.';

CREATE TABLE daftar.origin (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    register bytea NOT NULL,
    sequence bigint NOT NULL,
    code_table_parts bigint NOT NULL,
    audit bigint NOT NULL,
    audit_removal bigint,
    is_compared boolean NOT NULL DEFAULT true
);

COMMENT ON TABLE daftar.origin IS 'Source of this database, a folder or a backup, and the position up to which it was applied, so that later writes can be applied incrementally; one row, or none.';
COMMENT ON COLUMN daftar.origin.is_only IS 'Keeps the table at one row.';
COMMENT ON COLUMN daftar.origin.register IS 'The id of the source register.';
COMMENT ON COLUMN daftar.origin.sequence IS 'The number of the last write that was applied.';
COMMENT ON COLUMN daftar.origin.code_table_parts IS 'Number of parts of its code table that were applied.';
COMMENT ON COLUMN daftar.origin.audit IS 'The last value of its audit log that was applied.';
COMMENT ON COLUMN daftar.origin.audit_removal IS 'The value of the audit log that reports the last removal: it is rewritten with each step of the removal.';
COMMENT ON COLUMN daftar.origin.is_compared IS 'False after an incremental update until a comparison with the source has ended without differences: the next one is complete.';
COMMENT ON CONSTRAINT origin_pkey ON daftar.origin IS 'With the CHECK: at most one row.';
COMMENT ON CONSTRAINT origin_is_only_check ON daftar.origin IS 'The key has one value.';
