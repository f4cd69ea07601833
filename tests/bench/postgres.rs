//! The same register in the embedded store and in PostgreSQL, with one server, two and three: the same requests for
//! all, each round reads other people than the one before. The share of time under the lock that orders the writes of
//! all servers limits how far more of them, on machines of their own, would write more.
//!
//! The database runs on the machine that it shares with the servers and with the load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use daftar_test_postgres::{Server as Postgres, Stop};
use serde_json::Value;

use crate::engine::RULES;
use crate::http::{Connection, get};
use crate::load::{Load, Make, once};
use crate::machine::{bytes_below, mib, processor_seconds};
use crate::people::{self, any, path};
use crate::preview::{OF_RECORDS, ask, preview};
use crate::report::{Report, Row, Spread};
use crate::rounds::Rounds;
use crate::server::{Server, artifacts, run as run_command};
use crate::setup::{Register, Setup, copy, import_rate};

/// Number of people in the register, and in the benchmark with this name.
const PEOPLE: u64 = 100_000;
const PEOPLE_LARGE: u64 = 1_000_000;
/// Number of connections that send, except where it is one: as many for each of two servers, and of three.
const CONNECTIONS: usize = 18;
/// Number of connections that create at the same time, where servers form large groups of writes.
const CONNECTIONS_MANY: usize = 72;
/// Number of people read once each, before anything of them is in memory.
const COLD: u64 = 500;
/// Maximum number of creates per second that a round is prepared for.
const CREATES_MAX: u64 = 20_000;
/// Time for which a group of writes had the lock that orders the writes of all servers.
const LOCK_HELD: &str = "daftar_database_lock_held_duration_seconds";
/// Number of repetitions of each search in a round.
const SEARCHES: u64 = 40;
/// Number of previews after the first.
const PREVIEWS: u64 = 5;
/// Number of people imported.
const IMPORTED: u64 = 50_000;
/// Other numbers of people than any other register or import has.
const FIRST: u64 = 600_000_001;
/// Settings of PostgreSQL for a machine of this size. Writes are durable.
const SETTINGS: [(&str, &str); 7] = [
    ("shared_buffers", "2GB"),
    ("effective_cache_size", "12GB"),
    ("maintenance_work_mem", "512MB"),
    ("work_mem", "32MB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("max_connections", "200"),
];

/// A database with a register.
pub struct Database {
    postgres: Postgres,
    /// The configuration of a server of this register.
    pub config: PathBuf,
    name: String,
    /// The number of records that were moved.
    records: f64,
    moved_per_second: f64,
}

impl Database {
    /// A database with a copy of the register, moved into it by `daftar migrate fill`.
    pub fn of(register: &Register, settings: &[(&str, &str)]) -> Result<Self, String> {
        crate::progress("move the register into PostgreSQL");
        let postgres = Postgres::start(settings);
        let url = postgres.create_database();
        let config = register.folder.join("postgres.toml");
        std::fs::write(&config, settings_of(&url)).map_err(|error| error.to_string())?;
        let moved = register.folder.join("moved");
        std::fs::create_dir(&moved).map_err(|error| error.to_string())?;
        copy(&register.folder.join("data"), &moved.join("data"))?;
        let started = Instant::now();
        let reported = run_command(&moved, Some(&config), &["migrate", "fill", "--to", "postgres"])?;
        let seconds = started.elapsed().as_secs_f64();
        std::fs::remove_dir_all(moved).map_err(|error| error.to_string())?;
        let same = reported.get("same").and_then(Value::as_object).into_iter().flatten();
        let records: f64 = same.filter_map(|(_, count)| count.as_f64()).sum();
        let name = name_of(&url).to_owned();
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            postgres.run_sql(&name, statement);
        }
        Ok(Self { postgres, config, name, records, moved_per_second: records / seconds })
    }

    /// Starts the database again; returns true if nothing of it is in memory then.
    fn forget(&self) -> bool {
        self.postgres.stop(Stop::Fast);
        let is_dropped = drop_page_cache();
        self.postgres.start_again();
        is_dropped
    }

    fn bytes(&self) -> u64 {
        let size = self.postgres.run_sql(&self.name, &format!("SELECT pg_database_size('{}')", self.name));
        size.parse().unwrap_or_default()
    }
}

