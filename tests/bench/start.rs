//! How long a server takes to start and what it holds in memory: from its checkpoint, from the records, after a kill.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::load::{self, Request};
use crate::people::{Codes, bodies, person};
use crate::program::Program;
use crate::register::{SEED, bytes_below, fill};
use crate::server::Server;

/// How many people the registers have.
const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// How often each start is done.
const STARTS: usize = 3;
/// How many people are created before the kill.
const BEFORE_KILL: u64 = 10_000;

/// What the starts of one register took.
pub struct Starts {
    /// From the checkpoint, in milliseconds.
    pub checkpoint_ms: f64,
    /// From the records.
    pub records_ms: f64,
    /// After a kill, with ten thousand creates since the checkpoint.
    pub killed_ms: f64,
    /// How long an orderly stop took that made a checkpoint.
    pub stop_ms: f64,
    /// In memory after a start from the checkpoint, in MiB.
    pub resident_mb: f64,
    /// In memory after a start from the records, in MiB.
    pub resident_records_mb: f64,
    /// The length of the checkpoint, in bytes.
    pub checkpoint_bytes: u64,
}

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    for people in SIZES {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (_, token) = make(folder.path(), people)?;
        let starts = measure(folder.path(), people, &token)?;
        println!(
            "start: {people:>7} people: checkpoint {:.0} ms, records {:.0} ms, after a kill with {BEFORE_KILL} creates since {:.0} ms; stop with a checkpoint {:.0} ms; resident {:.0} MB ({:.0} MB from the records); checkpoint {:.1} MB",
            starts.checkpoint_ms,
            starts.records_ms,
            starts.killed_ms,
            starts.stop_ms,
            starts.resident_mb,
            starts.resident_records_mb,
            starts.checkpoint_bytes as f64 / 1_048_576.0
        );
    }
    println!("start: targets: 300 ms and 150 MB with 10,000 records, 5,000 ms with 1,000,000");
    Ok(())
}

/// Makes a register in a folder, stopped in order; how long the people took, in seconds, and the token of a client.
pub fn make(folder: &Path, people: u64) -> Result<(f64, String), String> {
    runtime()?.block_on(async {
        let server = Server::start(folder).await?;
        let seconds = fill(&server, people).await?;
        let token = server.token.clone();
        server.stop().await;
        Ok((seconds, token))
    })
}

/// A runtime of its own, so that nothing of a server is left when it is over.
pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())
}

/// Starts the server's program on a register again and again.
pub fn measure(folder: &Path, people: u64, token: &str) -> Result<Starts, String> {
    let checkpoints = folder.join("data").join("checkpoints");
    // The server of this process may still be bringing its last writes to disk.
    while daftar::plugin::is_in_use(&folder.join("data").join("plugins")) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let checkpoint_bytes = bytes_below(&checkpoints)?;
    let (checkpoint_ms, resident_mb) = starts(folder, || Ok(()))?;
    let remove = || match std::fs::remove_dir_all(&checkpoints) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    };
    let (records_ms, resident_records_mb) = starts(folder, remove)?;
    remove()?;
    let stop_ms = Program::start(folder)?.stop()?;

    let program = Program::start(folder)?;
    create(&program, people, token)?;
    program.kill()?;
    let program = Program::start(folder)?;
    let killed_ms = program.start_ms;
    program.kill()?;
    Ok(Starts { checkpoint_ms, records_ms, killed_ms, stop_ms, resident_mb, resident_records_mb, checkpoint_bytes })
}

/// The middle of some starts, each ended by a kill, and what the last one held in memory.
fn starts(folder: &Path, before: impl Fn() -> Result<(), String>) -> Result<(f64, f64), String> {
    let mut times = Vec::new();
    let mut resident_mb = 0.0;
    for _ in 0..STARTS {
        before()?;
        let program = Program::start(folder)?;
        times.push(program.start_ms);
        resident_mb = program.resident_mb();
        program.kill()?;
    }
    Ok((crate::write::median(&mut times), resident_mb))
}

fn create(program: &Program, people: u64, token: &str) -> Result<(), String> {
    runtime()?.block_on(async {
        let request = |id| {
            // No codes: their numbers are not known here.
            let codes =
                Codes { genders: Vec::new(), marital_statuses: Vec::new(), occupations: Vec::new(), roles: Vec::new() };
            let person = person(SEED, id, &codes)?;
            let generation = daftar::vocab::GenerationBuilder::new().build(Arc::default());
            let generation = generation.map_err(|_| "an empty generation cannot be made".to_owned())?;
            let body = bodies::body(&person, &generation);
            Ok(Request { kind: 0, bytes: bodies::request("POST", "/Individual", token, "", &body) })
        };
        let first = people + 1;
        let requests: Result<Vec<Request>, String> = (first..first + BEFORE_KILL).map(request).collect();
        load::run_once(program.address, Arc::new(requests?), 16, Duration::from_secs(60)).await.map(drop)
    })
}
