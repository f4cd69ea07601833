//! The same register in the embedded store and in PostgreSQL, with one process and with three: the second table of `host/docs/SCALE.md`.
//!
//! The database runs on the machine that it shares with the processes and with the load. In brackets stands for how long processors worked for
//! one request, in the servers and in the database: what a machine for each would have to do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar_test_postgres::Server as Database;
use serde_json::{Value, json};

use crate::cpu;
use crate::import::write_from;
use crate::load::{self, Request};
use crate::mixed::{get, path};
use crate::people::{Codes, Dice, bodies, person};
use crate::program::Program;
use crate::register::{SEED, bytes_below};
use crate::server::program;
use crate::start::{make, runtime};

/// How many people the registers have, unless it is said.
const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// How many requests of each kind are timed.
const REQUESTS: u64 = 4_000;
/// How long each kind may take.
const ROUND: Duration = Duration::from_secs(10);
/// How many people are imported.
const IMPORTED: u64 = 50_000;
/// Where the numbers of imported people begin: far from those of the register.
const FIRST: u64 = 50_000_000;
/// How often each preview is made; the first finds nothing in memory.
const PREVIEWS: usize = 3;
/// What a machine of this size would be set up with. Writes are durable.
const SETTINGS: [(&str, &str); 7] = [
    ("shared_buffers", "2GB"),
    ("effective_cache_size", "12GB"),
    ("maintenance_work_mem", "512MB"),
    ("work_mem", "32MB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
    ("max_connections", "200"),
];
/// DESIGN's rules: over the columns of a person, and over households.
const RULES: [(&str, &str); 2] = [
    (
        "preview of everybody, rule A, first / later, ms",
        "me.gender == code('urn:iso:std:iso:5218#2') && age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60",
    ),
    (
        "preview of everybody, rule B (households), first / later, ms",
        "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)",
    ),
];

const AFTER_A_WRITE: [&str; 2] = ["… rule A, after a write, ms", "… rule B, after a write, ms"];

/// The seconds that processors have worked for the servers, and for the database.
type Worked<'w> = &'w dyn Fn() -> (f64, f64);

/// What was measured, by the name of its row.
type Column = Vec<(&'static str, String)>;

/// Measures registers of those sizes and prints a table of each.
pub fn run(sizes: &[String]) -> Result<(), String> {
    let sizes: Result<Vec<u64>, _> = sizes.iter().map(|size| size.parse()).collect();
    let sizes = sizes.map_err(|error| format!("a number of people is wanted: {error}"))?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    for people in sizes {
        println!("\n{people} people and a fifth as many households:\n");
        let columns = measure(people)?;
        let Some((_, first)) = columns.first() else { continue };
        let heads: Vec<&str> = columns.iter().map(|(head, _)| head.as_str()).collect();
        println!("| | {} |\n|---|{}", heads.join(" | "), "---:|".repeat(columns.len()));
        for (name, _) in first {
            let cells = columns.iter().map(|(_, column)| {
                let cell = column.iter().find(|(row, _)| row == name);
                cell.map_or("", |(_, value)| value.as_str())
            });
            println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
    Ok(())
}

fn measure(people: u64) -> Result<Vec<(String, Column)>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (_, token) = make(folder.path(), people)?;
    let embedded = Program::start(folder.path())?;
    eprintln!("postgres: {people} people, embedded");
    let mut columns = Vec::new();
    let disk = bytes_below(&folder.path().join("data").join("store"))?;
    let mut column = vec![("on disk, MB", mb(disk)), ("copied by `daftar migrate`, things a second", String::new())];
    column.push(("compared, things a second", String::new()));
    column.push(("start, ms", format!("{:.0}", embedded.start_ms)));
    let worked = || (embedded.cpu_seconds(), 0.0);
    let rounds = Rounds { people, token: &token, base: 100_000_000, worked: &worked };
    rounds.measure(&[embedded.address], folder.path(), &mut column)?;
    column.push(("resident, MB", format!("{:.0}", embedded.resident_mb())));
    columns.push(("embedded, 1 process".to_owned(), column));
    embedded.stop()?;

    let database = Database::start(&SETTINGS);
    let url = database.create_database();
    let config = folder.path().join("daftar.toml");
    // The keys are copied into each folder, as if it were a volume that all have.
    let text = format!("[store]\nbackend = \"postgres\"\n\n[store.postgres]\nurl = \"{url}\"\npool_max = 8\n");
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    eprintln!("postgres: migrating");
    let moved = migrate(&folder.path().join("data"), &config)?;
    let name = url.rsplit('/').next().unwrap_or_default().to_owned();
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        database.run_sql(&name, statement);
    }
    let size = database.run_sql(&name, &format!("SELECT pg_database_size('{name}')"));
    for processes in [1, 3] {
        eprintln!("postgres: {people} people, {processes} processes");
        let mut column = vec![("on disk, MB", mb(size.parse().unwrap_or_default()))];
        if processes == 1 {
            column.push(("copied by `daftar migrate`, things a second", format!("{:.0}", moved.copied_per_s)));
            column.push(("compared, things a second", format!("{:.0}", moved.compared_per_s)));
        }
        let folders: Result<Vec<PathBuf>, String> =
            (0..processes).map(|number| beside(folder.path(), processes, number)).collect();
        let folders = folders?;
        let programs: Result<Vec<Program>, String> = folders
            .iter()
            .map(|folder| Program::start_with(folder, &["--config".as_ref(), config.as_os_str()]))
            .collect();
        let programs = programs?;
        let starts = programs.iter().map(|program| program.start_ms).fold(0.0, f64::max);
        column.push(("start, ms", format!("{starts:.0}")));
        let addresses: Vec<SocketAddr> = programs.iter().map(|program| program.address).collect();
        let worked = || {
            let servers = programs.iter().map(Program::cpu_seconds).sum();
            (servers, database.pid().map_or(0.0, cpu::seconds))
        };
        let rounds = Rounds { people, token: &token, base: 200_000_000 * processes, worked: &worked };
        let first = folders.first().ok_or("there is no process")?;
        rounds.measure(&addresses, first, &mut column)?;
        let resident = programs.iter().map(Program::resident_mb).fold(0.0, f64::max);
        column.push(("resident, MB", format!("{resident:.0}")));
        columns.push((format!("PostgreSQL, {processes} process{}", if processes == 1 { "" } else { "es" }), column));
        for program in programs {
            program.stop()?;
        }
    }
    Ok(columns)
}

fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}

/// A data folder for one process: the keys are those of all.
pub fn beside(folder: &Path, processes: u64, number: u64) -> Result<PathBuf, String> {
    let own = folder.join(format!("process-{processes}-{number}"));
    let data = own.join("data");
    let io = |error: std::io::Error| error.to_string();
    for part in ["keys", "compiled", "plugins"] {
        let (from, to) = (folder.join("data").join(part), data.join(part));
        std::fs::create_dir_all(&to).map_err(io)?;
        let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(&to).status().map_err(io)?;
        if !copied.success() {
            return Err(format!("`{}` cannot be copied", from.display()));
        }
    }
    Ok(own)
}

/// How fast a register was moved.
pub struct Moved {
    copied_per_s: f64,
    compared_per_s: f64,
}

/// Moves the register as an operator does.
pub fn migrate(data: &Path, config: &Path) -> Result<Moved, String> {
    let run = |more: &[&str]| {
        let started = Instant::now();
        let mut command = Command::new(program()?);
        command.args(["migrate", "--from", "sled", "--to", "postgres", "--json"]).args(more);
        command.arg("--data-dir").arg(data).arg("--config").arg(config).stdin(Stdio::null());
        let finished = command.output().map_err(|error| error.to_string())?;
        if !finished.status.success() {
            return Err(String::from_utf8_lossy(&finished.stderr).into_owned());
        }
        let told: Value = serde_json::from_slice(&finished.stdout).map_err(|error| error.to_string())?;
        let same = told.get("same").and_then(Value::as_object).into_iter().flatten();
        let things: f64 = same.filter_map(|(_, count)| count.as_f64()).sum();
        Ok::<_, String>((things, started.elapsed().as_secs_f64()))
    };
    let (things, both) = run(&[])?;
    let (_, compared) = run(&["--compare"])?;
    Ok(Moved { copied_per_s: things / (both - compared).max(0.001), compared_per_s: things / compared })
}

/// What is done with a register, whichever keeps it.
struct Rounds<'r> {
    people: u64,
    token: &'r str,
    /// Where the numbers of people begin that are created.
    base: u64,
    worked: Worked<'r>,
}

