//! All or nothing.

use daftar_tests::records::{NATIONAL_ID, household, path, person, reference};
use daftar_tests::{TestApp, errors};
use serde_json::json;

use super::{create, entry, family, get, people, placeholder, send, statuses};
use crate::program;

const ALL: &[&str] = &["individual:all", "group:all", "program:read", "program_membership:all"];

fn pair(field: &str, code: &str) -> (String, String) {
    (field.to_owned(), code.to_owned())
}

#[test]
fn a_household_is_registered_and_enrolled_in_one_transaction_in_any_order() {
    let app = TestApp::start();
    let client = app.client(ALL);
    program::create(&app, "P", json!({"target_type": "group"}));
    let mut group = family("H", &[placeholder(1), placeholder(2)]);
    group["full_url"] = placeholder(3).into();
    let place = json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": {"reference": placeholder(3)}, "status": "enrolled"});
    let entries = vec![entry("POST", "/api/v2/program_memberships", place), group, create("1", 1), create("2", 2)];
    let response = send(&client, "transaction", entries).expect(200);
    let body = response.json();
    assert_eq!((body["type"].as_str(), statuses(&response)), (Some("transaction-response"), vec![201; 4]));
    let members = &body["entry"][1]["resource"]["member"];
    assert_eq!(members[0]["entity"]["reference"], reference("1"));
    assert_eq!(members[1]["entity"]["reference"], reference("2"));
    assert_eq!(body["entry"][0]["resource"]["beneficiary"], format!("Group/{NATIONAL_ID}|H"));
    let person = &body["entry"][2];
    assert_eq!(person["response"]["etag"], "\"1\"");
    assert_eq!(person["full_url"], person["response"]["location"]);
    assert!(
        person["response"]["location"]
            .as_str()
            .unwrap()
            .ends_with("/api/v2/Individual/urn:svc:vocab:id-type%23national_id%7C1")
    );

    let read = client.get(&path("Group", "H")).expect(200);
    assert_eq!(&read.json(), &body["entry"][1]["resource"], "a read returns the same as the transaction");
    let places =
        client.get(&format!("/Individual/{}/groups", "urn:svc:vocab:id-type%23national_id|2")).expect(200).json();
    assert_eq!(places["data"][0]["group"]["reference"], format!("Group/{NATIONAL_ID}|H"));
    assert_eq!(
        client.get("/ProgramMembership?program=urn:svc:vocab:id-type%23national_id|P").expect(200).json()["total"],
        1
    );
}

#[test]
fn entries_read_the_writes_of_earlier_entries() {
    let app = TestApp::start();
    let client = app.client(ALL);
    drop(client.create_individual(&person("0", json!({}))));
    let member = json!({"entity": {"reference": reference("1")}});
    let mut patch = entry("PATCH", &path("Individual", "0"), json!({"name": {"given": "Amina"}}));
    patch["request"]["if_match"] = "\"1\"".into();
    let mut again = entry("PATCH", &path("Individual", "0"), json!({"active": false}));
    again["request"]["if_match"] = "\"2\"".into();
    let add = entry("POST", &format!("{}/$add-member", path("Group", "H")), member);
    let response =
        send(&client, "transaction", vec![create("1", 1), family("H", &[reference("0")]), add, patch, again])
            .expect(200);
    assert_eq!(statuses(&response), [201, 201, 201, 200, 200]);
    let shown = client.get(&path("Individual", "0")).expect(200);
    assert_eq!((shown.header("etag"), shown.json()["name"]["given"].as_str()), (Some("\"3\""), Some("Amina")));
    let group = client.get(&path("Group", "H")).expect(200);
    assert_eq!((group.header("etag"), group.json()["member"].as_array().unwrap().len()), (Some("\"2\""), 2));
}