/// Creates the folder of one of several servers of a database, with the keys of all.
pub fn server_folder(register: &Register, database: &Database, servers: &str, number: u64) -> Result<PathBuf, String> {
    let own = register.folder.join(format!("{}-{servers}-{number}", database.name));
    std::fs::create_dir_all(own.join("data")).map_err(|error| error.to_string())?;
    for part in ["keys", "compiled", "plugins"] {
        copy(&register.folder.join("data").join(part), &own.join("data").join(part))?;
    }
    Ok(own)
}

/// Measures a register of ordinary size.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    measure(setup, report, PEOPLE)
}

/// Measures a large one.
pub fn run_large(setup: &Setup, report: &mut Report) -> Result<(), String> {
    measure(setup, report, PEOPLE_LARGE)
}

fn measure(setup: &Setup, report: &mut Report, people: u64) -> Result<(), String> {
    let register = setup.filled("postgres", setup.people(people))?;
    report.setting("people", register.people);
    report.setting("settings of PostgreSQL", SETTINGS.map(|(name, value)| format!("{name} = {value}")).join(", "));
    let database = Database::of(&register, &SETTINGS)?;
    let row = Row::new(
        "postgres.moved",
        "`daftar migrate fill`, copied and compared",
        "1/s",
        Spread::of([database.moved_per_second]),
    );
    report.row(row);
    let store = bytes_below(&register.folder.join("data").join("store"))?;
    for (id, what, bytes) in [("embedded", "embedded", store), ("one", "PostgreSQL, 1 server", database.bytes())] {
        let row =
            |id: String, figure: &str, unit, value: f64| Row::new(id, figure, unit, Spread::of([value])).column(what);
        report.row(row(format!("postgres.{id}.disk"), "on disk", "MiB", mib(bytes)));
        let per_record = bytes as f64 / database.records;
        report.row(row(format!("postgres.{id}.disk-record"), "on disk for each record", "bytes", per_record));
    }

    restores(&register, &database, report)?;
    let server = Server::start(&register.folder)?;
    let worked = || (server.processor_seconds(), 0.0);
    let of = Measured {
        setup,
        register: &register,
        id: "embedded",
        what: "embedded",
        servers: std::slice::from_ref(&server),
        worked: &worked,
    };
    of.run(report, &register.folder, None)?;
    server.stop()?;
    let is_cold = drop_page_cache();
    reads_after_start(setup, &register, report, ("embedded", "embedded"), Server::start(&register.folder)?, is_cold)?;
    let in_memory = register.folder.join("postgres-memory.toml");
    let text = std::fs::read_to_string(&database.config).map_err(|error| error.to_string())?;
    std::fs::write(&in_memory, format!("{text}index = \"memory\"\n")).map_err(|error| error.to_string())?;
    for (count, id, what, config) in [
        (1, "one", "PostgreSQL, 1 server", &database.config),
        (1, "memory", "PostgreSQL, 1 server, `index = \"memory\"`", &in_memory),
        (2, "two", "PostgreSQL, 2 servers", &database.config),
        (3, "three", "PostgreSQL, 3 servers", &database.config),
    ] {
        crate::progress(what);
        let folders: Result<Vec<PathBuf>, String> =
            (0..count).map(|number| server_folder(&register, &database, id, number)).collect();
        let folders = folders?;
        let plugins = artifacts()?.join("plugins");
        let servers: Result<Vec<Server>, String> =
            folders.iter().map(|folder| Server::start_with(folder, Some(config), &plugins)).collect();
        let servers = servers?;
        let worked = || {
            let servers = servers.iter().map(Server::processor_seconds).sum();
            (servers, database.postgres.pid().map_or(0.0, processor_seconds))
        };
        let first = folders.first().ok_or("there is no server")?;
        let of = Measured { setup, register: &register, id, what, servers: &servers, worked: &worked };
        of.run(report, first, Some(config))?;
        for server in servers {
            server.stop()?;
        }
        if count == 1 {
            let is_cold = database.forget();
            let server = Server::start_with(first, Some(config), &plugins)?;
            reads_after_start(setup, &register, report, (id, what), server, is_cold)?;
        }
    }
    drop(database);
    setup.remove(register)
}

