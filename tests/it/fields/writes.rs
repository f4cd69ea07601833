//! Effects of writes on other fields by a client that may not see or write every field.

use daftar_tests::records::{FEMALE, MALE, household, path, person};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

fn send(client: &ApiClient, method: &str, resource: &str, id: &str, body: &Value) -> daftar_tests::Response {
    client.request(method, &path(resource, id)).json(body).send()
}

/// A person with values in many fields, a client that sees all, and a client with those grants.
fn register(grants: &[(&str, Option<&[&str]>)]) -> (TestApp, ApiClient, ApiClient) {
    let app = TestApp::start();
    let all = app.client(&["individual:all", "group:all"]);
    let more = json!({
        "name": {"given": "Amina", "family": "Ba"}, "gender": FEMALE, "birth_date": "1950-01-01",
        "languages": [], "income": {"amount": 10}, "active": true,
    });
    drop(all.create_individual(&person("1", more)));
    drop(all.create_group(&household("H-1", &[("1", "head")])));
    let client = app.client(&[]);
    for (scope, fields) in grants {
        match fields {
            Some(fields) => app.admin().grant_fields(client.id(), scope, fields),
            None => app.admin().grant(client.id(), scope),
        }
    }
    let client = app.client_of(client.credentials());
    (app, all, client)
}

#[test]
fn put_replaces_visible_fields_and_retains_hidden_ones() {
    let (_app, all, client) = register(&[("individual:all", Some(&["name", "active", "languages"]))]);
    let response =
        send(&client, "PUT", "Individual", "1", &person("1", json!({"name": {"given": "Awa"}}))).expect(200).json();
    assert_eq!(response["name"], json!({"given": "Awa"}));
    assert_eq!(response.as_object().unwrap().len(), 4, "{response}");
    let stored = all.get(&path("Individual", "1")).expect(200).json();
    assert_eq!(
        (stored.get("active"), stored.get("languages")),
        (None, None),
        "what it sees and leaves out is taken out"
    );
    assert_eq!(stored["gender"]["uri"], FEMALE);
    assert_eq!((&stored["birth_date"], &stored["income"]["amount"]), (&json!("1950-01-01"), &json!(10.0)));
    let refused = send(&client, "PUT", "Individual", "1", &person("1", json!({"gender": MALE}))).expect(403);
    assert_eq!(refused.json()["errors"][0]["field"], "gender");
    let refused = send(&client, "PATCH", "Individual", "1", &json!({"income": null})).expect(403);
    assert_eq!(refused.json()["errors"][0]["field"], "income");
}

#[test]
fn seeing_and_writing_are_granted_apart() {
    let (_app, all, client) = register(&[
        ("individual:read", Some(&["name", "gender"])),
        ("individual:update", Some(&["name", "birth_date"])),
        ("individual:create", Some(&["birth_date"])),
    ]);
    for (patch, refused) in [
        (json!({"gender": MALE}), Some("gender")),
        (json!({"birth_date": "1960-01-01"}), Some("birth_date")),
        (json!({"name": {"given": "Awa"}}), None),
    ] {
        let response = send(&client, "PATCH", "Individual", "1", &patch);
        match refused {
            Some(field) => assert_eq!(response.expect(403).json()["errors"][0]["field"], field),
            None => assert_eq!(response.expect(200).json()["name"], json!({"given": "Awa", "family": "Ba"})),
        }
    }
    let created = client.post("/Individual", &person("2", json!({"birth_date": "1970-01-01"}))).expect(201);
    assert_eq!(created.json().get("birth_date"), None, "it may write it and not read it");
    assert_eq!(all.get(&path("Individual", "2")).expect(200).json()["birth_date"], "1970-01-01");
    let refused = client.post("/Individual", &person("3", json!({"name": {"given": "B"}}))).expect(403);
    assert_eq!(refused.json()["errors"][0]["field"], "name");
    assert_eq!(all.get(&path("Individual", "3")).status, 404);
}

#[test]
fn identifiers_are_added_and_ended_only_with_their_grant() {
    let (_app, all, client) = register(&[("individual:all", Some(&["name"]))]);
    let ended = json!({"identifier": [{"system": daftar_tests::records::NATIONAL_ID, "value": "1", "period": {"end": "2026-03-01"}}]});
    let refused = send(&client, "PATCH", "Individual", "1", &ended).expect(403);
    assert_eq!(refused.json()["errors"][0]["field"], "identifier");
    let whole = person("1", json!({"name": {"given": "Awa"}}));
    drop(send(&client, "PUT", "Individual", "1", &whole).expect(200));
    let (_app, _, client) = register(&[("individual:all", Some(&["name", "identifier"]))]);
    drop(send(&client, "PATCH", "Individual", "1", &ended).expect(200));
    drop(all);
}

