//! Plugins without a server: one call, the cases of a plugin, repeated calls.

use std::path::Path;
use std::process::Command;

use daftar_tests::process::{Finished, finish};
use daftar_tests::{artifacts, packs};
use serde_json::{Value, json};

fn daftar(folder: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new(artifacts::program());
    command.current_dir(folder).args(arguments);
    finish(command)
}

fn misbehaving(folder: &Path) -> String {
    let file = folder.join("guest.wasm");
    std::fs::copy(artifacts::fixture("open-occupation"), &file).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_pack_is_called_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packs::build(folder.path(), "1.0.0", None);
    let file = pack.to_str().unwrap();
    let contents = daftar(folder.path(), &["plugin", "call", file, "contents"]).expect_success();
    assert_eq!(contents.json()["vocabularies"][0]["codes"], 2, "{contents:?}");
    assert!(contents.stderr.contains("fuel") && contents.stderr.contains("0 log lines"), "{contents:?}");
    let looked_up =
        daftar(folder.path(), &["plugin", "call", "--json", file, "lookup", "urn:test:small#A", "urn:test:small#C"]);
    let body = looked_up.expect_success().json();
    assert_eq!(body["result"]["results"][0]["concept"]["labels"], json!({"en": "First"}));
    assert_eq!(body["result"]["results"][1]["error"], "`urn:test:small` has no code `C`");
    assert!(body["use"]["fuel"].as_u64().unwrap() > 0, "{body}");
    let bench = daftar(folder.path(), &["plugin", "bench", "--calls", "20", "--json", file, "contents"]);
    let bench = bench.expect_success().json();
    assert_eq!(bench["calls"], 20);
    assert!(bench["median_ms"].as_f64().unwrap() <= bench["max_ms"].as_f64().unwrap(), "{bench}");
    assert!(!folder.path().join("data").exists(), "no register is made");
}

#[test]
fn a_fault_of_a_plugin_has_its_exact_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = misbehaving(folder.path());
    // The fuel ends the loop, not the time, on a busy machine too.
    let config = folder.path().join("limits.toml");
    std::fs::write(&config, "[plugins.limits.open-occupation]\ncall_ms = 60000\n").unwrap();
    let config = config.to_str().unwrap();
    let look_up = |code: &str| {
        let code = format!("urn:ilo:isco-08#{code}");
        daftar(folder.path(), &["plugin", "call", &file, "lookup", &code, "--config", config])
    };
    assert!(look_up("FARM+FISH").expect_success().stdout.contains("FARM+FISH"));
    assert!(look_up("HUNT").expect_success().stdout.contains("does not join"));
    for (code, reason) in [("loop", "fuel"), ("memory", "memory"), ("panic", "trap")] {
        let refused = look_up(code);
        assert!(refused.code == 1 && refused.stderr.contains(reason), "{code}: {refused:?}");
    }
    let not_a_plugin = folder.path().join("text.wasm");
    std::fs::write(&not_a_plugin, "text").unwrap();
    let refused = daftar(folder.path(), &["plugin", "call", not_a_plugin.to_str().unwrap(), "contents"]);
    assert!(refused.code == 1 && refused.stderr.contains("unreadable"), "{refused:?}");
}

#[test]
fn limits_of_the_configuration_apply_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let pack = packs::build(folder.path(), "1.0.0", None);
    let config = folder.path().join("limits.toml");
    std::fs::write(&config, "[plugins.limits.small]\noutput_bytes = 10\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let arguments = [&["plugin", "call", pack.to_str().unwrap(), "contents"], config.as_slice()].concat();
    let refused = daftar(folder.path(), &arguments);
    assert!(refused.code == 1 && refused.stderr.contains("output_too_large"), "{refused:?}");
}

#[test]
fn a_rule_is_evaluated_by_an_engine_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("people.json");
    let people = json!([
        {"type": "individual", "birth_date": "1950-01-01"}, {"type": "individual", "birth_date": "2000-01-01"},
        {"type": "individual"},
    ]);
    std::fs::write(&records, people.to_string()).unwrap();
    let engine = artifacts::plugin("eligibility-cel");
    let (engine, records) = (engine.to_str().unwrap(), records.to_str().unwrap());
    let rule = "age_years(me.birth_date) >= 60";
    let arguments = ["plugin", "call", engine, "evaluate", rule, "--records", records, "--as-of", "2026-03-01"];
    let evaluated = daftar(folder.path(), &arguments).expect_success();
    let outcomes: Vec<Value> =
        evaluated.json()["results"].as_array().unwrap().iter().map(|result| result["outcome"].clone()).collect();
    assert_eq!(outcomes, [json!("eligible"), json!("not_eligible"), json!("undetermined")]);
}

#[test]
fn cases_of_a_pack_are_compared_with_it() {
    let folder = tempfile::tempdir().unwrap();
    drop(packs::build(folder.path(), "1.0.0", None));
    let source = folder.path().join("source-1.0.0");
    let source = source.to_str().unwrap();
    let none = daftar(folder.path(), &["plugin", "test", source]);
    assert!(none.code == 66 && none.stderr.contains("tests/cases.toml`, each a `[[case]]`"), "{none:?}");
    let tests = folder.path().join("source-1.0.0/tests");
    std::fs::create_dir(&tests).unwrap();
    let cases = "[[case]]\ncode = \"urn:test:small#A\"\nexpect = { labels = { en = \"First\" } }\n\
                 [[case]]\nname = \"absent\"\ncode = \"urn:test:small#C\"\nerror = \"has no code\"\n";
    std::fs::write(tests.join("cases.toml"), cases).unwrap();
    let passed = daftar(folder.path(), &["plugin", "test", source]).expect_success();
    assert!(passed.stdout.starts_with("2 cases, 0 failed"), "{passed:?}");
    std::fs::write(tests.join("cases.toml"), cases.replace("First", "Last")).unwrap();
    let failed = daftar(folder.path(), &["plugin", "test", source]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stdout.contains("`labels` is {\"en\":\"First\"}, expected {\"en\":\"Last\"}"), "{failed:?}");
    std::fs::write(tests.join("cases.toml"), "[[case]]\ncod = \"x\"\n").unwrap();
    let malformed = daftar(folder.path(), &["plugin", "test", source]);
    assert!(malformed.code == 66 && malformed.stderr.contains("cod"), "{malformed:?}");
}
