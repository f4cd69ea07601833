//! Simulation of power cuts. A program writes to a disk that records every request. The files that a power cut could
//! leave are rebuilt from the recorded requests, opened, verified and compared with the acknowledged writes.
//!
//! `history` generates the states that a power cut may leave of unsynced data. The program runs in this process: a
//! store (`register`), or a data folder with all its parts, a backup and its restore (`folder`). The disk is mounted by
//! FUSE.
//!
//! **Invariant:** a problem in a state is reported with the seed and the point at which the power was cut.

mod disk;
mod folder;
mod history;
mod register;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::disk::{Disk, Fault};
use self::history::{Event, Loss, Replay, Synced, peaks, syncs};
use super::dice::Dice;

/// Number of states rebuilt from one history.
const STATES_PER_HISTORY: u32 = 50;
/// Minimum number of histories of a run in which calls of the disk fail: it fails in three ways. A run with fewer may
/// prove nothing.
const FAULTY_HISTORIES_MIN: u32 = 3;
/// Number of states from which on a run without a second power cut, or without an interrupted write, is an error.
const COUNTED_FROM: u32 = 100;
/// Folder for the states, in memory if it exists, so that no write waits for a disk.
const MEMORY: &str = "/dev/shm";
/// In one of so many states the power is cut a second time, during the next start.
const CUT_AGAIN_ONE_IN: u64 = 8;
/// One of so many points is one of those with the most unsynced data.
const PEAK_ONE_IN: u64 = 5;
/// One of so many rounds of writes to a store consists of large photos.
const LARGE_ONE_IN: u64 = 16;
/// In one of so many histories the first start is killed.
const KILLED_ONE_IN: u64 = 4;
/// Number of groups of writes whose syncs are left out, those with the most syncs.
const GROUPS_MAX: usize = 4;
/// Number of points that are tried without one sync, and number of syncs of a class that are left out.
const TRIED_POINTS: u64 = 6;
const TRIED_SYNCS_MAX: usize = 12;
/// Time for a program that failed to end.
const END_MAX: Duration = Duration::from_secs(60);

/// A program whose writes are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A store.
    Store,
    /// A store that receives many large photos at a time.
    LargePhotos,
    /// A data folder: store, keys, plugins, checkpoints, a backup and its restore.
    DataFolder,
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The program.
    pub subject: Subject,
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
    /// Number of them in which the power was cut again during the next start.
    pub cut_again: u32,
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
        let Self { states, cut_again, histories, failed, acknowledged, whole, absent } = self;
        write!(
            formatter,
            "{states} states of {histories} histories ({failed} calls of the disk failed, in {cut_again} states the \
             next start was cut too): {acknowledged} acknowledged writes were there; of others {whole} were there \
             whole, {absent} not at all"
        )
    }
}

/// Result of checking a state.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Acknowledged writes that are present.
    acknowledged: usize,
    /// Unacknowledged writes that are completely present.
    whole: usize,
    /// Unacknowledged writes that are absent.
    absent: usize,
}

/// Returns the reason why power cuts cannot be simulated on this machine, if any.
#[must_use]
pub fn missing() -> Option<String> {
    Disk::mount(0).and_then(Disk::unmount).err().map(|error| error.to_string())
}

/// The writes of a program, and the check of what remains of them.
enum Model {
    Store(register::Model),
    DataFolder(folder::Model),
}

impl Model {
    /// Prepares the disk for a program.
    fn of(subject: Subject, disk: &Disk) -> Self {
        match subject {
            Subject::Store => Self::Store(register::Model::new(LARGE_ONE_IN)),
            Subject::LargePhotos => Self::Store(register::Model::new(1)),
            Subject::DataFolder => Self::DataFolder(folder::Model::of(disk).expect("folders can be made")),
        }
    }

    /// Starts the program on a disk and stops it.
    async fn start_once(&self, disk: &Path) -> Result<(), String> {
        match self {
            Self::Store(_) => register::reopen(disk),
            Self::DataFolder(_) => folder::reopen(disk).await,
        }
    }

    /// Starts the program, sends so many rounds of writes and stops it. The disk may fail from the start on, or after
    /// it.
    async fn session(
        &mut self,
        disk: &Arc<Disk>,
        dice: &mut Dice,
        rounds: u64,
        fault: Option<Fault>,
    ) -> Result<(), String> {
        let (at_start, later) = if dice.below(2) == 0 { (fault, None) } else { (None, fault) };
        disk.fail(at_start);
        match self {
            Self::Store(model) => register::session(model, disk, dice, rounds, later).await,
            Self::DataFolder(model) => folder::session(model, disk, dice, rounds, later).await,
        }
    }

