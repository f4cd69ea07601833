//! Audit entries for further data in responses, besides the requested record or the changed fields.

use daftar_tests::records::{FEMALE, HOUSEHOLD, NATIONAL_ID, ROLE, household, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use super::{lines, texts};

const P1: &str = "Individual/urn:svc:vocab:id-type#national_id|1";
const P2: &str = "Individual/urn:svc:vocab:id-type#national_id|2";
const G1: &str = "Group/urn:svc:vocab:id-type#national_id|G1";
const G2: &str = "Group/urn:svc:vocab:id-type#national_id|G2";
const ORGANIZATION: &str = "Ministry of Health";

/// A woman in a household that is related to another one, and a client with all scopes.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client_of(&app.admin().create_client(&json!({
        "name": "anything", "organization": ORGANIZATION,
        "scopes": ["individual:all", "group:all", "consent:all", "program_membership:all", "program:read"],
        "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    })));
    drop(client.create_individual(&person("1", json!({"name": {"given": "Amina"}, "gender": FEMALE}))));
    drop(client.create_individual(&person("2", json!({}))));
    drop(client.create_group(&household("G2", &[])));
    let related = json!([{"target": {"reference": G2}, "type": format!("{ROLE}#affiliated_with")}]);
    let first = with(household("G1", &[("1", "head")]), json!({"name": "Ba", "relationship": related}));
    drop(client.create_group(&first));
    (app, client)
}

/// The entries of a call: action, records and fields, sorted.
fn audited(app: &TestApp, response: &Response) -> Vec<(String, Vec<String>, Vec<String>)> {
    let sorted = |mut texts: Vec<String>| {
        texts.sort_unstable();
        texts
    };
    let line = |line: &Value| {
        let action = line["action"].as_str().unwrap().to_owned();
        (action, sorted(texts(line, "records")), sorted(texts(line, "fields")))
    };
    let mut audited: Vec<_> = lines(app, response).iter().map(line).collect();
    audited.sort_unstable();
    audited
}

fn line(action: &str, records: &[&str], fields: &[&str]) -> (String, Vec<String>, Vec<String>) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    (action.to_owned(), owned(records), owned(fields))
}

#[test]
fn of_a_group_those_are_named_whom_the_answer_names() {
    let (app, client) = register();
    let all = ["group_type", "identifier", "member", "name", "quantity", "relationship"];
    for (elements, records, fields) in [
        ("", &[G1, G2, P1][..], &all[..]),
        ("?_elements=name", &[G1], &["identifier", "name"]),
        ("?_elements=member", &[G1, P1], &["identifier", "member"]),
        ("?_elements=member.role", &[G1], &["identifier", "member"]),
        ("?_elements=member.entity", &[G1, P1], &["identifier", "member"]),
        ("?_elements=quantity", &[G1], &["identifier", "quantity"]),
        ("?_elements=relationship.type,quantity", &[G1], &["identifier", "quantity", "relationship"]),
        ("?_elements=relationship", &[G1, G2], &["identifier", "relationship"]),
    ] {
        let response = client.get(&format!("{}{elements}", path("Group", "G1"))).expect(200);
        assert_eq!(audited(&app, &response), [line("read", records, fields)], "{elements}");
        let search = client.get(&format!("/Group{}", elements.replace('?', "?name=ba&"))).expect(200);
        let records: Vec<&str> = if elements.is_empty() { vec![G1, G2, P1] } else { records.to_vec() };
        assert_eq!(audited(&app, &search), [line("search", &records, fields)], "{elements}");
    }
    let quantity = client.get(&format!("{}?_elements=quantity", path("Group", "G1"))).expect(200).json();
    assert_eq!(quantity["quantity"], 1, "it is counted all the same");
    let role = client.get(&format!("{}?_elements=member.role", path("Group", "G1"))).expect(200).json();
    assert_eq!(role["member"][0]["role"]["code"], "head");
}

#[test]
fn a_client_that_may_not_see_members_gets_none() {
    let (app, _) = register();
    let client = app.client(&["group:update", "individual:read"]);
    app.admin().grant_fields(client.id(), "group:read", &["name"]);
    let client = app.client_of(client.credentials());
    let response = client.get(&path("Group", "G1")).expect(200);
    assert_eq!(audited(&app, &response), [line("read", &[G1], &["identifier", "name"])]);
    let response = client.request("PATCH", &path("Group", "G1")).json(&json!({"name": "Diallo"})).send().expect(200);
    assert_eq!(audited(&app, &response), [line("update", &[G1], &["name"])]);
    let body = json!({"identifier": [{"system": NATIONAL_ID, "value": "G1"}], "name": "Sow"});
    let response = client.request("PUT", &path("Group", "G1")).json(&body).send().expect(200);
    assert_eq!(audited(&app, &response), [line("update", &[G1], &["name"])]);
    let blind = app.client(&["group:update", "individual:read"]);
    let target = format!("{}/$add-member", path("Group", "G1"));
    let added = blind.post(&target, &json!({"entity": {"reference": reference("2")}})).expect(201);
    assert_eq!(audited(&app, &added), [line("update", &[G1, P2], &["member"])]);
}

