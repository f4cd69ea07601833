//! Owners of identifiers, looked up in batches: lookups that arrive while statements are in flight join the next one.
//!
//! **Invariant:** a lookup is sent to the database after the caller requested it, so it sees every earlier write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_postgres::Row;

use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::{IdentifierOwner, StoreError};

use super::database::Database;
use super::failure::Failure;
use super::rows::{column, kind_number, number, signed};

/// Number of statements in flight.
const LANES: usize = 4;
/// Maximum number of lookups in one statement.
const TOGETHER_MAX: usize = 256;

const ONE: &str = "SELECT id, is_open FROM daftar.identifier WHERE kind = $1 AND system = $2 AND value = $3 \
                   ORDER BY is_open DESC, id LIMIT $4";
const MANY: &str = "SELECT owner.id, owner.is_open, asked.place \
                    FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) \
                    WITH ORDINALITY AS asked (kind, system, value, most, place) \
                    CROSS JOIN LATERAL (SELECT id, is_open FROM daftar.identifier AS identifier \
                    WHERE identifier.kind = asked.kind AND identifier.system = asked.system AND identifier.value = asked.value \
                    ORDER BY is_open DESC, id LIMIT asked.most) AS owner ORDER BY asked.place, owner.is_open DESC, owner.id";

type Owners = Result<Vec<IdentifierOwner>, StoreError>;

struct Question {
    kind: RecordKind,
    key: IdentifierKey,
    limit: usize,
    answer: oneshot::Sender<Owners>,
}

/// A lane at work; released in every outcome.
struct Lane(Option<Lookups>);

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Question>,
    /// Number of lanes at work.
    lanes: usize,
}

/// Looks up identifiers.
#[derive(Clone)]
pub(super) struct Lookups {
    database: Arc<Database>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Lookups {
    /// Lookups in a database.
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, waiting: Arc::default() }
    }

    /// Returns every record of a kind that has or had the identifier, the one with the open identifier first.
    pub(super) async fn owners(&self, kind: RecordKind, key: &IdentifierKey, limit: usize) -> Owners {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut waiting = self.lock();
            waiting.questions.push_back(Question { kind, key: key.clone(), limit, answer });
            let begins = waiting.lanes < LANES;
            waiting.lanes += usize::from(begins);
            begins
        };
        if begins {
            // Not in the request of the caller: others wait for the same statement when that is dropped.
            tokio::spawn(Lane(Some(self.clone())).work());
        }
        answered.await.unwrap_or_else(|_| Err(StoreError::Failed("the lookup was dropped".into())))
    }

    /// The responses: each row under the index of its lookup, in their order.
    async fn answers(&self, together: &[Question]) -> Result<BTreeMap<usize, Vec<Row>>, Failure> {
        let mut answers: BTreeMap<usize, Vec<Row>> = BTreeMap::new();
        match together {
            [] => {}
            [Question { kind, key, limit, .. }] => {
                let (system, value, limit) = (key.system.as_str(), key.value.as_str(), signed(*limit as u64));
                let rows = self.database.answer(ONE, &[&kind_number(*kind), &system, &value, &limit]).await?;
                answers.insert(0, rows);
            }
            [_, ..] => {
                let kinds: Vec<i16> = together.iter().map(|requested| kind_number(requested.kind)).collect();
                let systems: Vec<&str> = together.iter().map(|requested| requested.key.system.as_str()).collect();
                let values: Vec<&str> = together.iter().map(|requested| requested.key.value.as_str()).collect();
                let limits: Vec<i64> = together.iter().map(|requested| signed(requested.limit as u64)).collect();
                for row in self.database.answer(MANY, &[&kinds, &systems, &values, &limits]).await? {
                    let place = usize::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
                    // The database counts from 1.
                    answers.entry(place.saturating_sub(1)).or_default().push(row);
                }
            }
        }
        Ok(answers)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change leaves it consistent.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Runs lookups as long as any are pending.
    async fn work(mut self) {
        let Some(lookups) = self.0.clone() else { return };
        loop {
            let together: Vec<Question> = {
                let mut waiting = lookups.lock();
                let count = waiting.questions.len().min(TOGETHER_MAX);
                if count == 0 {
                    // Under the same lock: a caller that arrives now starts a lane.
                    waiting.lanes -= 1;
                    self.0 = None;
                    return;
                }
                waiting.questions.drain(..count).filter(|question| !question.answer.is_closed()).collect()
            };
            let answers = lookups.answers(&together).await;
            for (at, Question { answer, .. }) in together.into_iter().enumerate() {
                let owners = match &answers {
                    Ok(rows) => rows.get(&at).into_iter().flatten().map(owner).collect(),
                    Err(failure) => Err(failure.clone().into()),
                };
                // The caller may have stopped waiting.
                let _is_reported = answer.send(owners);
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Some(lookups) = self.0.take() else { return };
        let mut waiting = lookups.lock();
        waiting.lanes -= 1;
        if waiting.lanes == 0 {
            // After a panic: without a lane these would wait for the next lookup. Their callers get an error.
            waiting.questions.clear();
        }
    }
}

fn owner(row: &Row) -> Result<IdentifierOwner, StoreError> {
    Ok(IdentifierOwner { id: RecordId(number(row, 0)?), is_open: column(row, 1)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PostgresOptions;
    use daftar_store::suite::key;

    #[tokio::test]
    async fn lookups_that_wait_when_the_last_lane_panics_fail() {
        let options = PostgresOptions::new("postgres://d@127.0.0.1:1/r".to_owned().into());
        let lookups = Lookups::new(Arc::new(Database::new(&options).unwrap()));
        let mut answers = Vec::new();
        for value in ["urn:x:a|1", "urn:x:a|2"] {
            let (answer, answered) = oneshot::channel();
            let question = Question { kind: RecordKind::Individual, key: key(value), limit: 1, answer };
            lookups.lock().questions.push_back(question);
            answers.push(answered);
        }
        lookups.lock().lanes = 2;
        // As a panic does.
        let [one, other] = [Lane(Some(lookups.clone())), Lane(Some(lookups.clone()))];
        drop(one);
        assert_eq!(lookups.lock().questions.len(), 2, "the other lane continues");
        drop(other);
        for answered in answers {
            assert!(answered.await.is_err());
        }
        assert_eq!(lookups.lock().lanes, 0);
    }
}