    async fn check(&self, replay: &Replay, at: usize, is_started: bool, folder: &Path) -> Result<Seen, String> {
        let acknowledged = replay.acknowledged();
        match self {
            Self::Store(model) => register::check(model, acknowledged, at, folder).await,
            Self::DataFolder(model) => folder::check(model, acknowledged, at, is_started, folder).await,
        }
    }
}

/// Recorded writes to a disk, with every request to it.
pub struct Recording {
    seed: u64,
    events: Vec<Event>,
    /// The point from which on the power is cut.
    began: usize,
    model: Model,
    failed: u64,
    /// True if a start was killed before the first operation.
    is_killed: bool,
    /// The reason of a start or a write that failed while the disk did not.
    ended: Option<String>,
}

impl Recording {
    /// Performs the writes that follow from the seed. `faults` is a number by which the way is chosen in which the
    /// disk fails during one session; the program is killed and started again if it fails then.
    #[must_use]
    pub fn make(subject: Subject, seed: u64, faults: Option<u64>) -> Self {
        let mut dice = Dice::new(seed);
        let mut disk = mounted(Disk::mount(dice.next()));
        let mut model = Model::of(subject, &disk);
        let began = disk.now();
        let (mut ended, mut failed) = (None, 0);
        let is_killed = subject != Subject::LargePhotos && dice.below(KILLED_ONE_IN) == 0;
        if is_killed {
            ended = on_runtime(model.start_once(&disk.path())).err();
            let after = kill_point(&disk, began, &mut dice);
            disk = mounted(disk.killed(after, dice.next()));
        }
        let sessions = if subject == Subject::LargePhotos { 1 } else { 1 + dice.below(3) };
        let faulty = faults.map(|number| (dice.below(sessions), Fault::draw(number, &mut dice)));
        // One more session follows one in which the disk may fail.
        for session in 0..sessions + u64::from(faulty.is_some()) {
            if ended.is_some() {
                break;
            }
            let fault = faulty.filter(|(number, _)| *number == session).map(|(_, fault)| fault);
            let rounds = match subject {
                Subject::Store => 2 + dice.below(12),
                Subject::LargePhotos => 2,
                Subject::DataFolder => 3 + dice.below(6),
            };
            let shared = Arc::new(disk);
            let stopped = on_runtime(model.session(&shared, &mut dice, rounds, fault)).err();
            disk = Arc::into_inner(shared).expect("what was sent has been answered");
            disk.fail(None);
            if fault.is_some() {
                failed += disk.failed();
            }
            match (stopped, fault) {
                (None, _) => {}
                (Some(_), Some(_)) => disk = mounted(disk.killed(usize::MAX, dice.next())),
                (Some(reason), None) => ended = Some(reason),
            }
        }
        let events = disk.unmount().expect("a disk that is mounted is unmounted");
        Self { seed, events, began, model, failed, is_killed, ended }
    }

    /// Opens `states` states.
    ///
    /// # Errors
    /// A description of the first problem found.
    pub fn check(&self, states: u32) -> Result<Summary, String> {
        if let Some(ended) = &self.ended {
            return Err(format!("history {}: the program failed on a disk that did not: {ended}", self.seed));
        }
        let mut dice = Dice::new(self.seed ^ 0x5ca1_ab1e);
        let peaks = peaks(&self.events, self.began);
        let points = (0..states).map(|_| self.draw_point(&peaks, &mut dice)).collect();
        self.check_at(points, BTreeSet::new(), Loss::Any, &mut dice)
    }

    /// The loss that follows if one sync of this class has no effect; `None` if nothing is lost. A class is an
    /// operation and a path: `install: srv/data/plugins/`.
    #[must_use]
    pub fn loss_without_one(&self, class: &str) -> Option<String> {
        let syncs = syncs(&self.events);
        let mut dice = Dice::new(self.seed);
        let of_class = syncs.iter().enumerate().filter(|(_, sync)| sync.class == class);
        of_class.take(TRIED_SYNCS_MAX).find_map(|(number, left_out)| {
            // Until the next sync of the same file or folder, which writes the same.
            let next = syncs[number + 1..].iter().find(|next| next.node == left_out.node);
            let until = next.map_or(self.events.len(), |next| next.at);
            let points = self.draw_points(left_out.at + 1, until, &mut dice);
            self.check_at(points, BTreeSet::from([left_out.at]), Loss::Any, &mut dice).err()
        })
    }

    /// The loss that follows if no sync of this path has an effect, during any operation; `None` if nothing is lost.
    #[must_use]
    pub fn loss_without_all(&self, path: &str) -> Option<String> {
        let of_path = |sync: &Synced| sync.class.split_once(": ").is_some_and(|(_, synced)| synced == path);
        let left_out: BTreeSet<usize> = syncs(&self.events).into_iter().filter(of_path).map(|sync| sync.at).collect();
        let mut dice = Dice::new(self.seed);
        let points = self.draw_points(*left_out.first()?, self.events.len(), &mut dice);
        self.check_at(points, left_out, Loss::Any, &mut dice).err()
    }

