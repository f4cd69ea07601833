//! Queries of the audit log, by the admin API and by the command.

use daftar_tests::TestApp;
use daftar_tests::process::{Server, run};
use daftar_tests::records::{path, person};
use serde_json::{Value, json};

use super::found;

fn register() -> TestApp {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    for id in ["1", "2"] {
        drop(client.create_individual(&person(id, json!({}))));
        drop(client.get(&path("Individual", id)).expect(200));
    }
    app
}

#[test]
fn lines_are_found_by_every_filter() {
    let app = register();
    let on_first = found(&app, "record=urn:svc:vocab:id-type%23national_id%7C1");
    let actions: Vec<&Value> = on_first.iter().map(|line| &line["action"]).collect();
    assert_eq!(actions, ["read", "create"]);
    assert_eq!(found(&app, "record=Individual/urn:svc:vocab:id-type%23national_id%7C1&action=read").len(), 1);
    assert_eq!(found(&app, "record=Group/urn:svc:vocab:id-type%23national_id%7C1").len(), 0);
    assert_eq!(found(&app, "action=create&action=read").len(), 4);
    assert_eq!(found(&app, "action=create&outcome=refused").len(), 0);
    assert_eq!(found(&app, "text=INDIVIDUAL/%7Bidentifier").len(), 2);
    let client = on_first[0]["client"].as_str().unwrap();
    assert_eq!(found(&app, &format!("client={client}&action=read")).len(), 2);
    assert_eq!(found(&app, "to=2026-03-01T12:00:00Z&action=read").len(), 0);
    assert_eq!(found(&app, "from=2026-03-01&to=2026-03-02&action=read").len(), 2);
    let requested = &found(&app, "action=audit")[0];
    assert_eq!((&requested["actor"], &requested["status"]), (&json!("administrator"), &json!(200)));
    assert!(requested["note"].as_str().unwrap().starts_with("searched by from, to, action"), "{requested}");
}

#[test]
fn pages_continue_after_the_previous_one_while_entries_are_added() {
    let app = register();
    let all: Vec<Value> =
        found(&app, "action=create&action=read").iter().map(|line| line["request_id"].clone()).collect();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.admin().get(&format!("/audit?action=create&action=read&_count=1{cursor}")).expect(200).json();
        seen.extend(page["data"].as_array().unwrap().iter().map(|line| line["request_id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, all);
}

#[test]
fn invalid_queries_are_rejected_with_a_correction() {
    let app = TestApp::start();
    for (query, reported) in [
        ("_count=0", "`_count` must be a whole number from 1 to 1000"),
        ("_count=1001", "`_count` must be a whole number from 1 to 1000"),
        ("from=yesterday", "`from` is an instant such as"),
        ("from=2026-03-02&to=2026-03-01", "`from` must be before `to`"),
        ("client=a&actor=system", "name one of them"),
        ("actor=absent", "administrator"),
        ("action=delete", "`action` is one of read, search"),
        ("outcome=yes", "refused"),
        ("cursor=1", "`cursor` was not issued by the audit log"),
        ("text=", "`text` is a text of 1 to 1024 bytes"),
        ("name=x", "name"),
    ] {
        let response = app.admin().get(&format!("/audit?{query}")).expect(400);
        assert!(response.detail().contains(reported), "{query}: {}", response.detail());
    }
    assert_eq!(app.admin().get("/audit?_count=1000").status, 200);
}

#[test]
fn the_command_shows_lines_of_a_running_and_of_a_stopped_server() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let created = run(&data_dir, &["client", "create", "--name", "n", "--scope", "individual:read", "--json"]);
    let id = created.expect_success().json()["client_id"].as_str().unwrap().to_owned();
    let ask = |more: &[&str]| {
        let arguments = [&["audit", "query", "--record", id.as_str()], more].concat();
        run(&data_dir, &arguments).expect_success().stdout
    };
    let stopped = ask(&["--json"]);
    let lines: Vec<Value> = stopped.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let created: Vec<&Value> = lines.iter().filter(|line| line["action"] == "administer").collect();
    assert_eq!(created.len(), 1, "{stopped}");
    assert_eq!((&created[0]["note"], &created[0]["actor"]), (&json!("client created"), &json!("administrator")));
    let server = Server::serve(&data_dir, &[]);
    let running = ask(&["--action", "administer"]);
    let mut shown = running.lines();
    assert!(shown.next().unwrap().starts_with("AT "), "{running}");
    assert!(shown.next().unwrap().contains("administrator"), "{running}");
    assert!(running.contains("note: client created"), "{running}");
    assert_eq!(ask(&["--outcome", "failed"]).trim(), "no line of the audit log meets these conditions");
    drop(server.stop());
}

#[test]
fn a_head_is_a_read_that_shows_no_field() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"name": {"given": "Amina"}}))));
    let whole = client.get(&path("Individual", "1")).expect(200);
    let head = client.request("HEAD", &path("Individual", "1")).send().expect(200);
    assert_eq!((head.header("etag"), head.bytes()), (whole.header("etag"), &b""[..]));
    let lines = found(&app, "action=read");
    assert_eq!(lines.len(), 2);
    let of = |method: &str| {
        let is_of = |line: &&Value| line["operation"].as_str().unwrap().starts_with(method);
        lines.iter().find(is_of).unwrap_or_else(|| panic!("no line of {method}: {lines:?}"))
    };
    assert_eq!(of("GET ")["fields"], json!(["identifier", "name"]));
    assert_eq!(of("HEAD ").get("fields"), None);
    assert_eq!(of("HEAD ")["records"], of("GET ")["records"]);
    assert_eq!(of("HEAD ")["status"], 200);
}
