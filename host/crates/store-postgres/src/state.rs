//! The writer's copy of register state between two groups: its freshness is checked against the row that every group
//! locks first.
//!
//! **Invariant:** changes by other processes are applied before a group is planned. After a failure, or when another
//! database responds, everything is read again: that database may have assigned the numbers differently.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Transaction;
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::types::ToSql;

use daftar_domain::change::Sequence;
use daftar_domain::context::Clock;
use daftar_domain::record::RecordKind;
use daftar_store::numbering::Numbering;
use daftar_store::plan::{Last, Recent};
use daftar_store::record;
use daftar_store::record::json::CodeNames;
use daftar_store::shared::History;

use super::codes::{PARTS, parts_of};
use super::database::{execute, rows};
use super::failure::{Failure, Meaning, corrupt};
use super::group::{Broken, cause_of, places_of_bytes};
use super::rows::{column, history, history_of, number, signed};

/// Maximum number of writes of other processes whose touched records are read, in some tens of milliseconds; earlier
/// writes count as touching everything. It is half a second of another process's fastest import.
const CAUGHT_UP_MAX: u64 = 8_192;

/// The row of last numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Locked {
    pub(super) last: Last,
    pub(super) code_table_parts: u64,
    pub(super) clients_generation: u64,
    pub(super) deployment_generation: u64,
    pub(super) history: History,
}

const LOCK: &str = concat!(
    "SELECT individual, \"group\", program, membership, consent, sequence, code_table_parts, ",
    "clients_generation, deployment_generation, ",
    history!(),
    " FROM daftar.last FOR UPDATE"
);
const PUT: &str = "UPDATE daftar.last SET individual = $1, \"group\" = $2, program = $3, membership = $4, consent = $5, \
                   sequence = $6, code_table_parts = $7, clients_generation = $8, deployment_generation = $9";

impl Locked {
    /// Locks the row: until the transaction ends no other process writes.
    pub(super) async fn lock(transaction: &Transaction<'_>) -> Result<Self, Broken> {
        let row = rows(transaction, LOCK, &[]).await?.pop();
        let row = row.ok_or_else(|| Failure::new(Meaning::Refused, "the table `daftar.last` has lost its row"))?;
        let mut keys = [0; RecordKind::ALL.len()];
        for (at, key) in keys.iter_mut().enumerate() {
            *key = number(&row, at)?;
        }
        Ok(Self {
            last: Last { keys, sequence: Sequence(number(&row, 5)?) },
            code_table_parts: number(&row, 6)?,
            clients_generation: number(&row, 7)?,
            deployment_generation: number(&row, 8)?,
            history: history_of(&row, 9)?,
        })
    }

    /// Writes the row.
    pub(super) async fn put(&self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        let records = self.last.keys.map(signed);
        let others = [self.last.sequence.0, self.code_table_parts, self.clients_generation, self.deployment_generation]
            .map(signed);
        let numbers = records.iter().chain(&others).map(|number| number as &(dyn ToSql + Sync));
        execute(transaction, PUT, &numbers.collect::<Vec<_>>()).await?;
        Ok(())
    }
}

/// Time after which an operation is not in progress any more: twice the default timeout of a request.
const IN_PROGRESS_MAX: Duration = Duration::from_secs(60);

/// The timeline that the whole process knows, and since when: its codes in memory are of that one.
#[derive(Default)]
pub(super) struct Basis(Mutex<Option<Known>>);

struct Known {
    history: History,
    since: Option<Since>,
}

/// Time of a change to another timeline.
struct Since {
    at: Timestamp,
    /// The same in the monotonic time of the clock.
    elapsed: Duration,
    clock: Arc<dyn Clock>,
}

impl Basis {
    /// Sets the known timeline, from now on by that clock.
    pub(super) fn set(&self, history: History, since: Option<Arc<dyn Clock>>) {
        *self.lock() = Some(Known { history, since: since.map(Since::now) });
    }