impl Rounds<'_> {
    fn measure(&self, addresses: &[SocketAddr], folder: &Path, column: &mut Column) -> Result<(), String> {
        let runtime = runtime()?;
        let mut time =
            |what: [&'static str; 2], connections: usize, request: &dyn Fn(u64) -> Result<Vec<u8>, String>| {
                let requests: Result<Vec<Request>, String> =
                    (0..REQUESTS).map(|number| Ok(Request { kind: 0, bytes: request(number)? })).collect();
                let before = (self.worked)();
                let (taken, answers) = runtime.block_on(together(addresses, Arc::new(requests?), connections))?;
                let cost = cost(before, (self.worked)(), answers as f64);
                column.push((what[0], format!("{:.2} / {:.2}", taken.median_us / 1e3, taken.p99_us / 1e3)));
                column.push((what[1], format!("{:.0} ({cost})", taken.per_second)));
                Ok::<_, String>(())
            };
        let read = |number| Ok(get(&path(Dice::new(SEED, number).below(self.people) + 1)?, self.token));
        time(["read by identifier, 1 connection, median / p99 ms", "… a second"], 1, &read)?;
        time(["read by identifier, 18 connections, median / p99 ms", "… a second "], 18, &read)?;
        let search = |query: &'static str| move |_| Ok(get(&format!("/Individual?{query}&_count=20"), self.token));
        let everybody = search("active=true");
        time(["search of everybody in use, exact total, median / p99 ms", "… a second  "], 1, &everybody)?;
        let by_name = search("name=tra");
        time(["search by the beginning of a name, median / p99 ms", "… a second   "], 1, &by_name)?;
        let combined =
            search("gender=urn:iso:std:iso:5218%232&birth_date=ge1980-01-01&region=central&_sort=-birth_date");
        time(["search by gender, birth date and region, sorted, median / p99 ms", "… a second    "], 1, &combined)?;
        let alone = |number| self.create(self.base + number);
        let all = |number| self.create(self.base + 1_000_000 + number);
        time(["create, 1 connection, median / p99 ms", "… a second     "], 1, &alone)?;
        time(["create, 18 connections, median / p99 ms", "… a second      "], 18, &all)?;
        for (name, rule) in RULES {
            column.push((name, runtime.block_on(self.preview(addresses, rule))?));
        }
        let mut newcomers = self.base + 2_000_000..;
        for (name, (_, rule)) in AFTER_A_WRITE.into_iter().zip(RULES) {
            column.push((name, runtime.block_on(self.preview_after_a_write(addresses, rule, &mut newcomers))?));
        }
        column.push(("import by `daftar import`, records a second", self.import(folder)?));
        Ok(())
    }

    /// How long a preview takes that finds everything in memory but one person, who came since.
    async fn preview_after_a_write(
        &self,
        addresses: &[SocketAddr],
        rule: &str,
        newcomers: &mut std::ops::RangeFrom<u64>,
    ) -> Result<String, String> {
        let mut least = f64::INFINITY;
        for number in newcomers.take(PREVIEWS) {
            // By the last of the processes, which is not the one that is asked.
            let address = *addresses.last().ok_or("there is no process")?;
            let request = vec![Request { kind: 0, bytes: self.create(number)? }];
            load::run_once(address, Arc::new(request), 1, ROUND).await?;
            let (_, seconds) = self.previewed(addresses, rule).await?;
            least = least.min(seconds * 1e3);
        }
        Ok(format!("{least:.0}"))
    }

    fn create(&self, number: u64) -> Result<Vec<u8>, String> {
        // No codes: their numbers are not known here.
        let codes =
            Codes { genders: Vec::new(), marital_statuses: Vec::new(), occupations: Vec::new(), roles: Vec::new() };
        let generation = daftar::vocab::GenerationBuilder::new().build(Arc::default());
        let generation = generation.map_err(|_| "an empty generation cannot be made".to_owned())?;
        let body = bodies::body(&*person(SEED, number, &codes)?, &generation);
        Ok(bodies::request("POST", "/Individual", self.token, "", &body))
    }

    async fn preview(&self, addresses: &[SocketAddr], rule: &str) -> Result<String, String> {
        let before = (self.worked)();
        let mut times = Vec::new();
        for _ in 0..PREVIEWS {
            let (total, seconds) = self.previewed(addresses, rule).await?;
            if total < self.people {
                return Err(format!("a preview counted {total} people only"));
            }
            times.push(seconds * 1e3);
        }
        let (first, later) = (times.first().copied().unwrap_or_default(), times.iter().skip(1).copied());
        let (servers, database) = (self.worked)();
        let work = (servers - before.0, database - before.1);
        let later = later.fold(f64::INFINITY, f64::min);
        Ok(format!("{first:.0} / {later:.0} ({:.1} / {:.1} s)", work.0, work.1))
    }

    /// How many the preview was about, and how many seconds it took.
    async fn previewed(&self, addresses: &[SocketAddr], rule: &str) -> Result<(u64, f64), String> {
        let address = *addresses.first().ok_or("there is no process")?;
        let body = json!({"expression": rule, "subject": "individual"}).to_string();
        let request = format!(
            "POST /api/v2/Eligibility/$preview HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let requests = vec![Request { kind: 0, bytes: request.into_bytes() }];
        let (of_kind, seconds) = load::run_once(address, Arc::new(requests), 1, Duration::from_secs(300)).await?;
        let answer = of_kind.first().map(|of_kind| of_kind.body.clone()).unwrap_or_default();
        let told: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        let total = told.get("total").and_then(Value::as_u64);
        let total = total.ok_or_else(|| format!("a preview was not made: {}", String::from_utf8_lossy(&answer)))?;
        Ok((total, seconds))
    }

    /// Imports into the running server of a folder, as an operator does.
    fn import(&self, folder: &Path) -> Result<String, String> {
        let file = folder.join("people.ndjson");
        write_from(&file, IMPORTED, FIRST + self.base).map_err(|error| error.to_string())?;
        let before = (self.worked)();
        let told = runtime()?.block_on(crate::import::import(folder, &file))?;
        let seconds = told.get("seconds").and_then(Value::as_f64).unwrap_or(f64::NAN);
        let records = told.get("created").and_then(Value::as_f64).unwrap_or(f64::NAN);
        Ok(format!("{:.0} ({})", records / seconds, cost(before, (self.worked)(), records)))
    }
}

