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
/// Time after which the indexes that are built after the start are complete.
const SETTLED: Duration = Duration::from_secs(2);

/// Measures the shared register.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.shared(setup.people(read::PEOPLE))?;
    report.setting("people", register.people);
    measure(setup, report, &register, "start", None)
}

/// Measures a register. `id` is the prefix of the row identifiers, `column` the column of the rows.
pub fn measure(
    setup: &Setup,
    report: &mut Report,
    register: &Register,
    id: &str,
    column: Option<&str>,
) -> Result<(), String> {
    let row = |name: &str, what: &str, unit, value| {
        column.into_iter().fold(Row::new(format!("{id}.{name}"), what, unit, value), Row::column)
    };
    let settle = || std::thread::sleep(if setup.is_smoke { Duration::ZERO } else { SETTLED });
    let checkpoints = register.folder.join("data").join("checkpoints");
    let bytes = bytes_below(&checkpoints)?;
    report.row(row("checkpoint", "checkpoint on disk", "MiB", Spread::of([mib(bytes)])));
    if register.is_fresh.replace(false) {
        let server = Server::start(&register.folder)?;
        let what = "from the checkpoint, until the server listens: the first start after an import";
        report.row(row("first", what, "ms", Spread::of([server.start_ms])).target("350 ms"));
        server.stop()?;
    }
    let starts = |before: &dyn Fn() -> Result<(), String>| {
        let (mut times, mut resident) = (Vec::new(), Vec::new());
        for _ in 0..setup.times(5) {
            before()?;
            let server = Server::start(&register.folder)?;
            times.push(server.start_ms);
            settle();
            resident.push(server.resident_mib());
            server.kill()?;
        }
        Ok::<_, String>((Spread::of(times), Spread::of(resident)))
    };
    let (times, resident) = starts(&|| Ok(()))?;
    report.row(row("from-checkpoint", "from the checkpoint, until the server listens", "ms", times).target("350 ms"));
    report.row(
        row("from-checkpoint.memory", "memory after a start from the checkpoint", "MiB", resident).target("350 MB"),
    );
    let (times, resident) = starts(&|| remove(&checkpoints))?;
    report.row(row("from-records", "from the records, until the server listens", "ms", times).target("4,000 ms"));
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
