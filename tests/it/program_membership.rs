//! `/ProgramMembership`, and programs in rules.

mod exclusion;
mod rules;

use daftar_tests::records::{FEMALE, NATIONAL_ID, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, errors, redacted};
use serde_json::{Value, json};

use crate::program;

/// Three women, the second of unknown age, and a client with all scopes for them and for memberships.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let scopes = ["individual:all", "group:all", "program:read", "program_membership:all", "eligibility:read"];
    let client = app.client(&scopes);
    for (id, more) in
        [("1", json!({"birth_date": "1950-01-01"})), ("2", json!({})), ("3", json!({"birth_date": "2000-01-01"}))]
    {
        drop(client.create_individual(&person(id, with(json!({"gender": FEMALE}), more))));
    }
    (app, client)
}

fn program_reference(id: &str) -> String {
    format!("Program/{NATIONAL_ID}|{id}")
}

/// A membership of a person in a program.
fn place(program: &str, person: &str, more: Value) -> Value {
    with(json!({"program": program_reference(program), "beneficiary": reference(person)}), more)
}

fn put(client: &ApiClient, target: &str, body: &Value) -> Response {
    client.request("PUT", target).json(body).send()
}

const ENROLLED: &str = "enrolled";

#[test]
fn a_membership_is_read_back_by_its_own_identifier_and_by_the_beneficiarys() {
    let (mut app, client) = register();
    program::create(&app, "P", json!({}));
    let body = place("P", "1", json!({"status": ENROLLED, "identifier": [{"system": NATIONAL_ID, "value": "M-1"}]}));
    let created = client.post("/ProgramMembership", &body).expect(201);
    insta::assert_json_snapshot!(redacted(&created.json()), @r#"
    {
      "beneficiary": "Individual/urn:svc:vocab:id-type#national_id|1",
      "enrollment_date": "2026-03-01",
      "identifier": [
        {
          "system": "urn:svc:vocab:id-type#national_id",
          "value": "M-1"
        }
      ],
      "meta": {
        "last_updated": "2026-03-01T12:00:00.000Z",
        "source": "[source]",
        "version_id": "1"
      },
      "program": "Program/urn:svc:vocab:id-type#national_id|P",
      "status": "enrolled",
      "type": "ProgramMembership"
    }
    "#);
    assert_eq!(created.header("etag"), Some("\"1\""));
    let location = created.header("location").unwrap().to_owned();
    app.restart();
    let of_program = format!("?program={}", program_reference("P").replace('#', "%23"));
    for target in [
        path("ProgramMembership", "M-1"),
        path("program_memberships", "M-1"),
        path("ProgramMembership", "1"),
        format!("{}{of_program}", path("program_memberships", "1")),
        format!("{}{of_program}", path("ProgramMembership", "M-1")),
        location.split_once("/api/v2").unwrap().1.to_owned(),
    ] {
        assert_eq!(client.get(&target).expect(200).json(), created.json(), "{target}");
    }
    for absent in ["2", "9"] {
        assert_eq!(client.get(&path("ProgramMembership", absent)).expect(404).detail(), "no such ProgramMembership");
    }
    assert_eq!(client.get("/ProgramMembership/urn:svc:vocab:id-type").status, 400);
    assert_eq!(client.get(&format!("{}?programme=x", path("ProgramMembership", "1"))).status, 400);
}

#[test]
fn one_membership_in_a_program_is_open_at_a_time() {
    let (app, client) = register();
    program::create(&app, "P", json!({}));
    program::create(&app, "Q", json!({}));
    let enrol = |program: &str| client.post("/ProgramMembership", &place(program, "1", json!({"status": ENROLLED})));
    let location = enrol("P").expect(201).header("location").unwrap().to_owned();
    assert!(location.ends_with("?program=Program%2Furn%3Asvc%3Avocab%3Aid-type%23national_id%7CP"), "{location}");
    let refused = enrol("P").expect(409);
    assert!(refused.detail().starts_with("the beneficiary has an open membership"), "{}", refused.detail());
    assert_eq!(refused.code(), "membership_open");
    drop(enrol("Q").expect(201));
    let several = client.get(&path("ProgramMembership", "1")).expect(409);
    assert!(several.detail().contains("`?program=`"), "{}", several.detail());
    assert_eq!(several.code(), "several_memberships");
    assert_eq!(client.get(&location).expect(200).json()["program"], program_reference("P"));
    let exited = place("P", "1", json!({"status": "exited", "exit_reason": "moved"}));
    assert_eq!(put(&client, &location, &exited).expect(200).json()["exit_date"], "2026-03-01");
    let again = enrol("P").expect(201);
    assert_eq!(client.get(&location).expect(200).json(), again.json(), "the open one is meant");
    let handles: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                client.post("/ProgramMembership", &place("P", "3", json!({"status": ENROLLED}))).status
            })
        })
        .collect();
    let mut statuses: Vec<u16> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
}

