//! Who carries an identifier, asked for many at once: whoever asks while questions are on their way is asked for with the next.
//!
//! **Invariant:** a question goes to the database after it was asked, so that whoever asks sees what was written before.

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

/// How many statements are on their way at once.
const LANES: usize = 4;
/// The most questions of one statement.
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

/// A lane at work; given back however its work ends.
struct Lane(Option<Lookups>);

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Question>,
    /// How many lanes are at work.
    lanes: usize,
}

/// Asks for identifiers.
#[derive(Clone)]
pub(super) struct Lookups {
    database: Arc<Database>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Lookups {
    /// Of a database.
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, waiting: Arc::default() }
    }

    /// Every record of a kind that carries or carried the identifier, the one that it still holds for first.
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
            // Not in the request that asks: others wait for the same statement when it is given up.
            tokio::spawn(Lane(Some(self.clone())).work());
        }
        answered.await.unwrap_or_else(|_| Err(StoreError::Failed("the question was dropped".into())))
    }

    /// The answers: each row with the place of the question that it is of, in their order.
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
                let kinds: Vec<i16> = together.iter().map(|asked| kind_number(asked.kind)).collect();
                let systems: Vec<&str> = together.iter().map(|asked| asked.key.system.as_str()).collect();
                let values: Vec<&str> = together.iter().map(|asked| asked.key.value.as_str()).collect();
                let limits: Vec<i64> = together.iter().map(|asked| signed(asked.limit as u64)).collect();
                for row in self.database.answer(MANY, &[&kinds, &systems, &values, &limits]).await? {
                    let place = usize::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
                    // They are counted from 1.
                    answers.entry(place.saturating_sub(1)).or_default().push(row);
                }
            }
        }
        Ok(answers)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Each change leaves it sound.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Asks for as long as somebody waits.
    async fn work(mut self) {
        let Some(lookups) = self.0.clone() else { return };
        loop {
            let together: Vec<Question> = {
                let mut waiting = lookups.lock();
                let count = waiting.questions.len().min(TOGETHER_MAX);
                if count == 0 {
                    // Under the same lock: whoever comes now begins a lane.
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
                // Whoever asked may have stopped waiting.
                let _is_told = answer.send(owners);
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(lookups) = self.0.take() {
            lookups.lock().lanes -= 1;
        }
    }
}

fn owner(row: &Row) -> Result<IdentifierOwner, StoreError> {
    Ok(IdentifierOwner { id: RecordId(number(row, 0)?), is_open: column(row, 1)? })
}
