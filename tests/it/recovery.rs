//! Recovery drills: a part of an installation is lost, and the steps of an operator bring the register back.
//! `host/docs/RECOVERY.md` describes the same steps.

mod clock;
mod database;
mod full_disk;
mod lost;
mod plugin;

use std::path::{Path, PathBuf};

use daftar_tests::process::{Finished, create_client};
use daftar_tests::records::{path, person};
use daftar_tests::{Credentials, Server, token};
use serde_json::json;

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

#[test]
fn every_drill_on_the_page_is_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("host/docs/RECOVERY.md")).unwrap();
    let named: Vec<&str> = page.split('`').filter(|text| text.contains("::") && !text.contains(' ')).collect();
    assert!(named.len() >= 15, "{named:?}");
    for name in named {
        let (module, function) = name.rsplit_once("::").unwrap();
        let file = root.join("tests/it").join(module.replace("::", "/")).with_extension("rs");
        let source = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(source.contains(&format!("fn {function}()")), "`{name}` is not a test");
    }
    let sources = ["clock", "database", "full_disk", "lost", "plugin"];
    for module in sources {
        let source = std::fs::read_to_string(root.join(format!("tests/it/recovery/{module}.rs"))).unwrap();
        for test in source.split("#[test]\nfn ").skip(1) {
            let function = test.split('(').next().unwrap();
            assert!(page.contains(&format!("recovery::{module}::{function}")), "`{function}` is not on the page");
        }
    }
}
