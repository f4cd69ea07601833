//! An installed plugin that cannot be loaded any more.

use std::path::Path;
use std::time::{Duration, Instant};

use daftar_tests::process::{command, run};
use daftar_tests::{Server, artifacts, packs, token};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use wasm_encoder::{Component, ComponentSection as _, NestedComponentSection};

use super::{Register, assert_reported, copy, names};

/// Starts a server with these plugins and settings, and waits until it has compiled them.
pub fn serve(data_dir: &Path, plugins: &Path, settings: &str) -> Server {
    let config = data_dir.with_extension("toml");
    std::fs::write(&config, settings).unwrap();
    let mut serve = command(data_dir, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    serve.arg("--plugins").arg(plugins).arg("--config").arg(config);
    let server = Server::start(serve);
    // Longer than a compilation may take.
    let until = Instant::now() + Duration::from_secs(240);
    while server.connection().request("GET", "/health/ready").send().text().contains("is being compiled") {
        assert!(Instant::now() < until, "the plugins are not compiled");
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}

fn unloaded(data_dir: &Path) -> Vec<(String, String)> {
    let list = run(data_dir, &["plugin", "list", "--json"]).expect_success().json();
    let unloaded = list["unloaded"].as_array().unwrap().iter();
    unloaded.map(|plugin| (plugin["name"].as_str().unwrap().to_owned(), plugin["reason"].to_string())).collect()
}

/// After an upgrade the plugins are compiled again, and one of them needs more than the limits of the compiler allow.
///
/// 1. The server starts and serves records; `daftar plugin list` names the plugin and the limit, and its calls get 503.
/// 2. Raise `[plugins] compile_memory_mib` or `compile_seconds`.
/// 3. Restart the server.
#[test]
fn a_plugin_that_no_longer_compiles_is_named_and_returns_with_a_higher_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, plugins) = (folder.path().join("data"), folder.path().join("plugins"));
    std::fs::create_dir(&plugins).unwrap();
    std::fs::copy(artifacts::plugin("eligibility-cel"), plugins.join("eligibility-cel.wasm")).unwrap();
    let settings = "[plugins]\nallow_unsigned = true\n";
    let server = serve(&data_dir, &plugins, settings);
    let credentials = daftar_tests::process::create_client(&data_dir, &["individual:all", "eligibility:all"]);
    let evaluate = |server: &Server| {
        let token = token::fetch(&server.connection(), &credentials);
        let rule = json!({"expression": "has(me.name)", "subject": "individual", "subjects": [{"type": "individual"}]});
        server.connection().request("POST", "/api/v2/Eligibility/$evaluate").bearer(&token).json(&rule).send().status
    };
    assert_eq!(evaluate(&server), 200);
    drop(server.stop().expect_success());

    // As after an upgrade: no machine code of this version of the engine.
    std::fs::remove_dir_all(data_dir.join("compiled")).unwrap();
    let server = serve(&data_dir, &plugins, &format!("{settings}compile_memory_mib = 64\n"));
    let found = unloaded(&data_dir);
    assert!(
        matches!(found.as_slice(), [(name, reason)] if name == "eligibility-cel" && reason.contains("64 MiB")),
        "{found:?}"
    );
    assert_eq!(evaluate(&server), 503);
    let token = token::fetch(&server.connection(), &credentials);
    assert_eq!(server.connection().request("GET", "/api/v2/Individual").bearer(&token).send().status, 200);
    let doctor = run(&data_dir, &["doctor", "--json"]);
    assert!(doctor.code != 0 && doctor.stdout.contains("eligibility-cel"), "{doctor:?}");
    assert_reported(&server.stop().expect_success(), &["eligibility-cel"]);

    let server = serve(&data_dir, &plugins, settings);
    assert_eq!(unloaded(&data_dir), []);
    assert_eq!(evaluate(&server), 200);
    drop(server.stop().expect_success());
}

/// The file of an installed plugin is damaged on the disk.
///
/// 1. The server starts without it, `daftar plugin list` and `daftar doctor` name it.
/// 2. `daftar plugin install FILE` with the same file, from the release or from a backup.
#[test]
fn a_damaged_file_of_a_plugin_is_named_and_installed_again() {
    let register = Register::new();
    let data_dir = register.data_dir();
    let pack = packs::build(register.folder.path(), "1.0.0", None);
    let install = || run(&data_dir, &["plugin", "install", pack.to_str().unwrap(), "--allow-unsigned"]);
    let server = register.serve();
    drop(install().expect_success());
    drop(server.stop().expect_success());
    let bytes = std::fs::read(&pack).unwrap();
    let plugins = data_dir.join("plugins");
    let files = names(&plugins).into_iter().map(|name| plugins.join(name));
    let file = files.into_iter().find(|file| std::fs::read(file).is_ok_and(|found| found == bytes)).unwrap();
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&file, &damaged).unwrap();

    let server = register.serve();
    let vocabulary = |server: &Server| {
        let target = format!("/api/v2/Vocabulary/{}", packs::NAMESPACE);
        server.connection().request("GET", &target).bearer(&register.token(server)).send().status
    };
    let found = unloaded(&data_dir);
    assert!(matches!(found.as_slice(), [(name, _)] if name == "small"), "{found:?}");
    assert_eq!(vocabulary(&server), 404);
    let doctor = run(&data_dir, &["doctor", "--json"]);
    assert!(doctor.code != 0 && doctor.stdout.contains("small"), "{doctor:?}");
    register.create(&server, &["1"]);

    drop(install().expect_success());
    assert_eq!(unloaded(&data_dir), []);
    assert_eq!(vocabulary(&server), 200);
    drop(server.stop().expect_success());
    let server = register.serve();
    assert_eq!((unloaded(&data_dir), vocabulary(&server)), (Vec::new(), 200));
    drop(server.stop().expect_success());
}

