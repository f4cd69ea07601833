//! What somebody at the workbench waits for, in a real browser without a window: until the page can be used, and how long it ever stands
//! still while a hundred thousand people are asked about.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::Program;
use crate::server::{artifacts_folder, program};
use crate::start::make;

/// How many people the register has.
const PEOPLE: u64 = 100_000;
/// How often all of it is done, each time in a browser that has kept nothing.
const ROUNDS: usize = 3;
/// What leads the browser.
const SCRIPTS: [&str; 2] = ["leader.mjs", "measure.mjs"];

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    drop(make(folder.path(), PEOPLE)?);
    while daftar::plugin::is_in_use(&folder.path().join("data").join("plugins")) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let server = Program::start(folder.path())?;
    let client = client(folder.path())?;
    let place = artifacts_folder()?.join("clients/browser");
    for script in SCRIPTS {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("workbench").join(script);
        std::fs::copy(source, place.join(script)).map_err(|error| format!("`{script}`: {error}"))?;
    }
    let given = json!({
        "url": format!("http://{}", server.address),
        "chromium": chromium()?,
        "pictures": folder.path().join("pictures"),
        "client": client,
        "rule": "is_female(me) && age_years(me.birth_date) >= 60",
        "other": "age_years(me.birth_date) >= 65",
    });
    println!("workbench: over {PEOPLE} people; targets: first paint 1,000 ms, no task of more than 100 ms");
    for _ in 0..ROUNDS {
        let figures = measure(&place, &given)?;
        let told: Vec<String> = figures.iter().map(|(name, value)| format!("{name} {value}")).collect();
        println!("workbench: {}", told.join(", "));
    }
    server.stop().map(drop)
}

fn client(folder: &Path) -> Result<Value, String> {
    let mut create = Command::new(program()?);
    create.args(["client", "create", "--name", "analyst", "--rate-limit-per-minute", "600", "--json", "--data-dir"]);
    create.arg(folder.join("data"));
    for scope in ["eligibility:read", "individual:read", "group:read", "vocabulary:read"] {
        create.args(["--scope", scope]);
    }
    let output = create.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("no client: {error}"))
}

fn chromium() -> Result<std::path::PathBuf, String> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places).map(|folder| folder.join("chromium")).find(|path| path.is_file());
    found.ok_or_else(|| "`chromium` is not on this machine".to_owned())
}

/// One round in a browser of its own.
fn measure(place: &Path, given: &Value) -> Result<serde_json::Map<String, Value>, String> {
    let mut node = Command::new("node");
    node.arg(place.join("measure.mjs")).env("DAFTAR_WORKBENCH_WALK", given.to_string()).stdin(Stdio::null());
    let output = node.output().map_err(|error| format!("`node`: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let figures = told.lines().find_map(|line| line.strip_prefix("figures "));
    let figures = figures.and_then(|text| serde_json::from_str(text).ok());
    figures.ok_or_else(|| format!("the browser came to no end: {told}{}", String::from_utf8_lossy(&output.stderr)))
}
