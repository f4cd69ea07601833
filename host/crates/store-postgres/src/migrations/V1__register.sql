-- What the register keeps. Values are the stored forms that the embedded store writes too; whatever is searched stands beside them.

-- One row. Whoever writes locks it first, so that writes of all processes happen one after the other and keys have no gaps.
CREATE TABLE daftar.last (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    register bytea NOT NULL,
    -- The least layout of which a program must know to work with this one. A step that programs of before cannot work beside raises it.
    oldest_layout bigint NOT NULL DEFAULT 1,
    individual bigint NOT NULL DEFAULT 0,
    "group" bigint NOT NULL DEFAULT 0,
    program bigint NOT NULL DEFAULT 0,
    membership bigint NOT NULL DEFAULT 0,
    consent bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    code_table_parts bigint NOT NULL DEFAULT 0,
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
    value bigint NOT NULL,
    -- What was taken of the count by the last process that took of it.
    taken bigint NOT NULL DEFAULT 0
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

-- What processes share beside the records.

-- Minutes of callers, by the instant at which each is full again, in nanoseconds since 1970. Lost when the database crashes: all
-- begin full then.
CREATE UNLOGGED TABLE daftar.minute (
    name text COLLATE "C" PRIMARY KEY,
    full_at bigint NOT NULL,
    per_minute bigint NOT NULL,
    asked_at bigint NOT NULL,
    given bigint NOT NULL
) WITH (fillfactor = 50);

-- The time in which one call comes back.
CREATE FUNCTION daftar.minute_cell(per_minute bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(60000000000 / per_minute, 1)
$$;

-- How long until a minute is full again, under another limit by what was used under the one before.
CREATE FUNCTION daftar.minute_until(full_at bigint, before bigint, now_ns bigint, per_minute bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(
        daftar.minute_cell(per_minute) * per_minute,
        CASE WHEN before = per_minute THEN greatest(full_at - now_ns, 0)
        ELSE (greatest(full_at - now_ns, 0) + daftar.minute_cell(before) - 1) / daftar.minute_cell(before) * daftar.minute_cell(per_minute) END
    )
$$;

-- How many calls are given of a minute that is full again after `until_full`: as many as there is room for, up to `most`; none where
-- that is fewer than `wanted`.
CREATE FUNCTION daftar.minute_given(until_full bigint, per_minute bigint, wanted bigint, most bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN room < wanted THEN 0 ELSE least(room, most) END
    FROM (
        SELECT per_minute - (until_full + daftar.minute_cell(per_minute) - 1) / daftar.minute_cell(per_minute) AS room
    ) AS rooms
$$;

-- The list of installed plugins; one row.
CREATE TABLE daftar.plugin_list (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    revision bigint NOT NULL,
    list bytea NOT NULL,
    -- The digests of the files that it names.
    named bytea[] NOT NULL
);
INSERT INTO daftar.plugin_list (revision, list, named) VALUES (0, '', '{}');

-- Files of plugins by SHA-256, in parts.
CREATE TABLE daftar.plugin_file (
    digest bytea NOT NULL,
    part integer NOT NULL,
    parts integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (digest, part)
);

-- What is written once for the whole life of a register.
CREATE TABLE daftar.kept_once (
    name text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

-- Calls in sliding windows, such as requests for tokens from one address, by the instant at which each was made, in nanoseconds since
-- 1970. Lost when the database crashes: all windows are empty then.
CREATE UNLOGGED TABLE daftar.call_window (
    name text COLLATE "C" PRIMARY KEY,
    calls bigint[] NOT NULL,
    asked_at bigint NOT NULL,
    is_taken boolean NOT NULL
) WITH (fillfactor = 50);

-- The calls of the last 60 seconds, in ascending order. Calls from far ahead are those of a clock that was set back since.
CREATE FUNCTION daftar.window_calls(calls bigint[], now_ns bigint) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(call ORDER BY call), '{}') FROM unnest(calls) AS call
    WHERE call > now_ns - 60000000000 AND call <= now_ns + 60000000000
$$;

-- Work on previews that processes share.

CREATE TABLE daftar.job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bytea NOT NULL,
    -- When the process that put it up last looked at it.
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- Whoever works on a part has its row locked; the lock goes with the connection.
CREATE TABLE daftar.job_part (
    job bigint NOT NULL REFERENCES daftar.job ON DELETE CASCADE,
    number bigint NOT NULL,
    part bytea NOT NULL,
    -- What came of it; nothing before it is finished.
    outcome bytea,
    PRIMARY KEY (job, number)
) WITH (fillfactor = 70);

CREATE INDEX job_part_open ON daftar.job_part (job, number) WHERE outcome IS NULL;

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
