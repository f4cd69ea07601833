//! Time until the server listens, and its memory at that point: from its checkpoint, from the records, and after a
//! kill. The files are in the page cache.

use std::path::Path;
use std::time::Duration;

use crate::load::{Load, once};
use crate::machine::{bytes_below, mib};
use crate::read;
use crate::report::{Report, Row, Spread};
use crate::server::Server;
use crate::setup::{Register, Setup};

/// Number of individuals created before the kill.
const BEFORE_KILL: u64 = 10_000;

/// How a register is measured.
pub struct Plan<'p> {
    /// The prefix of the row identifiers.
    pub id: &'p str,
    /// The column of the rows.
    pub column: Option<&'p str>,
    /// Number of starts of each kind.
    pub starts: u64,
    /// The targets for a start from the checkpoint, for the memory after it, and for a start from the records.
    pub targets: [Option<&'static str>; 3],
}

impl<'p> Plan<'p> {
    /// Of a register of up to a million people.
    pub fn new(id: &'p str, column: Option<&'p str>) -> Self {
        Self { id, column, starts: 5, targets: [Some("350 ms"), Some("350 MB"), Some("4,000 ms")] }
    }
}

/// Time after which the indexes that are built after the start are complete.
const SETTLED: Duration = Duration::from_secs(2);

/// Measures the shared register.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.shared(setup.people(read::PEOPLE))?;
    report.setting("people", register.people);
    measure(setup, report, &register, &Plan::new("start", None))
}

/// Measures a register.
pub fn measure(setup: &Setup, report: &mut Report, register: &Register, plan: &Plan<'_>) -> Result<(), String> {
    let &Plan { id, column, starts, targets: [from_checkpoint, memory, from_records] } = plan;
    let row = |name: &str, what: &str, unit, value| {
        column.into_iter().fold(Row::new(format!("{id}.{name}"), what, unit, value), Row::column)
    };
    let with = |row: Row, target: Option<&str>| target.into_iter().fold(row, Row::target);
    let settle = || std::thread::sleep(if setup.is_smoke { Duration::ZERO } else { SETTLED });
    let checkpoints = register.folder.join("data").join("checkpoints");
    let bytes = bytes_below(&checkpoints)?;
    report.row(row("checkpoint", "checkpoint on disk", "MiB", Spread::of([mib(bytes)])));
    if register.is_fresh.replace(false) {
        let server = Server::start(&register.folder)?;
        let what = "from the checkpoint, until the server listens: the first start after an import";
        report.row(with(row("first", what, "ms", Spread::of([server.start_ms])), from_checkpoint));
        server.stop()?;
    }
    let started = |before: &dyn Fn() -> Result<(), String>| {
        let (mut times, mut resident) = (Vec::new(), Vec::new());
        for _ in 0..setup.times(starts) {
            before()?;
            let server = Server::start(&register.folder)?;
            times.push(server.start_ms);
            settle();
            resident.push(server.resident_mib());
            server.kill()?;
        }
        Ok::<_, String>((Spread::of(times), Spread::of(resident)))
    };
    let (times, resident) = started(&|| Ok(()))?;
    let times = row("from-checkpoint", "from the checkpoint, until the server listens", "ms", times);
    report.row(with(times, from_checkpoint));
    let resident = row("from-checkpoint.memory", "memory after a start from the checkpoint", "MiB", resident);
    report.row(with(resident, memory));
    let (times, resident) = started(&|| remove(&checkpoints))?;
    let times = row("from-records", "from the records, until the server listens", "ms", times);
    report.row(with(times, from_records));
    report.row(row("from-records.memory", "memory after a start from the records", "MiB", resident));

    remove(&checkpoints)?;
    let stop_ms = Server::start(&register.folder)?.stop()?;
    report.row(row("stop", "an orderly stop that writes a checkpoint", "ms", Spread::of([stop_ms])));
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let creates = register.creates(&token, setup.people(BEFORE_KILL));
    Load::new(server.address, 16, Duration::from_secs(120)).run(&once(creates))?;
    server.kill()?;
    let server = Server::start(&register.folder)?;
    let what =
        format!("after a kill, {} creates since the checkpoint, until the server listens", setup.people(BEFORE_KILL));
    report.row(row("killed", &what, "ms", Spread::of([server.start_ms])));
    // A regular stop writes a checkpoint with the new individuals for the next start of the register.
    server.stop().map(drop)
}

/// Removes the checkpoints of a stopped register.
pub fn remove(checkpoints: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(checkpoints) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}