#[test]
fn statuses_follow_on_each_other_as_the_table_says() {
    let (app, client) = register();
    program::create(&app, "P", json!({}));
    drop(client.post("/ProgramMembership", &place("P", "1", json!({}))).expect(201));
    let target = path("ProgramMembership", "1");
    let to = |status: &str| put(&client, &target, &place("P", "1", json!({"status": status})));
    for (status, expected) in [
        ("paused", 409),
        ("not_eligible", 200),
        ("draft", 200),
        ("enrolled", 200),
        ("draft", 409),
        ("paused", 200),
        ("enrolled", 200),
        ("exited", 200),
        ("exited", 200),
        ("enrolled", 409),
    ] {
        assert_eq!(to(status).status, expected, "{status}");
    }
    let stays = to("draft").expect(409);
    assert!(stays.detail().contains("to enrol again, create a new membership"), "{}", stays.detail());
    assert_eq!(stays.code(), "transition_not_allowed");
    let left_out = put(&client, &target, &place("P", "1", json!({}))).expect(422);
    assert_eq!(errors(&left_out.json()), [("status".to_owned(), "required".to_owned())]);
}

#[test]
fn a_change_needs_the_version_that_was_read_where_one_is_named() {
    let (app, client) = register();
    program::create(&app, "P", json!({}));
    drop(client.post("/ProgramMembership", &place("P", "1", json!({"status": ENROLLED}))).expect(201));
    let target = path("ProgramMembership", "1");
    let body = place("P", "1", json!({"status": "paused"}));
    let at = |version: &str| client.request("PUT", &target).header("If-Match", version).json(&body).send();
    assert_eq!(
        at("\"2\"").expect(409).detail(),
        "the record is at version 1, not 2: read it again and repeat the change"
    );
    assert_eq!(at("1").status, 400);
    assert_eq!(at("\"1\"").expect(200).header("etag"), Some("\"2\""));
    assert_eq!(at("*").expect(200).header("etag"), Some("\"3\""));
    for (other, field) in [(place("P", "2", json!({})), "beneficiary"), (place("Q", "1", json!({})), "program")] {
        program::create(&app, &format!("Q-{field}"), json!({}));
        let other = with(other, json!({"status": "paused"}));
        let refused = put(&client, &target, &other).expect(422);
        assert_eq!(errors(&refused.json())[0].0, field, "{}", refused.text());
    }
}

#[test]
fn a_membership_is_not_changed_at_an_excluded_version() {
    let (app, client) = register();
    program::create(&app, "P", json!({}));
    drop(client.post("/ProgramMembership", &place("P", "1", json!({"status": ENROLLED}))).expect(201));
    let target = path("ProgramMembership", "1");
    let body = place("P", "1", json!({"status": "paused"}));
    let unless = |target: &str, excluded: &str| {
        client.request("PUT", target).header("If-None-Match", excluded).json(&body).send()
    };
    for excluded in ["*", "\"1\"", "W/\"1\""] {
        assert_eq!(unless(&target, excluded).expect(412).code(), "precondition_failed", "{excluded}");
    }
    assert_eq!(unless(&target, "1").status, 400);
    assert_eq!(unless(&path("ProgramMembership", "9"), "*").status, 404, "an absent membership is not created");
    assert_eq!(client.get(&target).expect(200).json()["status"], ENROLLED);
    assert_eq!(unless(&target, "\"2\"").expect(200).header("etag"), Some("\"2\""));
}

#[test]
fn memberships_are_searched() {
    let (app, client) = register();
    for id in ["P", "Q"] {
        program::create(&app, id, json!({}));
    }
    for (program, person, status) in [("P", "1", "enrolled"), ("P", "2", "draft"), ("Q", "1", "paused")] {
        drop(client.post("/ProgramMembership", &place(program, person, json!({"status": status}))).expect(201));
    }
    let key = |id: &str| format!("urn:svc:vocab:id-type%23national_id|{id}");
    let total = |query: &str| client.get(&format!("/ProgramMembership?{query}")).expect(200).json()["total"].clone();
    for (query, expected) in [
        (String::new(), 3),
        (format!("beneficiary={}", key("1")), 2),
        (format!("beneficiary=Individual/{}", key("1")), 2),
        (format!("beneficiary=Group/{}", key("1")), 0),
        (format!("program={}", key("P")), 2),
        (format!("program=Program/{}&beneficiary={}", key("P"), key("1")), 1),
        ("status=draft".to_owned(), 1),
        (format!("program={}", key("ABSENT")), 0),
    ] {
        assert_eq!(total(&query), expected, "{query}");
    }
    let page = client.get("/program_memberships?_count=2").expect(200).json();
    let next = client.get(page["links"]["next"].as_str().unwrap()).expect(200).json();
    assert_eq!(next["data"].as_array().unwrap().len(), 1);
    for wrong in ["status=over", "colour=red", "program=urn:svc:vocab:id-type", "_count=0"] {
        assert_eq!(client.get(&format!("/ProgramMembership?{wrong}")).status, 400, "{wrong}");
    }
    let writer = app.client(&["program_membership:create"]);
    let receipt = writer.post("/ProgramMembership", &place("Q", "3", json!({}))).expect(201).json();
    let members: Vec<&String> = receipt.as_object().unwrap().keys().collect();
    assert_eq!(members, ["identifier", "meta", "type"]);
}

