//! `daftar import` of people in households: into a running server, with readers beside it, and into a stopped one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::load;
use crate::people::{Dice, HOUSEHOLD, name};
use crate::read;
use crate::server::{Server, program};

/// How many people the file has, where `DAFTAR_BENCH_PEOPLE` names no other number.
const PEOPLE: u64 = 100_000;
const SEED: u64 = 20_260_301;
/// How many connections read while the import runs; one request after the other on each.
const READERS: usize = 1;
/// How long the readers measure a quiet server, and how long they measure at most.
const QUIET: Duration = Duration::from_secs(3);

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let people = std::env::var_os("DAFTAR_BENCH_PEOPLE").and_then(|text| text.to_str()?.parse().ok());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure(people.unwrap_or(PEOPLE)))
}

async fn measure(people: u64) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("people.ndjson");
    let bytes = write(&file, people).map_err(|error| error.to_string())?;
    println!("import: {people} people in households of {HOUSEHOLD}, {} MB", bytes / 1_000_000);

    let running = folder.path().join("running");
    std::fs::create_dir(&running).map_err(|error| error.to_string())?;
    let server = Server::start(&running).await?;
    read::fill(&server).await?;
    let requests = (1..=read::PEOPLE).map(|number| read::request(&server.token, number));
    let requests = Arc::new(requests.collect::<Vec<_>>());
    let quiet = load::run(server.address, requests.clone(), READERS, QUIET).await?;
    let told = import(&running, &file).await?;
    say("into a running server", people, &told);
    let again = folder.path().join("again.ndjson");
    write_from(&again, people, people * 10).map_err(|error| error.to_string())?;
    let import = import(&running, &again);
    let busy = load::run(server.address, requests, READERS, Duration::from_secs((people / 25_000).max(2)));
    let (told, busy) = tokio::join!(import, busy);
    let busy = busy?;
    say("the same with a reader beside it", people, &told?);
    println!(
        "import: reads of one record while it runs: median {:.0} us, p99 {:.0} us (quiet: {:.0} us, {:.0} us)",
        busy.median_us, busy.p99_us, quiet.median_us, quiet.p99_us
    );
    server.stop().await;

    let stopped = folder.path().join("stopped");
    std::fs::create_dir(&stopped).map_err(|error| error.to_string())?;
    Server::start(&stopped).await?.stop().await;
    std::fs::rename(&file, folder.path().join("stopped.ndjson")).map_err(|error| error.to_string())?;
    let told = self::import(&stopped, &folder.path().join("stopped.ndjson")).await?;
    say("into a stopped server", people, &told);
    Ok(())
}

fn say(how: &str, people: u64, told: &Value) {
    let seconds = told.get("seconds").and_then(Value::as_f64).unwrap_or_default();
    let lines = told.get("read").and_then(Value::as_f64).unwrap_or_default();
    println!(
        "import: {how}: {:.0} individuals/s, {:.0} lines/s, {seconds:.1} s (target 12000 individuals/s); {told}",
        people as f64 / seconds,
        lines / seconds
    );
}

/// Imports as an operator does, by the program; what it told.
pub async fn import(folder: &Path, file: &Path) -> Result<Value, String> {
    let (folder, file, program): (PathBuf, PathBuf, PathBuf) = (folder.join("data"), file.to_owned(), program()?);
    let finished = tokio::task::spawn_blocking(move || {
        let mut command = std::process::Command::new(program);
        command.arg("import").arg(file).arg("--json").arg("--data-dir").arg(folder).stdin(Stdio::null()).output()
    });
    let finished = finished.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    if !finished.status.success() {
        return Err(String::from_utf8_lossy(&finished.stderr).into_owned());
    }
    serde_json::from_slice(&finished.stdout).map_err(|error| error.to_string())
}

fn write(path: &Path, people: u64) -> std::io::Result<u64> {
    write_from(path, people, 0)
}

/// People, and after those of a household the household, into a file; how many bytes it has.
pub fn write_from(path: &Path, people: u64, first: u64) -> std::io::Result<u64> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut bytes = 0;
    let mut line = |value: Value| {
        let text = format!("{value}\n");
        bytes += text.len() as u64;
        out.write_all(text.as_bytes())
    };
    let id = |number: u64| json!([{"system": "urn:svc:vocab:id-type#national_id", "value": format!("P{:08}", first + number)}]);
    for number in 0..people {
        let mut dice = Dice::new(SEED, first + number);
        let called = name(&mut dice);
        let day = jiff::civil::date(1930 + dice.below(95) as i16, 1 + dice.below(12) as i8, 1 + dice.below(28) as i8);
        line(json!({
            "type": "Individual", "identifier": id(number), "active": true,
            "name": {"given": called.given, "family": called.family},
            "birth_date": day.to_string(),
            "gender": format!("urn:iso:std:iso:5218#{}", 1 + dice.below(2)),
            "marital_status": "urn:un:unsd:pop-census:marital-status#M",
            "country": "urn:iso:std:iso:3166-1#SN",
            "address": [{"district": format!("District {}", dice.below(200)), "region": format!("Region {}", dice.below(14))}]
        }))?;
        if number % HOUSEHOLD == HOUSEHOLD - 1 {
            let members = (number + 1 - HOUSEHOLD..=number).map(|member| {
                let role = if member % HOUSEHOLD == 0 { "head" } else { "child" };
                let reference = format!("Individual/urn:svc:vocab:id-type#national_id|P{:08}", first + member);
                json!({"entity": {"reference": reference}, "role": format!("urn:svc:vocab:relationship#{role}")})
            });
            let identifier =
                json!([{"system": "urn:svc:vocab:id-type#tax_id", "value": format!("H{:08}", first + number)}]);
            line(json!({
                "type": "Group", "identifier": identifier, "group_type": "urn:svc:vocab:group-type#household",
                "member": members.collect::<Vec<_>>()
            }))?;
        }
    }
    out.flush()?;
    Ok(bytes)
}
