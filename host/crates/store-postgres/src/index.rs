//! The search index: rows next to the values of the records, written with them.
//!
//! **Invariant:** every reader sees rows of a record that match its value: both are written in one transaction.
//!
//! **Invariant:** a response is that of one statement: its total and its page are of one state of the register.

mod behind;
mod bulk;
mod columns;
mod compare;
mod counters;
mod entry;
mod filter;
mod memberships;
mod order;
mod row;
mod sees;
mod subjects;
mod term;
#[cfg(test)]
mod tests;
mod time;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::Row;

pub(super) use self::behind::{Behind, IndexRepair};
pub(super) use self::compare::{KINDS, TABLES, differing, rows_and_records};
pub(super) use self::counters::Increments;
use self::counters::{Kind, code_numbers, holds};
pub(super) use self::entry::Apart;
use self::filter::Parameters;
use self::row::{key, subject_in};
use self::sees::Sight;
pub use self::subjects::matching;
pub(super) use self::time::{Day, Instant};
pub(super) use self::write::{write, write_rows};
use super::database::Database;
use super::rows::{Json, column, number};
use daftar_domain::change::Sequence;
use daftar_domain::code::CodeNumber;
use daftar_domain::consent::Opened;
use daftar_domain::program::Program;
use daftar_domain::record::RecordId;
use daftar_domain::scope::Resource;
use daftar_domain::search::order::Window;
use daftar_domain::search::{ConsentTerm, Found, MembershipConditions, MembershipTerm, Page, Sorting, SubjectQuery};
use daftar_domain::subject::SubjectReference;
use daftar_store::index::{Index, RecordCounts, Sees};
use daftar_store::{StoreError, record};

/// The search index in PostgreSQL.
#[derive(Clone)]
pub struct PostgresIndex {
    database: Arc<Database>,
    /// Up to this number of matches, all of them are sorted.
    few_max: u32,
}

/// Default: reading as many rows takes some tens of milliseconds.
const FEW_MAX: u32 = 5_000;

/// Options of connections for searches: each search is planned for its values, because rare and common words want
/// different plans; random reads are cheap, since data is in memory or on an SSD.
pub const SEARCH_OPTIONS: &str = "-c plan_cache_mode=force_custom_plan -c random_page_cost=1.1";

impl PostgresIndex {
    /// Searches in that database, whose connections for searches have the [`SEARCH_OPTIONS`].
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, few_max: FEW_MAX }
    }

    /// Runs a statement that is planned for its values.
    async fn search(&self, statement: &str, parameters: &Parameters) -> Result<Vec<Row>, StoreError> {
        self.database.search(statement, &parameters.values()).await
    }

    async fn query(&self, statement: &str, parameters: &Parameters) -> Result<Vec<Row>, StoreError> {
        self.database.query(statement, &parameters.values()).await
    }
}

#[async_trait::async_trait]
impl Index for PostgresIndex {
    async fn sequence(&self) -> Result<Sequence, StoreError> {
        let rows = self.query("SELECT sequence FROM daftar.last", &Parameters::default()).await?;
        rows.first().map_or(Ok(0), |row| number(row, 0)).map(Sequence)
    }

