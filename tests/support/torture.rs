//! Kills the server under load repeatedly, and searches for lost, partial or invented writes.
//!
//! Several workers, each with records of its own, send requests sequentially and record acknowledged writes. The server
//! is killed (SIGKILL) after a number of them, during other requests. It is started again and checked: acknowledged
//! writes are stored as returned, unacknowledged ones completely or not at all, every change has its entry in the audit
//! log, and `daftar verify` finds nothing, before and after the start.
//!
//! **Invariant:** the requests, and the number of responses before a kill, follow from the seed alone.

mod ask;
mod worker;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::ask::Ask;
use self::worker::Worker;
use super::dice::Dice;
use super::process::{self, Server, create_client};
use super::records::{NATIONAL_ID, with};
use super::token;

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Number of kills.
    pub rounds: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of concurrent workers.
    pub workers: u64,
    /// Maximum number of responses before a kill.
    pub answers_max: u64,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of kills.
    pub rounds: u32,
    /// Number of acknowledged writes.
    pub acknowledged: u64,
    /// Number of requests without a response.
    pub unanswered: u64,
    /// Number of those that were completed.
    pub done: u64,
    /// Number of record checks after the kills.
    pub checked: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, acknowledged, unanswered, done, checked } = self;
        let not_done = unanswered - done;
        write!(
            formatter,
            "{rounds} kills, {acknowledged} writes acknowledged and none lost, {unanswered} without an answer ({done} done whole, \
             {not_done} not at all), {checked} checks of records"
        )
    }
}

/// Maximum time for the responses of a round before the server counts as dead.
const ROUND_MAX: Duration = Duration::from_secs(300);
/// The program that memberships are in.
pub(super) const PROGRAM: &str = "P";
/// After each this number of rounds the stopped folder is verified as well.
const STOPPED_LOOK_ROUNDS: u32 = 8;

/// Runs the torture in an empty folder; `tell` receives the result of each round.
///
/// # Errors
/// A description of a lost, partial or invented write; the folder is left as it is.
pub fn run(folder: &Path, options: Options, mut tell: impl FnMut(&str)) -> Result<Summary, String> {
    let data_dir = folder.join("data");
    let mut server = Server::serve(&data_dir, &[]);
    let ask = set_up(&server, &data_dir);
    let mut dice = Dice::new(options.seed);
    let mut workers: Vec<Worker> = (0..options.workers).map(|number| Worker::new(number, dice.next())).collect();
    let mut summary = Summary::default();
    for round in 1..=options.rounds {
        let responses = 1 + dice.below(options.answers_max);
        let pause_us = dice.below(3_000);
        let at_server = ask.at(&server, &data_dir);
        kill_under_load(server, &mut workers, &at_server, (responses, pause_us))?;
        if round % STOPPED_LOOK_ROUNDS == 1 {
            look_through(&data_dir, round, "before the start")?;
        }
        server = Server::serve(&data_dir, &[]);
        let at_server = ask.at(&server, &data_dir);
        for worker in &mut workers {
            worker.check(&at_server, &mut summary).map_err(|lost| format!("round {round}: {lost}"))?;
        }
        look_through(&data_dir, round, "after the start")?;
        summary.rounds = round;
        summary.acknowledged = workers.iter().map(|worker| worker.acknowledged).sum();
        tell(&format!("round {round} of {}: {} writes acknowledged so far", options.rounds, summary.acknowledged));
    }
    let at_server = ask.at(&server, &data_dir);
    for worker in &mut workers {
        worker.check_everything(&at_server, &mut summary).map_err(|lost| format!("at the end: {lost}"))?;
    }
    let ended = server.stop();
    if ended.code != 0 {
        return Err(format!("the server did not stop as it should: {ended:?}"));
    }
    look_through(&data_dir, options.rounds, "at the end")?;
    Ok(summary)
}

/// A client that may do anything, and a program.
fn set_up(server: &Server, data_dir: &Path) -> Ask {
    let scopes = ["individual:all", "group:all", "program:all", "program_membership:all", "consent:all"];
    let credentials = create_client(data_dir, &scopes);
    let token = token::fetch(&server.connection(), &credentials);
    let ask = Ask::new(token).at(server, data_dir);
    let program = json!({"identifier": [{"system": NATIONAL_ID, "value": PROGRAM}], "name": "Torture"});
    let created = ask.admin("POST", "/programs", Some(&with(program, json!({"target_type": "individual"}))));
    assert_eq!(created.map(|response| response.status), Some(201), "the program is created");
    ask
}

fn kill_under_load(
    server: Server,
    workers: &mut [Worker],
    ask: &Ask,
    (responses, pause_us): (u64, u64),
) -> Result<(), String> {
    let answered = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let answered = &answered;
        let working: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.work(ask, answered))).collect();
        let is_refused = || working.iter().any(std::thread::ScopedJoinHandle::is_finished);
        while answered.load(Ordering::Acquire) < responses && begun.elapsed() < ROUND_MAX && !is_refused() {
            std::thread::yield_now();
        }
        let until = Instant::now() + Duration::from_micros(pause_us);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        server.kill();
        for worker in working {
            worker.join().map_err(|_| "a worker panicked".to_owned())??;
        }
        if begun.elapsed() < ROUND_MAX { Ok(()) } else { Err("the server did not answer any more".to_owned()) }
    })
}

/// Runs `daftar verify` on the folder, of a running or stopped server.
fn look_through(data_dir: &Path, round: u32, when: &str) -> Result<(), String> {
    let looked = process::run(data_dir, &["verify", "--json"]);
    let result: Value = serde_json::from_str(&looked.stdout).unwrap_or_default();
    if looked.code == 0 && result["valid"] == true {
        return Ok(());
    }
    Err(format!("round {round}, {when}: `daftar verify` ends with {}: {}{}", looked.code, looked.stdout, looked.stderr))
}
