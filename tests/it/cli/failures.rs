//! Failures of commands: each names the problem, the object and the remedy, with the exit code of its kind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use daftar_tests::process::{Finished, command, finish, run};
use daftar_tests::{Server, artifacts};
use serde_json::Value;

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const CONFIGURATION: i32 = 78;
const INPUT: i32 = 66;
const UNAVAILABLE: i32 = 69;
const OUTPUT: i32 = 73;
const DENIED: i32 = 77;

/// A folder with a register whose server was stopped, and some files of other types than their names suggest.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let data_dir = world.data_dir();
        drop(run(&data_dir, &["client", "create", "--name", "x", "--json"]).expect_success());
        std::fs::create_dir(world.path("folder")).unwrap();
        std::fs::write(world.path("noise.bin"), [0, 159, 146, 150, 255]).unwrap();
        std::fs::write(world.path("noise.ndjson"), "no json\n").unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn data_dir(&self) -> PathBuf {
        self.path("data")
    }
}

/// Checks the common properties of a failure, in text and as JSON.
#[track_caller]
fn expect(data_dir: &Path, arguments: &[&str], code: i32, message: &[&str]) {
    let reported = run(data_dir, arguments);
    assert_eq!(reported.code, code, "{arguments:?}: {reported:?}");
    assert!(
        reported.stderr.starts_with("error: ") || reported.stderr.contains("\nerror: "),
        "{arguments:?}: {reported:?}"
    );
    for message in message {
        assert!(reported.stderr.contains(message), "{arguments:?} should say {message:?}: {reported:?}");
    }
    assert!(!reported.stderr.contains("panicked"), "{arguments:?}: {reported:?}");
    expect_json(&run(data_dir, &[arguments, &["--json"]].concat()), code);
}

/// The last line of standard error is one object, always of the same shape.
#[track_caller]
fn expect_json(reported: &Finished, code: i32) {
    assert_eq!(reported.code, code, "{reported:?}");
    let line = reported.stderr.lines().last().unwrap_or_default();
    let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {reported:?}"));
    assert_eq!(object.as_object().map(serde_json::Map::len), Some(1), "{reported:?}");
    let error = object["error"].as_object().unwrap();
    let keys: Vec<&String> = error.keys().filter(|key| *key != "code").collect();
    assert_eq!(keys, ["exit_code", "kind", "message"], "{reported:?}");
    assert_eq!(error["exit_code"], code, "{reported:?}");
    assert!(error["kind"].is_string() && !error["message"].as_str().unwrap().is_empty(), "{reported:?}");
}

#[test]
fn files_that_are_not_there_or_are_something_else_are_named() {
    let world = World::new();
    let data_dir = world.data_dir();
    let (none, folder, noise) = (world.text("none.wasm"), world.text("folder"), world.text("noise.bin"));
    let missing = "there is no such file; check the path";
    for command in [&["plugin", "install"][..], &["plugin", "inspect"], &["plugin", "report"]] {
        expect(&data_dir, &[command, &[&none]].concat(), INPUT, &[&none]);
        expect(&data_dir, &[command, &[&folder]].concat(), INPUT, &[&folder, "it is not a file"]);
        expect(&data_dir, &[command, &[&noise]].concat(), FAILED, &["`"]);
    }
    expect(&data_dir, &["plugin", "sign", &none, "--key", &none], INPUT, &[&none]);
    expect(&data_dir, &["backup", &none, "--check"], INPUT, &[&none, missing]);
    expect(&data_dir, &["backup", &folder, "--check"], INPUT, &["it is a folder; name a file"]);
    expect(&data_dir, &["backup", &noise, "--check"], INPUT, &[&noise]);
    let elsewhere = world.path("elsewhere");
    expect(&elsewhere, &["restore", &none], INPUT, &[&none, missing]);
    expect(&elsewhere, &["restore", &folder], INPUT, &["it is a folder"]);
    expect(&elsewhere, &["restore", &noise], INPUT, &[]);
    assert!(!elsewhere.exists());
    let lines = world.text("none.ndjson");
    expect(&data_dir, &["import", &lines], INPUT, &[&lines, missing]);
    expect(&data_dir, &["import", &folder], INPUT, &["it is a folder"]);
    expect(&data_dir, &["import", &noise], USAGE, &["says by its name what it holds"]);
    let table = world.text("none.csv");
    expect(&data_dir, &["import", &table, "--mapping", &none], INPUT, &[&table]);
    expect(&data_dir, &["eval", &format!("@{none}")], INPUT, &[&none, missing]);
    expect(&data_dir, &["eval", "true", "--records", &folder], INPUT, &["it is a folder"]);
    expect(&data_dir, &["eval", "true", "--records", &noise], INPUT, &["it is not UTF-8 text"]);
    expect(&data_dir, &["eval", "--cases", &world.text("none.toml")], INPUT, &["none.toml"]);
    expect(&data_dir, &["pack", "build", &none, "-o", &world.text("x.wasm")], INPUT, &[&none]);
    expect(&data_dir, &["pack", "check", &folder], INPUT, &["pack.toml"]);
    expect(&data_dir, &["pack", "import", "isco-csv", &none, "-o", &world.text("out")], INPUT, &[&none]);
}

