//! Looking through the audit log, finding what of it is old enough to be removed, and summing stretches of it up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::Transaction;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_store::audit_log::{AuditRemoval, AuditSearch, REMOVAL_PASSED_OVER_MAX, REMOVAL_VALUES_MAX};
use daftar_store::record::audit_segment::AuditSegment;
use daftar_store::segment::{OpenSegment, SEGMENT_LINES};
use daftar_store::{StoreError, record};

use super::database::Database;
use super::failure::{Failure, corrupt};
use super::group::Broken;
use super::locks;
use super::rows::{column, number, signed};

/// How many values are read at once.
const VALUES_AT_ONCE: i64 = 64;
/// How many summaries are read at once.
const SUMMARIES_AT_ONCE: i64 = 32;
/// How many values one summing up reads.
const SUMMED_VALUES_MAX: i64 = 16_384;
/// How often, and how long apart, it is asked whether transactions that add to the log have ended: five seconds.
const SETTLED_ASKED_MAX: u32 = 100;
const SETTLED_PAUSE: Duration = Duration::from_millis(50);

/// Summaries, newest first, read some at a time.
struct Newest<'d> {
    database: &'d Database,
    found: VecDeque<AuditSegment>,
    /// Those that end before this are still to be read.
    before: Option<i64>,
}

impl Newest<'_> {
    async fn next(&mut self) -> Result<Option<AuditSegment>, StoreError> {
        if let Some(found) = self.found.pop_front() {
            return Ok(Some(found));
        }
        let Some(before) = self.before else { return Ok(None) };
        let statement = "SELECT last_value, value FROM daftar.audit_segment WHERE last_value < $1 \
                         ORDER BY last_value DESC LIMIT $2";
        let rows = self.database.query(statement, &[&before, &SUMMARIES_AT_ONCE]).await?;
        self.before = rows.last().map(|row| column(row, 0)).transpose()?;
        for row in &rows {
            self.found.push_back(record::audit_segment::decode(column(row, 1)?)?);
        }
        Ok(self.found.pop_front())
    }
}

impl Database {
    pub(super) async fn audit_page(
        &self,
        query: &AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        let mut search = AuditSearch::new(query, before, bounds);
        let mut newest = before.value;
        // A summary stands under the last number of its stretch: the one that holds the place is the first from there on.
        let statement = "SELECT value FROM daftar.audit_segment WHERE last_value >= $1 ORDER BY last_value LIMIT 1";
        let holding = self.query_opt(statement, &[&signed(before.value)]).await?;
        let holding = holding.map(|row| record::audit_segment::decode(column(&row, 0)?)).transpose()?;
        // It may begin after the place.
        let found = holding.into_iter().filter(|segment| segment.first <= before.value).collect();
        let mut summaries = Newest { database: self, found, before: Some(signed(before.value)) };
        while let Some(segment) = summaries.next().await? {
            if let Some(after) = segment.last.checked_add(1).filter(|after| *after <= newest) {
                self.examine(&mut search, after, newest).await?;
            }
            if search.is_over() {
                break;
            }
            if search.may_hold(&segment) {
                self.examine(&mut search, segment.first, newest.min(segment.last)).await?;
            }
            newest = segment.first.saturating_sub(1);
            if search.is_over() {
                break;
            }
        }
        if !search.is_over() {
            self.examine(&mut search, 0, newest).await?;
        }
        let oldest = self.query_opt("SELECT min(number) FROM daftar.audit", &[]).await?;
        let oldest = oldest.map(|row| column::<Option<i64>>(&row, 0)).transpose()?.flatten();
        Ok(search.page(oldest.map(i64::unsigned_abs)))
    }

    /// Examines the values of those numbers, newest first, until the search is over.
    async fn examine(&self, search: &mut AuditSearch<'_>, first: u64, last: u64) -> Result<(), StoreError> {
        let statement = "SELECT number, value FROM daftar.audit WHERE number >= $1 AND number <= $2 \
                         ORDER BY number DESC LIMIT $3";
        let mut upper = signed(last);
        loop {
            let rows = self.query(statement, &[&signed(first), &upper, &VALUES_AT_ONCE]).await?;
            let Some(oldest) = rows.last() else { return Ok(()) };
            upper = column::<i64>(oldest, 0)?.saturating_sub(1);
            for row in &rows {
                if !search.examine(number(row, 0)?, record::audit::decode(column(row, 1)?)?) {
                    return Ok(());
                }
            }
        }
    }

    /// Some of the oldest values, none of whose lines is as young as that instant; without the one that tells of the removal.
    pub(super) async fn audit_older_than(&self, removal: &AuditRemoval) -> Result<Vec<u64>, StoreError> {
        let except = removal.told.map(|told| told.at);
        let (mut numbers, mut passed_over) = (Vec::new(), 0_usize);
        let mut after = 0_i64;
        let statement = "SELECT number, value FROM daftar.audit WHERE number > $1 ORDER BY number LIMIT $2";
        loop {
            let rows = self.query(statement, &[&after, &VALUES_AT_ONCE]).await?;
            let Some(newest) = rows.last() else { return Ok(numbers) };
            after = column(newest, 0)?;
            for row in &rows {
                let number = number(row, 0)?;
                if except == Some(number) {
                    continue;
                }
                let entries = record::audit::decode(column(row, 1)?)?;
                if entries.iter().any(|entry| entry.at >= removal.before) {
                    passed_over = passed_over.saturating_add(1);
                } else {
                    numbers.push(number);
                }
                if passed_over >= REMOVAL_PASSED_OVER_MAX || numbers.len() >= REMOVAL_VALUES_MAX {
                    return Ok(numbers);
                }
            }
        }
    }
}