#[test]
fn rejections_reveal_nothing_to_a_write_only_client() {
    let (_app, all, client) = register(&[("individual:update", None)]);
    // The day of death would be before the day of birth, which this client does not know.
    drop(send(&client, "PATCH", "Individual", "1", &json!({"deceased_date": "1900-01-01"})).expect(200));
    let refused = send(&client, "PATCH", "Individual", "1", &json!({"income": {"period": "month"}})).expect(422);
    assert_eq!(refused.json()["errors"][0]["field"], "income.amount", "whether there is an income is not told");
    let response = send(&client, "PATCH", "Individual", "1", &json!({"name": {"given": "Awa"}})).expect(200).json();
    assert_eq!(response.as_object().unwrap().len(), 3, "{response}");
    let stored = all.get(&path("Individual", "1")).expect(200).json();
    assert_eq!(stored["name"], json!({"given": "Awa", "family": "Ba"}), "a patch is merged all the same");
    drop(send(&client, "PUT", "Individual", "1", &person("1", json!({"active": true}))).expect(200));
    assert_eq!(all.get(&path("Individual", "1")).expect(200).json().get("income"), None, "a PUT is the whole record");
}

#[test]
fn hidden_members_stay_and_are_not_touched_one_by_one() {
    let (_app, all, client) = register(&[("group:all", Some(&["name", "quantity"])), ("individual:read", None)]);
    let body = person("H-1", json!({"name": "Ba", "quantity": 7}));
    let response = send(&client, "PUT", "Group", "H-1", &body).expect(200).json();
    assert_eq!((response.get("member"), &response["quantity"]), (None, &json!(1)), "{response}");
    let stored = all.get(&path("Group", "H-1")).expect(200).json();
    assert_eq!((&stored["name"], stored["member"].as_array().unwrap().len()), (&json!("Ba"), 1));
    let entity = json!({"entity": {"reference": daftar_tests::records::reference("1")}});
    for operation in ["$add-member", "$remove-member"] {
        let target = format!("{}/{operation}", path("Group", "H-1"));
        assert_eq!(client.post(&target, &entity).expect(403).json()["errors"][0]["field"], "member");
    }
    let history = client.get(&format!("{}/membership-history", path("Group", "H-1"))).expect(403);
    assert_eq!(history.json()["errors"][0]["field"], "member");
    assert_eq!(
        client.get(&format!("{}/groups", path("Individual", "1"))).expect(403).json()["errors"][0]["field"],
        "member"
    );
}

#[test]
fn a_batch_shows_and_writes_no_more_than_single_calls() {
    let (_app, all, client) = register(&[("individual:all", Some(&["name"]))]);
    let url = path("Individual", "1").trim_start_matches('/').to_owned();
    let read = json!({"request": {"method": "GET", "url": url}});
    let change = json!({"request": {"method": "PATCH", "url": url}, "resource": {"gender": MALE}});
    let response = client.post("/$batch", &json!({"type": "batch", "entry": [read, change]})).expect(200).json();
    assert_eq!(response["entry"][0]["resource"].as_object().unwrap().len(), 4, "{response}");
    assert_eq!(response["entry"][1]["response"]["status"], 403, "{response}");
    assert_eq!(response["entry"][1]["problem"]["errors"][0]["field"], "gender", "{response}");
    let refused = client.post("/$batch", &json!({"type": "transaction", "entry": [change]}));
    assert!(refused.status >= 400 && refused.text().contains("`gender`"), "{}", refused.text());
    assert_eq!(all.get(&path("Individual", "1")).expect(200).json()["gender"]["uri"], FEMALE);
}

#[test]
fn names_of_members_require_the_grant_for_names() {
    let (app, _, client) = register(&[("group:read", None), ("individual:read", Some(&["gender"]))]);
    let display =
        || client.get(&path("Group", "H-1")).expect(200).json()["member"][0]["entity"].get("display").cloned();
    assert_eq!(display(), None);
    app.admin().grant_fields(client.id(), "individual:read", &["name"]);
    assert_eq!(display(), Some(json!("Amina Ba")));
}
