//! `$preview` over a whole register, over HTTP: warm, after a start from the checkpoint and from the records; what ordinary reads notice
//! meanwhile, and what it takes of memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar::domain::subject::Subject;
use serde_json::{Value, json};

use super::RULES;
use crate::codes::{median_and_p99, millis};
use crate::load::{self, Request};
use crate::mixed::{get, path};
use crate::people::{Dice, bodies};
use crate::program::Program;
use crate::register::SEED;
use crate::start::{make, runtime};

/// How often each preview is asked once the columns are warm.
const WARM: usize = 21;
/// How often the server is started from its checkpoint.
const STARTS: usize = 5;
/// A rule over a field that is no column: what is read of records is kept for the next time.
const OF_RECORDS: &str = "me.address.exists(a, a.region == 'Central') && is_female(me)";
/// How many connections read meanwhile, and how many ask previews.
const READERS: usize = 2;
const ASKERS: usize = 2;
/// How long reads are measured.
const ROUND: Duration = Duration::from_secs(5);
const REQUESTS_MAX: u64 = 200_000;

/// Measures a register of so many people.
pub fn measure(people: u64) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (_, token) = make(folder.path(), people)?;
    while daftar::plugin::is_in_use(&folder.path().join("data").join("plugins")) {
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("eligibility: previews over {people} people and their households, over HTTP");
    // The first start after everything was written is longer than others: the store makes up its own files.
    first(folder.path(), &token, 1)?.print("the checkpoint, right after everything was written", "500");
    first(folder.path(), &token, STARTS)?.print("the checkpoint", "500");
    // As after a crash that left no checkpoint: it is made anew when this one stops.
    remove_checkpoints(folder.path())?;
    first(folder.path(), &token, 1)?.print("the records", "3,000");

    let program = Program::start(folder.path())?;
    let before_mb = program.resident_mb();
    for rule in &RULES {
        let mut times = Vec::with_capacity(WARM);
        let mut answer = Value::Null;
        for _ in 0..WARM {
            let (ms, counted) = ask(&program, &token, rule.subject, rule.expression)?;
            times.push(ms);
            answer = counted;
        }
        let (median, _) = median_and_p99(&mut times);
        let most = times.iter().copied().fold(0.0, f64::max);
        println!(
            "eligibility: preview of rule {}, warm: median {median:.1} ms, at most {most:.1} ms (target 50); {}",
            rule.name,
            counts(&answer)
        );
    }
    let (reads, answer) = ask(&program, &token, Subject::Individual, OF_RECORDS)?;
    let mut again = Vec::with_capacity(WARM);
    for _ in 0..WARM {
        again.push(ask(&program, &token, Subject::Individual, OF_RECORDS)?.0);
    }
    let (again, _) = median_and_p99(&mut again);
    println!(
        "eligibility: preview by region, read of the records: {reads:.0} ms, then {again:.1} ms; {}",
        counts(&answer)
    );
    println!("eligibility: memory {before_mb:.0} MB before previews, {:.0} MB after them", program.resident_mb());
    meanwhile(&program, &token, people)?;
    program.stop().map(drop)
}

/// How long a start and the first preview after it take, in milliseconds.
struct First {
    start_ms: f64,
    preview_ms: f64,
}

impl First {
    fn print(&self, from: &str, target: &str) {
        println!(
            "eligibility: from {from}: the server listens after {:.0} ms, the first preview of a rule takes {:.1} ms, both {:.0} ms (target {target})",
            self.start_ms,
            self.preview_ms,
            self.start_ms + self.preview_ms
        );
    }
}

/// The medians of so many starts, each with one preview.
fn first(folder: &Path, token: &str, starts: usize) -> Result<First, String> {
    let rule = RULES.first().ok_or("there is no rule")?;
    let (mut start_ms, mut preview_ms) = (Vec::new(), Vec::new());
    for _ in 0..starts {
        let program = Program::start(folder)?;
        start_ms.push(program.start_ms);
        preview_ms.push(ask(&program, token, rule.subject, rule.expression)?.0);
        program.stop()?;
    }
    Ok(First { start_ms: median_and_p99(&mut start_ms).0, preview_ms: median_and_p99(&mut preview_ms).0 })
}

fn remove_checkpoints(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder.join("data").join("checkpoints")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn request(token: &str, subject: Subject, expression: &str) -> Vec<u8> {
    let subject = match subject {
        Subject::Individual => "individual",
        Subject::Group => "group",
    };
    let body = json!({"expression": expression, "subject": subject, "as_of": "2026-03-01"});
    bodies::request("POST", "/Eligibility/$preview", token, "", &body.to_string())
}

/// Asks one preview: how many milliseconds the answer took, and what it was.
fn ask(program: &Program, token: &str, subject: Subject, expression: &str) -> Result<(f64, Value), String> {
    let requests = Arc::new(vec![Request { kind: 0, bytes: request(token, subject, expression) }]);
    let started = Instant::now();
    let (taken, _) = runtime()?.block_on(load::run_once(program.address, requests, 1, Duration::from_secs(600)))?;
    let ms = taken.first().map_or_else(|| millis(started), |taken| taken.at(0.5) / 1e3);
    let body = taken.first().map(|taken| taken.body.as_slice()).unwrap_or_default();
    Ok((ms, serde_json::from_slice(body).map_err(|error| error.to_string())?))
}

fn counts(answer: &Value) -> String {
    let count = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or_default();
    format!("{} of {} eligible, {} undetermined", count("eligible"), count("total"), count("undetermined"))
}

/// What ordinary reads take alone, and while previews follow upon each other.
fn meanwhile(program: &Program, token: &str, people: u64) -> Result<(), String> {
    let read = |number| {
        let person = Dice::new(SEED, number).below(people) + 1;
        Ok(Request { kind: 0, bytes: get(&path(person)?, token) })
    };
    let reads: Result<Vec<Request>, String> = (0..REQUESTS_MAX).map(read).collect();
    let reads = Arc::new(reads?);
    let previews = RULES.iter().map(|rule| request(token, rule.subject, rule.expression));
    let previews: Arc<Vec<Vec<u8>>> = Arc::new(previews.collect());
    let address = program.address;
    let (alone, beside, asked) = runtime()?.block_on(async {
        let (alone, _) = load::run_once(address, Arc::clone(&reads), READERS, ROUND).await?;
        let asking = load::run(address, previews, ASKERS, ROUND);
        let reading = load::run_once(address, reads, READERS, ROUND);
        let (asked, beside) = tokio::join!(asking, reading);
        Ok::<_, String>((alone, beside?.0, asked?))
    })?;
    let of = |taken: &[load::OfKind], part: f64| taken.first().map_or(0.0, |taken| taken.at(part) / 1e3);
    println!(
        "eligibility: reads by identifier over {READERS} connections: median {:.2} ms, p99 {:.2} ms; beside {:.1} previews a second (each {:.0} ms): median {:.2} ms, p99 {:.2} ms",
        of(&alone, 0.5),
        of(&alone, 0.99),
        asked.per_second,
        asked.median_us / 1e3,
        of(&beside, 0.5),
        of(&beside, 0.99)
    );
    Ok(())
}
