//! Searching the audit log, removing old entries, and the partitions that contain it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery, lookup_key};
use daftar_domain::audit::{Actor, AuditEntry};
use daftar_domain::record::RecordKind;
use daftar_store::audit_log::{AuditRemoval, AuditRemoved, REMOVAL_PASSED_OVER_MAX, REMOVAL_VALUES_MAX};
use daftar_store::{StoreError, record};

use super::audit_row::{self, COLUMNS, actor_name, entry_of, first_number, held_instant, indexed, number_at, position};
use super::copy::{Cell, cell};
use super::database::{Database, Values};
use super::failure::{Failure, Meaning};
use super::group::Broken;
use super::rows::{column, number, signed, unsigned};
use super::supervise;

/// The most entries that one statement returns.
const ENTRIES_AT_ONCE: usize = 1_024;
/// Maximum number of entries that one statement examines by conditions without an index.
const EXAMINED_AT_ONCE: usize = 16_384;
/// Number of entries that are read in one statement to find old ones: more than a value has.
const REMOVAL_ENTRIES: i64 = 4_096;
/// Interval between checks of the partitions of months. They are created for this month and the next two.
const MONTHS_EVERY: Duration = Duration::from_secs(6 * 3_600);
/// Number of attempts to drop a month while the log is in use, and the pause between.
const DROP_ATTEMPTS: u32 = 3;
const DROP_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time to count the entries of a month.
const DROP_LIMIT: Duration = Duration::from_secs(600);

/// The conditions of a search, as SQL.
struct Conditions {
    values: Vec<Cell<'static>>,
    /// Conditions that an index or the partitions resolve.
    indexed: Vec<String>,
    /// Conditions on the target: each is resolved by an index of its own.
    either: Vec<String>,
    /// Conditions that are checked entry by entry.
    others: Vec<String>,
    is_of_time: bool,
}

impl Conditions {
    /// Conditions of a query, except `text`: the database folds case differently.
    fn of(query: &AuditQuery) -> Self {
        let mut conditions = Self {
            // The first is the number at which a search continues.
            values: vec![cell(i64::MAX)],
            indexed: vec!["number < $1".to_owned()],
            either: Vec::new(),
            others: Vec::new(),
            is_of_time: query.from.is_some() || query.to.is_some(),
        };
        // A millisecond more, as the database is less exact; the entries found are compared again here.
        let more = jiff::SignedDuration::from_millis(1);
        if let Some(from) = query.from {
            let from = conditions.value(held_instant(from.checked_sub(more).unwrap_or(from)));
            conditions
                .indexed
                .push(format!("month >= date_trunc('month', {from}::timestamptz AT TIME ZONE 'UTC')::date"));
            conditions.others.push(format!("at >= {from}::timestamptz"));
        }
        if let Some(to) = query.to {
            let to = conditions.value(held_instant(to.checked_add(more).unwrap_or(to)));
            conditions
                .indexed
                .push(format!("month <= date_trunc('month', {to}::timestamptz AT TIME ZONE 'UTC')::date"));
            conditions.others.push(format!("at <= {to}::timestamptz"));
        }
        match &query.actor {
            Some(Actor::Client(client)) => {
                let client = conditions.value(client.as_str().to_owned());
                conditions.indexed.push(format!("client = {client}"));
            }
            Some(actor @ (Actor::Administrator | Actor::System | Actor::Unknown)) => {
                let actor = conditions.value(actor_name(actor));
                conditions.indexed.push(format!("client IS NULL AND actor = {actor}"));
            }
            None => {}
        }
        if let Some(request) = &query.request_id {
            let request = conditions.value(indexed(request));
            conditions.indexed.push(format!("request_id = {request}"));
        }
        if let Some(target) = &query.target {
            let id = conditions.value(indexed(lookup_key(target)));
            let kinds = RecordKind::ALL.into_iter().map(|kind| indexed(&format!("{}/{target}", kind.name())));
            let named: Vec<String> = kinds.chain([indexed(target)]).collect();
            let named = conditions.value(named);
            conditions.either = vec![format!("record_id = {id}"), format!("other_targets && {named}::text[]")];
        }
        if !query.actions.is_empty() {
            let actions: Vec<&'static str> = query.actions.iter().map(|action| action.name()).collect();
            let actions = conditions.value(actions);
            conditions.others.push(format!("action = ANY({actions}::text[])"));
        }
        if let Some(outcome) = query.outcome {
            let outcome = conditions.value(outcome.name());
            conditions.others.push(format!("outcome = {outcome}"));
        }
        conditions
    }

    fn value(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(cell(value));
        format!("${}", self.values.len())
    }