    /// The loss that follows if a file is synced for acknowledgements only, and not while a group of transactions is
    /// written; `None` if nothing is lost. Of the unsynced writes some successive ones are lost.
    #[must_use]
    pub fn loss_between_acknowledgements(&self, class: &str) -> Option<String> {
        let of_class: Vec<usize> =
            syncs(&self.events).into_iter().filter(|sync| sync.class == class).map(|sync| sync.at).collect();
        let is_acknowledged =
            |from: usize, to: usize| self.events[from..to].iter().any(|event| matches!(event, Event::Acknowledged(_)));
        let mut left_out = BTreeSet::new();
        // The number of syncs before each one that stays.
        let mut groups = Vec::new();
        let mut count = 0;
        for pair in of_class.windows(2) {
            if is_acknowledged(pair[0], pair[1]) {
                groups.push((count, pair[0]));
                count = 0;
            } else {
                left_out.insert(pair[0]);
                count += 1;
            }
        }
        groups.extend(of_class.last().map(|last| (count, *last)));
        groups.sort_unstable_by(|one, other| other.cmp(one));
        let points = groups.iter().take(GROUPS_MAX).flat_map(|(_, point)| [*point; TRIED_POINTS as usize]);
        self.check_at(points.collect(), left_out, Loss::Hole, &mut Dice::new(self.seed)).err()
    }

    fn check_at(
        &self,
        mut points: Vec<usize>,
        left_out: BTreeSet<usize>,
        loss: Loss,
        dice: &mut Dice,
    ) -> Result<Summary, String> {
        points.sort_unstable();
        let mut replay = Replay::new(left_out);
        let mut summary = Summary { histories: 1, failed: self.failed, ..Summary::default() };
        for point in points {
            replay.advance(&self.events, point);
            let seed = dice.next();
            let (seen, is_cut_again) = self.check_state(&replay, point, loss, seed).map_err(|wrong| {
                let (history, length) = (self.seed, self.events.len());
                format!("history {history}, cut at {point} of {length} by {seed}: {wrong}")
            })?;
            summary.states += 1;
            summary.cut_again += u32::from(is_cut_again);
            summary.add(seen);
        }
        Ok(summary)
    }

    /// Some points are those with the most unsynced data; half of the others are after a sync or an acknowledgement.
    fn draw_point(&self, peaks: &[usize], dice: &mut Dice) -> usize {
        if !peaks.is_empty() && dice.below(PEAK_ONE_IN) == 0 {
            return peaks[dice.below(peaks.len() as u64) as usize];
        }
        let point = self.began + dice.below((self.events.len() - self.began) as u64 + 1) as usize;
        if dice.below(2) == 0 {
            return point;
        }
        let ahead = self.events[point..].iter().position(is_mark);
        ahead.map_or(self.events.len(), |ahead| point + ahead + 1)
    }

    /// Points in that range after an acknowledgement; none if there is no acknowledgement.
    fn draw_points(&self, from: usize, to: usize, dice: &mut Dice) -> Vec<usize> {
        let is_after = |point: &usize| matches!(self.events[point - 1], Event::Acknowledged(_));
        let points: Vec<usize> = (from.max(1)..=to).filter(is_after).collect();
        let tried = if points.is_empty() { 0 } else { TRIED_POINTS };
        (0..tried).map(|_| points[dice.below(points.len() as u64) as usize]).collect()
    }

    /// Returns what is found, and true if the power was cut a second time.
    fn check_state(&self, replay: &Replay, point: usize, loss: Loss, seed: u64) -> Result<(Seen, bool), String> {
        let mut dice = Dice::new(seed);
        let mut folder = state_folder();
        replay.cut(loss, &mut dice, folder.path()).map_err(|error| error.to_string())?;
        let is_cut_again = dice.below(CUT_AGAIN_ONE_IN) == 0;
        // A panic is a problem of this state as well.
        let checked = catch_unwind(AssertUnwindSafe(|| {
            if is_cut_again {
                folder = self.cut_again(folder.path(), &mut dice)?;
            }
            let is_started = is_cut_again || self.is_killed;
            on_runtime(self.model.check(replay, point, is_started, folder.path()))
        }));
        let seen = checked.unwrap_or_else(|_| Err("it panics".to_owned()));
        let again = if is_cut_again { ", and again at the next start" } else { "" };
        Ok((seen.map_err(|wrong| format!("{wrong}{again}"))?, is_cut_again))
    }

