-- Audit entries that are written together share a value: `number / 256` is the value, numbered by a sequence, and the
-- remainder is the position of the entry in it. So a transaction takes one number for up to 256 entries, entries of reads
-- wait for no lock, and archives of every backend contain the same values. Values increase; a transaction that is rolled
-- back leaves a gap, and a slow one may commit a lower number later.
CREATE SEQUENCE daftar.audit_value;

CREATE TABLE daftar.audit (
    number bigint NOT NULL CHECK (number >= 256),
    month date NOT NULL,
    at timestamptz NOT NULL,
    client text,
    actor text,
    address inet,
    request_id text NOT NULL,
    operation text,
    action text NOT NULL,
    outcome text NOT NULL,
    status integer,
    record_kind text,
    record_id text,
    other_targets text[],
    fields text[],
    consents uuid[],
    reason text,
    note text,
    count bigint NOT NULL,
    details jsonb,
    CHECK ((client IS NULL) <> (actor IS NULL)),
    -- Within a partition all months are the same: the number first lets one entry be found without its month.
    PRIMARY KEY (number, month)
) PARTITION BY RANGE (month);

-- Audit of one client, newest first. Pages are in the order of numbers.
CREATE INDEX audit_client ON daftar.audit (client, number);
-- Audit of one record, newest first.
CREATE INDEX audit_record ON daftar.audit (record_id, number) WHERE record_id IS NOT NULL;
-- The same for entries with several records, such as searches: for any of them.
CREATE INDEX audit_other_targets ON daftar.audit USING gin (other_targets) WHERE other_targets IS NOT NULL;
-- Audit of one request. Entries of one request share an index entry.
CREATE INDEX audit_request ON daftar.audit (request_id);
-- A period: entries are nearly in the order of time, so block ranges suffice; with the number, because a page ends at one.
CREATE INDEX audit_at ON daftar.audit USING brin (at, number) WITH (pages_per_range = 32, autosummarize = on);

CREATE FUNCTION daftar.make_audit_month(of date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first date := date_trunc('month', of);
    name text := 'audit_' || to_char(first, 'YYYY_MM');
BEGIN
    -- A month of a wrong clock gets no partition.
    IF first < '2000-01-01' OR first > current_date + 366 THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('daftar.make_audit_month'), 0);
    IF to_regclass('daftar.' || name) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- Entries in the default partition stay there, and those of their month join them.
    IF EXISTS (SELECT FROM daftar.audit_default WHERE month = first) THEN
        RETURN false;
    END IF;
    -- Attached, and not created as a partition, which would lock the whole log. ATTACH locks the default partition: it waits
    -- for its readers, which are all those whose conditions do not exclude it.
    EXECUTE format('CREATE TABLE daftar.%I (LIKE daftar.audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS) '
                   'WITH (autovacuum_vacuum_insert_threshold = -1)', name);
    EXECUTE format('ALTER TABLE daftar.audit ATTACH PARTITION daftar.%I FOR VALUES FROM (%L) TO (%L)',
                   name, first, (first + interval '1 month')::date);
    EXECUTE format('COMMENT ON TABLE daftar.%I IS %L', name, 'Audit entries of ' || to_char(first, 'YYYY-MM') || ' (UTC)');
    RETURN true;
END
$$;

CREATE FUNCTION daftar.make_audit_months() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
BEGIN
    -- Servers that start together wait longer for one another than for readers of the log, which would block others.
    PERFORM pg_advisory_xact_lock(hashtext('daftar.make_audit_month'), 0);
    PERFORM set_config('lock_timeout', '1s', true);
    RETURN (SELECT count(*) FILTER (WHERE daftar.make_audit_month((date_trunc('month', now() AT TIME ZONE 'UTC') + ahead * interval '1 month')::date))::integer
            FROM generate_series(0, 2) AS ahead);
END
$$;

CREATE FUNCTION daftar.drop_audit_month(older_than timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    oldest text;
    newest bigint;
    removed bigint;
    later bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('daftar.drop_audit_month'), 0) THEN
        RETURN NULL;
    END IF;
    SELECT relname INTO oldest FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'daftar.audit'::regclass AND relname ~ '^audit_[0-9]{4}_[0-9]{2}$'
        AND (to_date(substr(relname, 7), 'YYYY_MM') + interval '1 month') AT TIME ZONE 'UTC' <= older_than
    ORDER BY relname LIMIT 1;
    IF oldest IS NULL THEN
        RETURN NULL;
    END IF;
    -- Counted before the lock, which blocks all readers and writers of the log; later entries are counted under it.
    EXECUTE format('SELECT count(*), coalesce(max(number), 0) FROM daftar.%I', oldest) INTO removed, newest;
    -- Young entries with lower numbers, from a wrong clock: so many are passed over, as in the embedded store, and a
    -- register that is moved later finds the removed entries among its oldest values.
    EXECUTE 'SELECT count(*) FROM (SELECT DISTINCT number / 256 FROM daftar.audit WHERE number <= $1 AND month >= $2 LIMIT 257) AS passed_over'
        INTO later USING newest, date_trunc('month', older_than AT TIME ZONE 'UTC')::date;
    IF later > 256 THEN
        RETURN NULL;
    END IF;
    EXECUTE format('LOCK TABLE ONLY daftar.audit, ONLY daftar.%I IN ACCESS EXCLUSIVE MODE', oldest);
    EXECUTE format('SELECT count(*) FROM daftar.%I WHERE number > $1', oldest) INTO later USING newest;
    EXECUTE format('DROP TABLE daftar.%I', oldest);
    RETURN removed + later;
