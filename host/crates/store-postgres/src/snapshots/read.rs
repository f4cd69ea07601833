//! The register as of one write: a read-only transaction.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tokio_postgres::Row;

use daftar_domain::audit::Actor;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::fair::{FairSemaphore, Slot};
use daftar_domain::field::FieldSet;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;
use daftar_store::index::Sees;
use daftar_store::record::fields::Selection;
use daftar_store::shared::History;
use daftar_store::snapshot::{Partition, PartitionDependencies, ReadSnapshot};
use daftar_store::{StoreError, neighbours, record};

use super::super::database::{Database, Link, Values};
use super::super::failure::{Failure, Meaning, corrupt};
use super::super::index;
use super::super::rows::{column, history, history_of, kind_number, number, record_of, selected_of, signed};

/// Maximum time to wait for a response: longer than a statement may take there.
const ANSWER_MAX: Duration = Duration::from_secs(150);
/// Maximum time to end a read-only transaction; then its connection is closed.
const END_MAX: Duration = Duration::from_secs(5);
/// A read-only transaction that sees one state. It may idle during work on a partition, and ends with its connection.
const BEGIN: &str = "SET idle_in_transaction_session_timeout = '10min'; SET statement_timeout = '2min'; \
                     BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// An open snapshot.
pub(super) struct PostgresReadSnapshot {
    link: Arc<Link>,
    sequence: Sequence,
    /// Number of statements without a response.
    unanswered: AtomicUsize,
    history: History,
    held: Held,
}

/// Resource that is released at the end of a snapshot.
enum Held {
    /// The slot of a preview's snapshot; its connection is closed.
    Place(#[expect(dead_code, reason = "released when it is dropped")] Slot<Actor>),
    /// A connection that is reused by the next snapshot; `None` once it was released.
    ItemKind(Option<Keeping>),
}

/// A connection that snapshots reuse, one at a time.
pub(super) type Keeping = OwnedMutexGuard<Option<Arc<Link>>>;

/// Begins the transaction of a snapshot; returns its sequence and timeline.
async fn begin(link: &Link) -> Result<Row, Failure> {
    link.client.batch_execute(BEGIN).await?;
    Ok(link.client.query_one(concat!("SELECT sequence, ", history!(), " FROM daftar.last"), &[]).await?)
}

impl PostgresReadSnapshot {
    /// The current register, for a preview: on a connection of its own, of which the number is limited.
    pub(super) async fn for_preview(
        database: &Arc<Database>,
        slots: &Arc<FairSemaphore<Actor>>,
        actor: &Actor,
    ) -> Result<Self, StoreError> {
        let begun = async {
            let slot = tokio::time::timeout(database.answer_timeout(), slots.acquire(actor)).await;
            let held = slot.map_err(|_| {
                let message = "previews have every connection to the database that they may have";
                Failure::new(Meaning::Exhausted, message)
            })?;
            let link = Arc::new(database.link("daftar (preview)").await?);
            let row = begin(&link).await?;
            Ok((link, row, Held::Place(held)))
        };
        Self::of(database, begun).await
    }

    /// The current register, on the reused connection, which is opened if missing.
    pub(super) async fn for_index(database: &Arc<Database>, mut keeping: Keeping) -> Result<Self, StoreError> {
        let begun = async {
            let link = match keeping.take().filter(|link| !link.client.is_closed()) {
                Some(link) => link,
                None => Arc::new(database.link("daftar (index)").await?),
            };
            let row = tokio::time::timeout(database.answer_timeout(), begin(&link)).await;
            let row = row.unwrap_or_else(|_| Err(Failure::slow()))?;
            Ok((link, row, Held::ItemKind(Some(keeping))))
        };
        Self::of(database, begun).await
    }

