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