/// Sums the audit log up, by a task of its own, as this process adds to it.
///
/// **Invariant:** a summary holds every value of its numbers. A transaction may commit a lower number later than another one a greater: what
/// is summarised are numbers that no open transaction can still commit.
pub(super) struct Summaries {
    /// About how many entries of this process are in no summary.
    entries: AtomicU64,
    is_due: Notify,
}

impl Summaries {
    /// Begins to sum up, until the handle is dropped.
    pub(super) fn start(database: Arc<Database>) -> (Arc<Self>, SummaryTask) {
        let summaries = Arc::new(Self { entries: AtomicU64::new(0), is_due: Notify::new() });
        let task = tokio::spawn(Arc::clone(&summaries).run(database));
        (summaries, SummaryTask(task))
    }

    /// Notes that so many entries were written.
    pub(super) fn note(&self, entries: u64) {
        let before = self.entries.fetch_add(entries, Ordering::AcqRel);
        if before.saturating_add(entries) >= SEGMENT_LINES {
            self.is_due.notify_one();
        }
    }

    async fn run(self: Arc<Self>, database: Arc<Database>) {
        loop {
            self.is_due.notified().await;
            self.entries.store(0, Ordering::Release);
            match database.sum_up().await {
                Ok(left) => self.note(left),
                Err(failure) => {
                    tracing::warn!(error = %failure, "a segment of the audit log was not summarised; it is searched entry by entry");
                }
            }
        }
    }
}

/// The task that sums up; it ends with this.
pub(super) struct SummaryTask(JoinHandle<()>);

impl Drop for SummaryTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The greatest number that is there, and the transactions that may commit a lower one: a transaction that adds to a table locks it so
/// before it is given a number, and until it has ended.
const ADDED: &str = "SELECT COALESCE((SELECT max(number) FROM daftar.audit), 0), \
                     ARRAY(SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' \
                           AND granted AND relation = 'daftar.audit'::regclass \
                           AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
/// Whether one of those transactions is still open.
const GOES_ON: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' \
                       AND relation = 'daftar.audit'::regclass AND virtualtransaction = ANY($1))";

impl Database {
    /// Sums up what is long enough of the audit log, unless another process does; returns how many entries are left.
    async fn sum_up(&self) -> Result<u64, StoreError> {
        let row = self.query_opt(ADDED, &[]).await?;
        let row = row.ok_or_else(|| corrupt("audit log", "its end is missing"))?;
        let (last, adding): (i64, Vec<String>) = (column(&row, 0)?, column(&row, 1)?);
        for _ in 0..SETTLED_ASKED_MAX {
            let row = self.query_opt(GOES_ON, &[&adding]).await?;
            if !row.map(|row| column::<bool>(&row, 0)).transpose()?.unwrap_or(false) {
                return self.sum_up_to(last).await;
            }
            tokio::time::sleep(SETTLED_PAUSE).await;
        }
        // Later entries trigger another attempt.
        Ok(0)
    }

    async fn sum_up_to(&self, last: i64) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let summed = tokio::time::timeout(self.answer_timeout().saturating_mul(2), async {
            let transaction = connection.at_work()?.transaction().await?;
            let left = sum_up_in(&transaction, last).await?;
            transaction.commit().await?;
            Ok::<_, Broken>(left)
        });
        let summed = summed.await.unwrap_or_else(|_| Err(Failure::slow().into()));
        connection.keep_unless(match &summed {
            Err(Broken::Database(failure)) => Some(failure),
            Ok(_) | Err(Broken::Stored(_)) => None,
        });
        Ok(summed?)
    }
}

async fn sum_up_in(transaction: &Transaction<'_>, last: i64) -> Result<u64, Broken> {
    let row = transaction.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&locks::AUDIT_SUMS]).await?;
    if !column::<bool>(&row, 0)? {
        return Ok(0);
    }
    let after = "SELECT COALESCE(max(last_value), 0) FROM daftar.audit_segment";
    let after: i64 = column(&transaction.query_one(after, &[]).await?, 0)?;
    let statement =
        "SELECT number, value FROM daftar.audit WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3";
    let rows = transaction.query(statement, &[&after, &last, &SUMMED_VALUES_MAX]).await?;
    let mut open = OpenSegment::default();
    for row in &rows {
        open.add(number(row, 0)?, &record::audit::decode(column(row, 1)?)?);
        if let Some(full) = open.take_full() {
            put_summary(transaction, &full).await?;
        }
    }
    Ok(if rows.len() as u64 == SUMMED_VALUES_MAX.unsigned_abs() { SEGMENT_LINES } else { open.lines() })
}

/// Keeps the summary of a stretch.
pub(super) async fn put_summary(transaction: &Transaction<'_>, summary: &AuditSegment) -> Result<(), Broken> {
    let value = record::audit_segment::encode(summary)?;
    let statement = "INSERT INTO daftar.audit_segment (last_value, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    transaction.execute(statement, &[&signed(summary.last), &value]).await?;
    Ok(())
}
