//! Recovery drills: a part of an installation is lost, and the steps of an operator bring the register back.
//! `host/docs/RECOVERY.md` describes the same steps.

mod clock;
mod database;
mod full_database;
mod full_disk;
mod lost;
mod plugin;

use std::path::{Path, PathBuf};

use daftar_tests::process::{Finished, create_client};
use daftar_tests::records::{path, person};
use daftar_tests::{Credentials, Server, token};
use serde_json::json;

use crate::faults::photo;

/// A data folder with a client that may write.
struct Register {
    folder: tempfile::TempDir,
    credentials: Credentials,
}

impl Register {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        drop(Server::serve(&data_dir, &[]).stop().expect_success());
        let credentials = create_client(&data_dir, &["individual:all", "vocabulary:read", "eligibility:all"]);
        Self { folder, credentials }
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn serve(&self) -> Server {
        Server::serve(&self.data_dir(), &[])
    }

    fn token(&self, server: &Server) -> String {
        token::fetch(&server.connection(), &self.credentials)
    }

    /// Creates people with these ids.
    fn create(&self, server: &Server, ids: &[&str]) {
        let token = self.token(server);
        for id in ids {
            let request = server.connection().request("POST", "/api/v2/Individual").bearer(&token);
            drop(request.json(&person(id, json!({}))).send().expect(201));
        }
    }

    /// Creates people with photos, by the numbers of these.
    fn create_with_photos(&self, server: &Server, numbers: std::ops::Range<u32>) {
        let token = self.token(server);
        for number in numbers {
            let body = person(&format!("photo-{number}"), json!({"photo": photo(number)}));
            let request = server.connection().request("POST", "/api/v2/Individual").bearer(&token);
            drop(request.json(&body).send().expect(201));
        }
    }

    /// The statuses of reads of these people.
    fn statuses<const N: usize>(&self, server: &Server, ids: [&str; N]) -> [u16; N] {
        let token = self.token(server);
        ids.map(|id| {
            let target = format!("/api/v2{}", path("Individual", id));
            server.connection().request("GET", &target).bearer(&token).send().status
        })
    }
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-a").arg(from).arg(to).status().unwrap().success());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[track_caller]
fn assert_reported(finished: &Finished, texts: &[&str]) {
    for text in texts {
        assert!(finished.stderr.contains(text), "`{text}` is missing: {finished:?}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "a defect of daftar"] {
        assert!(!finished.stderr.contains(noise), "`{noise}`: {finished:?}");
    }
}

/// The names of the tests of a file: functions with the attribute.
fn tests_of(source: &str) -> Vec<&str> {
    let tests = source.split("#[test]\n").skip(1);
    let functions = tests.filter_map(|rest| rest.lines().find(|line| !line.starts_with("#[")));
    functions.filter_map(|line| line.strip_prefix("fn ")?.split_once("()").map(|(name, _)| name)).collect()
}

#[test]
fn every_drill_on_the_page_is_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("it");
    let page = std::fs::read_to_string(tests.join("../../host/docs/RECOVERY.md")).unwrap();
    let source = |module: &str| {
        let file = tests.join(module.replace("::", "/")).with_extension("rs");
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    let named: Vec<&str> = page.split('`').filter(|text| text.contains("::") && !text.contains(' ')).collect();
    assert!(named.len() >= 15, "{named:?}");
    for name in &named {
        let (module, function) = name.rsplit_once("::").unwrap();
        assert!(tests_of(&source(module)).contains(&function), "`{name}` is not a test");
    }
    for file in names(&tests.join("recovery")) {
        let module = format!("recovery::{}", file.strip_suffix(".rs").unwrap());
        for function in tests_of(&source(&module)) {
            assert!(named.contains(&format!("{module}::{function}").as_str()), "`{function}` is not on the page");
        }
    }
}

#[test]
fn a_function_without_the_attribute_is_not_a_test() {
    let source =
        "#[test]\nfn a_drill() {}\nfn a_helper() {}\n/// Steps.\n#[test]\n#[cfg(unix)]\nfn another_drill() {}\n";
    assert_eq!(tests_of(source), ["a_drill", "another_drill"]);
}
