//! Imports that are killed, or whose server is: every line has one result, written or rejected.

use std::collections::BTreeMap;
use std::path::Path;

use daftar_tests::process::{command, create_client, run};
use daftar_tests::records::path;
use daftar_tests::{Server, token};
use serde_json::{Value, json};

use super::{individual, lines, of_type};

/// Number of people in the file; after each fifth of them a household, and a line that is rejected.
const PEOPLE: u64 = 600;

fn a_file(folder: &Path) -> std::path::PathBuf {
    let mut all = Vec::new();
    for number in 0..PEOPLE {
        all.push(individual(&number.to_string(), json!({"name": {"given": format!("N{number}")}})));
        if number % 5 == 4 {
            let members: Vec<String> = (number - 4..=number).map(|member| member.to_string()).collect();
            let members: Vec<(&str, &str)> = members.iter().map(|member| (member.as_str(), "child")).collect();
            all.push(of_type("Group", daftar_tests::records::household(&format!("G{number}"), &members)));
            all.push(individual(&format!("x{number}"), json!({"birth_date": "never"})));
        }
    }
    lines(folder, "people.ndjson", &all)
}

/// Audit entries of records created by an import.
fn made(data_dir: &Path) -> BTreeMap<String, u32> {
    let text = run(data_dir, &["audit", "query", "--json", "--action", "create", "--limit", "100000"]).expect_success();
    let mut made = BTreeMap::new();
    for line in text.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["operation"].as_str().is_some_and(|operation| operation.contains("import")) {
            *made.entry(line["records"][0].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    made
}

#[test]
fn every_line_ends_once_however_often_server_and_command_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let file = a_file(folder.path());
    let name = file.to_str().unwrap();
    let mut server = Server::serve(&data_dir, &[]);
    let credentials = create_client(&data_dir, &["individual:all", "group:all"]);
    let mut resumes = false;
    // Each round kills one of the two after some more records are present.
    for round in 1..=4 {
        let connection = server.connection();
        let token = token::fetch(&connection, &credentials);
        let total = || {
            let found = connection.request("GET", "/api/v2/Individual?_count=1").bearer(&token).send();
            found.expect(200).json()["total"].as_u64().unwrap()
        };
        let mut arguments = vec!["import", name, "--part-bytes", "6000"];
        arguments.extend(resumes.then_some("--resume"));
        let mut child = command(&data_dir, &arguments).spawn().unwrap();
        let wanted = round * PEOPLE / 6;
        while total() < wanted && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if round % 2 == 0 {
            drop(child.kill());
        } else {
            server.kill();
            server = Server::serve(&data_dir, &[]);
        }
        let ended = child.wait().unwrap();
        assert!(!ended.success());
        resumes = folder.path().join("people.ndjson.progress.json").exists();
        if !resumes {
            break;
        }
    }
    if resumes {
        let finished = run(&data_dir, &["import", name, "--part-bytes", "6000", "--resume", "--json"]);
        assert_eq!(finished.code, super::REJECTS, "{finished:?}");
        let reported = finished.json();
        let counts = ["read", "created", "rejected"].map(|name| reported[name].as_u64().unwrap());
        assert_eq!(counts, [PEOPLE / 5 * 7, PEOPLE / 5 * 6, PEOPLE / 5]);
    }
    let refused: Vec<u64> = super::rejects(&file).into_iter().map(|(line, _)| line).collect();
    assert_eq!(refused, (1..=PEOPLE / 5).map(|number| number * 7).collect::<Vec<_>>(), "each once, in order");
    let made = made(&data_dir);
    assert_eq!(made.len() as u64, PEOPLE / 5 * 6);
    assert!(made.values().all(|times| *times == 1), "a record is made once");
    let connection = server.connection();
    let token = token::fetch(&connection, &credentials);
    let group = connection.request("GET", &format!("/api/v2{}", path("Group", "G599"))).bearer(&token).send();
    assert_eq!(group.expect(200).json()["quantity"], 5);
    drop(server.stop().expect_success());
}