    /// Returns the newest entries, so many of them, that match the indexed conditions.
    fn window(&self, entries: usize) -> String {
        let indexed = self.indexed.join(" AND ");
        let newest = |condition: &str| {
            format!("(SELECT * FROM daftar.audit WHERE {indexed}{condition} ORDER BY number DESC LIMIT {entries})")
        };
        let [first, other] = self.either.as_slice() else { return newest("") };
        // An entry that matches both is included once.
        let other = format!(" AND {other} AND NOT COALESCE({first}, false)");
        let (first, other) = (newest(&format!(" AND {first}")), newest(&other));
        format!("(SELECT * FROM ({first} UNION ALL {other}) AS either ORDER BY number DESC LIMIT {entries})")
    }

    fn examined(&self) -> String {
        if self.others.is_empty() { "true".to_owned() } else { self.others.join(" AND ") }
    }
}

impl Database {
    async fn found(&self, statement: &str, conditions: &mut Conditions, before: i64) -> Result<Vec<Row>, StoreError> {
        if let Some(first) = conditions.values.first_mut() {
            *first = cell(before);
        }
        let values: Vec<&(dyn ToSql + Sync)> =
            conditions.values.iter().map(|value| -> &(dyn ToSql + Sync) { value.as_ref() }).collect();
        self.search(statement, &values).await
    }

    pub(super) async fn audit_page(
        &self,
        query: &AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        let mut conditions = Conditions::of(query);
        let others = conditions.examined();
        let mut page = AuditPage { entries: Vec::new(), next: Some(before) };
        let (mut at, mut examined) = (number_at(before), 0_usize);
        loop {
            let wanted = bounds.lines_max.saturating_sub(page.entries.len());
            let left = bounds.examined_max.saturating_sub(examined);
            if wanted == 0 || left == 0 {
                return Ok(page);
            }
            // A condition that is compared only here may require many entries for one match. Powers of two, so that
            // there are few distinct statements. One entry more than wanted shows whether there are more.
            let fetched = if query.text.is_some() { left } else { wanted.saturating_add(1).min(left) };
            let fetched = fetched.min(ENTRIES_AT_ONCE).next_power_of_two();
            let window = left.min(EXAMINED_AT_ONCE).next_power_of_two();
            let window = if conditions.others.is_empty() { fetched } else { window };
            let entries = conditions.window(window);
            let statement =
                format!("SELECT {COLUMNS} FROM {entries} AS entry WHERE {others} ORDER BY number DESC LIMIT {fetched}");
            let began = at;
            let rows = self.found(&statement, &mut conditions, began).await?;
            let is_short = rows.len() < fetched;
            for (place, row) in rows.iter().enumerate() {
                let (number, entry) = entry_of(row)?;
                (at, examined) = (signed(number), examined.saturating_add(1));
                page.next = Some(position(number));
                if query.holds(&entry) {
                    page.entries.push(entry);
                }
                if page.entries.len() >= bounds.lines_max && !(is_short && place.saturating_add(1) == rows.len()) {
                    return Ok(page);
                }
            }
            if !is_short {
                continue;
            }
            // The window has no more of them: find its end.
            let statement =
                format!("SELECT count(*), min(number), count(*) FILTER (WHERE {others}) FROM {entries} AS entry");
            if conditions.others.is_empty() {
                return Ok(AuditPage { next: None, ..page });
            }
            // From the start of the window: the entries found in it have moved the position.
            let extent = self.found(&statement, &mut conditions, began).await?.into_iter().next();
            let Some(extent) = extent else { return Ok(AuditPage { next: None, ..page }) };
            let (count, oldest): (i64, Option<i64>) = (column(&extent, 0)?, column(&extent, 1)?);
            let Some(oldest) = oldest.filter(|_| count >= signed(window as u64)) else {
                return Ok(AuditPage { next: None, ..page });
            };
            // An entry that was written since the first statement moves the window above entries that are on the page.
            (at, examined) = (at.min(oldest), examined.saturating_add(window.saturating_sub(rows.len())));
            if rows.is_empty() && conditions.is_of_time {
                // Numbers are not in order here: the index of the time leads to the next one.
                let indexed = conditions.indexed.join(" AND ");
                let either =
                    if conditions.either.is_empty() { "true".to_owned() } else { conditions.either.join(" OR ") };
                let statement =
                    format!("SELECT max(number + 0) FROM daftar.audit WHERE {indexed} AND ({either}) AND {others}");
                let next = self.found(&statement, &mut conditions, at).await?.into_iter().next();
                let next: Option<i64> = next.map(|row| column(&row, 0)).transpose()?.flatten();
                let Some(next) = next else { return Ok(AuditPage { next: None, ..page }) };
                at = next.saturating_add(1);
            }
            page.next = Some(position(unsigned(at)?));
        }
    }

