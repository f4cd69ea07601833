//! Bringing a database that was filled up to what was written since to the register that it was filled from.
//!
//! **Invariant:** everything is one transaction, which holds the lock of those who write: nobody sees half of it, and what breaks off
//! leaves the database as it was.

mod bringing;
mod known;

use deadpool_postgres::Transaction;
use tokio::sync::{mpsc, oneshot};

use daftar_store::StoreError;
use daftar_store::archive::{Brought, CatchUp, Ends, Entry, Held, Mark, Refill};

use self::bringing::Bringing;
use super::super::super::database::{Connection, Database};
use super::super::super::failure::{Failure, corrupt};
use super::super::super::group::Broken;
use super::super::super::open::{self, OpenError};
use super::super::super::options::{BulkLimits, PostgresOptions};
use super::super::super::rows::signed;
use super::super::super::state::Locked;
use super::super::{ENDS, ends_of};
use super::{failed_before, filling, gone, origin};

/// What is asked of the task that brings it up.
enum Step {
    Put(Vec<Entry>, oneshot::Sender<Result<(), StoreError>>),
    Finish(Mark, oneshot::Sender<Result<Brought, StoreError>>),
}

/// How a database is found.
enum Found {
    /// It was filled from a register, and nobody has written to it since.
    Filled(Held, Ends),
    /// It was not filled from any.
    Other,
    /// It was written to since: where it stands.
    WrittenSince(String),
}

/// A database that is being brought up.
pub struct PostgresCatchUp {
    /// Where it is to stand.
    mark: Option<Mark>,
    steps: mpsc::Sender<Step>,
}

impl PostgresCatchUp {
    /// Begins to bring a database up. Nobody writes to it until that is over.
    ///
    /// # Errors
    /// See [`OpenError`]: among them that it was not filled from another store, or was written to since.
    pub async fn open(options: PostgresOptions) -> Result<CatchUp, OpenError> {
        let database = Database::new(&options)?;
        open::open(&database).await?;
        let place = || database.place().to_owned();
        let refused = |reason: String| OpenError::Tables { place: place(), reason };
        let connection = database.writer().await.map_err(|failure| refused(failure.to_string()))?;
        let (steps, waiting) = mpsc::channel(1);
        let (begun, is_begun) = oneshot::channel();
        tokio::spawn(bring(connection, options.bulk, waiting, begun));
        let found = is_begun.await.unwrap_or_else(|_| Err(gone().into()));
        match found.map_err(|broken| refused(StoreError::from(broken).to_string()))? {
            Found::Filled(held, ends) => Ok(CatchUp { held, ends, refill: Box::new(Self { mark: None, steps }) }),
            Found::Other => Err(OpenError::NotFilled { place: place() }),
            Found::WrittenSince(how) => Err(OpenError::WrittenSince { place: place(), how }),
        }
    }

    async fn ask<T>(&self, step: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Step) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.steps.send(step(answer)).await.map_err(|_| failed_before())?;
        answered.await.unwrap_or_else(|_| Err(failed_before()))
    }
}

#[async_trait::async_trait]
impl Refill for PostgresCatchUp {
    fn note_origin(&mut self, mark: &Mark) {
        self.mark = Some(mark.clone());
    }

    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        self.ask(|answer| Step::Put(entries, answer)).await
    }

    async fn finish(mut self: Box<Self>) -> Result<Brought, StoreError> {
        let mark = self.mark.take();
        let mark =
            mark.ok_or_else(|| StoreError::Failed("the write that the store is to stand after was not named".into()))?;
        self.ask(|answer| Step::Finish(mark, answer)).await
    }
}

/// Brings a database up until it is finished, fails, or nobody puts anything any more.
async fn bring(
    mut connection: Connection,
    bulk: BulkLimits,
    mut steps: mpsc::Receiver<Step>,
    begun: oneshot::Sender<Result<Found, Broken>>,
) {
    let object = match connection.object_mut() {
        Ok(object) => object,
        Err(failure) => return drop(begun.send(Err(failure.into()))),
    };
    let transaction = match object.transaction().await {
        Ok(transaction) => transaction,
        Err(error) => return drop(begun.send(Err(Failure::from(error).into()))),
    };
    let (found, bringing) = match begin(&transaction, bulk).await {
        Ok((found, Some(bringing))) => (found, bringing),
        Ok((found, None)) => return drop(begun.send(Ok(found))),
        Err(broken) => return drop(begun.send(Err(broken))),
    };
    if begun.send(Ok(found)).is_err() {
        return;
    }
    let Some((answer, finished)) = brought(transaction, bringing, &mut steps).await else { return };
    // Whoever asked may have stopped waiting.
    let _is_told = answer.send(finished.map_err(told));
}

/// Locks the register, and looks what it holds.
async fn begin(transaction: &Transaction<'_>, bulk: BulkLimits) -> Result<(Found, Option<Bringing>), Broken> {
    transaction.batch_execute(filling::BEGIN).await?;
    let locked = Locked::lock(transaction).await?;
    transaction.batch_execute(filling::LOCK_AUDIT).await?;
    let Some(held) = origin::read(transaction).await? else { return Ok((Found::Other, None)) };
    let row = transaction.query_opt(ENDS, &[&signed(held.sequence.0), &signed(held.audit)]).await?;
    let ends = ends_of(&row.ok_or_else(|| corrupt("row of last numbers", "it is not there"))?)?;
    if let Some(how) = origin::written_since(&held, &locked, ends.audit) {
        return Ok((Found::WrittenSince(how), None));
    }
    let bringing = Bringing::begin(transaction, held.clone(), locked, bulk).await?;
    Ok((Found::Filled(held, ends), Some(bringing)))
}

/// Brings it up until it is to be finished, and says how that went; nothing where it did not come so far.
async fn brought(
    transaction: Transaction<'_>,
    mut bringing: Bringing,
    steps: &mut mpsc::Receiver<Step>,
) -> Option<(oneshot::Sender<Result<Brought, StoreError>>, Result<Brought, Broken>)> {
    while let Some(step) = steps.recv().await {
        match step {
            Step::Put(entries, answer) => {
                let put = bringing.put(&transaction, entries).await;
                let is_over = put.is_err();
                // The next thing that is put hears that nothing is taken any more.
                let _is_told = answer.send(put.map_err(told));
                if is_over {
                    return None;
                }
            }
            Step::Finish(mark, answer) => {
                let finished = match bringing.finish(&transaction, &mark).await {
                    // There is nothing to be made durable: the lock goes with the transaction.
                    Ok(brought) if brought.is_empty() => Ok(brought),
                    Ok(brought) => transaction.commit().await.map(|()| brought).map_err(Broken::from),
                    Err(broken) => Err(broken),
                };
                return Some((answer, finished));
            }
        }
    }
    None
}

/// Two records of the register have the same open identifier, or are open in the same place.
fn told(broken: Broken) -> StoreError {
    match broken {
        Broken::Database(failure) if failure.is_of("23505") => {
            corrupt("register", &format!("it holds twice what there is once: {failure}"))
        }
        broken => broken.into(),
    }
}
