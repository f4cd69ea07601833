-- What processes share beside the records.

-- What was taken of a count by the last who took of it.
ALTER TABLE daftar.counter ADD COLUMN taken bigint NOT NULL DEFAULT 0;

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
