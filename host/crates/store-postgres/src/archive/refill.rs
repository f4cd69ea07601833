//! Filling an empty database with the contents of another store or a backup, by COPY, and catching up a database that
//! was filled before with the later writes of its source register.
//!
//! **Invariant:** everything is one transaction with the lock of writers: no other connection sees anything of it
//! before the commit (searches wait, because indexes are rebuilt), and an interrupted fill leaves the database
//! unchanged.
//!
//! A database that is being filled converts the next entries while rows are written: a failure to write them is
//! reported by a later call.

use deadpool_postgres::Transaction;
use tokio::sync::{mpsc, oneshot};

use daftar_domain::change::Sequence;
use daftar_domain::config::StoreBackend;
use daftar_domain::error::TaskEnded;
use daftar_store::StoreError;
use daftar_store::archive::{ApplyReport, CatchUp, Ends, Entry, Held, Mark, Refill};
use daftar_store::change_log::RegisterId;

use self::catch_up::IncrementalApply;
use self::filling::{Batch, Filling, TakenDown};
use super::super::audit_row;
use super::super::database::{Connection, Database, execute};
use super::super::failure::{Failure, Meaning, corrupt};
use super::super::group::Broken;
use super::super::index::Increments;
use super::super::open::{self, OpenError};
use super::super::options::{BulkLimits, PostgresOptions};
use super::super::rows::{column, number, signed, unsigned};
use super::super::state::Locked;
use super::{ENDS, ends_of, register_of};

mod catch_up;
mod conflicts;
mod filling;

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;
type Answered<T> = oneshot::Receiver<Result<T, StoreError>>;

/// Data to write.
enum Part {
    /// Entries of a database that is being caught up.
    Entries(Vec<Entry>),
    /// Rows of one that is being filled.
    Rows(Box<Batch>),
}

/// Request to the task that writes.
enum Step {
    Put(Part, Answer<()>),
    /// Everything was received.
    Finish(Finishing, Answer<ApplyReport>),
}

/// The end of a fill or an update.
struct Finishing {
    /// Position of the source.
    mark: Option<Mark>,
    /// The pending entries of a database that is being filled.
    filling: Option<Box<Filling>>,
    /// True if an updated database has to be compared with its source.
    requires_comparison: bool,
}

/// Contents of a database when it is opened.
enum Found {
    /// It contains no register.
    Empty,
    /// It contains one.
    Full,
    /// It was filled from a register, and no server has written to it since; true if its last update was compared.
    Filled(Held, Ends, bool),
    /// It was not filled from a register.
    NotFilled,
    /// A server wrote to it since; contains its last write.
    WrittenSince(String),
}

/// Work on a database.
enum Work {
    /// It is filled; its indexes are dropped with the first rows. They are created at the end, when the increments of
    /// the counters are written too.
    Fill(Option<TakenDown>, Increments),
    /// It is caught up.
    CatchUp(Box<IncrementalApply>),
}

/// A database that is being filled or caught up.
pub struct PostgresRefill {
    steps: mpsc::Sender<Step>,
    /// Converts the entries of a database that is being filled; absent for one that is being caught up, during a call,
    /// and after a failure.
    filling: Option<Box<Filling>>,
    is_catch_up: bool,
    /// The answer to the last batch, which is written while the next one is converted.
    written: Option<Answered<()>>,
    /// Position of the source after the last entry, and the id of the source register.
    mark: Option<Mark>,
    /// True if an updated database has to be compared with its source.
    requires_comparison: bool,
}

