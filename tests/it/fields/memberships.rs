//! Memberships without an identifier of their own: their addresses do not reveal hidden fields either.

use daftar_tests::records::NATIONAL_ID;
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use super::worlds::observable;
use crate::program;

const TAX_ID: &str = "urn:svc:vocab:id-type#tax_id";

/// A person and programs with different primary identifiers in each register and the same second identifier in all.
fn register(called: &str) -> TestApp {
    let app = TestApp::start();
    let identifiers = |first: String, second: &str| json!([{"system": NATIONAL_ID, "value": first}, {"system": TAX_ID, "value": second}]);
    let person = json!({"identifier": identifiers(format!("{called}-person"), "F1")});
    drop(app.client(&["individual:create"]).create_individual(&person));
    for id in ["A", "B", "C", "D", "E"] {
        let identifier = identifiers(format!("{called}-program-{id}"), id);
        drop(program::create(&app, id, json!({"identifier": identifier})));
    }
    app
}

fn place(program: &str) -> Value {
    json!({"beneficiary": format!("Individual/{TAX_ID}|F1"), "program": format!("Program/{TAX_ID}|{program}"), "status": "enrolled"})
}

/// The responses to a client that enrols the person in several programs, one by each kind of request.
fn enrols(app: &TestApp, client: &ApiClient) -> Vec<Response> {
    let entry =
        |program: &str| json!({"request": {"method": "POST", "url": "ProgramMembership"}, "resource": place(program)});
    let batch = |kind: &str, program: &str| json!({"type": kind, "entry": [entry(program)]});
    let send = |target: &str, key: Option<&str>, body: &Value| {
        let request = client.request("POST", target).json(body);
        key.map(|key| request.clone().header("Idempotency-Key", key)).unwrap_or(request).send()
    };
    let made = [
        send("/ProgramMembership", None, &place("A")).expect(201),
        send("/$batch", None, &batch("batch", "B")).expect(200),
        send("/$batch", Some("c"), &batch("transaction", "C")).expect(200),
        send("/$batch", Some("d"), &batch("batch", "D")).expect(200),
        send("/ProgramMembership", Some("e"), &place("E")).expect(201),
    ];
    // Renamed to another identifier now.
    let writer = app.client(&["individual:all"]);
    let target = format!("/Individual/{}|F1", TAX_ID.replace('#', "%23"));
    let mut identifiers = writer.get(&target).expect(200).json()["identifier"].take();
    identifiers[0]["period"] = json!({"end": "2026-02-01"});
    identifiers.as_array_mut().unwrap().push(json!({"system": "urn:svc:vocab:id-type#passport", "value": "NOW"}));
    drop(writer.request("PATCH", &target).json(&json!({"identifier": identifiers})).send().expect(200));
    let again = [
        send("/$batch", Some("c"), &batch("transaction", "C")).expect(200),
        send("/$batch", Some("d"), &batch("batch", "D")).expect(200),
        send("/ProgramMembership", Some("e"), &place("E")).expect(201),
    ];
    made.into_iter().chain(again).collect()
}

/// The location of the membership in a response, without the server.
fn location(response: &Response) -> Option<String> {
    let body = response.json();
    let entry = &body["entry"][0];
    let location = response.header("location").or_else(|| entry["response"]["location"].as_str());
    location.map(|url| url.split_once("/api/v2").unwrap().1.to_owned())
}

#[test]
fn addresses_do_not_reveal_a_hidden_beneficiary_or_program() {
    for fields in [None, Some(&["status"][..]), Some(&["status", "program"]), Some(&["status", "beneficiary"])] {
        let responses = ["one", "other"].map(register).map(|app| {
            let client = app.client(&["program_membership:create"]);
            if let Some(fields) = fields {
                app.admin().grant_fields(client.id(), "program_membership:read", fields);
            }
            enrols(&app, &app.client_of(client.credentials()))
        });
        for (at, (one, other)) in responses[0].iter().zip(&responses[1]).enumerate() {
            let sees = |field| fields.is_some_and(|fields| fields.contains(&field));
            if !sees("program") && !sees("beneficiary") {
                assert_eq!(observable(one), observable(other), "{fields:?} {at}");
            }
            for response in [one, other] {
                let text = format!("{:?} {}", response.headers(), response.text());
                assert!(sees("beneficiary") || !text.contains("-person"), "{fields:?} {at}: {text}");
                assert!(sees("program") || !text.contains("-program-"), "{fields:?} {at}: {text}");
                assert!(!text.contains("NOW") || sees("beneficiary"), "{fields:?} {at}: {text}");
            }
        }
        let system = TAX_ID.replace('#', "%23");
        let query = |program: &str| format!("?program=Program%2F{}%7C{program}", system.replace(':', "%3A"));
        let expected = ["A", "B", "C", "D", "E"].map(|program| {
            let key = format!("{system}|F1").replace('|', "%7C").replace(':', "%3A");
            Some(format!("/ProgramMembership/{key}{}", query(program)))
        });
        let decoded = |location: Option<String>| {
            location.map(|text| text.to_lowercase().replace("%3a", ":").replace("%7c", "|").replace("%2f", "/"))
        };
        for (response, expected) in responses[0].iter().zip(expected.into_iter().chain([None, None, None])) {
            assert_eq!(decoded(location(response)), decoded(expected), "{fields:?}: {}", response.text());
        }
    }
}

#[test]
fn a_client_that_sees_both_gets_an_address_that_works_each_time() {
    let app = register("one");
    let client = app.client(&["program_membership:all"]);
    let responses = enrols(&app, &client);
    for (at, response) in responses.iter().enumerate() {
        let location = location(response).unwrap_or_else(|| panic!("{at}: {}", response.text()));
        let found = client.get(&location).expect(200).json();
        assert_eq!(found["beneficiary"], format!("Individual/{TAX_ID}|F1"), "{at}: the first that still holds");
    }
}
