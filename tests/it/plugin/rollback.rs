//! Versions that an install replaced: they are retained, and a rollback installs them again.

use std::fs;

use daftar_tests::process::{command, finish, run};
use daftar_tests::{TestApp, packs};
use serde_json::{Value, json};

fn versions(shown: &Value) -> Vec<&str> {
    shown["earlier"].as_array().into_iter().flatten().map(|earlier| earlier["version"].as_str().unwrap()).collect()
}

#[test]
fn a_replaced_version_is_installed_again() {
    let folder = tempfile::tempdir().unwrap();
    let build = |version: &str| fs::read(packs::build(folder.path(), version, None)).unwrap();
    let mut app = TestApp::start();
    let none = app.admin().request("POST", "/plugins/small/rollback").send().expect(404);
    assert_eq!(none.code(), "not_found");
    for version in ["1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"] {
        assert_eq!(app.admin().install(&build(version)).status, 201);
    }
    assert_eq!(versions(&app.admin().get("/plugins/small").expect(200).json()), ["1.3.0", "1.2.0", "1.1.0"]);

    let data_dir = app.data_dir().to_owned();
    let plugin = |arguments: &[&str]| run(&data_dir, &[&["plugin"], arguments, &["--json"]].concat());
    let back = plugin(&["rollback", "small"]).expect_success().json();
    assert_eq!((&back["version"], versions(&back)), (&json!("1.3.0"), vec!["1.4.0", "1.2.0", "1.1.0"]));
    let older = plugin(&["rollback", "small", "--to", "1.1.0"]).expect_success().json();
    assert_eq!(older["version"], "1.1.0");
    for (to, what) in [("9.9.9", "version 9.9.9 of `small` is not retained"), ("last", "`version`")] {
        let refused = plugin(&["rollback", "small", "--to", to]);
        assert!(refused.code == 1 && refused.stderr.contains(what), "{refused:?}");
    }
    let only = app.admin().request("POST", "/plugins/gender/rollback").send().expect(409);
    assert!(only.detail().contains("has replaced no version"), "{}", only.detail());

    let backup = folder.path().join("register.daftar");
    drop(run(&data_dir, &["backup", backup.to_str().unwrap()]).expect_success());
    app.restart();
    let shown = app.admin().get("/plugins/small").expect(200).json();
    assert_eq!((&shown["version"], versions(&shown)), (&json!("1.1.0"), vec!["1.3.0", "1.4.0", "1.2.0"]));
    let restored = folder.path().join("restored");
    let in_restored = |arguments: &[&str]| {
        let mut command = command(&restored, arguments);
        command.env("DAFTAR_PLUGINS__ALLOW_UNSIGNED", "true");
        finish(command).expect_success()
    };
    drop(in_restored(&["restore", backup.to_str().unwrap()]));
    let shown = in_restored(&["plugin", "rollback", "small", "--json"]).json();
    assert_eq!(shown["version"], "1.3.0", "the files of earlier versions are in the backup");

    // Removed, nothing of it is left.
    assert_eq!(app.admin().request("DELETE", "/plugins/small").send().status, 204);
    assert_eq!(app.admin().request("POST", "/plugins/small/rollback").send().status, 404);
    assert_eq!(app.admin().install(&build("1.0.0")).status, 201);
    assert_eq!(versions(&app.admin().get("/plugins/small").expect(200).json()), Vec::<&str>::new());
}

#[test]
fn other_content_under_an_installed_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    fs::create_dir(&one).and_then(|()| fs::create_dir(&other)).unwrap();
    let group =
        "[[concept_group]]\nname = \"firsts\"\ndescription = \"A.\"\ninclude = [{ code = \"urn:test:small#A\" }]\n";
    let installed = fs::read(packs::build(&one, "1.0.0", None)).unwrap();
    let changed = fs::read(packs::build_with(&other, "1.0.0", None, group)).unwrap();
    let app = TestApp::start();
    assert_eq!(app.admin().install(&installed).status, 201);
    assert_eq!(app.admin().install(&installed).status, 201, "the same file is installed again");
    let refused = app.admin().install(&changed).expect(422);
    assert!(refused.detail().contains("version 1.0.0 is installed with other content"), "{}", refused.detail());
    let replaced =
        app.admin().request("POST", "/plugins?allow_downgrade=true").body("application/wasm", changed).send();
    assert_eq!(replaced.status, 201);
}