    async fn of(
        database: &Database,
        begun: impl Future<Output = Result<(Arc<Link>, Row, Held), Failure>>,
    ) -> Result<Self, StoreError> {
        let started = Instant::now();
        let begun = begun.await;
        database.note(started, &begun);
        let (link, row, held) = begun?;
        let (sequence, history) = (Sequence(number(&row, 0)?), history_of(&row, 1)?);
        Ok(Self { link, sequence, history, unanswered: AtomicUsize::new(0), held })
    }

    async fn query(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let requested = tokio::time::timeout(ANSWER_MAX, self.link.client.query(statement, values));
        let answered = self.answered(requested).await.map_err(|_| Failure::slow())?;
        answered.map_err(|error| Failure::from(error).into())
    }

    /// Waits for a response, and notes its arrival: a future that is dropped before counts as unanswered.
    async fn answered<T>(&self, requested: impl Future<Output = T>) -> T {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = requested.await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    async fn keys(&self, statement: &str, values: Values<'_>) -> Result<Vec<RecordId>, StoreError> {
        let rows = self.query(statement, values).await?;
        rows.iter().map(|row| number(row, 0).map(RecordId)).collect()
    }
}

/// A dropped snapshot leaves no search, which may take minutes, and no transaction.
impl Drop for PostgresReadSnapshot {
    fn drop(&mut self) {
        if self.unanswered.load(Ordering::Acquire) > 0 {
            self.link.cancel();
            return;
        }
        let (Held::ItemKind(keeping), Ok(runtime)) = (&mut self.held, Handle::try_current()) else { return };
        let Some(mut keeping) = keeping.take() else { return };
        let link = Arc::clone(&self.link);
        runtime.spawn(async move {
            let ended = tokio::time::timeout(END_MAX, link.client.batch_execute("COMMIT")).await;
            *keeping = matches!(ended, Ok(Ok(()))).then_some(link);
        });
    }
}

const GROUPS_OF: &str = "SELECT DISTINCT group_id FROM daftar.search_member \
                         WHERE individual BETWEEN $1 AND $2 ORDER BY group_id";
const GROUPS_IN: &str = "SELECT id FROM daftar.search_group WHERE id BETWEEN $1 AND $2 ORDER BY id";
const PEOPLE_OF: &str = "SELECT id FROM daftar.search_individual WHERE id BETWEEN $1 AND $2 \
                         UNION SELECT individual FROM daftar.search_member WHERE group_id = ANY($3) ORDER BY 1";
const MEMBERS_OF: &str = "SELECT DISTINCT individual FROM daftar.search_member WHERE group_id = ANY($1) ORDER BY 1";
const MEMBERSHIPS_OF: &str = "SELECT id FROM daftar.search_membership \
                              WHERE beneficiary BETWEEN $1 AND $2 AND beneficiary_kind = $3 ORDER BY id";
/// Consents of individuals (kind 1) and of groups (kind 2).
const CONSENTS_OF: &str = "SELECT id FROM daftar.search_consent \
                           WHERE NOT is_withdrawn AND subject_kind = 1 AND subject = ANY($1) \
                           UNION ALL SELECT id FROM daftar.search_consent \
                           WHERE NOT is_withdrawn AND subject_kind = 2 AND subject = ANY($2) ORDER BY id";
const HAVE_CONSENTS: &str = "SELECT EXISTS (SELECT FROM daftar.search_consent WHERE NOT is_withdrawn)";
const RECORDS: &str = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id = ANY($2) ORDER BY id";
const RECORDS_BETWEEN: &str =
    "SELECT id, value FROM daftar.record WHERE kind = $1 AND id BETWEEN $2 AND $3 ORDER BY id";
const PROGRAMS: &str = "SELECT id, value FROM daftar.record WHERE kind = $1 ORDER BY id";
const CHANGES: &str = "SELECT value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";

#[async_trait::async_trait]
impl ReadSnapshot for PostgresReadSnapshot {
    fn sequence(&self) -> Sequence {
        self.sequence
    }

