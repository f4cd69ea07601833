//! The register as it stood after one write: a transaction that only reads, whose view other processes may share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;
use tokio_postgres::{Client, Row};

use daftar_domain::audit::Actor;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::fair::{FairSemaphore, Slot};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::search::SubjectQuery;
use daftar_domain::subject::Subject;
use daftar_store::index::Sees;
use daftar_store::partition::{Moment, Partition, Surroundings};
use daftar_store::shared::History;
use daftar_store::{StoreError, record};

use super::super::database::{Database, Link, Values};
use super::super::failure::{Failure, Meaning, corrupt};
use super::super::index;
use super::super::rows::{column, history, history_of, kind_number, number, record_of, signed};

/// A transaction that only reads and sees one state. It may be quiet for as long as a partition is worked on, and ends with its connection.
const BEGIN: &str = "SET idle_in_transaction_session_timeout = '10min'; SET statement_timeout = '2min'; \
                     BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A moment that is held.
pub(super) struct PostgresMoment {
    link: Link,
    name: String,
    sequence: Sequence,
    /// How many questions are not answered.
    unanswered: AtomicUsize,
    history: History,
    /// Released when the connection is.
    _held: Slot<Actor>,
}

impl PostgresMoment {
    /// The register as it stands now.
    pub(super) async fn now(
        database: &Arc<Database>,
        moments: &Arc<FairSemaphore<Actor>>,
        actor: &Actor,
    ) -> Result<Self, StoreError> {
        let slot = tokio::time::timeout(database.answer_timeout(), moments.acquire(actor)).await;
        Self::begun(database, slot.ok(), None).await
    }

    /// A moment that is held elsewhere.
    pub(super) async fn called(
        database: &Arc<Database>,
        moments: &Arc<FairSemaphore<Actor>>,
        name: &str,
        actor: &Actor,
    ) -> Result<Self, StoreError> {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_name {
            return Err(corrupt("moment", "its name is none that the database gives"));
        }
        // Its own process works on that preview: another one does not wait to take part.
        Self::begun(database, moments.try_acquire(actor), Some(name)).await
    }

    async fn begun(
        database: &Arc<Database>,
        slot: Option<Slot<Actor>>,
        shared: Option<&str>,
    ) -> Result<Self, StoreError> {
        let begun = async {
            let held = slot.ok_or_else(|| {
                let said = "previews have every connection to the database that they may have";
                Failure::new(Meaning::Exhausted, said)
            })?;
            let link = database.link("daftar (preview)").await?;
            link.client.batch_execute(BEGIN).await?;
            let name = match shared {
                Some(name) => {
                    link.client.batch_execute(&format!("SET TRANSACTION SNAPSHOT '{name}'")).await?;
                    name.to_owned()
                }
                None => link.client.query_one("SELECT pg_export_snapshot()", &[]).await?.try_get(0)?,
            };
            let row = link.client.query_one(concat!("SELECT sequence, ", history!(), " FROM daftar.last"), &[]).await?;
            Ok::<_, Failure>((link, name, row, held))
        };
        let started = Instant::now();
        let begun = begun.await;
        database.note(started, &begun);
        let (link, name, row, held) = begun?;
        let (sequence, history) = (Sequence(number(&row, 0)?), history_of(&row, 1)?);
        Ok(Self { link, name, sequence, history, unanswered: AtomicUsize::new(0), _held: held })
    }

    async fn query(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let answered = self.answered(self.link.client.query(statement, values)).await;
        answered.map_err(|error| Failure::from(error).into())
    }

