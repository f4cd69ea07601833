//! How everything grows with the register, as a table for `host/docs/SCALE.md`.

mod operation;

use std::sync::Arc;
use std::time::Duration;

use crate::load::{self, Request};
use crate::mixed::{get, path};
use crate::people::{Codes, Dice, bodies, person};
use crate::program::Program;
use crate::register::{SEED, bytes_below};
use crate::start::{self, make, runtime};

/// How many people the registers have, unless it is said.
const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// How many requests of each kind are timed.
const REQUESTS: u64 = 4_000;
/// How long each kind may take.
const ROUND: Duration = Duration::from_secs(20);

/// Measures registers of those sizes and prints the table.
pub fn run(sizes: &[String]) -> Result<(), String> {
    let sizes: Result<Vec<u64>, _> = sizes.iter().map(|size| size.parse()).collect();
    let sizes = sizes.map_err(|error| format!("a number of people is wanted: {error}"))?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("Measured on {cores} cores, {:.0} GiB of memory.\n", memory_gib());
    let mut columns = Vec::new();
    for people in sizes {
        eprintln!("scale: {people} people");
        columns.push(measure(people)?);
    }
    let Some(first) = columns.first() else { return Ok(()) };
    for row in 0..first.len() {
        let cells = columns.iter().filter_map(|column| column.get(row));
        let name = first.get(row).map_or("", |(name, _)| *name);
        println!("| {name} | {} |", cells.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" | "));
        if row == 0 {
            println!("|---|{}", "---:|".repeat(columns.len()));
        }
    }
    Ok(())
}

fn memory_gib() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1_048_576.0
}

/// What was measured, by the name of its row.
type Column = Vec<(&'static str, String)>;

fn measure(people: u64) -> Result<Column, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (seconds, token) = make(folder.path(), people)?;
    let store = bytes_below(&folder.path().join("data").join("store"))?;
    let starts = start::measure(folder.path(), people, &token)?;
    let program = Program::start(folder.path())?;
    let address = program.address;
    let mut column = vec![
        ("people (and a fifth as many households)", people.to_string()),
        ("store on disk, MB", mb(store)),
        ("store on disk, bytes a record", format!("{:.0}", store as f64 / (people as f64 * 1.2))),
        ("checkpoint, MB", mb(starts.checkpoint_bytes)),
        ("resident after start from checkpoint, MB", format!("{:.0}", starts.resident_mb)),
        ("resident after start from records, MB", format!("{:.0}", starts.resident_records_mb)),
        ("start from checkpoint, ms", format!("{:.0}", starts.checkpoint_ms)),
        ("start from records, ms", format!("{:.0}", starts.records_ms)),
        ("start after a kill, 10,000 creates since the checkpoint, ms", format!("{:.0}", starts.killed_ms)),
        ("stop with a checkpoint, ms", format!("{:.0}", starts.stop_ms)),
        ("fill by single creates in process, a second", format!("{:.0}", people as f64 / seconds)),
    ];
    let runtime = runtime()?;
    let mut time = |what: [&'static str; 2], connections: usize, request: &dyn Fn(u64) -> Result<Vec<u8>, String>| {
        let requests: Result<Vec<Request>, String> =
            (0..REQUESTS).map(|number| Ok(Request { kind: 0, bytes: request(number)? })).collect();
        let requests = Arc::new(requests?);
        let (taken, seconds) = runtime.block_on(load::run_once(address, requests, connections, ROUND))?;
        let taken = crate::write::Taken::of(&taken, seconds);
        column.push((what[0], format!("{:.2} / {:.2}", taken.median_us / 1e3, taken.p99_us / 1e3)));
        column.push((what[1], format!("{:.0}", taken.per_second)));
        Ok::<_, String>(())
    };
    let one = |number: u64| Dice::new(SEED, number).below(people) + 1;
    let read = |number| Ok(get(&path(one(number))?, &token));
    time(["read by identifier, 1 connection, median / p99 ms", "… a second"], 1, &read)?;
    time(["read by identifier, 16 connections, median / p99 ms", "… a second"], 16, &read)?;
    let search = |query: &'static str| {
        let token = token.clone();
        move |_| Ok(get(&format!("/Individual?{query}&_count=20"), &token))
    };
    let by_name = search("name=tra");
    time(["search by the beginning of a name, 1 connection, median / p99 ms", "… a second"], 1, &by_name)?;
    let combined = search("gender=urn:iso:std:iso:5218%232&birth_date=ge1980-01-01&region=central&_sort=-birth_date");
    time(
        ["search by gender, birth date and region, sorted, 1 connection, median / p99 ms", "… a second"],
        1,
        &combined,
    )?;
    let create = |from: u64| {
        let token = token.clone();
        move |number: u64| {
            let codes =
                Codes { genders: Vec::new(), marital_statuses: Vec::new(), occupations: Vec::new(), roles: Vec::new() };
            let generation = daftar::vocab::GenerationBuilder::new().build(Arc::default());
            let generation = generation.map_err(|_| "an empty generation cannot be made".to_owned())?;
            let body = bodies::body(&*person(SEED, from + number, &codes)?, &generation);
            Ok(bodies::request("POST", "/Individual", &token, "", &body))
        }
    };
    let (alone, together) = (create(people + 100_000), create(people + 200_000));
    time(["create, 1 connection, median / p99 ms", "… a second"], 1, &alone)?;
    time(["create, 16 connections, median / p99 ms", "… a second"], 16, &together)?;
    operation::measure(folder.path(), people, &token, program, &runtime, &mut column)?;
    Ok(column)
}

fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}
