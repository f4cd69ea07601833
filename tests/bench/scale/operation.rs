//! What an operator does with a register: import, backup, check, restore, each by the program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::import::{import, write_from};
use crate::load;
use crate::mixed::{get, path};
use crate::people::Dice;
use crate::program::Program;
use crate::register::SEED;
use crate::server::program;

use super::{Column, mb};

/// How many people are imported.
const IMPORTED: u64 = 50_000;
/// Where the numbers of imported people begin: far from those of the register.
const FIRST: u64 = 50_000_000;

/// Imports into a running server, makes a backup of it while it is read, stops it, looks the folder through and restores the backup.
pub(super) fn measure(
    folder: &Path,
    people: u64,
    token: &str,
    server: Program,
    runtime: &tokio::runtime::Runtime,
    column: &mut Column,
) -> Result<(), String> {
    let file = folder.join("people.ndjson");
    write_from(&file, IMPORTED, FIRST).map_err(|error| error.to_string())?;
    let told = runtime.block_on(import(folder, &file))?;
    let seconds = told.get("seconds").and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    let records = told.get("created").and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    column.push(("import into the running server, records a second", format!("{:.0}", records / seconds)));

    let data = folder.join("data");
    let backup = folder.join("register.daftar");
    let requests: Result<Vec<Vec<u8>>, String> =
        (0..10_000).map(|number| Ok(get(&path(Dice::new(SEED, number).below(people) + 1)?, token))).collect();
    let address = server.address;
    let (made, read) = runtime.block_on(async {
        let (data, backup) = (data.clone(), backup.clone());
        let made = tokio::task::spawn_blocking(move || run("backup", &[&backup], &data));
        // About as long as the backup takes.
        let read = load::run(address, Arc::new(requests?), 1, Duration::from_millis((people / 100).max(200)));
        let (made, read) = tokio::join!(made, read);
        Ok::<_, String>((made.map_err(|error| error.to_string())??, read?))
    })?;
    column.push(("backup of the running server, s", format!("{made:.1}")));
    column.push((
        "… read by identifier meanwhile, median / p99 ms",
        format!("{:.2} / {:.2}", read.median_us / 1e3, read.p99_us / 1e3),
    ));
    let bytes = std::fs::metadata(&backup).map_err(|error| error.to_string())?.len();
    column.push(("… its file, MB", mb(bytes)));
    server.stop()?;
    column.push(("verify of the stopped folder, s", format!("{:.1}", run("verify", &[], &data)?)));
    let restored = folder.join("restored");
    column.push(("restore, looked through at its end, s", format!("{:.1}", run("restore", &[&backup], &restored)?)));
    Ok(())
}

/// Runs a command on a data folder; how many seconds it took.
fn run(command: &str, arguments: &[&Path], data: &Path) -> Result<f64, String> {
    let started = Instant::now();
    let mut program = Command::new(program()?);
    program.arg(command).args(arguments).arg("--json").arg("--data-dir").arg(data).stdin(Stdio::null());
    let finished = program.output().map_err(|error| error.to_string())?;
    if !finished.status.success() {
        let told = String::from_utf8_lossy(&finished.stderr);
        return Err(format!("`daftar {command}` failed: {told}"));
    }
    Ok(started.elapsed().as_secs_f64())
}
