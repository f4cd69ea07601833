//! `daftar backup`, `daftar restore` and `POST /admin/v1/backup`.

mod admin;
mod file;
mod killed;
mod register;
mod signed;

use std::path::{Path, PathBuf};

use daftar_tests::process::{Finished, run};
use daftar_tests::{Admin, TestApp};
use serde_json::{Value, json};

use daftar_tests::records::{FEMALE, MALE, household, person};

/// Makes a backup of a register, running or stopped.
fn back_up(data_dir: &Path, file: &Path, more: &[&str]) -> Finished {
    run(data_dir, &[&["backup", text(file), "--json"], more].concat())
}

/// Restores a backup.
fn restore(data_dir: &Path, file: &Path) -> Finished {
    run(data_dir, &["restore", text(file), "--json"])
}

/// Reads a backup whole.
fn check(file: &Path) -> Finished {
    run(&file.with_extension("nowhere"), &["backup", text(file), "--check", "--json"])
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Some people and a household, written by a client.
fn furnish(app: &TestApp) -> daftar_tests::ApiClient {
    let client =
        app.client(&["individual:all", "group:all", "program:read", "program_membership:all", "vocabulary:read"]);
    for number in 0..6 {
        let gender = if number % 2 == 0 { FEMALE } else { MALE };
        let more = json!({"gender": gender, "name": {"family": format!("Family{number}")}, "birth_date": "1950-02-03"});
        drop(client.post("/Individual", &person(&number.to_string(), more)).expect(201));
    }
    drop(client.create_group(&household("H", &[("0", "head"), ("1", "spouse")])));
    client
}

/// A backup of a small register, in a folder of its own.
fn small() -> (tempfile::TempDir, PathBuf, TestApp) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("register.daftar");
    let app = TestApp::start();
    drop(furnish(&app));
    drop(back_up(app.data_dir(), &file, &[]).expect_success());
    (folder, file, app)
}

fn audit_lines(admin: &Admin) -> Vec<Value> {
    admin.get("/audit?_count=1000").expect(200).json()["data"].as_array().unwrap().clone()
}
