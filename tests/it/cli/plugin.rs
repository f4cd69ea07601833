//! `daftar plugin`, on a server that runs and on one that is stopped.

use std::path::Path;

use daftar_tests::process::run;
use daftar_tests::records::person;
use daftar_tests::{TestApp, artifacts};
use serde_json::json;

fn names(data_dir: &Path) -> Vec<String> {
    let list = run(data_dir, &["plugin", "list", "--json"]).expect_success().json();
    list["data"].as_array().unwrap().iter().map(|plugin| plugin["name"].as_str().unwrap().to_owned()).collect()
}

fn install_and_remove(data_dir: &Path) {
    let module = artifacts::module("farmer-registry");
    let module = module.to_str().unwrap();
    let before = names(data_dir);
    let installed = run(data_dir, &["plugin", "install", module]).expect_success().stdout;
    assert!(installed.starts_with("installed farmer-registry 1.0.0 (sha256:"), "{installed}");
    assert!(names(data_dir).contains(&"farmer-registry".to_owned()));
    let table = run(data_dir, &["plugin", "list"]).expect_success().stdout;
    assert!(table.starts_with("NAME") && table.contains("farmer-registry"), "{table}");
    let shown = run(data_dir, &["plugin", "show", "farmer-registry", "--json"]).expect_success().json();
    assert_eq!((&shown["name"], &shown["version"]), (&json!("farmer-registry"), &json!("1.0.0")));
    let text = run(data_dir, &["plugin", "show", "farmer-registry"]).expect_success().stdout;
    assert!(text.contains("limits.memory_bytes"), "{text}");
    assert_eq!(
        run(data_dir, &["plugin", "remove", "farmer-registry"]).expect_success().stdout,
        "removed farmer-registry\n"
    );
    drop(run(data_dir, &["plugin", "install", module]).expect_success());
    let removed = run(data_dir, &["plugin", "remove", "farmer-registry", "--json"]).expect_success().json();
    assert_eq!(removed, json!({"name": "farmer-registry", "removed": true}));
    let refused = run(data_dir, &["plugin", "show", "farmer-registry"]);
    assert!(refused.code == 1 && refused.stderr.contains("farmer-registry"), "{refused:?}");
    assert_eq!(names(data_dir), before);
    let refused = run(data_dir, &["plugin", "remove", "farmer-registry"]);
    assert!(refused.code == 1 && refused.stderr.contains("no plugin `farmer-registry` is installed"), "{refused:?}");
    let liar = artifacts::fixture("duplicate-code");
    let refused = run(data_dir, &["plugin", "install", liar.to_str().unwrap()]);
    assert!(refused.code == 1 && refused.stderr.contains("plugin `duplicate-code` was rejected"), "{refused:?}");
    let refused = run(data_dir, &["plugin", "install", "/nowhere/x.wasm"]);
    assert!(refused.code == 66 && refused.stderr.contains("/nowhere/x.wasm"), "{refused:?}");
}

#[test]
fn plugins_are_administered_on_a_running_server() {
    let app = TestApp::start();
    install_and_remove(app.data_dir());
}

#[test]
fn plugins_are_administered_on_a_stopped_server() {
    let mut app = TestApp::start();
    app.stop();
    install_and_remove(app.data_dir());
}

#[test]
fn a_pack_in_use_is_removed_by_force_alone() {
    let app = TestApp::start();
    assert!(names(app.data_dir()).contains(&"isco-08".to_owned()));
    let client = app.client(&["individual:create"]);
    drop(client.create_individual(&person("1", json!({"occupation": "urn:ilo:isco-08#6111"}))));
    let refused = run(app.data_dir(), &["plugin", "remove", "isco-08"]);
    assert!(refused.code == 1 && refused.stderr.contains("1 records use codes"), "{refused:?}");
    drop(run(app.data_dir(), &["plugin", "remove", "isco-08", "--force"]).expect_success());
    assert!(!names(app.data_dir()).contains(&"isco-08".to_owned()));
}

#[test]
fn a_pack_is_made_from_a_folder_of_plain_files_without_a_compiler() {
    let app = TestApp::start();
    let source = tempfile::tempdir().unwrap();
    for folder in ["codes", "labels/en"] {
        std::fs::create_dir_all(source.path().join(folder)).unwrap();
    }
    let settings = "name = \"religion\"\nversion = \"9.0.0\"\ndescription = \"Two codes.\"\nlicence = \"CC0-1.0\"\nattribution = \"Us\"\n\
                    source = \"Us\"\n[[vocabulary]]\nnamespace = \"urn:un:unsd:pop-census:religion\"\nname = \"Religion\"\ndomain = \"Core\"\n\
                    version = \"1\"\nsource = \"Us\"\ndefault_language = \"en\"\nlanguages = [\"en\"]\ncodes = \"religion.tsv\"\ncount = 2\n";
    std::fs::write(source.path().join("pack.toml"), settings).unwrap();
    std::fs::write(source.path().join("codes/religion.tsv"), "code\nA\nB\n").unwrap();
    std::fs::write(source.path().join("labels/en/religion.tsv"), "code\tlabel\nA\tFirst\nB\tSecond\n").unwrap();
    std::fs::write(source.path().join("LICENSE-DATA.md"), "CC0\n").unwrap();
    let (dir, pack) = (source.path().to_str().unwrap(), source.path().join("religion.wasm"));
    let checked = run(app.data_dir(), &["pack", "check", dir, "--json"]).expect_success().json();
    assert_eq!(checked, json!({"codes": 2}));
    drop(run(app.data_dir(), &["pack", "build", dir, "-o", pack.to_str().unwrap()]).expect_success());
    drop(run(app.data_dir(), &["plugin", "install", pack.to_str().unwrap()]).expect_success());
    let client = app.client(&["individual:create", "individual:read"]);
    let created = client.create_individual(&person("1", json!({"religion": "urn:un:unsd:pop-census:religion#B"})));
    assert_eq!(created["religion"]["display"], "Second");

    std::fs::write(source.path().join("codes/religion.tsv"), "code\nA\nA\n").unwrap();
    let refused = run(app.data_dir(), &["pack", "check", dir]);
    assert!(refused.code == 66 && refused.stderr.contains("religion.tsv"), "{refused:?}");
}