    /// Some of the oldest values, all of whose entries are older than that instant; without the report of the removal.
    pub(super) async fn audit_older_than(&self, removal: &AuditRemoval) -> Result<Vec<u64>, StoreError> {
        const OLDEST: &str = "SELECT number, at >= $3 FROM daftar.audit WHERE number >= $1 ORDER BY number LIMIT $2";
        let except = removal.reported.map(|reported| reported.at);
        let (mut values, mut passed_over) = (Vec::new(), 0_usize);
        let mut from = 0_u64;
        loop {
            let requested: Values<'_> = &[&first_number(from), &REMOVAL_ENTRIES, &held_instant(removal.before)];
            let mut of_value: BTreeMap<u64, bool> = BTreeMap::new();
            let rows = self.query(OLDEST, requested).await?;
            for row in &rows {
                let is_young: bool = column(row, 1)?;
                *of_value.entry(position(number(row, 0)?).value).or_default() |= is_young;
            }
            // The last one may have more entries than were read.
            let is_end = (rows.len() as u64) < REMOVAL_ENTRIES.unsigned_abs();
            let last = if is_end { None } else { of_value.pop_last() };
            for (value, is_young) in of_value.into_iter().filter(|(value, _)| except != Some(*value)) {
                if is_young {
                    passed_over = passed_over.saturating_add(1);
                } else {
                    values.push(value);
                }
                if passed_over >= REMOVAL_PASSED_OVER_MAX || values.len() >= REMOVAL_VALUES_MAX {
                    return Ok(values);
                }
            }
            let Some((last, _)) = last else { return Ok(values) };
            from = last;
        }
    }

    /// Drops the oldest month all of whose entries are old enough, and reports it in the same transaction; `None` if
    /// there is none, or the log is in use: then its entries are removed one by one.
    pub(super) async fn drop_audit_month(&self, removal: &AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        let mut attempt = 1;
        while attempt <= DROP_ATTEMPTS {
            match self.drop_audit_month_once(removal).await {
                // A month whose entries were removed one by one before.
                Ok(Some(removed)) if removed.lines == removal.reported.map_or(0, |reported| reported.lines) => {}
                Ok(removed) => return Ok(removed),
                Err(Broken::Database(failure)) if failure.meaning == Meaning::Locked => {
                    tracing::info!(attempt, "a month of the audit log was not dropped: the log is in use");
                    attempt += 1;
                    tokio::time::sleep(DROP_PAUSE).await;
                }
                Err(broken) => return Err(broken.into()),
            }
        }
        Ok(None)
    }

    async fn drop_audit_month_once(&self, removal: &AuditRemoval) -> Result<Option<AuditRemoved>, Broken> {
        let mut connection = self.connection().await?;
        let dropped = tokio::time::timeout(DROP_LIMIT, async {
            let transaction = connection.object_mut()?.transaction().await?;
            let limit = format!("SET LOCAL statement_timeout = {}", DROP_LIMIT.as_millis());
            transaction.batch_execute(&limit).await?;
            let before = held_instant(removal.before);
            let dropped = transaction.query_one("SELECT daftar.drop_audit_month($1)", &[&before]).await?;
            let Some(dropped) = column::<Option<i64>>(&dropped, 0)? else { return Ok(None) };
            let lines = removal.reported.map_or(0, |reported| reported.lines).saturating_add(unsigned(dropped)?);
            if dropped == 0 {
                transaction.commit().await?;
                return Ok(Some(AuditRemoved { at: 0, lines }));
            }
            let entry = record::audit::entry_as_stored(AuditEntry { count: lines, ..removal.line.clone() });
            let at = match removal.reported {
                Some(reported) => reported.at,
                None => number(&transaction.query_one("SELECT nextval('daftar.audit_value')", &[]).await?, 0)?,
            };
            audit_row::replace(&transaction, &[(at, vec![entry])]).await?;
            transaction.commit().await?;
            Ok(Some(AuditRemoved { at, lines }))
        });
        let dropped = dropped.await.unwrap_or_else(|_| Err(Failure::slow().into()));
        connection.keep_unless(match &dropped {
            Err(Broken::Database(failure)) => Some(failure),
            Ok(_) | Err(Broken::Stored(_)) => None,
        });
        dropped
    }

    /// Creates the missing partitions of this month and the next two.
    pub(super) async fn make_audit_months(&self) {
        match self.query_opt("SELECT daftar.make_audit_months()", &[]).await {
            Ok(row) => {
                let made: i32 = row.and_then(|row| column(&row, 0).ok()).unwrap_or_default();
                if made > 0 {
                    tracing::info!(made, "partitions of the audit log were created");
                }
            }
            Err(error) => {
                let message = "a partition of the audit log was not created: its entries go to `daftar.audit_default` until it can be";
                tracing::warn!(%error, "{message}");
            }
        }
    }
}

/// The task that creates partitions of the audit log in advance; it ends when this is dropped.
pub(super) struct Months(JoinHandle<()>);

impl Months {
    /// Creates the missing ones now, and later ones in time.
    pub(super) async fn start(database: Arc<Database>) -> Self {
        database.make_audit_months().await;
        Self(supervise("audit_months", move || make_months(Arc::clone(&database))))
    }
}

/// Creates partitions in time, without end.
async fn make_months(database: Arc<Database>) {
    loop {
        tokio::time::sleep(MONTHS_EVERY).await;
        database.make_audit_months().await;
    }
}

impl Drop for Months {
    fn drop(&mut self) {
        self.0.abort();
    }
}