/// Measures how long a backup of the register takes to restore, into a folder and into a database, and in the same run
/// `pg_restore` of a dump.
fn restores(register: &Register, database: &Database, report: &mut Report) -> Result<(), String> {
    crate::progress("restore backups");
    let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("a path is no text");
    let backup = text(&register.folder.join("backup.daftar"))?;
    run_command(&register.folder, None, &["backup", &backup])?;
    for (id, what) in [("embedded", "embedded"), ("one", "PostgreSQL, 1 server")] {
        let folder = register.folder.join(format!("restored-{id}"));
        std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let config = folder.join("postgres.toml");
        let url = database.postgres.create_database();
        std::fs::write(&config, settings_of(&url)).map_err(|error| error.to_string())?;
        let config = (id == "one").then_some(config.as_path());
        let started = Instant::now();
        run_command(&folder, config, &["restore", &backup])?;
        let seconds = started.elapsed().as_secs_f64();
        let row = Row::new(
            format!("postgres.{id}.restore"),
            "`daftar restore` of a backup, verified at its end",
            "s",
            Spread::of([seconds]),
        );
        report.row(row.column(what));
        std::fs::remove_dir_all(folder).map_err(|error| error.to_string())?;
        database.postgres.run_sql("postgres", &format!("DROP DATABASE {}", name_of(&url)));
    }
    let programs = daftar_test_needs::postgres_programs().ok_or("there is no PostgreSQL")?;
    let (dump, url) = (text(&register.folder.join("dump"))?, database.postgres.create_database());
    let run = |program: &str, arguments: [&str; 4]| {
        let status = Command::new(programs.join(program)).args(arguments).status();
        let is_done = status.map_err(|error| format!("{program}: {error}"))?.success();
        if is_done { Ok(()) } else { Err(format!("`{program}` failed")) }
    };
    run("pg_dump", ["--format=custom", "--file", &dump, &database.postgres.url(&database.name)])?;
    let started = Instant::now();
    run("pg_restore", ["--no-owner", "--dbname", &url, &dump])?;
    let seconds = Spread::of([started.elapsed().as_secs_f64()]);
    report.row(
        Row::new("postgres.one.pg-restore", "`pg_restore` of a dump", "s", seconds).column("PostgreSQL, 1 server"),
    );
    database.postgres.run_sql("postgres", &format!("DROP DATABASE {}", name_of(&url)));
    [backup, dump].iter().try_for_each(|file| std::fs::remove_file(file).map_err(|error| error.to_string()))
}

/// Drops the file pages that the system has in memory, which only root may; returns true if they were dropped.
fn drop_page_cache() -> bool {
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Measures reads of people at a server that has just started, and of the same people again. The first ones have no row
/// unless nothing of these people was in memory (`is_cold`).
fn reads_after_start(
    setup: &Setup,
    register: &Register,
    report: &mut Report,
    (id, what): (&str, &str),
    server: Server,
    is_cold: bool,
) -> Result<(), String> {
    server.ready()?;
    let token = server.token(&register.client)?;
    let mut connection = Connection::to(server.address)?;
    for (row, figure, is_reported) in [
        ("read-cold", "reads of people, 1 connection, nothing of them in memory: median", is_cold),
        ("read-warm", "the same people again: median", true),
    ] {
        let mut times = Vec::new();
        for number in 0..setup.times(COLD) {
            let request = get(&path(any(number, register.people)), &token);
            times.push(connection.timed(&request, 200)?.0 / 1e3);
        }
        if is_reported {
            report.row(Row::new(format!("postgres.{id}.{row}"), figure, "ms", Spread::of(times)).column(what));
        }
    }
    server.stop().map(drop)
}

/// The configuration of a server of that database.
fn settings_of(url: &str) -> String {
    format!("[store]\nbackend = \"postgres\"\n\n[store.postgres]\nurl = \"{url}\"\npool_max = 8\n")
}

/// The name of the database in a URL.
fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

/// Servers of a register, and the seconds that processors have worked for them and for the database.
struct Measured<'m> {
    setup: &'m Setup,
    register: &'m Register,
    id: &'m str,
    what: &'m str,
    servers: &'m [Server],
    worked: &'m dyn Fn() -> (f64, f64),
}