#[test]
fn one_refused_entry_refuses_the_whole_and_is_named() {
    let app = TestApp::start();
    let client = app.client(ALL);
    drop(client.create_individual(&person("0", json!({}))));
    let stale = |tag: &str| {
        let mut patch = entry("PATCH", &path("Individual", "0"), json!({"active": false}));
        patch["request"]["if_match"] = tag.into();
        patch
    };
    let wrong = entry("POST", "Individual", person("9", json!({"gender": "urn:iso:std:iso:5218#7", "colour": "red"})));
    for (refused, expected) in [
        (wrong, vec![pair("entry[1].resource.colour", "unknown_field")]),
        (entry("POST", "Individual", person("0", json!({}))), vec![pair("entry[1]", "identifier_in_use")]),
        (stale("\"7\""), vec![pair("entry[1]", "version_mismatch")]),
        (stale("7"), vec![pair("entry[1]", "malformed_request")]),
        (entry("PATCH", &path("Individual", "7"), json!({})), vec![pair("entry[1]", "not_found")]),
        (entry("DELETE", &path("Individual", "0"), json!(null)), vec![pair("entry[1]", "method_not_allowed")]),
        (entry("POST", "Nothing", json!({})), vec![pair("entry[1]", "unknown_path")]),
        (entry("POST", "Eligibility/$evaluate", json!({})), vec![pair("entry[1]", "unknown_path")]),
        (
            family("H", &[reference("7")]),
            vec![pair("entry[1].resource.member[0].entity.reference", "unresolved_reference")],
        ),
    ] {
        let response = send(&client, "transaction", vec![create("1", 1), refused, create("2", 2)]).expect(422);
        assert_eq!(errors(&response.json()), expected, "{}", response.text());
        assert!(response.detail().starts_with("entry[1]: "), "{}", response.detail());
        assert_eq!(response.code(), "transaction_failed");
    }
    assert_eq!(people(&client), 1, "nothing of them was written");
    drop(client.create_individual(&person("1", json!({}))));
}

#[test]
fn an_error_of_the_url_names_the_entry_and_no_field_of_its_body() {
    let app = TestApp::start();
    let client = app.client(ALL);
    drop(client.create_individual(&person("0", json!({}))));
    drop(client.create_group(&household("H", &[])));
    let member = format!("{}{}", path("Group", "H"), path("member", "0"));
    for (url, body, reason) in [
        ("Individual/urn:nope:x%7C1", json!({"active": true}), "urn:nope:x"),
        ("Group/urn:nope:x%7C1", json!({"active": true}), "urn:nope:x"),
        (member.as_str(), json!({"inactive": true}), "no such member of the group"),
    ] {
        let refused = send(&client, "transaction", vec![create("1", 1), entry("PATCH", url, body)]).expect(422);
        assert_eq!(errors(&refused.json()), [pair("entry[1]", "not_found")], "{url}");
        let message = refused.json()["errors"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn a_conflict_of_two_entries_names_both() {
    let app = TestApp::start();
    let client = app.client(ALL);
    program::create(&app, "P", json!({}));
    let response = send(&client, "transaction", vec![create("1", 1), create("2", 2), create("1", 3)]).expect(422);
    assert_eq!(errors(&response.json()), [pair("entry[2]", "identifier_in_use"), pair("entry[0]", "conflict")]);
    let place = |number| json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": placeholder(number), "status": "draft"});
    let entries = vec![
        create("1", 1),
        entry("POST", "ProgramMembership", place(1)),
        entry("POST", "ProgramMembership", place(1)),
    ];
    let response = send(&client, "transaction", entries).expect(422);
    assert_eq!(errors(&response.json()), [pair("entry[2]", "membership_open"), pair("entry[1]", "conflict")]);
    assert_eq!(people(&client), 0);
}

#[test]
fn every_entry_needs_its_scope_and_the_whole_fails_without() {
    let app = TestApp::start();
    let writer = app.client(&["individual:create"]);
    let response = send(&writer, "transaction", vec![create("1", 1), family("H", &[placeholder(1)])]).expect(422);
    assert_eq!(errors(&response.json()), [pair("entry[1]", "missing_scope")]);
    assert!(
        response.detail().contains("Missing required scope group:create. Granted: individual:create"),
        "{}",
        response.detail()
    );
    let response = send(&writer, "transaction", vec![create("1", 1)]).expect(200);
    let shown = response.json()["entry"][0]["resource"].clone();
    let members: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["identifier", "meta", "type"], "no more than a read would give");
}

#[test]
fn a_transaction_does_not_read() {
    let app = TestApp::start();
    let client = app.client(ALL);
    let response = send(&client, "transaction", vec![create("1", 1), get("Individual")]).expect(422);
    assert_eq!(errors(&response.json()), [pair("entry[1].request.method", "not_in_transaction")]);
}