impl PostgresRefill {
    /// Prepares a database, which must not contain a register.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let (refill, found, place) = Self::begin(options, false).await?;
        if matches!(found, Found::Empty) { Ok(refill) } else { Err(OpenError::NotEmpty { place }) }
    }

    /// Starts to catch up a database that was filled before. No server writes to it until that ends.
    ///
    /// # Errors
    /// See [`OpenError`]: among them that it was not filled from another store, or was written to since.
    pub async fn catch_up(options: PostgresOptions) -> Result<CatchUp, OpenError> {
        let (refill, found, place) = Self::begin(options, true).await?;
        match found {
            Found::Filled(held, ends, is_compared) => Ok(CatchUp {
                backend: StoreBackend::Postgres,
                held,
                ends,
                was_interrupted: !is_compared,
                refill: Box::new(refill),
            }),
            Found::WrittenSince(how) => Err(OpenError::WrittenSince { place, how }),
            Found::Empty | Found::Full | Found::NotFilled => Err(OpenError::NotFilled { place }),
        }
    }

    /// Notes that a database that was caught up was compared with its source, without differences.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn note_compared(options: PostgresOptions) -> Result<(), OpenError> {
        let database = Database::new(&options)?;
        let noted = database.answer("UPDATE daftar.origin SET is_compared = true", &[]).await;
        database.close();
        noted.map(drop).map_err(|failure| OpenError::Tables {
            place: database.place().to_owned(),
            reason: format!("the comparison cannot be noted: {failure}"),
        })
    }

    async fn begin(options: PostgresOptions, is_catch_up: bool) -> Result<(Self, Found, String), OpenError> {
        let database = Database::new(&options)?;
        open::open(&database, true).await?;
        let place = database.place().to_owned();
        let refused = |broken: Broken| OpenError::Tables {
            place: place.clone(),
            reason: match broken {
                Broken::Database(failure) => failure.to_string(),
                broken => StoreError::from(broken).to_string(),
            },
        };
        let connection = database.writer().await.map_err(|failure| refused(failure.into()))?;
        let (steps, waiting) = mpsc::channel(1);
        let (begun, is_begun) = oneshot::channel();
        tokio::spawn(run(connection, options.bulk, is_catch_up, waiting, begun));
        let found = is_begun.await.unwrap_or_else(|_| Err(gone().into())).map_err(refused)?;
        let filling = (!is_catch_up).then(|| Box::new(Filling::new(options.bulk)));
        let refill = Self { steps, filling, is_catch_up, written: None, mark: None, requires_comparison: false };
        Ok((refill, found, place))
    }

    async fn ask<T>(&self, step: impl FnOnce(Answer<T>) -> Step) -> Result<Answered<T>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.steps.send(step(answer)).await.map_err(|_| failed_before())?;
        Ok(answered)
    }

    /// Waits until the last batch is written.
    async fn settle(&mut self) -> Result<(), StoreError> {
        match self.written.take() {
            Some(written) => answer_of(written).await,
            None => Ok(()),
        }
    }

    /// Converts entries on another thread, and sends the rows, if they are enough or the last ones.
    async fn convert(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        let (mut filling, is_all) = (self.filling.take().ok_or_else(failed_before)?, entries.is_empty());
        let converting = tokio::task::spawn_blocking(move || {
            let batch = filling.add_all(entries, is_all)?;
            Ok::<_, Broken>((filling, batch))
        });
        let (filling, batch) =
            converting.await.map_err(|error| StoreError::Failed(TaskEnded::from(error).into()))??;
        if let Some(batch) = batch {
            self.settle().await?;
            self.written = Some(self.ask(|answer| Step::Put(Part::Rows(Box::new(batch)), answer)).await?);
        }
        if is_all {
            self.settle().await?;
        }
        // Not before: without these rows the register would be incomplete.
        self.filling = Some(filling);
        Ok(())
    }
}

async fn answer_of<T>(answered: Answered<T>) -> Result<T, StoreError> {
    answered.await.unwrap_or_else(|_| Err(failed_before()))
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
        self.mark = Some(mark.clone());
    }

    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        if self.is_catch_up {
            return answer_of(self.ask(|answer| Step::Put(Part::Entries(entries), answer)).await?).await;
        }
        self.convert(entries).await
    }

    fn require_comparison(&mut self) {
        self.requires_comparison = true;
    }

    async fn finish(mut self: Box<Self>) -> Result<ApplyReport, StoreError> {
        self.settle().await?;
        let (mark, filling) = (self.mark.take(), self.filling.take());
        if filling.is_none() && !self.is_catch_up {
            return Err(failed_before());
        }
        let finishing = Finishing { mark, filling, requires_comparison: self.requires_comparison };
        answer_of(self.ask(|answer| Step::Finish(finishing, answer)).await?).await
    }
}

/// Works on a database until it is finished, it fails, or the caller is dropped.
async fn run(
    mut connection: Connection,
    bulk: BulkLimits,
    is_catch_up: bool,
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
    let looked = if is_catch_up { begin_catch_up(&transaction, bulk).await } else { begin_fill(&transaction).await };
    let (found, work) = match looked {
        Ok((found, Some(work))) => (found, work),
        Ok((found, None)) => return drop(begun.send(Ok(found))),
        Err(broken) => return drop(begun.send(Err(broken))),
    };
    if begun.send(Ok(found)).is_err() {
        return;
    }
    let what = if is_catch_up { "register" } else { "backup" };
    let Some((answer, finished)) = worked(transaction, work, what, &mut steps).await else { return };
    if finished.is_ok() && !is_catch_up {
        filling::analyze(object).await;
    }
    // The receiver may be closed.
    let _is_reported = answer.send(finished.map_err(|broken| constraint_error(what, broken)));
}

/// Locks the register, which has to be empty.
async fn begin_fill(transaction: &Transaction<'_>) -> Result<(Found, Option<Work>), Broken> {
    if filling::begin(transaction).await? {
        Ok((Found::Empty, Some(Work::Fill(None, Increments::default()))))
    } else {
        Ok((Found::Full, None))
    }
}

/// Locks the register, and reads its contents.
async fn begin_catch_up(transaction: &Transaction<'_>, bulk: BulkLimits) -> Result<(Found, Option<Work>), Broken> {
    transaction.batch_execute(filling::BEGIN).await?;
    let locked = Locked::lock(transaction).await?;
    transaction.batch_execute(filling::LOCK_AUDIT).await?;
    let Some((held, is_compared)) = origin(transaction).await? else { return Ok((Found::NotFilled, None)) };
    let row = transaction.query_opt(ENDS, &[&signed(held.sequence.0)]).await?;
    let (first, last) = (audit_row::first_number(held.audit), audit_row::last_number(held.audit));
    let audit = transaction.query(&audit_row::value_statement(), &[&first, &last]).await?;
    let ends = ends_of(&row.ok_or_else(|| corrupt("row of last numbers", "it is not there"))?, &audit)?;
    if let Some(how) = held.written_since(locked.last.sequence, locked.code_table_parts, ends.audit) {
        return Ok((Found::WrittenSince(how), None));
    }
    let bringing = IncrementalApply::begin(transaction, held.clone(), locked, bulk).await?;
    Ok((Found::Filled(held, ends, is_compared), Some(Work::CatchUp(Box::new(bringing)))))
}

