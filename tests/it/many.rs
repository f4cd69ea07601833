//! Several servers of one register, in one database: changes by one of them apply to the others.

mod blocked;
mod caught_up;
mod clocks;
mod commands;
mod keys;
mod limits;
mod lost;
mod memory;
mod moved;
mod newer;
mod outages;
mod plugins;
mod reporting;
mod roles;
mod start;
mod unnotified;
mod unread;

use daftar_tests::postgres::{Processes, eventually};
use daftar_tests::records::{FEMALE, NATIONAL_ID, path, person};
use daftar_tests::token;
use serde_json::{Value, json};

/// The scopes of a client with access to most resources.
const SCOPES: [&str; 3] = ["individual:all", "group:all", "vocabulary:read"];

#[test]
fn client_changes_of_one_process_apply_to_the_others() {
    let processes = Processes::start(2);
    let credentials = processes.credentials(0, &["group:read"]);
    // The second process gets a token request immediately: it has not been notified of the client yet.
    let client = processes.client_of(1, &credentials);
    let search = "/Individual?gender=urn:iso:std:iso:5218%232";
    assert_eq!(client.get(search).status, 403);
    processes.admin(0).grant(&credentials.id, "individual:read");
    let granted = processes.client_of(1, &credentials);
    eventually("a grant counts on the other process", || granted.get(search).status == 200);
    processes.admin(0).revoke(&credentials.id, "individual:read");
    eventually("so does that it is taken back", || granted.get(search).status == 403);
    processes.admin(1).disable(&credentials.id);
    eventually("so does that a client is disabled", || processes.at(0, &client).get(search).status == 401);
    let refused = processes.server(0).connection().request("POST", token::PATH);
    let refused = refused.header("Authorization", token::basic(&credentials.id, &credentials.secret));
    assert_eq!(refused.body(token::FORM, "grant_type=client_credentials").send().status, 401);
    processes.admin(0).enable(&credentials.id);
    assert_eq!(processes.client_of(1, &credentials).get(&path("Group", "absent")).status, 404);
    assert_eq!(client.get(search).status, 401, "tokens of before it was disabled are refused for good");
}

#[test]
fn two_administrators_change_one_client_at_the_same_time_and_nothing_is_lost() {
    let processes = Processes::start(2);
    let credentials = processes.credentials(0, &["individual:read"]);
    let scopes =
        [["group:read", "group:search", "program:read"], ["individual:search", "consent:read", "vocabulary:read"]];
    std::thread::scope(|scope| {
        for (number, scopes) in scopes.iter().enumerate() {
            let (admin, id) = (processes.admin(number), &credentials.id);
            scope.spawn(move || scopes.iter().for_each(|granted| admin.grant(id, granted)));
        }
    });
    let shown = processes.admin(0).get(&format!("/clients/{}", credentials.id)).expect(200).text();
    for granted in scopes.as_flattened() {
        assert!(shown.contains(granted), "{granted} is lost: {shown}");
    }
}

#[test]
fn records_of_one_process_are_found_on_the_others_at_once() {
    let processes = Processes::start(3);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    for number in 0..12 {
        let (writes, reads) = (processes.at(number % 3, &client), processes.at((number + 1) % 3, &client));
        let id = format!("P-{number}");
        drop(writes.create_individual(&person(&id, json!({"gender": FEMALE}))));
        assert_eq!(reads.get(&path("Individual", &id)).status, 200);
        let found = reads.get("/Individual?gender=urn:iso:std:iso:5218%232&_count=1").expect(200).json();
        assert_eq!(found["total"], number + 1);
        let etag = reads.get(&path("Individual", &id)).expect(200);
        let changed = writes.request("PUT", &path("Individual", &id)).header("If-Match", etag.header("etag").unwrap());
        let changed = changed.json(&person(&id, json!({"gender": FEMALE, "name": {"given": "Amina"}}))).send();
        assert!(changed.status == 200, "{}", changed.text());
        assert_eq!(reads.get(&path("Individual", &id)).expect(200).json()["name"]["given"], "Amina");
    }
}

