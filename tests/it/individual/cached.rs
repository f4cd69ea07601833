//! Sent bodies are cached for later requests; responses differ only in time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use daftar_tests::records::{NATIONAL_ID, household, path, person, reference};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

use crate::audit::lines;

const EVERYTHING: &str =
    "_elements=type,identifier,active,name,birth_date,gender,group_membership,extension,photo,meta";

fn figure(app: &TestApp, series: &str) -> f64 {
    let token = app.admin().token().to_owned();
    let page = app.admin_listener().request("GET", "/metrics").bearer(&token).send().expect(200).text();
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("`{series}` is on the page")).parse().unwrap()
}

fn found(app: &TestApp) -> f64 {
    figure(app, "daftar_response_cache_lookups_total{outcome=\"hit\"}")
}

/// The person, read twice completely, and once without the cache: all the same.
#[track_caller]
fn read(client: &ApiClient, number: &str) -> Value {
    let once = client.get(&path("Individual", number)).expect(200);
    let again = client.get(&path("Individual", number)).expect(200);
    let fresh = client.get(&format!("{}?{EVERYTHING}", path("Individual", number))).expect(200);
    assert_eq!(once.bytes(), again.bytes());
    for header in ["etag", "content-type", "cache-control", "vary", "content-length"] {
        assert_eq!(once.header(header), again.header(header), "{header}");
    }
    assert_eq!(again.header("etag"), fresh.header("etag"));
    assert_eq!(again.json(), fresh.json());
    again.json()
}

fn change(client: &ApiClient, number: &str, patch: Value) {
    drop(client.request("PATCH", &path("Individual", number)).json(&patch).send().expect(200));
}

#[test]
fn a_second_read_is_cached_and_a_change_of_the_person_is_seen_immediately() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    drop(client.create_individual(&person("1", json!({"birth_date": "1990-01-02"}))));
    drop(client.create_individual(&person("2", json!({}))));
    assert_eq!(read(&client, "1")["birth_date"], "1990-01-02");
    let before = found(&app);
    assert_eq!(read(&client, "1")["birth_date"], "1990-01-02");
    assert_eq!(found(&app) - before, 2.0, "both whole reads find it");
    for day in 3..9 {
        change(&client, "1", json!({"birth_date": format!("1990-01-0{day}")}));
        assert_eq!(read(&client, "1")["birth_date"], format!("1990-01-0{day}"));
    }
    let before = found(&app);
    assert_eq!(client.get(&path("Individual", "3")).status, 404);
    assert_eq!(client.get(&path("Individual", "3")).status, 404);
    assert_eq!(found(&app), before);
}

#[test]
fn a_change_of_a_group_is_seen_in_its_members() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    for number in ["1", "2", "3"] {
        drop(client.create_individual(&person(number, json!({}))));
        assert_eq!(read(&client, number)["group_membership"], json!([]));
    }
    drop(client.create_group(&household("h", &[("1", "head"), ("2", "spouse")])));
    let places = |number: &str| read(&client, number)["group_membership"].as_array().unwrap().clone();
    assert_eq!((places("1").len(), places("2").len(), places("3").len()), (1, 1, 0));
    drop(
        client
            .request("PATCH", &path("Group", "h"))
            .json(&json!({"name": "The house by the river"}))
            .send()
            .expect(200),
    );
    assert_eq!(places("1")[0]["group"]["display"], "The house by the river");
    let joins = json!({"entity": {"reference": reference("3")}});
    drop(client.post(&format!("{}/$add-member", path("Group", "h")), &joins).expect(201));
    assert_eq!(places("3").len(), 1);
    let only = household("h", &[("1", "head")]);
    drop(client.request("PUT", &path("Group", "h")).json(&only).send().expect(200));
    assert_eq!((places("1").len(), places("2").len(), places("3").len()), (1, 0, 0));
}

#[test]
fn an_identifier_that_goes_to_another_leads_to_the_other() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let number = |value: &str| json!({"system": NATIONAL_ID, "value": value});
    let ended = |value: &str| json!({"system": NATIONAL_ID, "value": value, "period": {"end": "2026-01-01"}});
    drop(client.create_individual(&json!({"identifier": [number("a"), number("b")], "birth_date": "1950-01-01"})));
    assert_eq!(read(&client, "b")["birth_date"], "1950-01-01");
    change(&client, "a", json!({"identifier": [number("a"), ended("b")]}));
    assert_eq!(read(&client, "b")["birth_date"], "1950-01-01", "no other client changed it");
    drop(client.create_individual(&json!({"identifier": [number("b")], "birth_date": "1960-01-01"})));
    assert_eq!(read(&client, "b")["birth_date"], "1960-01-01");
    assert_eq!(read(&client, "a")["birth_date"], "1950-01-01");
}