    fn history(&self) -> History {
        self.history
    }

    async fn last(&self, kind: RecordKind) -> Result<RecordId, StoreError> {
        let statement = "SELECT individual, \"group\", program, membership, consent FROM daftar.last";
        let rows = self.query(statement, &[]).await?;
        let row = rows.first().ok_or_else(|| corrupt("register", "it has no last keys"))?;
        number(row, kind.place()).map(RecordId)
    }

    async fn matching(&self, query: &SubjectQuery, sees: Option<Sees<'_>>) -> Result<Vec<RecordId>, StoreError> {
        self.answered(index::matching(&self.link.client, query, sees)).await
    }

    async fn dependencies(&self, partition: Partition) -> Result<PartitionDependencies, StoreError> {
        let (first, last) = (*partition.keys().start(), *partition.keys().end());
        let (from, to) = (signed(first.0), signed(last.0));
        let numbers = |ids: &[RecordId]| ids.iter().map(|id| signed(id.0)).collect::<Vec<i64>>();
        let groups_of = match partition.kind {
            Subject::Individual => GROUPS_OF,
            Subject::Group => GROUPS_IN,
        };
        let groups = self.keys(groups_of, &[&from, &to]).await?;
        let individuals = match partition.kind {
            Subject::Individual => self.keys(PEOPLE_OF, &[&from, &to, &numbers(&groups)]).await?,
            Subject::Group => self.keys(MEMBERS_OF, &[&numbers(&groups)]).await?,
        };
        let kind = kind_number(partition.kind.record_kind());
        let memberships = self.keys(MEMBERSHIPS_OF, &[&from, &to, &kind]).await?;
        let have_consents = self.query(HAVE_CONSENTS, &[]).await?;
        let have_consents = have_consents.first().is_some_and(|row| row.try_get(0).unwrap_or(true));
        let consents = if have_consents {
            self.keys(CONSENTS_OF, &[&numbers(&individuals), &numbers(&groups)]).await?
        } else {
            Vec::new()
        };
        Ok(PartitionDependencies { individuals, groups, memberships, consents })
    }

    async fn records(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        fields: &FieldSet,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let selection = Selection::of(kind, fields);
        // A scan finds each page of the index once, a search of each key once for every record.
        let Some(range) = neighbours(ids) else {
            let keys: Vec<i64> = ids.iter().map(|id| signed(id.0)).collect();
            let rows = self.query(RECORDS, &[&kind_number(kind), &keys]).await?;
            return rows.iter().map(|row| selected_of(kind, row, selection.as_ref())).collect();
        };
        let (first, last) = (signed(range.start().0), signed(range.end().0));
        let rows = self.query(RECORDS_BETWEEN, &[&kind_number(kind), &first, &last]).await?;
        let mut records = Vec::with_capacity(ids.len());
        for row in &rows {
            if ids.binary_search(&RecordId(number(row, 0)?)).is_ok() {
                records.push(selected_of(kind, row, selection.as_ref())?);
            }
        }
        Ok(records)
    }

    async fn programs(&self) -> Result<Vec<ChangedRecord>, StoreError> {
        let rows = self.query(PROGRAMS, &[&kind_number(RecordKind::Program)]).await?;
        rows.iter().map(|row| record_of(RecordKind::Program, row)).collect()
    }

    async fn touched_since(
        &self,
        after: Sequence,
        limit: usize,
    ) -> Result<Option<Vec<(RecordKind, RecordId)>>, StoreError> {
        let most = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let rows = self.query(CHANGES, &[&signed(after.0), &most]).await?;
        if rows.len() > limit {
            return Ok(None);
        }
        let mut touched = BTreeSet::new();
        for row in &rows {
            let value: &[u8] = column(row, 0)?;
            touched.extend(record::change::touched(value)?);
        }
        Ok((touched.len() <= limit).then(|| touched.into_iter().collect()))
    }
}
