//! What an ordinary request notices while a plugin misbehaves, and how soon the plugin is stopped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daftar::app::AppState;
use daftar::domain::audit::Actor;
use daftar::domain::eligibility::{Schema, Subject};
use daftar::domain::manifest::PluginName;
use daftar::plugin::{RuleRequest, run_rule};
use tokio::task::JoinHandle;

use crate::load::{self, Measured};
use crate::read::{PEOPLE, fill, request};
use crate::server::{Server, artifacts_folder};

/// The engine that does what its expression says.
const ENGINE: &str = "misbehaving-engine";
/// What it is told to do, in turn.
const MISDEEDS: [&str; 6] = ["loop", "panic", "allocate", "recurse", "log", "flood"];
/// The guests that are not refused, so that there is nothing to try again and again.
const ACCEPTED: [&str; 2] = [ENGINE, "chatty"];
/// How many connections send ordinary requests.
const CONNECTIONS: usize = 2;
/// How long each guest is suffered.
const ROUND: Duration = Duration::from_secs(3);
/// The time budget of a call, in milliseconds.
const CALL_MS: u64 = 200;
/// How often it is measured how soon an endless loop is stopped.
const STOPS: usize = 11;
/// How many hostile requests there are at a time: one for each plugin thread of a machine with two cores, and as many that wait.
const HOSTILE: usize = 4;

/// Runs the benchmark and prints its figures.
pub fn run() -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(measure())
}

async fn measure() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let name = PluginName::parse(ENGINE).map_err(|error| error.to_string())?;
    let server = Server::start_changed(folder.path(), |config| {
        config.plugins.engine = Some(name.clone());
        let limits = config.plugins.limits.entry(name).or_default();
        // Fuel enough for the clock to be what stops it.
        (limits.call_ms, limits.fuel_base) = (Some(CALL_MS), Some(50_000_000_000));
    })
    .await?;
    let fixtures = artifacts_folder()?.join("fixtures");
    let engine = read(&fixtures.join(format!("{ENGINE}.wasm")))?;
    let context = server.app.system_context();
    server.app.plugins.install(&context, engine).await.map_err(|error| error.to_string())?;
    fill(&server).await?;
    let requests = Arc::new((1..=PEOPLE).map(|number| request(&server.token, number)).collect::<Vec<_>>());
    load::run(server.address, requests.clone(), CONNECTIONS, Duration::from_secs(1)).await?;

    println!("hostile: GET Individual over {CONNECTIONS} connections, {HOSTILE} hostile requests at a time");
    for misdeed in MISDEEDS {
        let round = Round::begin();
        let tasks = (0..HOSTILE).map(|_| evaluate_again_and_again(&server.app, misdeed, &round)).collect();
        round.measure(misdeed, &server, &requests, tasks).await?;
    }
    println!("hostile: the same while a plugin is installed again and again, and refused");
    for (name, file) in refused_guests(&fixtures)? {
        let round = Round::begin();
        let task = install_again_and_again(&server.app, file, &round);
        round.measure(&name, &server, &requests, vec![task]).await?;
    }

    let mut ratios = Vec::with_capacity(STOPS);
    for _ in 0..STOPS {
        let started = Instant::now();
        let _ = run_rule(server.app.engine.as_ref(), rule("loop in compile"), |_| ()).await;
        ratios.push(started.elapsed().as_secs_f64() * 1_000.0 / CALL_MS as f64);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| ratios.get(index).copied().unwrap_or_default();
    let (median, most) = (at(STOPS / 2), at(STOPS - 1));
    println!(
        "hostile: an endless loop is stopped after {median:.3} of its {CALL_MS} ms, at most {most:.3} of {STOPS} times (target 1.2)"
    );
    server.stop().await;
    Ok(())
}

/// One misdeed for as long as it is measured.
struct Round {
    is_on: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Round {
    fn begin() -> Self {
        Self { is_on: Arc::default(), is_over: Arc::default() }
    }

    /// Measures ordinary requests before the misdeed begins and while it goes on.
    async fn measure(
        self,
        what: &str,
        server: &Server,
        requests: &Arc<Vec<Vec<u8>>>,
        tasks: Vec<JoinHandle<Result<u32, String>>>,
    ) -> Result<(), String> {
        let quiet = load::run(server.address, requests.clone(), CONNECTIONS, ROUND).await?;
        self.is_on.store(true, Ordering::Relaxed);
        let suffered = load::run(server.address, requests.clone(), CONNECTIONS, ROUND).await?;
        self.is_over.store(true, Ordering::Relaxed);
        let mut calls = 0;
        for task in tasks {
            calls += task.await.map_err(|error| error.to_string())??;
        }
        tell(what, calls, &quiet, &suffered);
        Ok(())
    }
}

/// Waits until a round begins to be hostile.
async fn begun(is_on: &AtomicBool) {
    while !is_on.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends an expression that misbehaves until the round is over; how often it was stopped.
fn evaluate_again_and_again(app: &AppState, misdeed: &'static str, round: &Round) -> JoinHandle<Result<u32, String>> {
    let (app, is_on, is_over) = (app.clone(), round.is_on.clone(), round.is_over.clone());
    tokio::spawn(async move {
        begun(&is_on).await;
        let mut calls = 0;
        while !is_over.load(Ordering::Relaxed) {
            if run_rule(app.engine.as_ref(), rule(&format!("{misdeed} in compile")), |_| ()).await.is_ok() {
                return Err(format!("`{misdeed}` was not refused"));
            }
            calls += 1;
        }
        Ok(calls)
    })
}

/// Installs a guest that is refused until the round is over; how often it was refused.
fn install_again_and_again(app: &AppState, file: Vec<u8>, round: &Round) -> JoinHandle<Result<u32, String>> {
    let (app, is_on, is_over) = (app.clone(), round.is_on.clone(), round.is_over.clone());
    tokio::spawn(async move {
        begun(&is_on).await;
        let context = app.system_context();
        let mut calls = 0;
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(installed) = app.plugins.install(&context, file.clone()).await {
                return Err(format!("`{}` was not refused", installed.manifest().name));
            }
            calls += 1;
        }
        Ok(calls)
    })
}

/// The misbehaving guests by name.
fn refused_guests(fixtures: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut guests = Vec::new();
    for entry in std::fs::read_dir(fixtures).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_guest = path.extension().is_some_and(|extension| extension == "wasm");
        if is_guest && !ACCEPTED.contains(&name.as_str()) {
            guests.push((name, read(&path)?));
        }
    }
    guests.sort();
    Ok(guests)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

fn rule(expression: &str) -> RuleRequest {
    let schema = Schema { version: "1".to_owned(), subject: Subject::Individual, fields: Vec::new() };
    RuleRequest { actor: Actor::Administrator, expression: expression.to_owned(), schema: Arc::new(schema) }
}

fn tell(what: &str, calls: u32, quiet: &Measured, suffered: &Measured) {
    println!(
        "{what}: {calls} times stopped; median {:.0} us quiet, {:.0} us beside it, ratio {:.2} (target 2); p99 {:.0} us, {:.0} us",
        quiet.median_us,
        suffered.median_us,
        suffered.median_us / quiet.median_us,
        quiet.p99_us,
        suffered.p99_us
    );
}