#[test]
fn each_client_and_each_language_gets_its_own() {
    let app = TestApp::start();
    let clerk = app.client(&["individual:all", "group:all"]);
    let male = json!({"gender": "urn:iso:std:iso:5218#1", "name": {"family": "Sow"}});
    drop(clerk.create_individual(&person("1", male)));
    drop(clerk.create_group(&household("h", &[("1", "head")])));
    let whole = read(&clerk, "1");
    assert_eq!((&whole["name"]["family"], &whole["gender"]["display"]), (&json!("Sow"), &json!("Male")));
    let without_groups = app.client(&["individual:read"]);
    assert_eq!(read(&without_groups, "1").get("group_membership"), None);
    let restricted = app.client(&["individual:read"]);
    app.admin().grant_fields(restricted.id(), "individual:read", &["gender"]);
    let little = read(&restricted, "1");
    assert_eq!((little.get("name"), &little["gender"]["code"]), (None, &json!("1")));
    for _ in 0..2 {
        let request = clerk.request("GET", &path("Individual", "1")).header("Accept-Language", "fr");
        assert_eq!(request.send().expect(200).json()["gender"]["display"], "Masculin");
    }
    assert_eq!(read(&clerk, "1"), whole);
    app.admin().grant_fields(restricted.id(), "individual:read", &["name"]);
    let other = read(&restricted, "1");
    assert_eq!((&other["name"]["family"], other.get("gender")), (&json!("Sow"), None), "a grant acts at once");
}

#[test]
fn a_cached_response_has_the_same_audit_entry() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    drop(client.create_individual(&person("1", json!({"birth_date": "1990-01-02", "name": {"family": "Sow"}}))));
    drop(client.create_group(&household("h", &[("1", "head")])));
    let reported = || {
        let response = client.get(&path("Individual", "1")).expect(200);
        let mut lines = lines(&app, &response);
        for line in &mut lines {
            for name in ["at", "request_id"] {
                assert!(line.as_object_mut().unwrap().remove(name).is_some());
            }
        }
        lines
    };
    let made = reported();
    let before = found(&app);
    let stored = reported();
    assert_eq!(found(&app) - before, 1.0);
    assert_eq!(stored, made);
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0]["records"].as_array().unwrap().len(), 2, "the person and the household: {}", stored[0]);
    assert!(stored[0]["fields"].as_array().unwrap().contains(&json!("birth_date")), "{}", stored[0]);
}

#[test]
fn a_batch_reads_its_own_writes_and_a_failed_transaction_changes_nothing() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"active": true}))));
    assert_eq!(read(&client, "1")["active"], true);
    let url = path("Individual", "1");
    let url = url.trim_start_matches('/');
    let patch = |patch: Value| json!({"request": {"method": "PATCH", "url": url}, "resource": patch});
    let batch = |kind: &str, entries: &[Value]| client.post("/$batch", &json!({"type": kind, "entry": entries}));
    let failing = patch(json!({"gender": "urn:iso:std:iso:5218#7"}));
    drop(batch("transaction", &[patch(json!({"active": false})), failing]).expect(422));
    assert_eq!(read(&client, "1")["active"], true);
    let reads = json!({"request": {"method": "GET", "url": url}});
    let done = batch("batch", &[reads.clone(), patch(json!({"active": false})), reads]).expect(200).json();
    let active = |at: usize| &done["entry"][at]["resource"]["active"];
    assert_eq!((active(0), active(2)), (&json!(true), &json!(false)), "{done}");
    assert_eq!(read(&client, "1")["active"], false);
    drop(batch("transaction", &[patch(json!({"active": true}))]).expect(200));
    assert_eq!(read(&client, "1")["active"], true);
}

#[test]
fn a_client_that_changes_a_person_reads_no_earlier_version_afterwards() {
    let app = TestApp::start();
    let clerk = app.client(&["individual:all"]);
    drop(clerk.create_individual(&person("1", json!({}))));
    let limits = json!({"name": "many", "scopes": ["individual:all"], "rate_limit_per_minute": 1_000_000});
    let clients: Vec<ApiClient> = (0..3).map(|_| app.client_of(&app.admin().create_client(&limits))).collect();
    let is_over = AtomicBool::new(false);
    let version = |body: &Value| body["meta"]["version_id"].as_str().unwrap().parse::<u64>().unwrap();
    thread::scope(|scope| {
        for reader in &clients[1..] {
            scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Acquire) {
                    let now = version(&reader.get(&path("Individual", "1")).expect(200).json());
                    assert!(now >= last, "version {now} after {last}");
                    last = now;
                }
            });
        }
        let writer = &clients[0];
        for day in 0..150 {
            let patch = json!({"birth_date": format!("19{:02}-01-01", day % 100)});
            let request = writer.request("PATCH", &path("Individual", "1")).json(&patch);
            let written = version(&request.send().expect(200).json());
            let read = version(&writer.get(&path("Individual", "1")).expect(200).json());
            assert!(read >= written, "version {read} after version {written} was acknowledged");
        }
        is_over.store(true, Ordering::Release);
    });
}

#[test]
fn no_response_is_cached_without_memory_for_it() {
    let app = TestApp::builder().config(|config| config.store.response_cache_mib = 0).start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({}))));
    drop(read(&client, "1"));
    assert_eq!(found(&app), 0.0);
}