    /// Waits for an answer, and notes that there was one: what is dropped before stays unanswered.
    async fn answered<T>(&self, asked: impl Future<Output = T>) -> T {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = asked.await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    async fn keys(&self, statement: &str, values: Values<'_>) -> Result<Vec<RecordId>, StoreError> {
        let rows = self.query(statement, values).await?;
        rows.iter().map(|row| number(row, 0).map(RecordId)).collect()
    }
}

/// A preview that is over leaves no search behind, which may take minutes.
impl Drop for PostgresMoment {
    fn drop(&mut self) {
        if self.unanswered.load(Ordering::Acquire) > 0 {
            self.link.cancel();
        }
    }
}

/// The connection of a moment, for searches at it.
impl AsRef<Client> for PostgresMoment {
    fn as_ref(&self) -> &Client {
        &self.link.client
    }
}

// A beneficiary or subject is the key of its record times two, one more where it is a group; so those of a partition follow one another, every
// second one.
const GROUPS_OF: &str = "SELECT DISTINCT group_id FROM daftar.search_member \
                         WHERE individual BETWEEN $1 AND $2 ORDER BY group_id";
const GROUPS_IN: &str = "SELECT id FROM daftar.search_group WHERE id BETWEEN $1 AND $2 ORDER BY id";
const PEOPLE_OF: &str = "SELECT id FROM daftar.search_individual WHERE id BETWEEN $1 AND $2 \
                         UNION SELECT individual FROM daftar.search_member WHERE group_id = ANY($3) ORDER BY 1";
const MEMBERS_OF: &str = "SELECT DISTINCT individual FROM daftar.search_member WHERE group_id = ANY($1) ORDER BY 1";
const MEMBERSHIPS_OF: &str = "SELECT id FROM daftar.search_membership \
                              WHERE beneficiary BETWEEN $1 AND $2 AND beneficiary % 2 = $3 ORDER BY id";
const CONSENTS_OF: &str =
    "SELECT id FROM daftar.search_consent WHERE NOT is_withdrawn AND subject = ANY($1) ORDER BY id";
const HAVE_CONSENTS: &str = "SELECT EXISTS (SELECT FROM daftar.search_consent WHERE NOT is_withdrawn)";
const RECORDS: &str = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id = ANY($2) ORDER BY id";
const PROGRAMS: &str = "SELECT id, value FROM daftar.record WHERE kind = $1 ORDER BY id";
const CHANGES: &str = "SELECT value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";

fn subject_number(kind: Subject, id: RecordId) -> i64 {
    signed(id.0).saturating_mul(2).saturating_add(i64::from(kind == Subject::Group))
}

#[async_trait::async_trait]
impl Moment for PostgresMoment {
    fn name(&self) -> &str {
        &self.name
    }

    fn sequence(&self) -> Sequence {
        self.sequence
    }

    fn history(&self) -> History {
        self.history
    }

    async fn last(&self, kind: Subject) -> Result<RecordId, StoreError> {
        let statement = match kind {
            Subject::Individual => "SELECT individual FROM daftar.last",
            Subject::Group => "SELECT \"group\" FROM daftar.last",
        };
        let last = self.keys(statement, &[]).await?;
        last.first().copied().ok_or_else(|| corrupt("register", "it has no last keys"))
    }

    async fn matching(&self, query: &SubjectQuery, sees: Option<Sees<'_>>) -> Result<Vec<RecordId>, StoreError> {
        self.answered(index::matching(self.as_ref(), query, sees)).await
    }

    async fn surroundings(&self, partition: Partition) -> Result<Surroundings, StoreError> {
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
        let (least, greatest) = (subject_number(partition.kind, first), subject_number(partition.kind, last));
        let which = i64::from(partition.kind == Subject::Group);
        let memberships = self.keys(MEMBERSHIPS_OF, &[&least, &greatest, &which]).await?;
        let have_consents = self.query(HAVE_CONSENTS, &[]).await?;
        let have_consents = have_consents.first().is_some_and(|row| row.try_get(0).unwrap_or(true));
        let consents = if have_consents {
            let people = individuals.iter().map(|id| subject_number(Subject::Individual, *id));
            let subjects = people.chain(groups.iter().map(|id| subject_number(Subject::Group, *id)));
            self.keys(CONSENTS_OF, &[&subjects.collect::<Vec<i64>>()]).await?
        } else {
            Vec::new()
        };
        Ok(Surroundings { individuals, groups, memberships, consents })
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<i64> = ids.iter().map(|id| signed(id.0)).collect();
        let rows = self.query(RECORDS, &[&kind_number(kind), &keys]).await?;
        rows.iter().map(|row| record_of(kind, row)).collect()
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