END
$$;

-- They run with the rights of the owner: for servers only.
REVOKE EXECUTE ON FUNCTION daftar.make_audit_month, daftar.make_audit_months, daftar.drop_audit_month FROM PUBLIC;

COMMENT ON SEQUENCE daftar.audit_value IS 'Numbers of values of the audit log: one for up to 256 entries that are written together.';
COMMENT ON TABLE daftar.audit IS 'The audit log, one row per entry, by month. Rows are inserted, and removed when they are old enough; only the entry that reports a removal is updated. Partitions are not vacuumed after inserts: vacuum would offer the rest of each page to later, shorter rows, so that each new row changes another old page, which is written to the WAL as a whole, and the block ranges of old pages include the present. Removed rows are vacuumed as usual, and rows are frozen when their transactions are autovacuum_freeze_max_age old.';
COMMENT ON COLUMN daftar.audit.number IS 'Position in the log: 256 times the number of the value that contains the entry, plus its position in the value.';
COMMENT ON COLUMN daftar.audit.month IS 'First day of the month of `at` in UTC.';
COMMENT ON COLUMN daftar.audit.at IS 'Time of the action.';
COMMENT ON COLUMN daftar.audit.client IS 'Id of the client; NULL if `actor` is set.';
COMMENT ON COLUMN daftar.audit.actor IS 'Actor other than a client: administrator, system or unknown.';
COMMENT ON COLUMN daftar.audit.address IS 'Network address of the caller; of IPv6 the network of 64 bits.';
COMMENT ON COLUMN daftar.audit.request_id IS 'Id of the request.';
COMMENT ON COLUMN daftar.audit.operation IS 'Method and matched route, without values.';
COMMENT ON COLUMN daftar.audit.action IS 'The action: read, search, create, update, evaluate, administer, plugin, authenticate or audit.';
COMMENT ON COLUMN daftar.audit.outcome IS 'The outcome: allowed, refused or failed.';
COMMENT ON COLUMN daftar.audit.status IS 'HTTP status of the response.';
COMMENT ON COLUMN daftar.audit.record_kind IS 'Kind of the first target if it is a record, such as Individual.';
COMMENT ON COLUMN daftar.audit.record_id IS 'First target: the public identifier `system|value` of a record, the id of a client, the name of a plugin.';
COMMENT ON COLUMN daftar.audit.other_targets IS 'The other targets, records as `Individual/system|value`.';
COMMENT ON COLUMN daftar.audit.fields IS 'API fields that were shown or changed.';
COMMENT ON COLUMN daftar.audit.consents IS 'Ids of the consents that permitted it.';
COMMENT ON COLUMN daftar.audit.reason IS 'Reason for the refusal.';
COMMENT ON COLUMN daftar.audit.note IS 'Further details of the entry, such as the fields of a search.';
COMMENT ON COLUMN daftar.audit.count IS 'Number of similar events that the entry represents: 1 except for refusals that are counted together, and for removed entries.';
COMMENT ON COLUMN daftar.audit.details IS 'Values without a column: `packed` is the entry in hexadecimal if a column cannot hold a text or an instant unchanged (a NUL, more than 1,000 bytes of an indexed text, a year before 1), and members of newer programs.';

COMMENT ON CONSTRAINT audit_check ON daftar.audit IS 'An entry has one actor: a client, or another one.';
COMMENT ON CONSTRAINT audit_number_check ON daftar.audit IS 'Values of the log are numbered from 1.';

-- Entries of months without a partition: those of a wrong clock, or of servers that could not create one. With the
-- comments of the columns, as every partition.
CREATE TABLE daftar.audit_default (LIKE daftar.audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS)
    WITH (autovacuum_vacuum_insert_threshold = -1);
ALTER TABLE daftar.audit ATTACH PARTITION daftar.audit_default DEFAULT;
COMMENT ON TABLE daftar.audit_default IS 'Audit entries of months without a partition.';
COMMENT ON CONSTRAINT audit_pkey ON daftar.audit IS 'A position belongs to one entry. Within a partition the month is the same in each row.';
COMMENT ON INDEX daftar.audit_client IS 'Audit of one client, newest first.';
COMMENT ON INDEX daftar.audit_record IS 'Audit of one record, newest first.';
COMMENT ON INDEX daftar.audit_other_targets IS 'Audit of one of several records of an entry, as of a search.';
COMMENT ON INDEX daftar.audit_request IS 'Audit of one request.';
COMMENT ON INDEX daftar.audit_at IS 'Audit of a period.';
COMMENT ON FUNCTION daftar.make_audit_month(date) IS 'Creates the partition of a month of the audit log; returns true if it did. Runs as its owner, so that the role of servers needs no DDL.';
COMMENT ON FUNCTION daftar.make_audit_months() IS 'Creates the partitions of this month and the next two; returns the number of new ones.';
COMMENT ON FUNCTION daftar.drop_audit_month(timestamptz) IS 'Drops the oldest partition all of whose entries are older; returns its number of entries, and NULL if none was dropped.';
