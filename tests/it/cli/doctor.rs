//! `daftar doctor`: problems of a folder, or of a running server, and their remedies.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use daftar::domain::manifest::PluginName;
use daftar_tests::process::{Finished, command, create_client, finish, run};
use daftar_tests::{Server, TestApp, artifacts};
use serde_json::{Value, json};

const FINDINGS: i32 = 3;
const PROBLEMS: i32 = 1;
/// Checks that depend on the machine that runs the tests.
const OF_MACHINE: [&str; 4] = ["disk", "memory", "open_files", "clock"];

/// The failed checks, as area and check.
fn bad(reported: &Finished) -> Vec<(String, String)> {
    let checks = reported.json()["checks"].as_array().unwrap().clone();
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let bad = checks.iter().filter(|check| ["warning", "problem"].contains(&check["state"].as_str().unwrap()));
    let bad = bad.filter(|check| !OF_MACHINE.contains(&check["area"].as_str().unwrap()));
    bad.map(|check| {
        assert!(!check["remedy"].as_str().unwrap().is_empty(), "{check}");
        (text(check, "area"), text(check, "check"))
    })
    .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(area, check)| ((*area).to_owned(), (*check).to_owned())).collect()
}

/// A register with plugins whose server was stopped, and settings with free addresses.
struct Register {
    folder: tempfile::TempDir,
}

impl Register {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let register = Self { folder };
        register.settings("[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n");
        drop(Server::serve(&register.data_dir(), &[]).stop().expect_success());
        register
    }

    fn data_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn settings(&self, text: &str) {
        std::fs::write(self.folder.path().join("daftar.toml"), text).unwrap();
    }

    fn look(&self) -> Finished {
        let config = self.folder.path().join("daftar.toml");
        run(&self.data_dir(), &["doctor", "--json", "--config", config.to_str().unwrap()])
    }
}

#[test]
fn the_folder_of_a_stopped_server_is_checked_and_not_changed() {
    let register = Register::new();
    let before = listing(&register.data_dir());
    let reported = register.look();
    assert_eq!(bad(&reported), [], "{reported:?}");
    assert_eq!(reported.json()["checked_by"], "command");
    assert_eq!(listing(&register.data_dir()), before);
    let areas: Vec<Value> =
        reported.json()["checks"].as_array().unwrap().iter().map(|check| check["area"].clone()).collect();
    for area in ["settings", "data_folder", "keys", "clock", "disk", "open_files", "memory", "listeners", "plugins"] {
        assert!(areas.contains(&json!(area)), "{area}: {reported:?}");
    }
    let text = run(&register.data_dir(), &["doctor", "--all"]);
    assert!(text.stdout.contains("plugins are installed; all files are unchanged"), "{text:?}");
    assert!(text.stdout.contains("checks by this command; no server runs"), "{text:?}");
}

/// Every file with its size and when it was changed.
fn listing(folder: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(listing(&entry.path()));
        }
        found.push((entry.path().display().to_string(), metadata.len(), metadata.modified().unwrap()));
    }
    found.sort();
    found
}

#[test]
fn each_fault_is_reported_and_decides_the_exit_code() {
    let register = Register::new();
    let data_dir = register.data_dir();

    let keys = data_dir.join("keys");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o755)).unwrap();
    let reported = register.look();
    assert_eq!((reported.code, bad(&reported)), (PROBLEMS, pairs(&[("keys", "mode")])));
    assert!(reported.stdout.contains(&format!("chmod 700 {}", keys.display())), "{reported:?}");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o700)).unwrap();

    std::fs::set_permissions(&data_dir, std::fs::Permissions::from_mode(0o750)).unwrap();
    let reported = register.look();
    assert_eq!(bad(&reported), pairs(&[("data_folder", "mode")]));
    assert!([FINDINGS, PROBLEMS].contains(&reported.code), "{reported:?}");
    std::fs::set_permissions(&data_dir, std::fs::Permissions::from_mode(0o700)).unwrap();

    register.settings("[server]\nlistne = '127.0.0.1:0'\n");
    let reported = register.look();
    assert_eq!(reported.code, PROBLEMS);
    assert!(bad(&reported).contains(&("settings".to_owned(), "file".to_owned())), "{reported:?}");
    assert!(reported.stdout.contains("did you mean `server.listen`?"), "{reported:?}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    register.settings(&format!(
        "[server]\nlisten = '{address}'\nadmin_listen = '127.0.0.1:0'\ntrusted_proxies = ['10.0.0.0/8']\n"
    ));
    let expected = [("listeners", "address"), ("listeners", "public_url")];
    assert_eq!(bad(&register.look()), pairs(&expected));
    drop(taken);

    register.settings("[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n[server.tls]\ncert = '/nowhere/c.pem'\nkey = '/nowhere/k.pem'\n");
    assert_eq!(bad(&register.look()), pairs(&[("certificate", "usable")]));

    register.settings("[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n[plugins]\nengine = 'other'\n");
    assert_eq!(bad(&register.look()), pairs(&[("plugins", "engine")]));

    register.settings("[server]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n");
    let plugins = data_dir.join("plugins");
    let mut files = std::fs::read_dir(&plugins).unwrap().map(|entry| entry.unwrap().path());
    let plugin = files.find(|path| path.extension().is_some_and(|extension| extension == "wasm")).unwrap();
    let mut bytes = std::fs::read(&plugin).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&plugin, bytes).unwrap();
    let reported = register.look();
    assert_eq!(bad(&reported), pairs(&[("plugins", "files")]));
    assert!(reported.stdout.contains("is not the one that was installed"), "{reported:?}");
}

