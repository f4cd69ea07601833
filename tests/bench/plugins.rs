//! Plugins: installs by the command, and replacing plugins on a server under load: no request may be lost or fail,
//! whichever version answers it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use daftar::app::{packs, plugin_files};

use crate::http::{get, send};
use crate::load::{Load, cycle};
use crate::people::path;
use crate::report::{Report, Row, Spread};
use crate::server::{Server, artifacts};
use crate::setup::{Setup, everything};

/// Number of connections that send at the same time.
const CONNECTIONS: usize = 8;
/// Duration of the load during replacement of plugins, in rounds of ordinary length: compiling the engine alone takes
/// some seconds.
const SWAP_ROUNDS: u32 = 10;
/// Number of people in the register.
const PEOPLE: u64 = 100;
/// The plugins whose install is timed, each into a register that has all others.
const INSTALLED: [&str; 3] = ["gender", "icd-11", "eligibility-cel"];

/// Measures both.
pub fn run(setup: &Setup, report: &mut Report) -> Result<(), String> {
    for name in INSTALLED.into_iter().take(if setup.is_smoke { 1 } else { INSTALLED.len() }) {
        install(setup, report, name)?;
    }
    swap(setup, report)
}

/// Installs one plugin into a register that has everything else; nothing of it was compiled before.
fn install(setup: &Setup, report: &mut Report, name: &str) -> Result<(), String> {
    let register = setup.empty(&format!("install-{name}"))?;
    let data = register.folder.join("data");
    std::fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
    let others = everything(&register.folder)?;
    let package = register.folder.join(format!("{name}.wasm"));
    std::fs::rename(others.join(format!("{name}.wasm")), &package).map_err(|error| error.to_string())?;
    let server = Server::start_with(&register.folder, None, &others)?;
    let started = Instant::now();
    server.command(&["plugin", "install", &package.display().to_string()])?;
    let ms = Spread::of([started.elapsed().as_secs_f64() * 1e3]);
    let row = Row::new(format!("plugins.install.{name}"), format!("install of `{name}` by the command"), "ms", ms);
    report.row(if name == "icd-11" { row.target("1,000 ms") } else { row });
    server.stop()?;
    setup.remove(register)
}

fn swap(setup: &Setup, report: &mut Report) -> Result<(), String> {
    let register = setup.filled("plugins", setup.people(PEOPLE))?;
    let versions = versions(&register.folder)?;
    let server = Server::start_configured(&register.folder, "[plugins]\nallow_unsigned = true\n")?;
    server.ready()?;
    let token = server.token(&register.client)?;
    let rule = r#"{"expression": "is_female(me) && age_years(me.birth_date) >= 18", "subjects": [{"type": "individual", "gender": "urn:iso:std:iso:5218#2", "birth_date": "1990-01-01"}]}"#;
    let codes = r#"{"codes": ["urn:iso:std:iso:5218#1", "urn:iso:std:iso:5218#2"]}"#;
    let requests = (1..=register.people).flat_map(|id| {
        let evaluate = send("POST", "/api/v2/Eligibility/$evaluate", &token, "", rule);
        let look_up = send("POST", "/api/v2/Vocabulary/$lookup", &token, "", codes);
        [get(&path(id), &token), evaluate, look_up]
    });
    let requests = cycle(requests.collect());
    let load = Load::new(server.address, CONNECTIONS, setup.window());
    let quiet = load.run(&requests)?;
    let is_over = AtomicBool::new(false);
    let (busy, times) = std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut times = Vec::new();
            for plugin in versions.iter().cycle() {
                for version in plugin {
                    if is_over.load(Ordering::Relaxed) && !times.is_empty() {
                        return Ok::<_, String>(times);
                    }
                    let started = Instant::now();
                    let file = version.display().to_string();
                    server.command(&["plugin", "install", "--allow-unsigned", "--allow-downgrade", &file])?;
                    times.push(started.elapsed().as_secs_f64() * 1e3);
                }
            }
            Ok(times)
        });
        let load = Load { duration: setup.window() * SWAP_ROUNDS, ..load.clone() };
        // A round ends at the first response that is no success, and at a connection that the server closes.
        let busy = load.run(&requests);
        is_over.store(true, Ordering::Relaxed);
        let times = swapping.join().map_err(|_| "the installs failed".to_owned())??;
        Ok::<_, String>((busy?, times))
    })?;
    let what = "a pack and the engine replaced in turn under load, each";
    report.row(Row::new("plugins.swap", what, "ms", Spread::of(times)));
    let rate = Row::new(
        "plugins.swap.load",
        "requests during replacement, none lost or failed",
        "1/s",
        Spread::of([busy.per_second()]),
    );
    let alone = quiet.per_second();
    report.row(rate.ratio(format!("alone ({alone:.0}/s)"), Spread::of([busy.per_second() / alone])));
    let p99 = Row::new("plugins.swap.p99", "requests during replacement: p99", "ms", Spread::of([busy.ms(0, 0.99)]));
    let alone = quiet.ms(0, 0.99);
    report.row(p99.ratio(format!("alone ({alone:.2} ms)"), Spread::of([busy.ms(0, 0.99) / alone])));
    server.stop()?;
    setup.remove(register)
}

/// Two versions of a pack whose codes are in every record, and two of the engine.
fn versions(folder: &Path) -> Result<Vec<[PathBuf; 2]>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let write = |name: &str, bytes: Vec<u8>| {
        let file = folder.join(name);
        std::fs::write(&file, bytes).map(|()| file).map_err(|error| error.to_string())
    };
    let gender = root.join("vocab-packs/gender");
    let copy = folder.join("gender");
    crate::setup::copy(&gender, &copy)?;
    raise_version(&gender.join("pack.toml"), &copy.join("pack.toml"))?;
    let manifest = folder.join("engine.toml");
    raise_version(&root.join("plugins/cel/plugin.toml"), &manifest)?;
    let artifacts = artifacts()?;
    let engine = plugin_files::wrap(&artifacts.join("guests/daftar_cel.wasm"), &[], &manifest)?;
    let pack = packs::build(&copy, None).map_err(|error| error.to_string())?;
    Ok(vec![
        [write("gender-99.wasm", pack)?, artifacts.join("plugins/gender.wasm")],
        [write("engine-99.wasm", engine)?, artifacts.join("plugins/eligibility-cel.wasm")],
    ])
}

fn raise_version(from: &Path, to: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let line = text.lines().find(|line| line.starts_with("version = ")).ok_or("a manifest has no version")?;
    std::fs::write(to, text.replacen(line, "version = \"99.0.0\"", 1)).map_err(|error| error.to_string())
}