impl Work {
    async fn put(&mut self, transaction: &Transaction<'_>, part: Part) -> Result<(), Broken> {
        match (self, part) {
            (Self::Fill(taken_down, increments), Part::Rows(batch)) => {
                if taken_down.is_none() {
                    *taken_down = Some(TakenDown::all(transaction).await?);
                }
                batch.write(transaction, increments).await?;
                Ok(())
            }
            (Self::CatchUp(bringing), Part::Entries(entries)) => bringing.put(transaction, entries).await,
            _ => Err(failed_before().into()),
        }
    }

    /// Writes pending entries, and commits.
    async fn finish(
        self,
        transaction: Transaction<'_>,
        Finishing { mark, filling, requires_comparison }: Finishing,
    ) -> Result<ApplyReport, Broken> {
        let brought = match self {
            Self::Fill(taken_down, increments) => {
                let mut filling = filling.ok_or_else(failed_before)?;
                filling.finish(&transaction, mark.map(|mark| mark.register), increments).await?;
                if let Some(taken_down) = taken_down {
                    taken_down.make(&transaction).await?;
                }
                ApplyReport::default()
            }
            Self::CatchUp(bringing) => {
                let mark = mark.ok_or_else(|| corrupt("register", "the position of the source was not given"))?;
                let brought = bringing.finish(&transaction, &mark).await?;
                if brought.is_empty() {
                    // There is nothing to be made durable: the lock goes with the transaction.
                    return Ok(brought);
                }
                if requires_comparison {
                    execute(&transaction, "UPDATE daftar.origin SET is_compared = false", &[]).await?;
                }
                brought
            }
        };
        transaction.commit().await?;
        Ok(brought)
    }
}

/// Works until the caller asks to finish, and returns the outcome of that; `None` if the caller is dropped before.
async fn worked(
    transaction: Transaction<'_>,
    mut work: Work,
    what: &'static str,
    steps: &mut mpsc::Receiver<Step>,
) -> Option<(Answer<ApplyReport>, Result<ApplyReport, Broken>)> {
    while let Some(step) = steps.recv().await {
        match step {
            Step::Put(part, answer) => {
                let put = work.put(&transaction, part).await;
                let is_over = put.is_err();
                // The next entries are rejected.
                let _is_reported = answer.send(put.map_err(|broken| constraint_error(what, broken)));
                if is_over {
                    return None;
                }
            }
            Step::Finish(finishing, answer) => return Some((answer, work.finish(transaction, finishing).await)),
        }
    }
    None
}

/// Reports a violated unique constraint: on a key, an open identifier or an open slot.
fn constraint_error(what: &'static str, broken: Broken) -> StoreError {
    match broken {
        Broken::Database(failure) if failure.is_of("23505") => {
            corrupt(what, &format!("a unique value occurs twice: {failure}"))
        }
        broken => broken.into(),
    }
}

const PUT: &str = "INSERT INTO daftar.origin (register, sequence, code_table_parts, audit, audit_removal) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (is_only) DO UPDATE SET register = EXCLUDED.register, \
                   sequence = EXCLUDED.sequence, code_table_parts = EXCLUDED.code_table_parts, \
                   audit = EXCLUDED.audit, audit_removal = EXCLUDED.audit_removal";

/// Stores the id of the source register and the position up to which its entries were applied.
async fn put_origin(
    transaction: &Transaction<'_>,
    register: RegisterId,
    locked: &Locked,
    (audit, removal): (u64, Option<u64>),
) -> Result<(), Broken> {
    let [sequence, parts, audit] = [locked.last.sequence.0, locked.code_table_parts, audit].map(signed);
    execute(transaction, PUT, &[&register.0.as_slice(), &sequence, &parts, &audit, &removal.map(signed)]).await?;
    Ok(())
}

/// Returns the source of the database, and true if its last update was compared; `None` if it was not filled from one.
async fn origin(transaction: &Transaction<'_>) -> Result<Option<(Held, bool)>, Broken> {
    let statement = "SELECT register, sequence, code_table_parts, audit, audit_removal, is_compared FROM daftar.origin";
    let Some(row) = transaction.query_opt(statement, &[]).await? else { return Ok(None) };
    let removal: Option<i64> = column(&row, 4)?;
    let held = Held {
        register: register_of(&row)?,
        sequence: Sequence(number(&row, 1)?),
        code_table_parts: number(&row, 2)?,
        audit: number(&row, 3)?,
        audit_values: 0,
        removal: removal.map(unsigned).transpose()?,
    };
    Ok(Some((held, column(&row, 5)?)))
}