#[test]
fn wrong_memberships_are_refused_and_named() {
    let (app, client) = register();
    program::create(&app, "P", json!({}));
    program::create(&app, "G", json!({"target_type": "group"}));
    let one = |more| place("P", "1", more);
    for (body, field, code) in [
        (place("X", "1", json!({})), "program", "unresolved_reference"),
        (place("P", "9", json!({})), "beneficiary", "unresolved_reference"),
        (place("G", "1", json!({})), "beneficiary", "wrong_target_type"),
        (one(json!({"program": null})), "program", "required"),
        (one(json!({"program": reference("1")})), "program", "invalid_reference"),
        (one(json!({"beneficiary": "1"})), "beneficiary", "invalid_reference"),
        (one(json!({"beneficiary": {"reference": 1}})), "beneficiary.reference", "wrong_type"),
        (one(json!({"status": "gone"})), "status", "unknown_value"),
        (one(json!({"enrollment_date": "2026-02-30"})), "enrollment_date", "invalid_date"),
        (one(json!({"exit_reason": "x"})), "exit_reason", "contradiction"),
        (
            one(json!({"status": "exited", "enrollment_date": "2026-03-02", "exit_date": "2026-03-01"})),
            "exit_date",
            "invalid_date",
        ),
        (one(json!({"status": "exited", "exit_reason": "x".repeat(1_001)})), "exit_reason", "too_long"),
        (one(json!({"override": {"reason": "x".repeat(1_001)}})), "override.reason", "too_long"),
        (one(json!({"enrolment_date": "2026-01-01"})), "enrolment_date", "unknown_field"),
    ] {
        let refused = client.post("/ProgramMembership", &body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
    }
    let longest = json!({"beneficiary": {"reference": reference("1"), "display": "Amina"}, "status": "exited", "exit_reason": "x".repeat(1_000)});
    drop(client.post("/ProgramMembership", &one(longest)).expect(201));
}

#[test]
fn an_empty_list_of_identifiers_differs_from_none_recorded() {
    let (mut app, client) = register();
    program::create(&app, "P", json!({}));
    let none = place("P", "1", json!({"identifier": []}));
    let created = client.post("/ProgramMembership", &none).expect(201).json();
    assert_eq!(created["identifier"], json!([]));
    let target = format!("{}?program=Program/{}|P", path("ProgramMembership", "1"), NATIONAL_ID.replace('#', "%23"));
    app.restart();
    assert_eq!(client.get(&target).expect(200).json(), created);
    let put = |more: Value| {
        let body = place("P", "1", with(json!({"status": "draft"}), more));
        client.request("PUT", &target).json(&body).send().expect(200).json()
    };
    assert_eq!(put(json!({})).get("identifier"), None, "what the body leaves out is no longer said");
    assert_eq!(put(json!({"identifier": []}))["identifier"], json!([]));
    let named = put(json!({"identifier": [{"system": NATIONAL_ID, "value": "M-1"}]}));
    assert_eq!(named["identifier"][0]["value"], "M-1");
}

#[test]
fn a_membership_may_be_sent_back_after_its_name_was_reused() {
    let (app, client) = register();
    let identifier = |id: &str, more: Value| with(json!({"system": NATIONAL_ID, "value": id}), more);
    let ended = json!({"period": {"end": "2026-02-01"}});
    for (at, taken_up) in
        [json!([identifier("X-0", json!({}))]), json!([identifier("X-1", ended.clone()), identifier("Y", json!({}))])]
            .into_iter()
            .enumerate()
    {
        let (program, name, own) = (format!("P-{at}"), format!("X-{at}"), format!("M-{at}"));
        program::create(&app, &program, json!({}));
        drop(client.create_individual(&person(&name, json!({}))));
        let body = place(&program, &name, json!({"status": ENROLLED, "identifier": [identifier(&own, json!({}))]}));
        drop(client.post("/ProgramMembership", &body).expect(201));
        let patch = json!({"identifier": [identifier(&name, ended.clone())]});
        drop(client.request("PATCH", &path("Individual", &name)).json(&patch).send().expect(200));
        drop(client.create_individual(&json!({"identifier": taken_up})));
        let target = path("ProgramMembership", &own);
        let shown = client.get(&target).expect(200).json();
        assert_eq!(shown["beneficiary"], reference(&name), "it has no other name");
        assert_eq!(put(&client, &target, &shown).expect(200).json()["status"], ENROLLED);
        let other = with(shown.clone(), json!({"beneficiary": reference("1")}));
        let refused = put(&client, &target, &other).expect(422).json();
        assert_eq!(errors(&refused), [("beneficiary".to_owned(), "immutable".to_owned())]);
        let out = put(&client, &target, &with(shown.clone(), json!({"status": "exited"}))).expect(200).json();
        assert_eq!((&out["status"], &out["beneficiary"]), (&json!("exited"), &shown["beneficiary"]));
    }
}