/// The time of processors for each of some things: servers / database, in microseconds.
fn cost(before: (f64, f64), after: (f64, f64), things: f64) -> String {
    let each = |before: f64, after: f64| (after - before) * 1e6 / things;
    format!("{:.0} / {:.0} µs", each(before.0, after.0), each(before.1, after.1))
}

/// Sends requests to all processes at the same time; with how many answers came.
async fn together(
    addresses: &[SocketAddr],
    requests: Arc<Vec<Request>>,
    connections: usize,
) -> Result<(crate::write::Taken, usize), String> {
    let used = addresses.len().min(connections);
    let each = connections / used.max(1);
    let share = requests.len() / used.max(1);
    let mut rounds = tokio::task::JoinSet::new();
    for (number, address) in addresses.iter().take(used).enumerate() {
        let part = requests.iter().skip(number * share).take(share);
        let part: Vec<Request> = part.map(|request| Request { kind: 0, bytes: request.bytes.clone() }).collect();
        let address = *address;
        rounds.spawn(async move { load::run_once(address, Arc::new(part), each, ROUND).await });
    }
    let (mut times_us, mut longest) = (Vec::new(), 0.0_f64);
    while let Some(round) = rounds.join_next().await {
        let (of_kind, seconds) = round.map_err(|error| error.to_string())??;
        times_us.extend(of_kind.into_iter().flat_map(|of_kind| of_kind.times_us));
        longest = longest.max(seconds);
    }
    times_us.sort_unstable_by(f64::total_cmp);
    let answers = times_us.len();
    Ok((crate::write::Taken::of(&[load::OfKind { times_us, ..load::OfKind::default() }], longest), answers))
}