#[test]
fn data_in_the_response_to_a_change_is_audited() {
    let (app, client) = register();
    let patch = |client: &ApiClient, body: Value| {
        client.request("PATCH", &path("Individual", "1")).json(&body).send().expect(200)
    };
    let shown = ["gender", "group_membership", "identifier", "name"];
    assert_eq!(
        audited(&app, &patch(&client, json!({}))),
        [line("read", &[G1, P1], &shown), line("update", &[P1], &[])]
    );
    let changed = patch(&client, json!({"name": {"given": "Awa"}}));
    assert_eq!(audited(&app, &changed), [line("read", &[G1, P1], &shown), line("update", &[P1], &["name"])]);
    let of_read = &lines(&app, &changed)[0];
    let of_read = if of_read["action"] == "read" { of_read.clone() } else { lines(&app, &changed)[1].clone() };
    assert_eq!((&of_read["status"], &of_read["outcome"]), (&json!(200), &json!("allowed")), "{of_read}");
    assert_eq!(of_read["note"], "returned in the response");
    let few = app.client(&["individual:update"]);
    app.admin().grant_fields(few.id(), "individual:read", &["name"]);
    let few = app.client_of(few.credentials());
    let changed = patch(&few, json!({"name": {"given": "Hawa"}}));
    assert_eq!(audited(&app, &changed), [line("update", &[P1], &["name"])], "the answer shows nothing else");
    assert_eq!(
        audited(&app, &patch(&few, json!({}))),
        [line("read", &[P1], &["identifier", "name"]), line("update", &[P1], &[])]
    );
    let made = client.post("/Individual", &person("3", json!({"gender": FEMALE}))).expect(201);
    let p3 = "Individual/urn:svc:vocab:id-type#national_id|3";
    assert_eq!(audited(&app, &made), [line("create", &[p3], &["gender", "identifier"])], "it shows what was sent");
}

#[test]
fn a_rejected_transaction_audits_no_change_and_no_read() {
    let (app, client) = register();
    let consent =
        json!({"subject": P2, "grantee": ORGANIZATION, "scopes": ["individual"], "effective_date": "2026-03-01"});
    let consent = app.admin().request("POST", "/consents").json(&consent).send().expect(201).json();
    let consent = format!("Consent/{}", consent["consent_id"].as_str().unwrap());
    drop(client.request("DELETE", &format!("/{consent}")).send().expect(204));
    let patch =
        json!({"request": {"method": "PATCH", "url": path("Group", "G1")}, "resource": {"group_type": HOUSEHOLD}});
    let withdraw = json!({"request": {"method": "DELETE", "url": consent}});
    let create =
        |id: &str| json!({"request": {"method": "POST", "url": "Individual"}, "resource": person(id, json!({}))});
    let submit = |key: Option<&str>, entries: &[&Value]| {
        let request = client.request("POST", "/$batch").json(&json!({"type": "transaction", "entry": entries}));
        key.map(|key| request.clone().header("Idempotency-Key", key)).unwrap_or(request).send()
    };
    for key in [None, Some("k")] {
        let refused = submit(key, &[&patch, &withdraw, &create("1")]).expect(422);
        let lines = lines(&app, &refused);
        let shown: Vec<Value> =
            lines.iter().map(|line| json!([line["action"], line["outcome"], line["status"]])).collect();
        assert_eq!(shown.len(), 3, "{lines:#?}");
        let undone = |line: &&Value| line["reason"].as_str().unwrap_or_default().starts_with("nothing was written");
        assert_eq!(lines.iter().filter(undone).count(), 2, "{lines:#?}");
        for line in &lines {
            assert_eq!(line["outcome"], "refused", "{lines:#?}");
            assert_ne!(line["action"], "read", "no data was returned: {lines:#?}");
            let is_of_the_refused = line["operation"] == "POST /api/v2/Individual";
            assert_eq!(line["status"], if is_of_the_refused { 409 } else { 422 }, "{lines:#?}");
        }
    }
    for key in [None, Some("k")] {
        let number = key.map_or("10", |_| "11");
        let done = submit(key, &[&patch, &withdraw, &create(number)]).expect(200);
        let lines = lines(&app, &done);
        assert!(lines.iter().all(|line| line["outcome"] == "allowed"), "{lines:#?}");
        let mut actions: Vec<&str> = lines.iter().map(|line| line["action"].as_str().unwrap()).collect();
        actions.sort_unstable();
        assert_eq!(actions, ["create", "read", "update", "update"], "{lines:#?}");
        let read = lines.iter().find(|line| line["action"] == "read").unwrap();
        assert!(texts(read, "records").contains(&P1.to_owned()), "{read}");
    }
}