    /// Starts the program on the files that a power cut left, and cuts the power again during the start or after it.
    fn cut_again(&self, files: &Path, dice: &mut Dice) -> Result<TempDir, String> {
        let disk = mounted(Disk::mount(dice.next()));
        disk.fill(files).map_err(|error| error.to_string())?;
        let began = disk.now();
        let started = on_runtime(self.model.start_once(&disk.path()));
        let events = disk.unmount().expect("a disk that is mounted is unmounted");
        started.map_err(|reason| format!("{reason}, at a start that is cut too"))?;
        let point = began + dice.below((events.len() - began) as u64 + 1) as usize;
        let mut replay = Replay::new(BTreeSet::new());
        replay.advance(&events, point);
        let folder = state_folder();
        replay.cut(Loss::Any, dice, folder.path()).map_err(|error| error.to_string())?;
        Ok(folder)
    }
}

fn is_mark(event: &Event) -> bool {
    matches!(event, Event::Sync { .. } | Event::Acknowledged(_))
}

/// The number of events after which a program is killed: most often right before a sync.
fn kill_point(disk: &Disk, began: usize, dice: &mut Dice) -> usize {
    let syncs = disk.syncs();
    if dice.below(3) == 0 || syncs.is_empty() {
        return began + dice.below((disk.now() - began) as u64 + 1) as usize;
    }
    syncs[dice.below(syncs.len() as u64) as usize].max(began)
}

impl Summary {
    fn add(&mut self, seen: Seen) {
        self.acknowledged += seen.acknowledged;
        self.whole += seen.whole;
        self.absent += seen.absent;
    }

    fn join(&mut self, other: Self) {
        self.states += other.states;
        self.cut_again += other.cut_again;
        self.histories += other.histories;
        self.failed += other.failed;
        self.acknowledged += other.acknowledged;
        self.whole += other.whole;
        self.absent += other.absent;
    }

    /// The reason why a run with these options proves nothing, if it does not.
    fn gap(&self, options: Options) -> Option<&'static str> {
        let is_counted = options.states >= COUNTED_FROM;
        let is_complete = self.histories >= FAULTY_HISTORIES_MIN;
        let gaps = [
            (self.states != options.states, "states are missing"),
            (is_counted && self.cut_again == 0, "the power was never cut during the next start"),
            (is_complete && self.acknowledged == 0, "nothing was acknowledged"),
            (is_counted && (self.whole == 0 || self.absent == 0), "no write was interrupted"),
            (is_complete && options.has_faults && self.failed == 0, "no call of the disk failed"),
            (!options.has_faults && self.failed > 0, "a call of the disk failed"),
        ];
        gaps.into_iter().find(|(is_gap, _)| *is_gap).map(|(_, reason)| reason)
    }
}

/// Opens states of as many histories as required, and passes the result of each history to `tell`.
///
/// # Errors
/// A description of the first problem found, or of a run that proves nothing.
pub fn run(options: Options, mut tell: impl FnMut(String)) -> Result<Summary, String> {
    let mut seeds = Dice::new(options.seed);
    let mut all = Summary::default();
    let histories_min = if options.has_faults { FAULTY_HISTORIES_MIN } else { 1 };
    let states_of_each = STATES_PER_HISTORY.min(options.states.div_ceil(histories_min));
    while all.states < options.states {
        let faults = options.has_faults.then_some(u64::from(all.histories));
        let recording = Recording::make(options.subject, seeds.next(), faults);
        all.join(recording.check(states_of_each.min(options.states - all.states))?);
        tell(all.to_string());
    }
    match all.gap(options) {
        None => Ok(all),
        Some(gap) => Err(format!("{gap}: {all}")),
    }
}

/// Starts a store twice on a disk that has lost the content of the database, which the system still has in memory: after
/// a clean stop, and without the note of one. Returns the reasons why it was not opened.
#[must_use]
pub fn starts_on_a_lost_database() -> [Option<String>; 2] {
    let disk = Arc::new(mounted(Disk::mount(0)));
    let mut model = register::Model::new(LARGE_ONE_IN);
    on_runtime(register::session(&mut model, &disk, &mut Dice::new(0), 1, None)).expect("the disk does not fail");
    let started = [true, false].map(|was_clean| register::reopen_lost(&disk, was_clean).err());
    let disk = Arc::into_inner(disk).expect("what was sent has been answered");
    disk.unmount().expect("a disk that is mounted is unmounted");
    started
}

fn mounted(disk: std::io::Result<Disk>) -> Disk {
    disk.expect("a disk is mounted by FUSE")
}

/// Runs a program on threads of its own, which end with it.
fn on_runtime<F: Future>(program: F) -> F::Output {
    let runtime = runtime();
    let output = runtime.block_on(program);
    runtime.shutdown_timeout(END_MAX);
    output
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads can be started")
}

fn state_folder() -> TempDir {
    let folder = if Path::new(MEMORY).is_dir() { tempfile::tempdir_in(MEMORY) } else { tempfile::tempdir() };
    folder.expect("a folder can be made")
}
