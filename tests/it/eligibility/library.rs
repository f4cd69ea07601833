//! The rules of `examples/rules/`: each says of its cases what its file says, on the packs that ship.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use daftar_tests::process::run;
use daftar_tests::{TestApp, artifacts};
use serde_json::{Value, json};

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rules")
}

/// A register that is set up as the library's README says.
fn prepared() -> TestApp {
    let app = TestApp::start();
    let module = std::fs::read(artifacts::module("farmer-registry")).unwrap();
    drop(app.admin().install(&module).expect(201));
    for (code, label) in [("pregnant", "en=Pregnant"), ("not_pregnant", "en=Not pregnant")] {
        let code = format!("urn:svc:vocab:pregnancy-status#{code}");
        drop(run(app.data_dir(), &["code", "add", &code, "--label", label]).expect_success());
    }
    let set = ["concept-group", "set", "pregnant_eligible", "--code", "urn:svc:vocab:pregnancy-status#pregnant"];
    drop(run(app.data_dir(), &set).expect_success());
    app
}

#[test]
fn every_rule_passes_its_cases() {
    let app = prepared();
    let folder = library();
    let reported = run(app.data_dir(), &["eval", "--json", "--cases", folder.to_str().unwrap()]);
    let rules = reported.json();
    let problems: Vec<&Value> =
        rules["rules"].as_array().unwrap().iter().filter(|rule| rule["problems"] != json!([])).collect();
    assert!(problems.is_empty() && reported.code == 0, "{problems:#?} {}", reported.stderr);
    assert_eq!(rules["rules"].as_array().unwrap().len(), 20);
    assert!(rules["rules"].as_array().unwrap().iter().all(|rule| rule["cases"].as_u64() >= Some(4)), "{rules}");
}

#[test]
fn every_rule_has_a_line_in_the_readme_and_cases_of_all_three_outcomes() {
    let readme = std::fs::read_to_string(library().join("README.md")).unwrap();
    let mut files = 0;
    for entry in std::fs::read_dir(library()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        files += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(readme.contains(&format!("({name})")), "the README does not name {name}");
        let text = std::fs::read_to_string(&path).unwrap();
        let outcomes: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("outcome = ")).collect();
        assert_eq!(outcomes.len(), 3, "{name}: {outcomes:?}");
    }
    assert_eq!(files, 20);
}

#[test]
fn a_case_with_another_outcome_is_reported() {
    let app = TestApp::start();
    let folder = tempfile::tempdir().unwrap();
    let rule = std::fs::read_to_string(library().join("old-age-pension.toml")).unwrap();
    let path = folder.path().join("pension.toml");
    std::fs::write(&path, rule.replace(">= 65", ">= 61")).unwrap();
    let reported = run(app.data_dir(), &["eval", "--cases", path.to_str().unwrap()]);
    assert_eq!(reported.code, 1, "{reported:?}");
    assert!(reported.stdout.contains("a man of 62: expected not_eligible, found eligible"), "{}", reported.stdout);
    assert!(reported.stderr.contains("one rule does not say what its cases say"), "{}", reported.stderr);
    let farmers = library().join("farmer-input-subsidy.toml");
    let reported = run(app.data_dir(), &["eval", "--cases", farmers.to_str().unwrap()]);
    assert!(reported.code == 1 && reported.stdout.contains("it needs the module `farmer-registry`"), "{reported:?}");
}