    /// True if an operation that began at that time may be written in that timeline.
    pub(super) fn carries(&self, history: History, begun: Timestamp) -> bool {
        let known = self.lock();
        known.as_ref().is_none_or(|Known { history: known, since }| {
            *known == history && since.as_ref().is_none_or(|since| since.is_before(begun))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        // Replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Since {
    fn now(clock: Arc<dyn Clock>) -> Self {
        Self { at: clock.now(), elapsed: clock.elapsed(), clock }
    }

    /// True if an operation that began at that time of the clock began later. If the clock was set back since, that
    /// time may be earlier: then the age of the operation decides, once none from before can be in progress. Until then
    /// the clock may also have been set back during the operation.
    fn is_before(&self, begun: Timestamp) -> bool {
        if self.at < begun {
            return true;
        }
        let passed = self.clock.elapsed().saturating_sub(self.elapsed);
        let age = self.clock.now().duration_since(begun);
        passed >= IN_PROGRESS_MAX && age < SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX)
    }
}

/// State that the writer of a process knows.
pub(super) struct State {
    pub(super) basis: Arc<Basis>,
    pub(super) numbering: Numbering,
    pub(super) names: CodeNames,
    /// Number of applied parts of the code table.
    code_table_parts: u64,
    pub(super) recent: Recent,
    /// The last write whose touched records are known; `None` at first.
    touched_up_to: Option<Sequence>,
    /// The timeline of this state; `None` at first.
    history: Option<History>,
}

impl State {
    /// Empty state.
    pub(super) fn new(basis: Arc<Basis>) -> Self {
        let (numbering, names, recent) = (Numbering::default(), CodeNames::new(), Recent::default());
        Self { basis, numbering, names, code_table_parts: 0, recent, touched_up_to: None, history: None }
    }

    /// Forgets everything that a failed group may have applied.
    pub(super) fn forget(&mut self, has_numbered: bool) {
        self.touched_up_to = None;
        if has_numbered {
            (self.numbering, self.names, self.code_table_parts) = (Numbering::default(), CodeNames::new(), 0);
        }
    }

    /// Notes that a group is committed.
    pub(super) fn written(&mut self, locked: &Locked) {
        self.touched_up_to = Some(locked.last.sequence);
        self.code_table_parts = locked.code_table_parts;
    }

    /// Applies changes by other processes; their touched records only as far as required: `since` is the earliest write
    /// on which a pending write is based.
    pub(super) async fn catch_up(
        &mut self,
        transaction: &Transaction<'_>,
        locked: &Locked,
        since: Option<Sequence>,
    ) -> Result<(), Broken> {
        if self.history != Some(locked.history) {
            *self = Self { history: Some(locked.history), ..Self::new(Arc::clone(&self.basis)) };
        }
        let outcomes = tokio::join!(
            numbered(
                transaction,
                (&mut self.numbering, &mut self.names),
                &mut self.code_table_parts,
                locked.code_table_parts
            ),
            touched(transaction, &mut self.recent, &mut self.touched_up_to, locked.last.sequence, since),
        );
        cause_of(<[_; 2]>::from(outcomes))
    }
}

/// Applies the parts of the code table after the known ones.
async fn numbered(
    transaction: &Transaction<'_>,
    (numbering, names): (&mut Numbering, &mut CodeNames),
    known: &mut u64,
    parts: u64,
) -> Result<(), Broken> {
    if *known == parts {
        return Ok(());
    }
    if *known > parts {
        // Parts were deleted manually.
        (*numbering, *names, *known) = (Numbering::default(), CodeNames::new(), 0);
    }
    let rows = rows(transaction, PARTS, &[&signed(*known), &signed(parts)]).await?;
    for (number, part) in parts_of(&rows)? {
        if number != *known {
            break;
        }
        names.apply(&part);
        numbering.apply(part);
        *known += 1;
    }
    if *known != parts {
        return Err(corrupt("code table", "a part of it is not there").into());
    }
    Ok(())
}

/// The texts of all numbered codes and editions.
pub(super) async fn code_names(transaction: &Transaction<'_>, parts: u64) -> Result<CodeNames, Broken> {
    let (mut numbering, mut names) = (Numbering::default(), CodeNames::new());
    numbered(transaction, (&mut numbering, &mut names), &mut 0, parts).await?;
    Ok(names)
}

async fn touched(
    transaction: &Transaction<'_>,
    recent: &mut Recent,
    known: &mut Option<Sequence>,
    last: Sequence,
    since: Option<Sequence>,
) -> Result<(), Broken> {
    let Some(since) = since else {
        if *known != Some(last) {
            // A later caller that requires it has it read then.
            (*recent, *known) = (Recent::after(last), Some(last));
        }
        return Ok(());
    };
    let first = Sequence(last.0.saturating_sub(CAUGHT_UP_MAX));
    // Writes before the first count as touching everything, however much is read.
    let reaches_back = since >= recent.forgotten() || since < first;
    let from = match *known {
        Some(known) if known == last && reaches_back => return Ok(()),
        Some(known) if known >= first && known < last && reaches_back => known,
        _ => {
            let from = since.clamp(first, last);
            *recent = Recent::after(from);
            from
        }
    };
    let statement =
        "SELECT sequence, value, touched FROM daftar.change WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence";
    for row in rows(transaction, statement, &[&signed(from.0), &signed(last.0)]).await? {
        let sequence = Sequence(number(&row, 0)?);
        recent.touch(sequence, record::change::touched(column(&row, 1)?)?);
        if let Some(besides) = column::<Option<&[u8]>>(&row, 2)? {
            let besides =
                places_of_bytes(besides).ok_or_else(|| corrupt("change", "its touched records are invalid"))?;
            recent.touch(sequence, besides);
        }
    }
    *known = Some(last);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::context::FakeClock;

    const TIMELINE: History = History([1, 2]);
    const SECOND: SignedDuration = SignedDuration::from_secs(1);
    const DAY: SignedDuration = SignedDuration::from_hours(24);

    /// After a failover at a time of a clock, and a second before it.
    fn taken_over() -> (Basis, FakeClock, Timestamp) {
        let (basis, clock) = (Basis::default(), FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
        let before = clock.now();
        assert!(basis.carries(TIMELINE, before), "nothing is known yet");
        clock.advance(SECOND);
        basis.set(TIMELINE, Some(Arc::new(clock.clone())));
        (basis, clock, before)
    }

    #[test]
    fn an_operation_from_before_a_failover_is_never_written() {
        let (basis, clock, before) = taken_over();
        assert!(!basis.carries(TIMELINE, clock.now()), "at the same time");
        for _ in 0..3 {
            clock.advance(SECOND);
            assert!(basis.carries(TIMELINE, clock.now()) && !basis.carries(TIMELINE, before));
            assert!(!basis.carries(History::default(), clock.now()), "another timeline");
            clock.advance(SignedDuration::try_from(IN_PROGRESS_MAX).unwrap());
        }
    }

    #[test]
    fn a_clock_that_is_set_back_after_a_failover_stops_no_write_for_more_than_a_minute() {
        let (basis, clock, before) = taken_over();
        clock.advance(-DAY);
        assert!(!basis.carries(TIMELINE, clock.now()) && !basis.carries(TIMELINE, before));
        clock.advance(SignedDuration::try_from(IN_PROGRESS_MAX).unwrap() - SECOND);
        assert!(!basis.carries(TIMELINE, clock.now()));
        clock.advance(SECOND);
        assert!(basis.carries(TIMELINE, clock.now()));
        clock.advance(-DAY);
        assert!(basis.carries(TIMELINE, clock.now()), "immediately");
        basis.set(History::default(), Some(Arc::new(clock.clone())));
        assert!(!basis.carries(History::default(), clock.now()), "the next failover");
    }
}