#[test]
fn an_identifier_belongs_to_one_record_whichever_process_registers_it() {
    let processes = Processes::start(3);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let create = |number: usize| {
            let client = processes.at(number % 3, &client);
            scope.spawn(move || client.post("/Individual", &person("same", json!({}))).status)
        };
        let creating: Vec<_> = (0..9).map(create).collect();
        creating.into_iter().map(|creating| creating.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [201, 409].contains(status)), "{statuses:?}");
}

#[test]
fn a_named_request_is_done_once_whichever_process_it_comes_to() {
    let processes = Processes::start(3);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    let responses: Vec<(u16, Value)> = std::thread::scope(|scope| {
        let send = |number: usize| {
            let client = processes.at(number % 3, &client);
            scope.spawn(move || {
                let request = client.request("POST", "/Individual").header("Idempotency-Key", "once");
                let response = request.json(&person("1", json!({"gender": FEMALE}))).send();
                (response.status, response.json())
            })
        };
        let sending: Vec<_> = (0..12).map(send).collect();
        sending.into_iter().map(|sending| sending.join().unwrap()).collect()
    });
    let done: Vec<&Value> = responses.iter().filter(|(status, _)| *status == 201).map(|(_, body)| body).collect();
    assert!(!done.is_empty() && done.iter().all(|body| *body == done[0]), "{responses:?}");
    // A repetition is 409 while the first request is in progress.
    assert!(responses.iter().all(|(status, _)| [201, 409].contains(status)), "{responses:?}");
    for number in 0..3 {
        let client = processes.at(number, &client);
        let again = client.request("POST", "/Individual").header("Idempotency-Key", "once");
        let again = again.json(&person("1", json!({"gender": FEMALE}))).send().expect(201);
        assert_eq!((again.header("idempotency-replayed"), &again.json()), (Some("true"), done[0]));
        let found = client.get(&format!("/Individual?identifier={}|1", NATIONAL_ID.replace('#', "%23"))).expect(200);
        assert_eq!(found.json()["total"], 1);
    }
}

#[test]
fn concept_groups_local_codes_and_identifier_systems_of_one_process_count_on_the_other() {
    let processes = Processes::start(2);
    let client = processes.client_of(1, &processes.credentials(0, &SCOPES));
    let group = json!({"description": "Sons", "includes": [{"code": FEMALE}], "excludes": []});
    drop(processes.admin(0).request("PUT", "/concept-groups/sons").json(&group).send().expect(200));
    eventually("a concept group counts on the other process", || client.get("/ConceptGroup/sons").status == 200);
    drop(processes.admin(0).request("DELETE", "/concept-groups/sons").send().expect(200));
    eventually("so does that it is reset", || client.get("/ConceptGroup/sons").status == 404);

    let code = "urn:svc:vocab:id-type#farmer_id";
    let body = json!({"code": code, "labels": {"en": "Farmer ID"}, "target_type": "individual"});
    drop(processes.admin(1).request("POST", "/local-codes").json(&body).send().expect(201));
    let at_first = processes.at(0, &client);
    let farmer = |number: usize| json!({"identifier": [{"system": code, "value": format!("F{number}")}]});
    eventually("a local code counts on the other process", || at_first.post("/Individual", &farmer(1)).status == 201);
    let again = processes.admin(0).request("POST", "/local-codes").json(&body).send();
    assert_eq!(again.status, 409, "an administrator begins with what the other one left: {}", again.text());

    for number in [0, 1] {
        let system = json!({"uri": format!("urn:example:system-{number}")});
        drop(processes.admin(number).request("POST", "/identifier-systems").json(&system).send().expect(201));
    }
    for number in [0, 1] {
        let shown = processes.admin(number).get("/identifier-systems").expect(200).text();
        assert!(shown.contains("system-0") && shown.contains("system-1"), "{shown}");
    }
}