#[test]
fn paths_that_cannot_be_written_are_named_with_a_remedy() {
    let world = World::new();
    let data_dir = world.data_dir();
    let nowhere = world.text("nowhere/file");
    let there = world.text("noise.bin");
    expect(&data_dir, &["backup", &nowhere], OUTPUT, &["its folder does not exist; create it first"]);
    expect(&data_dir, &["backup", &there], OUTPUT, &["is there already", "--force"]);
    let export = world.text("nowhere/file.ndjson");
    expect(&data_dir, &["export", &export], OUTPUT, &["its folder does not exist"]);
    let there = world.text("noise.ndjson");
    expect(&data_dir, &["export", &there], OUTPUT, &["is there already"]);
    expect(&data_dir, &["plugin", "keygen", "-o", &nowhere], OUTPUT, &[&nowhere]);
    let below_a_file = world.text("noise.bin/file");
    expect(&data_dir, &["backup", &below_a_file], OUTPUT, &[&below_a_file]);
    // A full disk: the command was done, and its output is lost.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut list = command(&data_dir, &["client", "list"]);
    let status = list.stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(OUTPUT));
}

#[test]
fn a_folder_without_a_register_is_reported_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("dta");
    for arguments in [
        &["client", "list"][..],
        &["client", "disable", "x"],
        &["plugin", "list"],
        &["plugin", "remove", "x"],
        &["audit", "query"],
        &["program", "list"],
        &["consent", "list"],
        &["code", "list"],
        &["concept-group", "list"],
        &["identifier-system", "list"],
        &["key", "list"],
        &["key", "rotate"],
        &["verify"],
        &["eval", "true"],
        &["export", "people.ndjson"],
        &["backup", "register.daftar"],
    ] {
        let mut reported = command(&nowhere, arguments);
        reported.current_dir(folder.path());
        let reported = finish(reported);
        assert_eq!(reported.code, INPUT, "{arguments:?}: {reported:?}");
        assert!(reported.stderr.contains(&format!("there is no register in `{}`", nowhere.display())), "{reported:?}");
        assert!(reported.stderr.contains("--data-dir") && reported.stderr.contains("daftar serve"), "{reported:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?} leaves something");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    expect(&file, &["client", "create", "--name", "x"], OUTPUT, &["the data folder cannot be used", "file"]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    expect(&file, &serve, OUTPUT, &["file"]);
    let (config, store) = (folder.path().join("daftar.toml"), file.join("store").display().to_string());
    std::fs::write(&config, format!("[store]\npath = '{store}'\n")).unwrap();
    let arguments = [&serve[..], &["--config", config.to_str().unwrap()]].concat();
    expect(&nowhere, &arguments, OUTPUT, &["the data folder cannot be used", &store]);
}

#[test]
fn unreachable_servers_wrong_tokens_and_locked_folders_are_distinguished() {
    let world = World::new();
    let data_dir = world.data_dir();
    let server = Server::serve(&data_dir, &[]);
    let reported: Value = serde_json::from_slice(&std::fs::read(data_dir.join("server.json")).unwrap()).unwrap();
    let url = reported["admin_url"].as_str().unwrap().to_owned();
    let token = world.text("token");
    let private = |text: &str, mode: u32| {
        std::fs::write(&token, text).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let list = ["client", "list", "--admin-url", &url, "--admin-token-file", &token];
    expect(&data_dir, &list, DENIED, &[&token]);
    private("short", 0o600);
    expect(&data_dir, &list, DENIED, &["43 to 512"]);
    private(&"x".repeat(60), 0o644);
    expect(&data_dir, &list, DENIED, &["may be read by other users", "chmod 600"]);
    private(&"x".repeat(60), 0o600);
    expect(&data_dir, &list, DENIED, &["the admin token is missing or invalid"]);
    expect(&data_dir, &["client", "list", "--admin-url", &url], DENIED, &["--admin-token-file"]);
    let unreachable = ["client", "list", "--admin-url", "http://127.0.0.1:1", "--admin-token-file", &token];
    expect(&data_dir, &unreachable, UNAVAILABLE, &["cannot reach the server at http://127.0.0.1:1", "is it running"]);
    // The public listener is not an admin address.
    let public = server.url.clone();
    let mistaken = ["client", "list", "--admin-url", &public, "--admin-token-file", &token];
    expect(&data_dir, &mistaken, FAILED, &[]);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    expect(&data_dir, &serve, UNAVAILABLE, &["is in use by another process", "stop that daftar first"]);
    let address = server.url.strip_prefix("http://").unwrap();
    let other = world.path("other");
    let taken = ["serve", "--listen", address, "--admin-listen", "127.0.0.1:0"];
    expect(&other, &taken, UNAVAILABLE, &[address, "stop what listens there"]);
    expect(&data_dir, &["client", "show", "absent"], FAILED, &["no such client `absent`"]);
    expect(&data_dir, &["restore", &world.text("noise.bin"), "--admin-url", &url], USAGE, &["--data-dir"]);
    drop(server.stop().expect_success());
    // A truncated database is a failure of its own, with a remedy.
    std::fs::write(data_dir.join("store/db"), "no database").unwrap();
    expect(&data_dir, &["client", "list"], FAILED, &["keep a copy of the folder"]);
}

#[test]
fn configuration_errors_are_reported_by_every_command_that_reads_it() {
    let world = World::new();
    let data_dir = world.data_dir();
    let config = world.text("daftar.toml");
    for (text, message) in [
        ("[server\n", "not TOML"),
        ("[server]\nlistne = 'x'\n", "did you mean `server.listen`?"),
        ("[server]\nlisten = '0.0.0.0:80'\n", "server.tls.cert"),
        ("[token]\nlifetime_s = 1\n", "`token.lifetime_s`"),
    ] {
        std::fs::write(&config, text).unwrap();
        for arguments in [&["serve"][..], &["client", "list"], &["verify"], &["restore", "x"]] {
            expect(&data_dir, &[arguments, &["--config", &config]].concat(), CONFIGURATION, &[&config, message]);
        }
    }
    for config in [world.text("none.toml"), world.text("folder"), world.text("noise.bin")] {
        expect(&data_dir, &["serve", "--config", &config], CONFIGURATION, &["cannot read", &config]);
    }
}

#[test]
fn wrong_usage_is_one_shape_too() {
    let world = World::new();
    let data_dir = world.data_dir();
    for arguments in [
        &["fly"][..],
        &["client"],
        &["client", "show"],
        &["client", "create", "--nme", "x"],
        &["serve", "--listen", "nowhere"],
        &["client", "list", "--admin-token-file", "x"],
        &["client", "set", "x"],
        &["eval"],
        &["import"],
        &["import", "x.csv", "--on-existing", "maybe"],
        &["export", "x.txt"],
        &["export", "x.ndjson", "--filter", "gender"],
        &["code", "add", "urn:svc:vocab:id-type#x", "--label", "x"],
        &["program", "list", "--no-such"],
        &["completions", "cmd"],
        &["key", "rotate", "--overlap", "soon"],
    ] {
        let reported = run(&data_dir, arguments);
        assert_eq!(reported.code, USAGE, "{arguments:?}: {reported:?}");
        assert!(reported.stdout.is_empty() && !reported.stderr.is_empty(), "{arguments:?}: {reported:?}");
        expect_json(&run(&data_dir, &[arguments, &["--json"]].concat()), USAGE);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let world = World::new();
    for arguments in
        [&["--help"][..], &["version"], &["completions", "bash"], &["client", "list"], &["doctor", "--all"]]
    {
        let mut reported = command(&world.data_dir(), arguments);
        let mut child = reported.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        assert!(output.status.code().is_some_and(|code| code != 101), "{arguments:?}: {stderr}");
    }
    assert!(artifacts::program().is_file());
}

#[test]
fn a_proxy_of_the_environment_is_not_used_for_an_address_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::serve(folder.path(), &[]);
    let mut list = command(folder.path(), &["client", "list"]);
    // No proxy listens there.
    for name in ["ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        list.env(name, "http://127.0.0.1:1");
    }
    let _listed = finish(list).expect_success();
    let _stopped = server.stop();
}