impl Measured<'_> {
    fn row(&self, report: &mut Report, id: &str, what: &str, unit: &'static str, value: Spread) {
        report.row(Row::new(format!("postgres.{}.{id}", self.id), what, unit, value).column(self.what));
    }

    fn run(&self, report: &mut Report, folder: &Path, config: Option<&Path>) -> Result<(), String> {
        let first = self.servers.first().ok_or("there is no server")?;
        let last = self.servers.last().ok_or("there is no server")?;
        let token = first.token(&self.register.client)?;
        self.row(
            report,
            "start",
            "start, until the server listens",
            "ms",
            Spread::of(self.servers.iter().map(|one| one.start_ms)),
        );
        self.servers.iter().try_for_each(Server::ready)?;
        let round = std::cell::Cell::new(0);
        let reads = || -> Make {
            let (people, token, first) = (self.register.people, token.clone(), round.get() * 10_000_000);
            round.set(round.get() + 1);
            Arc::new(move |number, buffer| {
                buffer.extend_from_slice(&get(&path(any(first + number, people)), &token));
                Some(0)
            })
        };
        for connections in [1, CONNECTIONS] {
            self.load(report, "read", "reads of any of all people", connections, &reads)?;
        }
        let mut connection = Connection::to(first.address)?;
        for (id, what, query) in [
            ("search-active", "search by `active=true`, exact total", "active=true"),
            ("search-name", "search by the beginning of a name, `tra`", "name=tra"),
            (
                "search-combined",
                "search by gender, birth date and region, sorted",
                "gender=urn:iso:std:iso:5218%232&birth_date=ge1980-01-01&region=central&_sort=-birth_date",
            ),
            (
                "search-offset",
                "search by region, sorted by name, from the 5,001st",
                "region=central&_sort=name&_offset=5000",
            ),
            ("search-last", "the people written last", "_sort=-_last_updated"),
        ] {
            let request = get(&format!("/api/v2/Individual?{query}&_count=20"), &token);
            let mut times = Vec::new();
            for _ in 0..self.setup.rounds() * self.setup.times(SEARCHES) {
                times.push(connection.timed(&request, 200)?.0 / 1e3);
            }
            self.row(report, id, what, "ms", Spread::of(times));
        }
        let window = self.setup.window().as_secs_f64();
        for connections in [1, CONNECTIONS, CONNECTIONS_MANY] {
            let count = (CREATES_MAX as f64 * window) as u64 / if connections == 1 { 8 } else { 1 };
            let creates = || once(self.register.creates(&token, count));
            self.load(report, "create", "creates with codes", connections, &creates)?;
        }
        self.previews(report, &mut connection, last, &token)?;
        let file = folder.join("people.ndjson");
        let imported = self.setup.people(IMPORTED);
        let place = ["embedded", "one", "memory", "three"].iter().position(|id| *id == self.id).unwrap_or_default();
        let number = FIRST + place as u64 * 10_000_000;
        people::write(&file, number..=number + imported - 1, &self.register.codes)?;
        let path = file.to_str().ok_or("a path is no text")?;
        let rate = import_rate(&run_command(folder, config, &["import", path])?)?;
        self.row(report, "import", "`daftar import`, records", "1/s", Spread::of([rate]));
        let resident = self.servers.iter().map(Server::resident_mib).fold(0.0, f64::max);
        self.row(report, "memory", "memory of the largest server", "MiB", Spread::of([resident]));
        Ok(())
    }

    fn load(
        &self,
        report: &mut Report,
        id: &str,
        what: &str,
        connections: usize,
        make: &dyn Fn() -> Make,
    ) -> Result<(), String> {
        let mut load = Load::new(([127, 0, 0, 1], 0).into(), connections, self.setup.window());
        load.addresses = self.servers.iter().map(|server| server.address).collect();
        let (database, held) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
        let grouped = std::cell::RefCell::new(Vec::new());
        let locked = || -> Result<(f64, f64), String> {
            self.servers.iter().try_fold((0.0, 0.0), |(seconds, groups), server| {
                let (more_seconds, more_groups) = server.histogram(LOCK_HELD)?;
                Ok((seconds + more_seconds, groups + more_groups))
            })
        };
        let rounds = Rounds::measure(
            self.setup.rounds(),
            || (self.worked)().0,
            || {
                let make = make();
                let (before, (held_before, groups_before), started) = ((self.worked)().1, locked()?, Instant::now());
                let taken = load.run(&make)?;
                let (seconds, (held_s, groups)) = (started.elapsed().as_secs_f64(), locked()?);
                held.borrow_mut().push((held_s - held_before) * 100.0 / seconds);
                grouped.borrow_mut().push(taken.count() as f64 / (groups - groups_before));
                database.borrow_mut().push(((self.worked)().1 - before) * 1e6 / taken.count() as f64);
                Ok(taken)
            },
        )?;
        let id = format!("{id}-{connections}");
        let what = format!("{what}, {}", crate::load::connections(connections));
        rounds.column(report, &format!("postgres.{}.{id}", self.id), &what, [None, None], Some(self.what));
        if self.id != "embedded" {
            let of_database = format!("{what}: processor time of the database for each");
            self.row(report, &format!("{id}.database"), &of_database, "µs", Spread::of(database.take()));
            if id.starts_with("create") {
                let of_lock = format!("{what}: share of the time in which the lock of writes is held");
                self.row(report, &format!("{id}.lock"), &of_lock, "%", Spread::of(held.take()));
                self.row(
                    report,
                    &format!("{id}.group"),
                    &format!("{what}: creates in a group"),
                    "",
                    Spread::of(grouped.take()),
                );
            }
        }
        Ok(())
    }

    /// The first preview of each rule, later ones, and those of one more person, whom another server wrote where there
    /// are several.
    fn previews(
        &self,
        report: &mut Report,
        connection: &mut Connection,
        last: &Server,
        token: &str,
    ) -> Result<(), String> {
        let rules = RULES.iter().filter(|rule| rule.name != "C");
        let rules = rules.map(|rule| (rule.name, rule.expression)).chain([("over regions of addresses", OF_RECORDS)]);
        for (name, expression) in rules {
            let request = preview(token, "individual", expression);
            let id = format!("preview-{}", if expression == OF_RECORDS { "records" } else { name }.to_lowercase());
            let first = ask(connection, &request, self.register.people)?;
            self.row(
                report,
                &format!("{id}.first"),
                &format!("preview of rule {name}, the first"),
                "ms",
                Spread::of([first]),
            );
            let mut later = Vec::new();
            for _ in 0..self.setup.times(PREVIEWS) {
                later.push(ask(connection, &request, self.register.people)?);
            }
            self.row(
                report,
                &format!("{id}.later"),
                &format!("preview of rule {name}, later"),
                "ms",
                Spread::of(later),
            );
            let mut after = Vec::new();
            for create in self.register.creates(token, self.setup.times(PREVIEWS)) {
                // A connection of its own: the previews before may take longer than a server waits for the next
                // request.
                Connection::to(last.address)?.timed(&create, 201)?;
                after.push(ask(connection, &request, self.register.people)?);
            }
            let what = format!("preview of rule {name}, each after a create");
            self.row(report, &format!("{id}.written"), &what, "ms", Spread::of(after));
        }
        Ok(())
    }
}
