//! Kills the server under load, again and again, and looks for what is lost, halved or made up.
//!
//! Several workers, each with records of its own, send one request after the other and note what was acknowledged. The server is
//! killed (SIGKILL) when so many were, whatever is under way. It is started again, and asked: what was acknowledged is there as it
//! was told, what was not answered is there whole or not at all, every change has its line in the audit log, and `daftar verify`
//! finds nothing, before and after the start.
//!
//! **Invariant:** what is sent, and after how many answers the server is killed, follows from the seed alone.

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

/// How the server is tortured.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How often it is killed.
    pub rounds: u32,
    /// What everything follows from.
    pub seed: u64,
    /// How many send at once.
    pub workers: u64,
    /// The most answers before a kill.
    pub answers_max: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// How often the server was killed.
    pub rounds: u32,
    /// How many writes were acknowledged.
    pub acknowledged: u64,
    /// How many requests got no answer.
    pub unanswered: u64,
    /// How many of those had been done, whole.
    pub done: u64,
    /// How many records were looked at after the kills.
    pub checked: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, acknowledged, unanswered, done, checked } = self;
        let not_done = unanswered - done;
        write!(
            formatter,
            "{rounds} kills, {acknowledged} writes acknowledged and none lost, {unanswered} without an answer ({done} done whole, \
             {not_done} not at all), {checked} looks at records"
        )
    }
}

/// How long the server may take for the answers of a round before it is taken for dead.
const ROUND_MAX: Duration = Duration::from_secs(300);
/// The program that memberships are in.
pub(super) const PROGRAM: &str = "P";
/// Each so many rounds the stopped folder is looked through as well.
const STOPPED_LOOK_ROUNDS: u32 = 8;

/// Runs the torture in an empty folder; `tell` hears of each round.
///
/// # Errors
/// What was lost, halved or made up, in words; the folder is left as it is.
pub fn run(folder: &Path, options: Options, mut tell: impl FnMut(&str)) -> Result<Summary, String> {
    let data_dir = folder.join("data");
    let mut server = Server::serve(&data_dir, &[]);
    let ask = set_up(&server, &data_dir);
    let mut dice = Dice::new(options.seed);
    let mut workers: Vec<Worker> = (0..options.workers).map(|number| Worker::new(number, dice.next())).collect();
    let mut summary = Summary::default();
    for round in 1..=options.rounds {
        let answers = 1 + dice.below(options.answers_max);
        let pause_us = dice.below(3_000);
        let at_server = ask.at(&server, &data_dir);
        kill_under_load(server, &mut workers, &at_server, (answers, pause_us))?;
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
    assert_eq!(created.map(|answer| answer.status), Some(201), "the program is created");
    ask
}

fn kill_under_load(
    server: Server,
    workers: &mut [Worker],
    ask: &Ask,
    (answers, pause_us): (u64, u64),
) -> Result<(), String> {
    let answered = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let answered = &answered;
        let working: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.work(ask, answered))).collect();
        let is_refused = || working.iter().any(std::thread::ScopedJoinHandle::is_finished);
        while answered.load(Ordering::Acquire) < answers && begun.elapsed() < ROUND_MAX && !is_refused() {
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

/// Runs `daftar verify` on the folder, whoever uses it.
fn look_through(data_dir: &Path, round: u32, when: &str) -> Result<(), String> {
    let looked = process::run(data_dir, &["verify", "--json"]);
    let result: Value = serde_json::from_str(&looked.stdout).unwrap_or_default();
    if looked.code == 0 && result["valid"] == true {
        return Ok(());
    }
    Err(format!("round {round}, {when}: `daftar verify` ends with {}: {}{}", looked.code, looked.stdout, looked.stderr))
}