    async fn search_subjects(
        &self,
        query: &SubjectQuery,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError> {
        subjects::search(self, query, sees, sorting, window).await
    }

    async fn search_memberships(
        &self,
        conditions: &MembershipConditions,
        sees: Option<Sees<'_>>,
        sorting: Sorting<'_>,
        window: &Window,
    ) -> Result<Found, StoreError> {
        memberships::search_memberships(self, conditions, sees, sorting, window).await
    }

    async fn memberships(&self, conditions: &[Vec<MembershipTerm>], page: Page) -> Result<Found, StoreError> {
        let conditions = MembershipConditions { terms: conditions.to_vec(), last_updated: Vec::new() };
        self.search_memberships(&conditions, None, Sorting::REGISTERED, &page.into()).await
    }

    async fn consents(&self, conditions: &[Vec<ConsentTerm>], page: Page) -> Result<Found, StoreError> {
        memberships::consents(self, conditions, page).await
    }

    async fn groups_of(&self, individual: RecordId) -> Result<Vec<RecordId>, StoreError> {
        let mut parameters = Parameters::default();
        let individual = parameters.bind(key(individual), "bigint");
        let statement = format!(
            "SELECT DISTINCT group_id FROM daftar.search_member WHERE individual = {individual} ORDER BY group_id"
        );
        let rows = self.query(&statement, &parameters).await?;
        rows.iter().map(|row| number(row, 0).map(RecordId)).collect()
    }

    async fn programs(&self) -> Result<Vec<Arc<Program>>, StoreError> {
        let statement = "SELECT id, value FROM daftar.record WHERE kind = 3 ORDER BY id";
        let rows = self.query(statement, &Parameters::default()).await?;
        let program = |row: &Row| {
            record::json::decode_one(RecordId(number(row, 0)?), column::<Json<&[u8]>>(row, 1)?.0).map(Arc::new)
        };
        rows.iter().map(program).collect()
    }

    async fn opened(
        &self,
        resource: Resource,
        subjects: &[SubjectReference],
        sees: Sees<'_>,
    ) -> Result<Vec<Option<Opened>>, StoreError> {
        let mut parameters = Parameters::default();
        let Some(sight) = Sight::new(sees, &mut parameters) else { return Ok(vec![None; subjects.len()]) };
        let statement = sight.consents(resource, subjects, &mut parameters);
        let rows = self.query(&statement, &parameters).await?;
        sees::opened(resource, subjects, &rows)
    }

    async fn beneficiaries(&self, memberships: &[RecordId]) -> Result<Vec<Option<SubjectReference>>, StoreError> {
        let mut parameters = Parameters::default();
        let keys = parameters.bind(memberships.iter().map(|id| key(*id)).collect::<Vec<_>>(), "bigint[]");
        let statement =
            format!("SELECT id, beneficiary_kind, beneficiary FROM daftar.search_membership WHERE id = ANY({keys})");
        let rows = self.query(&statement, &parameters).await?;
        let pair = |row: &Row| Ok((column(row, 0)?, subject_in(row, 1)?));
        let found: BTreeMap<i64, SubjectReference> = rows.iter().map(pair).collect::<Result<_, StoreError>>()?;
        Ok(memberships.iter().map(|id| found.get(&key(*id)).copied()).collect())
    }

    async fn records_using(&self, numbers: &[CodeNumber]) -> Result<u64, StoreError> {
        let mut parameters = Parameters::default();
        if let [only] = numbers {
            return Ok(self.records_by_code(numbers).await?.get(only).copied().unwrap_or_default());
        }
        let numbers = parameters.bind(code_numbers(numbers), "bigint[]");
        let statement = format!(
            "SELECT (SELECT count(*) FROM daftar.search_individual AS p WHERE {}) \
             + (SELECT count(*) FROM daftar.search_group AS p WHERE {})",
            holds(Kind::Individual, &numbers),
            holds(Kind::Group, &numbers)
        );
        let rows = self.search(&statement, &parameters).await?;
        rows.first().map_or(Ok(0), |row| number(row, 0))
    }

    async fn records_by_code(&self, numbers: &[CodeNumber]) -> Result<BTreeMap<CodeNumber, u64>, StoreError> {
        let mut parameters = Parameters::default();
        let numbers = parameters.bind(code_numbers(numbers), "bigint[]");
        let statement = format!(
            "SELECT asked.code, sum(tally.records)::bigint \
             FROM (SELECT DISTINCT code FROM unnest({numbers}) AS number(code)) AS asked \
             JOIN daftar.search_tally AS tally ON tally.term = 'k' || asked.code AND tally.kind IN ({}, {}) \
             AND tally.records > 0 GROUP BY asked.code",
            Kind::Individual as i16,
            Kind::Group as i16
        );
        let rows = self.search(&statement, &parameters).await?;
        let mut counts = BTreeMap::new();
        for row in &rows {
            let (code, count) = (number(row, 0)?, number(row, 1)?);
            counts.extend(u32::try_from(code).ok().map(|code| (CodeNumber(code), count)));
        }
        Ok(counts)
    }

    async fn holders_of(
        &self,
        numbers: &[CodeNumber],
        limit: usize,
    ) -> Result<(Vec<RecordId>, Vec<RecordId>), StoreError> {
        let mut parameters = Parameters::default();
        let numbers = parameters.bind(code_numbers(numbers), "bigint[]");
        let limit = parameters.bind(i64::try_from(limit).unwrap_or(i64::MAX), "bigint");
        // All of them are gathered before they are sorted: if there are few, no index leads to the first of them sooner.
        let statement = format!(
            "WITH person AS MATERIALIZED (SELECT p.id FROM daftar.search_individual AS p WHERE {}), \
             in_group AS MATERIALIZED (SELECT p.id FROM daftar.search_group AS p WHERE {}) \
             SELECT is_group, id FROM (SELECT false AS is_group, id FROM person UNION ALL SELECT true, id FROM in_group) AS held \
             ORDER BY is_group, id LIMIT {limit}",
            holds(Kind::Individual, &numbers),
            holds(Kind::Group, &numbers)
        );
        let rows = self.search(&statement, &parameters).await?;
        let (mut individuals, mut groups) = (Vec::new(), Vec::new());
        for row in &rows {
            let held = if column(row, 0)? { &mut groups } else { &mut individuals };
            held.push(RecordId(number(row, 1)?));
        }
        Ok((individuals, groups))
    }

    async fn record_counts(&self) -> Result<RecordCounts, StoreError> {
        let statement = format!(
            "SELECT coalesce(sum(records) FILTER (WHERE kind = {}), 0)::bigint, \
             coalesce(sum(records) FILTER (WHERE kind = {}), 0)::bigint FROM daftar.search_tally WHERE term = '' \
             AND kind IN (1, 2)",
            Kind::Individual as i16,
            Kind::Group as i16
        );
        let rows = self.query(&statement, &Parameters::default()).await?;
        let Some(row) = rows.first() else { return Ok(RecordCounts::default()) };
        Ok(RecordCounts { individuals: number(row, 0)?, groups: number(row, 1)? })
    }
}
