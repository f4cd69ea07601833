//! A plugin from a scaffold: the folder that `daftar plugin new` creates builds and passes its own tests with one
//! command, is self-contained, and the resulting plugin is installed and used.

use std::path::{Path, PathBuf};
use std::process::Command;

use daftar::domain::manifest::PluginName;
use daftar_tests::process::{self, Finished};
use daftar_tests::{ApiClient, TestApp, artifacts};
use serde_json::{Value, json};

fn daftar(folder: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new(artifacts::program());
    command.current_dir(folder).args(arguments);
    // Both scaffolds share their dependencies, and nothing is fetched: their lock file names the crates of this workspace.
    command.env("CARGO_TARGET_DIR", daftar_test_needs::scratch().join("scaffold")).env("CARGO_NET_OFFLINE", "true");
    // The sandbox has no counters of coverage.
    command.env_remove("RUSTC_WRAPPER");
    process::finish(command)
}

/// Creates a folder and builds it; returns the plugin's file.
fn built(folder: &Path, kind: &str, name: &str) -> PathBuf {
    let made = daftar(folder, &["plugin", "new", "--kind", kind, name]).expect_success();
    assert!(made.stdout.contains(&format!("daftar plugin build {name}")), "{}", made.stdout);
    // Cargo serializes builds in a folder; waiting here keeps that out of its output.
    let turn = daftar_test_needs::lock("scaffold");
    let finished = daftar(folder, &["plugin", "build", name, "--json"]).expect_success();
    drop(turn);
    let tested = daftar(folder, &["plugin", "test", name, "--json"]).expect_success().json();
    let failed = tested.get("failed").and_then(Value::as_u64).unwrap_or_default();
    assert_eq!(failed, 0, "{tested}");
    assert!(finished.stderr.contains("test logic::tests::"), "its own tests were run: {}", finished.stderr);
    let reported: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"));
    assert_eq!((&reported["name"], &reported["version"]), (&json!(name), &json!("0.1.0")));
    folder.join(reported["file"].as_str().unwrap())
}

fn evaluate(client: &ApiClient, expression: &str, subject: &Value) -> Value {
    let body = json!({"expression": expression, "subjects": [subject]});
    client.post("/Eligibility/$evaluate", &body).json()
}

#[test]
fn a_new_vocabulary_pack_builds_with_one_command_and_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let pack = std::fs::read(built(folder.path(), "vocabulary-pack", "water-source")).unwrap();
    let app = TestApp::start();
    assert_eq!(app.admin().install(&pack).expect(201).json()["name"], "water-source");
    let client = app.client(&["eligibility:read"]);
    let person = json!({"type": "individual", "gender": "urn:iso:std:iso:5218#2"});
    let rule = |code: &str| format!("descends_from(me.gender, 'urn:example:water-source#{code}')");
    for code in ["well", "well:250"] {
        let response = evaluate(&client, &rule(code), &person);
        assert_eq!(response["results"][0]["outcome"], "not_eligible", "{response}");
    }
    let refused = evaluate(&client, &rule("sea:3"), &person);
    let message = refused["diagnostics"][0]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("as `well:250` is"), "{message}");

    let again = daftar(folder.path(), &["plugin", "new", "--kind", "vocabulary-pack", "water-source"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("`water-source` exists already"), "{}", again.stderr);
}

#[test]
fn a_new_eligibility_engine_builds_with_one_command_and_decides() {
    let folder = tempfile::tempdir().unwrap();
    let engine = std::fs::read(built(folder.path(), "eligibility-engine", "tiny-engine")).unwrap();
    let named = Some(PluginName::parse("tiny-engine").unwrap());
    let app = TestApp::builder().config(|config| config.plugins.engine = named).start();
    assert_eq!(app.admin().install(&engine).expect(201).json()["name"], "tiny-engine");
    let client = app.client(&["eligibility:read"]);
    let born =
        |estimated: Value| json!({"type": "individual", "birth_date": "2000-01-01", "birth_date_estimated": estimated});
    for (estimated, expression, outcome) in [
        (json!(true), "me.birth_date_estimated", "eligible"),
        (json!(false), "me.birth_date_estimated", "not_eligible"),
        (json!(false), "not me.birth_date_estimated", "eligible"),
        (Value::Null, "me.birth_date_estimated", "undetermined"),
    ] {
        let response = evaluate(&client, expression, &born(estimated.clone()));
        assert_eq!(response["results"][0]["outcome"], outcome, "{expression} of {estimated}: {response}");
    }
    let undetermined = evaluate(&client, "me.birth_date_estimated", &born(Value::Null));
    assert_eq!(undetermined["results"][0]["missing"], json!(["me.birth_date_estimated"]));
    let refused = evaluate(&client, "not me.activ", &json!({"type": "individual"}));
    assert_eq!(refused["diagnostics"][0]["column"], 5, "{refused}");
}

#[test]
fn a_wrong_call_reports_the_right_usage() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reported, code) in [
        (&["plugin", "new", "--kind", "pack", "water"][..], "vocabulary-pack, eligibility-engine", 2),
        (&["plugin", "new", "--kind", "vocabulary-pack", "Water"], "lower-case letters", 2),
        (&["plugin", "build", "nowhere"], "plugin.toml", 66),
        (&["plugin", "wrap", "none.wasm", "--manifest", "none.toml", "-o", "x.wasm"], "none.toml", 66),
    ] {
        let refused = daftar(folder.path(), arguments);
        assert_eq!(refused.code, code, "{refused:?}");
        assert!(refused.stderr.contains(reported), "{reported}: {}", refused.stderr);
    }
    std::fs::write(folder.path().join("core.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let manifest = "name = \"x\"\nversion = \"1.0.0\"\nkind = \"vocabulary-pack\"\ninterface = \"0.1.0\"\ndescription = \"X.\"\nlicence = \"CC0-1.0\"\n";
    std::fs::write(folder.path().join("plugin.toml"), manifest).unwrap();
    let wrapped = daftar(folder.path(), &["plugin", "wrap", "core.wasm", "--manifest", "plugin.toml", "-o", "x.wasm"]);
    assert_eq!((wrapped.code, wrapped.stdout.as_str()), (1, ""), "{wrapped:?}");
    let missing = "the module cannot be wrapped as a component";
    assert!(wrapped.stderr.contains(missing) && wrapped.stderr.contains("function `describe`"), "{wrapped:?}");
    assert!(!folder.path().join("x.wasm").exists());
}
