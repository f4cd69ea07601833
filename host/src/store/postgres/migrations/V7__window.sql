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