#[test]
fn a_running_server_checks_itself() {
    let register = Register::new();
    let server = Server::serve(&register.data_dir(), &[]);
    let reported = run(&register.data_dir(), &["doctor", "--json"]);
    assert_eq!(reported.json()["checked_by"], "server");
    assert_eq!(bad(&reported), pairs(&[("backup", "age")]), "{reported:?}");
    let file = register.folder.path().join("register.daftar");
    drop(run(&register.data_dir(), &["backup", file.to_str().unwrap()]).expect_success());
    let reported = run(&register.data_dir(), &["doctor", "--json"]);
    assert_eq!(bad(&reported), []);
    assert!(reported.stdout.contains("the last backup was made"), "{reported:?}");
    drop(server.stop().expect_success());
}

#[test]
fn a_server_names_clients_with_old_secrets_and_inactive_plugins() {
    let app = TestApp::start();
    let credentials = create_client(app.data_dir(), &["individual:read"]);
    app.advance_seconds(91 * 86_400);
    let reported = run(app.data_dir(), &["doctor", "--json"]);
    assert!(bad(&reported).contains(&("secrets".to_owned(), "age".to_owned())), "{reported:?}");
    assert!(reported.stdout.contains(&format!("daftar client rotate-secret {} ", credentials.id)), "{reported:?}");
}

#[test]
fn a_server_reports_plugins_that_fail_or_are_inactive() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(artifacts::fixture("misbehaving-engine"), folder.path().join("engine.wasm")).unwrap();
    let mut app = TestApp::builder().plugins(folder.path()).start();
    let client = app.client(&["eligibility:all"]);
    let ask = |expression: &str| {
        let requested =
            json!({"expression": expression, "subject": "individual", "subjects": [{"type": "individual"}]});
        client.post("/Eligibility/$evaluate", &requested).status
    };
    assert_eq!(ask("panic in compile"), 422);
    let reported = run(app.data_dir(), &["doctor", "--json"]);
    assert!(bad(&reported).contains(&("plugins".to_owned(), "faults".to_owned())), "{reported:?}");
    assert!(reported.stdout.contains("did not answer 1 × trap"), "{reported:?}");

    // It requires three core instances, so with two it fails for any expression.
    let name = PluginName::parse("misbehaving-engine").unwrap();
    app.restart_with(|config| {
        config.plugins.limits.entry(name.clone()).or_default().core_instances = Some(2);
    });
    for _ in 0..6 {
        assert_eq!(ask("all"), 503);
    }
    let reported = run(app.data_dir(), &["doctor", "--json"]);
    assert_eq!(reported.code, PROBLEMS);
    assert!(bad(&reported).contains(&("plugins".to_owned(), "breaker".to_owned())), "{reported:?}");

    let register = Register::new();
    let plugins = register.data_dir().join("plugins");
    let mut files = std::fs::read_dir(&plugins).unwrap().map(|entry| entry.unwrap().path());
    let plugin = files.find(|path| path.extension().is_some_and(|extension| extension == "wasm")).unwrap();
    std::fs::write(&plugin, "not what was installed").unwrap();
    let server = Server::serve_plugins(&register.data_dir(), folder.path(), &[]);
    let reported = run(&register.data_dir(), &["doctor", "--json"]);
    for check in ["files", "active"] {
        assert!(bad(&reported).contains(&("plugins".to_owned(), check.to_owned())), "{check}: {reported:?}");
    }
    drop(server.stop().expect_success());
}

#[test]
fn a_killed_server_and_a_missing_folder_are_reported() {
    let register = Register::new();
    Server::serve(&register.data_dir(), &[]).kill();
    assert_eq!(bad(&register.look()), pairs(&[("data_folder", "in_use")]));
    let nowhere = register.folder.path().join("nowhere");
    let reported = run(&nowhere, &["doctor", "--json"]);
    assert!(bad(&reported).contains(&("data_folder".to_owned(), "present".to_owned())), "{reported:?}");
    assert!(!nowhere.exists());
}

#[test]
fn a_distant_server_that_does_not_answer_is_a_failure_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut doctor = command(folder.path(), &["doctor", "--admin-url", "http://127.0.0.1:1"]);
    doctor.env("DAFTAR_ADMIN_TOKEN", "x".repeat(60));
    let reported = finish(doctor);
    assert!(reported.code == 69 && reported.stderr.contains("cannot reach the server"), "{reported:?}");
    assert!(artifacts::program().is_file());
}
