//! Simulation of power cuts. The store writes to a disk that records every request. The files that a power cut could
//! leave are rebuilt from the recorded requests, opened, verified and compared with the acknowledged writes.
//!
//! `history` generates the states that a power cut may leave of unsynced data. The store runs in this process. The disk
//! is mounted by FUSE.
//!
//! **Invariant:** a problem in a state is reported with the seed and the point at which the power was cut.

mod disk;
mod history;
mod register;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::disk::Disk;
use self::history::{Event, Replay};
use self::register::{Model, Seen};
use super::dice::Dice;

/// Number of states rebuilt from one history.
const STATES_PER_HISTORY: u32 = 50;
/// Folder for the states, in memory if it exists, so that no write waits for a disk.
const MEMORY: &str = "/dev/shm";

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Number of states after a power cut that are opened.
    pub states: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// True if calls of the disk fail as well.
    pub has_faults: bool,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of states opened.
    pub states: u32,
    /// Number of histories from which they were rebuilt.
    pub histories: u32,
    /// Number of failed calls of the disk.
    pub failed: u64,
    /// Number of acknowledged writes that were searched and found.
    pub acknowledged: usize,
    /// Number of unacknowledged writes that were completely present.
    pub whole: usize,
    /// Number of unacknowledged writes that were absent.
    pub absent: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, histories, failed, acknowledged, whole, absent } = self;
        write!(
            formatter,
            "{states} states of {histories} histories ({failed} calls of the disk failed): {acknowledged} acknowledged writes were there; \
             of others {whole} were there whole, {absent} not at all"
        )
    }
}

/// Returns the reason why power cuts cannot be simulated on this machine, if any.
#[must_use]
pub fn missing() -> Option<String> {
    Disk::mount(0).and_then(Disk::unmount).err().map(|error| error.to_string())
}

/// Recorded writes to a disk, with every request to it.
pub struct Recording {
    seed: u64,
    events: Vec<Event>,
    model: Model,
    failed: u64,
    /// Reason of an early end.
    pub ended: Option<String>,
}

impl Recording {
    /// Performs the writes that follow from the seed.
    #[must_use]
    pub fn make(seed: u64, has_faults: bool) -> Self {
        let mut dice = Dice::new(seed);
        let disk = Arc::new(Disk::mount(dice.next()).expect("a disk is mounted by FUSE"));
        let mut model = Model::default();
        let runtime = runtime();
        let mut ended = None;
        let sessions = 1 + dice.below(3);
        for session in 0..sessions {
            // A failed store locks its files while this process runs, so a fault is injected in the last session only.
            if has_faults && session + 1 == sessions {
                disk.fail_one_in(Some(10 + dice.below(60)));
            }
            let rounds = 2 + dice.below(12);
            ended = runtime.block_on(register::session(&mut model, &disk, &mut dice, rounds)).err();
            disk.fail_one_in(None);
            if ended.is_some() {
                break;
            }
        }
        drop(runtime);
        let failed = disk.failed();
        let disk = Arc::into_inner(disk).expect("what was sent has been answered");
        let events = disk.unmount().expect("a disk that is mounted is unmounted");
        Self { seed, events, model, failed, ended }
    }

    /// The paths of files and folders that were synced.
    #[must_use]
    pub fn synced_paths(&self) -> BTreeSet<String> {
        let mut replay = Replay::new(None);
        let mut paths = BTreeSet::new();
        for event in &self.events {
            replay.take(event);
            paths.extend(replay.synced_path(event).map(str::to_owned));
        }
        paths
    }

    /// Opens `states` states, as if the syncs of the path `left_out` had no effect.
    ///
    /// # Errors
    /// A description of the first problem found.
    pub fn check(&self, states: u32, left_out: Option<&str>) -> Result<Summary, String> {
        let mut dice = Dice::new(self.seed ^ 0x5ca1_ab1e);
        let mut points: Vec<usize> = (0..states).map(|_| self.draw_point(&mut dice)).collect();
        points.sort_unstable();
        let mut replay = Replay::new(left_out);
        let mut taken = 0;
        let mut summary = Summary { histories: 1, failed: self.failed, ..Summary::default() };
        for point in points {
            self.events[taken..point].iter().for_each(|event| replay.take(event));
            taken = point;
            let seed = dice.next();
            let seen = self.check_state(&replay, point, seed).map_err(|wrong| {
                let (history, sent, length) = (self.seed, self.model.len(), self.events.len());
                format!("history {history} ({sent} sent), cut at {point} of {length} by {seed}: {wrong}")
            })?;
            summary.add(seen);
        }
        Ok(summary)
    }

    /// Half of the points are after a sync or an acknowledgement.
    fn draw_point(&self, dice: &mut Dice) -> usize {
        let point = dice.below(self.events.len() as u64 + 1) as usize;
        if dice.below(2) == 0 {
            return point;
        }
        let is_mark = |event: &Event| matches!(event, Event::Sync { .. } | Event::Acknowledged(_));
        let ahead = self.events[point..].iter().position(is_mark);
        ahead.map_or(self.events.len(), |ahead| point + ahead + 1)
    }

    fn check_state(&self, replay: &Replay, point: usize, seed: u64) -> Result<Seen, String> {
        let folder = state_folder();
        replay.cut(&mut Dice::new(seed), folder.path()).map_err(|error| error.to_string())?;
        runtime().block_on(register::check(&self.model, replay.acknowledged(), point, folder.path()))
    }
}

impl Summary {
    fn add(&mut self, seen: Seen) {
        self.states += 1;
        self.acknowledged += seen.acknowledged;
        self.whole += seen.whole;
        self.absent += seen.absent;
    }

    fn join(&mut self, other: Self) {
        self.states += other.states;
        self.histories += other.histories;
        self.failed += other.failed;
        self.acknowledged += other.acknowledged;
        self.whole += other.whole;
        self.absent += other.absent;
    }
}

/// Opens states of as many histories as required, and passes the result of each history to `tell`.
///
/// # Errors
/// A description of the first problem found.
pub fn run(options: Options, mut tell: impl FnMut(String)) -> Result<Summary, String> {
    let mut seeds = Dice::new(options.seed);
    let mut all = Summary::default();
    while all.states < options.states {
        let recording = Recording::make(seeds.next(), options.has_faults);
        if let Some(ended) = recording.ended.as_ref().filter(|_| recording.failed == 0) {
            return Err(format!("history {}: the store failed on a disk that did not: {ended}", recording.seed));
        }
        all.join(recording.check(STATES_PER_HISTORY.min(options.states - all.states), None)?);
        tell(all.to_string());
    }
    Ok(all)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads can be started")
}

fn state_folder() -> TempDir {
    let folder = if Path::new(MEMORY).is_dir() { tempfile::tempdir_in(MEMORY) } else { tempfile::tempdir() };
    folder.expect("a folder can be made")
}
