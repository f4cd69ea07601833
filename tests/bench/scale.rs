//! Growth of a register: disk, memory, starts, reads, a search, creates, backup, check and restore of three sizes.

use std::time::Duration;

use crate::http::{Connection, get};
use crate::load::{Load, once};
use crate::machine::{bytes_below, mib};
use crate::read::all_people;
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::setup::{Register, Setup, seconds_of};
use crate::start;

/// Numbers of people in the registers.
const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// Maximum number of creates per second that a round is prepared for.
const CREATES_MAX: u64 = 20_000;

/// Measures all sizes.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    for people in SIZES.into_iter().take(if setup.is_smoke { 1 } else { SIZES.len() }) {
        let register = setup.filled(&format!("scale-{people}"), setup.people(people))?;
        measure(setup, report, &register)?;
        setup.remove(register)?;
    }
    Ok(())
}

fn measure(setup: &Setup, report: &mut Report, register: &Register) -> Result<(), String> {
    let (people, id) = (register.people, format!("scale.{}", register.people));
    let column = format!("{people} people");
    let row = |report: &mut Report, name: &str, what: &str, unit, value| {
        report.row(Row::new(format!("{id}.{name}"), what, unit, Spread::of([value])).column(&column));
    };
    let rates = Spread::of(register.import_rates.iter().copied());
    report.row(Row::new(format!("{id}.import"), "`daftar import`, records", "1/s", rates).column(&column));
    let store = bytes_below(&register.folder.join("data").join("store"))?;
    row(report, "store", "store on disk", "MiB", mib(store));
    start::measure(setup, report, register, &id, Some(&column))?;
    let server = Server::start(&register.folder)?;
    let token = server.token(&register.client)?;
    let reads = all_people(people, token.clone());
    let worked = || server.processor_seconds();
    for connections in [1, 16] {
        let load = Load::new(server.address, connections, setup.window());
        let rounds = Rounds::measure(setup.rounds(), worked, || load.run(&reads))?;
        let what = format!("reads of any of all people, {}", crate::load::connections(connections));
        rounds.column(report, &format!("{id}.read-{connections}"), &what, [None, None], Some(&column));
    }
    let mut connection = Connection::to(server.address)?;
    let search = get("/api/v2/Individual?name=tra&_count=20", &token);
    let times: Result<Vec<f64>, String> =
        (0..setup.times(200)).map(|_| connection.timed(&search, 200).map(|(time_us, _)| time_us / 1e3)).collect();
    let search = Row::new(format!("{id}.search"), "search by the beginning of a name", "ms", Spread::of(times?));
    report.row(search.column(&column));
    let load = Load::new(server.address, 16, setup.window());
    let count = (CREATES_MAX as f64 * setup.window().as_secs_f64()) as u64;
    let rounds = Rounds::measure(setup.rounds(), worked, || load.run(&once(register.creates(&token, count))))?;
    let what = "creates with codes, 16 connections";
    rounds.column(report, &format!("{id}.create-16"), what, [None, None], Some(&column));

    let backup = register.folder.join("register.daftar");
    let path = backup.to_str().ok_or("a path is no text")?;
    let read = Load::new(server.address, 1, Duration::from_millis((people / 100).max(200)));
    let folder = register.folder.as_path();
    let (seconds, taken) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| seconds_of(folder, &["backup", path]));
        let taken = read.run(&reads);
        Ok::<_, String>((writing.join().map_err(|_| "the backup failed".to_owned())??, taken?))
    })?;
    row(report, "backup", "backup of the running server", "s", seconds);
    row(report, "backup.read-p99", "reads during backup, 1 connection: p99", "ms", taken.ms(0, 0.99));
    let bytes = std::fs::metadata(&backup).map_err(|error| error.to_string())?.len();
    row(report, "backup.file", "backup file", "MiB", mib(bytes));
    server.stop()?;
    row(report, "verify", "verification of the stopped register", "s", seconds_of(&register.folder, &["verify"])?);
    let restored = register.folder.join("restored");
    std::fs::create_dir(&restored).map_err(|error| error.to_string())?;
    row(report, "restore", "restore, verified at its end", "s", seconds_of(&restored, &["restore", path])?);
    Ok(())
}
