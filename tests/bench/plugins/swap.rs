//! Replacing plugins on a server under load: no request may be lost or fail, whichever version answers it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daftar::app::{AppState, author, packs};
use daftar::service::codes::LanguagePreference;
use daftar::service::individual;

use crate::codes::millis;
use crate::server::{Server, artifacts_folder};
use crate::{load, read};

/// How many connections send at the same time.
const CONNECTIONS: usize = 8;
/// How long the load lasts without replacing anything.
const QUIET_ROUND: Duration = Duration::from_secs(10);
/// How long it lasts while plugins are replaced: the engine alone is compiled for some seconds each time.
const SWAP_ROUND: Duration = Duration::from_secs(40);
/// How many people the register has.
const PEOPLE: usize = 100;

/// Runs the benchmark and prints its figures.
pub async fn run(everything: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let versions = versions(folder.path())?;
    let server = Server::start_with(folder.path(), everything).await?;
    for number in 1..=PEOPLE {
        let (ctx, languages) = (server.app.system_context(), LanguagePreference::parse("en"));
        let created = individual::create(&ctx, &server.app.registry, languages, read::person(number)?.into()).await;
        created.map_err(|error| error.to_string())?;
    }
    let requests = Arc::new(requests(&server.token));
    let quiet = load::run(server.address, requests.clone(), CONNECTIONS, QUIET_ROUND).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let swaps = tokio::spawn(swap(server.app.clone(), versions, is_over.clone()));
    let busy = load::run(server.address, requests, CONNECTIONS, SWAP_ROUND).await;
    is_over.store(true, Ordering::Relaxed);
    let mut times = swaps.await.map_err(|error| error.to_string())??;
    // A round ends at the first answer that is not 200, and at a connection that the server closes.
    let busy = busy.map_err(|error| format!("a request was lost or failed while plugins were replaced: {error}"))?;
    println!(
        "plugins: quiet: {:.0} answers/s, median {:.0} us, p99 {:.0} us",
        quiet.per_second, quiet.median_us, quiet.p99_us
    );
    let count = times.len();
    times.sort_unstable_by(f64::total_cmp);
    let (least, most) = (times.first().copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
    println!(
        "plugins: a pack and the engine replaced {count} times under load, each in {least:.0} to {most:.0} ms: {:.0} answers/s, median {:.0} us, p99 {:.0} us; lost or failed of {:.0}: 0",
        busy.per_second,
        busy.median_us,
        busy.p99_us,
        busy.per_second * SWAP_ROUND.as_secs_f64()
    );
    server.stop().await;
    Ok(())
}

/// Two versions of a pack whose codes are in every record, and two of the engine.
fn versions(folder: &Path) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |file: &Path| std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
    let gender = root.join("vocab-packs/gender");
    let copy = folder.join("gender");
    copy_folder(&gender, &copy)?;
    raise_version(&gender.join("pack.toml"), &copy.join("pack.toml"))?;
    let manifest = folder.join("engine.toml");
    raise_version(&root.join("plugins/cel/plugin.toml"), &manifest)?;
    let artifacts = artifacts_folder()?;
    let engine = author::wrap(&artifacts.join("guests/daftar_cel.wasm"), &manifest)?;
    let pack = packs::build(&copy, None).map_err(|error| error.to_string())?;
    Ok(vec![
        vec![pack, read(&artifacts.join("plugins/gender.wasm"))?],
        vec![engine, read(&artifacts.join("plugins/eligibility-cel.wasm"))?],
    ])
}

fn raise_version(from: &Path, to: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let line = text.lines().find(|line| line.starts_with("version = ")).ok_or("a manifest has no version")?;
    std::fs::write(to, text.replacen(line, "version = \"99.0.0\"", 1)).map_err(|error| error.to_string())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::create_dir_all(to).map_err(|error| error.to_string())?;
    for entry in std::fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Replaces each plugin by its other version, in turn, until it is told to stop; how long each took, in milliseconds.
async fn swap(app: AppState, plugins: Vec<Vec<Vec<u8>>>, is_over: Arc<AtomicBool>) -> Result<Vec<f64>, String> {
    let mut times = Vec::new();
    for at in 0.. {
        for versions in &plugins {
            if is_over.load(Ordering::Relaxed) {
                return Ok(times);
            }
            let bytes = versions.get(at % versions.len()).cloned().unwrap_or_default();
            let started = Instant::now();
            let installed =
                app.plugins.install(&app.system_context(), bytes).await.map_err(|error| error.to_string())?;
            times.push(millis(started));
            let serving =
                app.plugins.list().iter().any(|plugin| plugin.loaded().digest() == installed.loaded().digest());
            if !serving {
                return Err("what was installed does not serve".to_owned());
            }
        }
    }
    Ok(times)
}

/// Records with displays, codes, and rules, in turn.
fn requests(token: &str) -> Vec<Vec<u8>> {
    let post = |path: &str, body: &str| {
        let head = format!(
            "POST /api/v2/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    };
    let rule = r#"{"expression": "is_female(me) && age_years(me.birth_date) >= 18", "subjects": [{"type": "individual", "gender": "urn:iso:std:iso:5218#2", "birth_date": "1990-01-01"}]}"#;
    let codes = r#"{"codes": ["urn:iso:std:iso:5218#1", "urn:iso:std:iso:5218#2"]}"#;
    let mut requests = Vec::new();
    for number in 1..=PEOPLE {
        requests.push(read::request(token, number));
        requests.push(post("Eligibility/$evaluate", rule));
        requests.push(post("Vocabulary/$lookup", codes));
    }
    requests
}
