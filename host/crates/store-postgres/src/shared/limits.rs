//! Counts of calls.

use std::time::Duration;

use super::{PostgresShared, number};
use crate::failure::Failure;
use daftar_store::StoreError;
use daftar_store::shared::limits::WINDOW;
use daftar_store::shared::{Lease, Leased, SharedLimits, Take, Taken, Windowed};

const TAKE: &str = "INSERT INTO daftar.counter AS kept (name, value, taken) \
    SELECT $1, given, given FROM (SELECT CASE WHEN $4::bigint >= $2::bigint THEN least($3::bigint, $4::bigint) ELSE 0 END AS given) AS fresh \
    ON CONFLICT (name) DO UPDATE SET \
    taken = CASE WHEN $4 - kept.value >= $2 THEN least($3, $4 - kept.value) ELSE 0 END, \
    value = kept.value + CASE WHEN $4 - kept.value >= $2 THEN least($3, $4 - kept.value) ELSE 0 END \
    RETURNING value, taken";

const LEASE: &str = "INSERT INTO daftar.minute AS kept (name, full_at, per_minute, asked_at, given) \
    SELECT $1, ns + daftar.minute_cell($2) * daftar.minute_given(0, $2, $3, $4), $2, ns, daftar.minute_given(0, $2, $3, $4) \
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS ns) AS now \
    ON CONFLICT (name) DO UPDATE SET \
    given = daftar.minute_given(daftar.minute_until(kept.full_at, kept.per_minute, excluded.asked_at, $2), $2, $3, $4), \
    full_at = excluded.asked_at + daftar.minute_until(kept.full_at, kept.per_minute, excluded.asked_at, $2) \
        + daftar.minute_cell($2) * daftar.minute_given(daftar.minute_until(kept.full_at, kept.per_minute, excluded.asked_at, $2), $2, $3, $4), \
    per_minute = $2, asked_at = excluded.asked_at \
    RETURNING given, full_at - asked_at";

/// The calls that are in the window, in the order of time. A call is never noted before the one that was counted last.
const IN_WINDOW: &str = "INSERT INTO daftar.call_window AS kept (name, calls, asked_at, is_taken) \
    SELECT $1, CASE WHEN $2::bigint <= $3::bigint THEN array_fill(ns, ARRAY[$2::integer]) ELSE '{}' END, ns, $2 <= $3 \
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS ns) AS now \
    ON CONFLICT (name) DO UPDATE SET \
    calls = daftar.window_calls(kept.calls, excluded.asked_at) \
        || CASE WHEN cardinality(daftar.window_calls(kept.calls, excluded.asked_at)) + $2 <= $3 \
            THEN array_fill(greatest(excluded.asked_at, kept.asked_at), ARRAY[$2::integer]) ELSE '{}' END, \
    is_taken = cardinality(daftar.window_calls(kept.calls, excluded.asked_at)) + $2 <= $3, \
    asked_at = excluded.asked_at \
    RETURNING is_taken, ARRAY(SELECT call + 60000000000 - asked_at FROM unnest(calls) AS call)";

const FORGET: &str = "WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS ns), \
    minutes AS (DELETE FROM daftar.minute USING now WHERE full_at < ns RETURNING 1), \
    windows AS (DELETE FROM daftar.call_window USING now WHERE daftar.window_calls(calls, ns) = '{}' RETURNING 1) \
    SELECT (SELECT count(*) FROM minutes) + (SELECT count(*) FROM windows)";

#[async_trait::async_trait]
impl SharedLimits for PostgresShared {
    async fn take(&self, name: &str, take: Take) -> Result<Taken, StoreError> {
        let (least, most, limit) = (number(take.least), number(take.most), number(take.limit));
        // Asked again after a lost connection it may be taken twice: the count is then too high, never too low.
        let row = self.database().query_opt(TAKE, &[&name, &least, &most, &limit]).await?;
        let (count, taken) = pair(row)?;
        Ok(Taken { taken, count })
    }

    async fn give_back(&self, name: &str, count: u64) -> Result<(), StoreError> {
        let lowered = "UPDATE daftar.counter SET value = greatest(value - $2, 0) WHERE name = $1";
        // Once: given back twice, the count would be too low.
        let mut connection = self.database().connection().await?;
        connection.query(lowered, &[&name, &number(count)]).await?;
        Ok(())
    }

    async fn lease(&self, name: &str, lease: Lease) -> Result<Leased, StoreError> {
        let Lease { per_minute, least, most } = lease;
        let values = (number(per_minute.max(1)), number(least), number(most));
        let row = self.database().query_opt(LEASE, &[&name, &values.0, &values.1, &values.2]).await?;
        let (given, until_full_ns) = pair(row)?;
        let cell_ns = daftar_store::shared::limits::cell_ns(per_minute);
        let used = u32::try_from(until_full_ns.div_ceil(cell_ns)).unwrap_or(u32::MAX);
        Ok(Leased {
            calls: u32::try_from(given).unwrap_or(most).min(most),
            left: per_minute.saturating_sub(used),
            until_full: Duration::from_nanos(until_full_ns),
        })
    }

    async fn window(&self, name: &str, calls: u32, limit: u32) -> Result<Windowed, StoreError> {
        let row = self.database().query_opt(IN_WINDOW, &[&name, &number(calls), &number(limit)]).await?;
        let row = row.ok_or_else(nothing)?;
        let read = || Ok((row.try_get::<_, bool>(0)?, row.try_get::<_, Vec<i64>>(1)?));
        let (is_taken, until_left_ns) = read().map_err(|error: tokio_postgres::Error| Failure::from(&error))?;
        let until_left = |ns: &i64| Duration::from_nanos(u64::try_from(*ns).unwrap_or(0)).min(WINDOW);
        Ok(Windowed { is_taken, until_left: until_left_ns.iter().map(until_left).collect() })
    }

    async fn forget_full_minutes(&self) -> Result<u64, StoreError> {
        let row = self.database().query_opt(FORGET, &[]).await?;
        let row = row.ok_or_else(nothing)?;
        Ok(row.try_get::<_, i64>(0).map_err(|error| Failure::from(&error))?.unsigned_abs())
    }
}

fn pair(row: Option<tokio_postgres::Row>) -> Result<(u64, u64), StoreError> {
    let row = row.ok_or_else(nothing)?;
    let number = |index| row.try_get::<_, i64>(index).map(|number| u64::try_from(number).unwrap_or(0));
    let pair = number(0).and_then(|first| Ok((first, number(1)?)));
    pair.map_err(|error| Failure::from(&error).into())
}

fn nothing() -> StoreError {
    StoreError::Failed("the database answered a count with nothing".into())
}
