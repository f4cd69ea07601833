//! Filling an empty database with what a backup holds, by COPY.
//!
//! **Invariant:** everything is one transaction: until it is finished nobody else sees anything of it (who searches waits meanwhile,
//! since indexes are made anew), and what breaks off leaves the database empty.

use deadpool_postgres::Transaction;
use tokio::sync::{mpsc, oneshot};

use daftar_store::StoreError;
use daftar_store::archive::{Brought, Entry, Mark, Refill};
use daftar_store::change_log::RegisterId;

use self::filling::Filling;
use self::indexes::TakenDown;
use super::super::database::{Connection, Database};
use super::super::failure::{Failure, Meaning};
use super::super::group::Broken;
use super::super::open::{self, OpenError};
use super::super::options::{BulkLimits, PostgresOptions};

mod catch_up;
mod filling;
mod indexes;
mod met;
mod origin;

pub use self::catch_up::PostgresCatchUp;

/// What is asked of the task that fills.
enum Step {
    Put(Vec<Entry>, oneshot::Sender<Result<(), StoreError>>),
    Finish(Option<RegisterId>, oneshot::Sender<Result<(), StoreError>>),
}

/// A database that is being filled.
pub struct PostgresRefill {
    steps: mpsc::Sender<Step>,
    /// Of which register.
    origin: Option<RegisterId>,
}

impl PostgresRefill {
    /// Makes a database ready, which must not hold a register.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let database = Database::new(&options)?;
        open::open(&database).await?;
        let refused =
            |failure: Failure| OpenError::Tables { place: database.place().to_owned(), reason: failure.to_string() };
        let connection = database.writer().await.map_err(refused)?;
        let (steps, waiting) = mpsc::channel(1);
        let (begun, is_begun) = oneshot::channel();
        tokio::spawn(fill(connection, options.bulk, waiting, begun));
        let is_empty = is_begun.await.unwrap_or_else(|_| Err(gone())).map_err(refused)?;
        if is_empty {
            Ok(Self { steps, origin: None })
        } else {
            Err(OpenError::NotEmpty { place: database.place().to_owned() })
        }
    }

    async fn ask(&self, step: impl FnOnce(oneshot::Sender<Result<(), StoreError>>) -> Step) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.steps.send(step(answer)).await.map_err(|_| failed_before())?;
        answered.await.unwrap_or_else(|_| Err(failed_before()))
    }
}

fn gone() -> Failure {
    Failure::new(Meaning::Unreachable, "the connection to the database was lost")
}

fn failed_before() -> StoreError {
    StoreError::Failed("filling the store has failed before".into())
}

#[async_trait::async_trait]
impl Refill for PostgresRefill {
    fn note_origin(&mut self, mark: &Mark) {
        self.origin = Some(mark.register);
    }

    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        self.ask(|answer| Step::Put(entries, answer)).await
    }

    async fn finish(self: Box<Self>) -> Result<Brought, StoreError> {
        let origin = self.origin;
        self.ask(|answer| Step::Finish(origin, answer)).await.map(|()| Brought::default())
    }
}

/// Fills a database until it is finished, fails, or nobody puts anything any more.
async fn fill(
    mut connection: Connection,
    bulk: BulkLimits,
    mut steps: mpsc::Receiver<Step>,
    begun: oneshot::Sender<Result<bool, Failure>>,
) {
    let object = match connection.object_mut() {
        Ok(object) => object,
        Err(failure) => return drop(begun.send(Err(failure))),
    };
    let transaction = match object.transaction().await {
        Ok(transaction) => transaction,
        Err(error) => return drop(begun.send(Err(error.into()))),
    };
    let is_empty = filling::begin(&transaction).await;
    let goes_on = matches!(is_empty, Ok(true));
    if begun.send(is_empty).is_err() || !goes_on {
        return;
    }
    let Some((answer, finished)) = filled(transaction, bulk, &mut steps).await else { return };
    if finished.is_ok() {
        filling::analyze(object).await;
    }
    // Whoever asked may have stopped waiting.
    let _is_told = answer.send(finished.map_err(told));
}

/// Fills until it is to be finished, and says how that went; nothing where it did not come so far.
async fn filled(
    transaction: Transaction<'_>,
    bulk: BulkLimits,
    steps: &mut mpsc::Receiver<Step>,
) -> Option<(oneshot::Sender<Result<(), StoreError>>, Result<(), Broken>)> {
    let mut filling = Filling::new(bulk);
    let mut taken_down = None;
    while let Some(step) = steps.recv().await {
        match step {
            Step::Put(entries, answer) => {
                let put = async {
                    if taken_down.is_none() {
                        taken_down = Some(TakenDown::all(&transaction).await?);
                    }
                    filling.put(&transaction, entries).await
                };
                let put = put.await;
                let is_over = put.is_err();
                // The next thing that is put hears that nothing is taken any more.
                let _is_told = answer.send(put.map_err(told));
                if is_over {
                    return None;
                }
            }
            Step::Finish(origin, answer) => {
                let finished = async {
                    filling.finish(&transaction, origin).await?;
                    if let Some(taken_down) = taken_down {
                        taken_down.make(&transaction).await?;
                    }
                    Ok(transaction.commit().await?)
                };
                return Some((answer, finished.await));
            }
        }
    }
    None
}

/// Two records of a backup that have the same key or the same open identifier.
fn told(broken: Broken) -> StoreError {
    match broken {
        Broken::Database(failure) if failure.is_of("23505") => {
            StoreError::Corrupt { what: "backup", reason: format!("it holds twice what there is once: {failure}") }
        }
        broken => broken.into(),
    }
}
