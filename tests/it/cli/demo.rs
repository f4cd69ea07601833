//! `daftar demo`: every line that it prints for pasting, pasted.

use std::path::Path;
use std::process::{Command, Stdio};

use daftar_tests::{Credentials, Server, artifacts, token};
use serde_json::Value;

/// Runs pasted lines sequentially in one shell; returns the standard output of each.
fn paste(lines: &[String]) -> Vec<String> {
    let program = artifacts::program();
    let beside = program.parent().unwrap().display().to_string();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let separated: Vec<String> = lines.iter().map(|line| format!("{line}\necho '=== end of one'\n")).collect();
    let output = Command::new("sh")
        .args(["-c", &separated.concat()])
        .env("PATH", format!("{beside}:{}", path.to_string_lossy()))
        .env_remove("DAFTAR_ADMIN_TOKEN")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut parts: Vec<String> = stdout.split("=== end of one\n").map(str::to_owned).collect();
    assert_eq!(parts.pop().as_deref(), Some(""), "{stdout}");
    parts
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn every_line_that_the_demo_prints_works_when_pasted() {
    if !daftar_test_needs::programs(&["curl"]) {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = Command::new(artifacts::program());
    demo.args(["demo", "--listen", "127.0.0.1:0", "--plugins"]).arg(artifacts::plugins());
    demo.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    let mut server = Server::start(demo);
    assert!(!is_empty(temporary.path()));
    let mut lines = Vec::new();
    while let Some(line) = server.next_line() {
        if line.starts_with("Stop with Ctrl-C") {
            break;
        }
        if !line.is_empty() && !line.starts_with('#') && !line.starts_with("Paste") {
            lines.push(line);
        }
    }
    assert_eq!(lines.len(), 8, "{lines:?}");
    check(&paste(&lines));
    let finished = server.stop().expect_success();
    assert!(is_empty(temporary.path()), "the folder of the demo is removed");
    assert!(!finished.stderr.contains("ERROR"), "{}", finished.stderr);
}

#[test]
fn the_demo_prints_access_data_in_one_line() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = Command::new(artifacts::program());
    demo.args(["demo", "--json", "--listen", "127.0.0.1:0", "--plugins"]).arg(artifacts::plugins());
    demo.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    let mut server = Server::begin(demo);
    let reported: Value = serde_json::from_str(&server.next_line().unwrap()).unwrap();
    assert_eq!((&reported["individuals"], &reported["scopes"][0]), (&1_000.into(), &"individual:all".into()));
    server.url = reported["listening_on"].as_str().unwrap().to_owned();
    let token = token::fetch(&server.connection(), &Credentials::read(&reported));
    for (noun, total) in [("Individual", 1_000), ("Program", 0), ("ProgramMembership", 0)] {
        let path = format!("/api/v2/{noun}?_count=1");
        let page = server.connection().request("GET", &path).bearer(&token).send().expect(200).json();
        assert_eq!(page["total"], total, "{noun}");
    }
    let granted: Vec<&str> = reported["scopes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for scope in workbench_scopes() {
        let all = format!("{}:all", scope.split(':').next().unwrap());
        assert!(granted.contains(&scope) || granted.contains(&all.as_str()), "the workbench uses `{scope}`");
    }
    let finished = server.stop().expect_success();
    assert_eq!(finished.stdout, "", "nothing else is said");
}

#[test]
fn a_demo_ends_when_it_is_stopped_during_its_start() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = Command::new(artifacts::program());
    demo.args(["demo", "--listen", "127.0.0.1:0", "--plugins"]).arg(artifacts::plugins());
    demo.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    let mut server = Server::begin(demo);
    assert_eq!(server.next_line().as_deref(), Some("daftar demo: loading the plugins"));
    // Without a handler the signal would end the process with an error.
    let finished = server.stop().expect_success();
    assert!(!finished.stdout.contains("listening on"), "{}", finished.stdout);
}

/// The scopes in the table of `host/docs/WORKBENCH.md`.
fn workbench_scopes() -> Vec<&'static str> {
    let page = include_str!("../../../host/docs/WORKBENCH.md");
    let (_, table) = page.split_once("| scope | without it |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let scopes: Vec<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`')).filter(|part| part.contains(':')).collect();
    assert!(scopes.len() >= 7, "{scopes:?}");
    scopes
}

fn check(responses: &[String]) {
    let json =
        |at: usize| -> Value { serde_json::from_str(&responses[at]).unwrap_or_else(|_| panic!("{}", responses[at])) };
    assert_eq!(responses[0].trim().split('.').count(), 3, "a token: {}", responses[0]);
    let person = json(1);
    assert_eq!(person["identifier"][0]["value"], "DEMO-000001");
    assert!(person["name"]["family"].is_string() && person["gender"]["display"].is_string(), "{person}");
    let women = json(2);
    assert!(women["total"].as_u64() > Some(10), "{women}");
    assert_eq!(women["data"].as_array().unwrap().len(), 2);
    assert_eq!(women["data"][0]["gender"]["display"], "Féminin");
    let registered = json(3);
    assert_eq!(
        (&registered["identifier"][0]["value"], &registered["meta"]["version_id"]),
        (&"NEW-1".into(), &"1".into())
    );
    let pension = json(4);
    let outcome = |at: usize| pension["results"][at]["outcome"].as_str().unwrap();
    assert_eq!([outcome(0), outcome(1), outcome(2)], ["eligible", "not_eligible", "undetermined"]);
    assert_eq!(pension["results"][2]["missing"][0], "me.birth_date");
    let head = json(5);
    assert!(head["results"][0]["outcome"].is_string(), "{head}");
    assert!(responses[6].contains("demo") && responses[6].contains("active"), "{}", responses[6]);
    assert!(responses[7].contains("eligibility-cel") && responses[7].contains("gender"), "{}", responses[7]);
}