/// Replaces the file of an installed plugin by one whose components are nested deeper than the checks allow, in the
/// folder and in its list: as a version of the program without this check would have installed it.
fn nest(plugins: &Path, plugin: &str) {
    let list = plugins.join("installed.json");
    let mut installed: Value = serde_json::from_slice(&std::fs::read(&list).unwrap()).unwrap();
    let mut entries = installed["installed"].as_array_mut().unwrap().iter_mut();
    let entry = entries.find(|entry| entry["name"] == plugin).unwrap();
    let mut file = std::fs::read(plugins.join(format!("{}.wasm", entry["digest"].as_str().unwrap()))).unwrap();
    let mut nested = Component::new();
    for _ in 0..16 {
        let mut outer = Component::new();
        outer.section(&NestedComponentSection(&nested));
        nested = outer;
    }
    NestedComponentSection(&nested).append_to_component(&mut file);
    let digest: String = Sha256::digest(&file).iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(plugins.join(format!("{digest}.wasm")), file).unwrap();
    entry["digest"] = digest.into();
    std::fs::write(&list, serde_json::to_vec(&installed).unwrap()).unwrap();
}

/// After an upgrade the checks of the new version reject an installed plugin; no limit of the configuration changes it.
///
/// 1. The server starts without it and serves records; `daftar plugin list` and `daftar doctor` name it and the reason.
/// 2. `daftar plugin install FILE` with a newer version of the plugin.
/// 3. Without a newer version: `daftar plugin rollback NAME`, or `daftar plugin remove NAME --force`.
#[test]
fn a_plugin_that_newer_checks_reject_is_named_and_replaced_rolled_back_or_removed() {
    const REASON: &str = "within one another";
    let register = Register::new();
    let build = |version: &str| packs::build(register.folder.path(), version, None);
    let server = register.serve();
    for pack in [build("1.0.0"), build("1.1.0")] {
        let install = ["plugin", "install", pack.to_str().unwrap(), "--allow-unsigned"];
        drop(run(&register.data_dir(), &install).expect_success());
    }
    drop(server.stop().expect_success());
    nest(&register.data_dir().join("plugins"), "small");

    let vocabulary = |server: &Server| {
        let target = format!("/api/v2/Vocabulary/{}", packs::NAMESPACE);
        server.connection().request("GET", &target).bearer(&register.token(server)).send().status
    };
    let newer = build("1.2.0");
    let remedies: [(&str, &[&str], u16); 3] = [
        ("replaced", &["plugin", "install", newer.to_str().unwrap(), "--allow-unsigned"], 200),
        ("rolled-back", &["plugin", "rollback", "small"], 200),
        ("removed", &["plugin", "remove", "small", "--force"], 404),
    ];
    for (name, remedy, expected) in remedies {
        let data_dir = register.folder.path().join(name);
        copy(&register.data_dir(), &data_dir);
        let server = Server::serve(&data_dir, &[]);
        let found = unloaded(&data_dir);
        assert!(
            matches!(found.as_slice(), [(plugin, reason)] if plugin == "small" && reason.contains(REASON)),
            "{found:?}"
        );
        assert_eq!(vocabulary(&server), 404);
        let doctor = run(&data_dir, &["doctor", "--json"]);
        assert!(doctor.code != 0 && doctor.stdout.contains(REASON), "{doctor:?}");
        assert!(doctor.stdout.contains("`daftar plugin remove small --force --data-dir"), "{doctor:?}");
        register.create(&server, &[name]);
        let refused = run(&data_dir, &["plugin", "remove", "small"]);
        assert!(refused.code != 0 && refused.stderr.contains("--force"), "{refused:?}");

        drop(run(&data_dir, remedy).expect_success());
        assert_eq!((unloaded(&data_dir), vocabulary(&server)), (Vec::new(), expected), "{name}");
        assert_reported(&server.stop().expect_success(), &["an installed plugin cannot be loaded", "small"]);
        let server = Server::serve(&data_dir, &[]);
        assert_eq!((unloaded(&data_dir), vocabulary(&server)), (Vec::new(), expected), "{name}");
        assert_eq!(register.statuses(&server, [name]), [200]);
        drop(server.stop().expect_success());
    }
}
