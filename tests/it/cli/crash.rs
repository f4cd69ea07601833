//! A server that is killed: acknowledged writes are present when it starts again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use daftar_tests::process::create_client;
use daftar_tests::records::{FEMALE, path, person};
use daftar_tests::{Server, token};
use serde_json::json;

#[test]
fn every_acknowledged_write_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let mut server = Server::serve(&data_dir, &[]);
    let credentials = create_client(&data_dir, &["individual:all"]);
    let mut written = 0;
    for round in 0..3 {
        let connection = server.connection();
        let token = token::fetch(&connection, &credentials);
        for _ in 0..20 {
            let body = person(&written.to_string(), json!({"gender": FEMALE}));
            let request = connection.request("POST", "/api/v2/Individual").bearer(&token);
            assert_eq!(request.json(&body).send().status, 201);
            written += 1;
        }
        server.kill();
        assert!(data_dir.join("server.json").exists(), "nothing was cleaned up");
        server = Server::serve(&data_dir, &[]);
        let connection = server.connection();
        let call = |path: &str| connection.request("GET", &format!("/api/v2{path}")).bearer(&token).send();
        let found = call("/Individual?gender=urn:iso:std:iso:5218%232&_count=1").expect(200).json();
        assert_eq!(found["total"], written, "after kill {round}");
        for id in 0..written {
            assert_eq!(call(&path("Individual", &id.to_string())).status, 200, "{id} after kill {round}");
        }
    }
    drop(server.stop().expect_success());
}

/// Asserts that no other account may read a file or folder in the folder.
fn assert_private(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        // A file may be replaced while the folder is read.
        let Ok(metadata) = entry.metadata() else { continue };
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", entry.path().display());
        if metadata.is_dir() {
            assert_private(&entry.path());
        }
    }
}

#[test]
fn the_files_of_a_server_are_private_and_its_memory_is_not_dumped() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &[]);
    drop(create_client(&data_dir, &["individual:all"]));
    assert!(data_dir.join("store/db").is_file());
    // Not all of the data folder: the test copied the compiled plugins into it.
    assert_private(&data_dir.join("store"));
    assert_private(&data_dir.join("plugins"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id().as_raw_nonzero())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(core.split_whitespace().filter(|word| *word == "0").count() == 2, "{core}");
    drop(server.stop().expect_success());
}
