//! Growth of a register: disk, memory, starts, reads, a search, previews, creates, backup, check and restore of three
//! sizes; and a register of ten million people, without backup and restore.

use std::time::Duration;

use crate::engine::RULES;
use crate::http::{Connection, get};
use crate::load::{Load, once};
use crate::machine::{bytes_below, mib};
use crate::preview::{ask, preview};
use crate::read::all_people;
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::setup::{Register, Setup, seconds_of};
use crate::start::{self, Plan};

/// Numbers of people in the registers.
const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// Number of people in the largest register.
const LARGEST: u64 = 10_000_000;
/// Number of previews after the first one.
const PREVIEWS: u64 = 11;
/// Maximum number of creates per second that a round is prepared for.
const CREATES_MAX: u64 = 20_000;

/// Measures ten million people on one machine: about 30 GiB of disk.
pub fn run_largest(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("largest", setup.people(LARGEST))?;
    report.setting("people", register.people);
    let plan = Plan { starts: 3, targets: [Some("4,000 ms"), Some("3.5 GB"), None], ..Plan::new("largest", None) };
    Measured { setup, register: &register, plan }.serving(report, Some("250 ms"))?;
    setup.remove(register)
}

/// Measures all sizes.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    for people in SIZES.into_iter().take(if setup.is_smoke { 1 } else { SIZES.len() }) {
        let register = setup.filled(&format!("scale-{people}"), setup.people(people))?;
        let (id, column) = (format!("scale.{}", register.people), format!("{} people", register.people));
        let measured = Measured { setup, register: &register, plan: Plan::new(&id, Some(&column)) };
        measured.serving(report, None)?;
        measured.backup(report)?;
        setup.remove(register)?;
    }
    Ok(())
}

/// A register that is measured.
struct Measured<'r> {
    setup: &'r Setup,
    register: &'r Register,
    plan: Plan<'r>,
}

impl Measured<'_> {
    fn row(&self, report: &mut Report, name: &str, what: &str, unit: &'static str, value: Spread) {
        let row = Row::new(format!("{}.{name}", self.plan.id), what, unit, value);
        report.row(self.plan.column.into_iter().fold(row, Row::column));
    }

    /// Measures imports, disk, starts, reads, a search, previews and creates; with the target of a preview, if any.
    fn serving(&self, report: &mut Report, target: Option<&str>) -> Result<(), String> {
        let &Self { setup, register, ref plan } = self;
        let &Plan { id, column, .. } = plan;
        let rates = Spread::of(register.import_rates.iter().copied());
        self.row(report, "import", "`daftar import`, records", "1/s", rates);
        let store = bytes_below(&register.folder.join("data").join("store"))?;
        self.row(report, "store", "store on disk", "MiB", Spread::of([mib(store)]));
        start::measure(setup, report, register, plan)?;
        let server = Server::start(&register.folder)?;
        let token = server.token(&register.client)?;
        let reads = all_people(register.people, token.clone());
        let worked = || server.processor_seconds();
        for connections in [1, 16] {
            let load = Load::new(server.address, connections, setup.window());
            let rounds = Rounds::measure(setup.rounds(), worked, || load.run(&reads))?;
            let what = format!("reads of any of all people, {}", crate::load::connections(connections));
            rounds.column(report, &format!("{id}.read-{connections}"), &what, [None, None], column);
        }
        let mut connection = Connection::to(server.address)?;
        let search = get("/api/v2/Individual?name=tra&_count=20", &token);
        let times: Result<Vec<f64>, String> =
            (0..setup.times(200)).map(|_| connection.timed(&search, 200).map(|(time_us, _)| time_us / 1e3)).collect();
        self.row(report, "search", "search by the beginning of a name", "ms", Spread::of(times?));
        let rule = RULES.first().ok_or("there is no rule")?;
        let request = preview(&token, rule.subject_name(), rule.expression);
        let first = ask(&mut connection, &request, register.people)?;
        self.row(report, "preview-first", "preview of rule A, the first", "ms", Spread::of([first]));
        let times: Result<Vec<f64>, String> =
            (0..setup.times(PREVIEWS)).map(|_| ask(&mut connection, &request, register.people)).collect();
        let later = Row::new(format!("{id}.preview"), "preview of rule A, later", "ms", Spread::of(times?));
        let later = column.into_iter().fold(later, Row::column);
        report.row(target.into_iter().fold(later, Row::target));
        self.row(report, "preview.memory", "memory after previews", "MiB", Spread::of([server.resident_mib()]));
        let load = Load::new(server.address, 16, setup.window());
        let count = (CREATES_MAX as f64 * setup.window().as_secs_f64()) as u64;
        let rounds = Rounds::measure(setup.rounds(), worked, || load.run(&once(register.creates(&token, count))))?;
        rounds.column(report, &format!("{id}.create-16"), "creates with codes, 16 connections", [None, None], column);
        server.stop().map(drop)
    }

    /// Measures a backup of the running server, a verification and a restore.
    fn backup(&self, report: &mut Report) -> Result<(), String> {
        let register = self.register;
        let one = |value| Spread::of([value]);
        let server = Server::start(&register.folder)?;
        let token = server.token(&register.client)?;
        let reads = all_people(register.people, token);
        let backup = register.folder.join("register.daftar");
        let path = backup.to_str().ok_or("a path is no text")?;
        let read = Load::new(server.address, 1, Duration::from_millis((register.people / 100).max(200)));
        let folder = register.folder.as_path();
        let (seconds, taken) = std::thread::scope(|scope| {
            let writing = scope.spawn(|| seconds_of(folder, &["backup", path]));
            let taken = read.run(&reads);
            Ok::<_, String>((writing.join().map_err(|_| "the backup failed".to_owned())??, taken?))
        })?;
        self.row(report, "backup", "backup of the running server", "s", one(seconds));
        self.row(report, "backup.read-p99", "reads during backup, 1 connection: p99", "ms", one(taken.ms(0, 0.99)));
        let bytes = std::fs::metadata(&backup).map_err(|error| error.to_string())?.len();
        self.row(report, "backup.file", "backup file", "MiB", one(mib(bytes)));
        server.stop()?;
        let verified = seconds_of(folder, &["verify"])?;
        self.row(report, "verify", "verification of the stopped register", "s", one(verified));
        let restored = folder.join("restored");
        std::fs::create_dir(&restored).map_err(|error| error.to_string())?;
        let restored = seconds_of(&restored, &["restore", path])?;
        self.row(report, "restore", "restore, verified at its end", "s", one(restored));
        Ok(())
    }
}
