//! A decision that is sent back is evaluated again with the versions that it names, independent of later changes.

use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, household, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, artifacts, errors};
use serde_json::{Value, json};

use crate::program;

/// A household of a woman of 65 and a man of 40, of whom one is in a program.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client =
        app.client(&["individual:all", "group:all", "eligibility:read", "program:read", "program_membership:all"]);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE, "birth_date": "1961-01-01"}))));
    drop(client.create_individual(&person("2", json!({"gender": MALE, "birth_date": "1986-01-01"}))));
    drop(client.create_group(&household("H-1", &[("1", "head"), ("2", "spouse")])));
    program::create(&app, "PENSION", json!({"eligibility": "age_years(me.birth_date) >= 60"}));
    let membership = json!({
        "program": format!("Program/{NATIONAL_ID}|PENSION"), "beneficiary": reference("1"), "status": "enrolled",
    });
    drop(client.post("/ProgramMembership", &membership).expect(201));
    (app, client)
}

/// The body with the decision of a response in it.
fn again(body: &Value, response: &Value) -> Value {
    with(body.clone(), json!({"decision": response["decision"]}))
}

/// Sends a request, changes data, and sends it again with the decision: the bytes are the same.
#[track_caller]
fn is_repeated(client: &ApiClient, body: &Value, change: impl FnOnce()) {
    let first = client.post("/Eligibility/$evaluate", body).expect(200);
    let body = again(body, &first.json());
    assert_eq!(client.post("/Eligibility/$evaluate", &body).expect(200).bytes(), first.bytes(), "before the change");
    change();
    let repeated = client.post("/Eligibility/$evaluate", &body);
    assert_eq!(repeated.text(), first.text(), "after the change");
    let without = with(body, json!({"decision": null}));
    let now = client.post("/Eligibility/$evaluate", &without).expect(200);
    assert_ne!(now.bytes(), first.bytes(), "the change makes a difference, so that something is tested");
}

#[test]
fn people_are_read_as_they_were() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me) && age_years(me.birth_date) >= 60", "subjects": [reference("1"), reference("2")]});
    is_repeated(&client, &body, || {
        let changed = client.request("PATCH", &path("Individual", "1")).json(&json!({"birth_date": "2001-01-01"}));
        drop(changed.send().expect(200));
    });
}

#[test]
fn households_are_read_as_they_were() {
    let (_app, client) = register();
    let body = json!({
        "expression": "members.exists(m, is_male(m)) && members.size() == 2", "subjects": [reference("1"), reference("2")],
        "explain": true,
    });
    is_repeated(&client, &body, || {
        drop(client.create_individual(&person("3", json!({}))));
        let added = json!({"entity": {"reference": reference("3")}});
        drop(client.post(&format!("{}/$add-member", path("Group", "H-1")), &added).expect(201));
        // A second household would make the members unknown.
        drop(client.create_group(&household("H-2", &[("2", "head")])));
        let gone = json!({"entity": {"reference": reference("1")}});
        let removed = client.post(&format!("{}/$remove-member", path("Group", "H-1")), &gone);
        assert!(removed.status < 300, "{}", removed.text());
    });
}

#[test]
fn several_households_stay_several() {
    let (_app, client) = register();
    drop(client.create_group(&household("H-2", &[("2", "head")])));
    let body = json!({"expression": "members.size() == 2", "subjects": [reference("2")]});
    is_repeated(&client, &body, || {
        let ended = json!({"active": false});
        drop(client.request("PATCH", &path("Group", "H-2")).json(&ended).send().expect(200));
    });
}

#[test]
fn memberships_are_read_as_they_were() {
    let (_app, client) = register();
    let body = json!({"expression": "programs.exists(p, p.status == 'enrolled')", "subjects": [reference("1")]});
    let first = client.evaluate(&body);
    let names: Vec<&str> = first["decision"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["reference"].as_str().unwrap())
        .collect();
    let own = format!("ProgramMembership 1 of {}", reference("1"));
    assert_eq!(
        names,
        [reference("1"), own],
        "one without an identifier is named by its beneficiary, not by its program"
    );
    is_repeated(&client, &body, || {
        let membership = path("ProgramMembership", "1");
        let mut body = client.get(&membership).expect(200).json();
        body["status"] = json!("paused");
        drop(client.request("PUT", &membership).json(&body).send().expect(200));
    });
}

#[test]
fn a_subject_that_was_not_there_is_not_there() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": [reference("9"), reference("1")]});
    is_repeated(&client, &body, || {
        drop(client.create_individual(&person("9", json!({"gender": FEMALE}))));
    });
}

#[test]
fn a_programs_rule_is_read_as_it_was() {
    let (app, client) = register();
    let body = json!({"program": format!("Program/{NATIONAL_ID}|PENSION"), "subjects": [reference("2")]});
    is_repeated(&client, &body, || {
        let patch = json!({"eligibility": "age_years(me.birth_date) >= 30"});
        let changed = app.admin().request("PATCH", &program::admin_path("PENSION")).json(&patch).send();
        assert_eq!(changed.status, 200, "{}", changed.text());
    });
}

#[test]
fn the_day_is_the_one_that_was_asked_about() {
    let (app, client) = register();
    let body = json!({"expression": "as_of < date('2026-03-02')", "subjects": [reference("1")]});
    // As long as a token lasts.
    is_repeated(&client, &body, || app.advance_seconds(86_000));
}

/// The response to a body whose decision was changed.
fn tampered(client: &ApiClient, body: &Value, change: impl FnOnce(&mut Value)) -> Response {
    let mut body = again(body, &client.evaluate(body));
    change(&mut body["decision"]);
    client.post("/Eligibility/$evaluate", &body)
}

#[test]
fn versions_that_are_no_longer_installed_are_named() {
    let (app, client) = register();
    let body = json!({"expression": "has(me.ethnocultural_status)", "subjects": [reference("1")]});
    let first = client.evaluate(&body);
    let refused_naming = |named: &[&str]| {
        let refused = client.post("/Eligibility/$evaluate", &again(&body, &first)).expect(409);
        let detail = refused.detail();
        assert!(named.iter().all(|named| detail.contains(named)), "{detail}");
    };
    let code = json!({"code": "urn:svc:vocab:ethnocultural#new", "labels": {"en": "New"}});
    drop(app.admin().request("POST", "/local-codes").json(&code).send().expect(201));
    let digest = first["decision"]["vocabularies"][0]["digest"].as_str().unwrap();
    refused_naming(&["`urn:svc:vocab:ethnocultural`", digest]);
    let farmer = std::fs::read(artifacts::module("farmer-registry")).unwrap();
    drop(app.admin().install(&farmer).expect(201));
    refused_naming(&["the schema", first["decision"]["schema"].as_str().unwrap()]);
}

#[test]
fn a_decision_depends_only_on_fields_of_its_rule() {
    let (app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": [reference("1")]});
    let first = client.post("/Eligibility/$evaluate", &body).expect(200);
    let namespaces = |response: &Value| -> Vec<String> {
        let used = response["decision"]["vocabularies"].as_array().unwrap().iter();
        used.map(|one| one["namespace"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(namespaces(&first.json()), ["urn:iso:std:iso:5218"]);
    let definition = json!({"includes": [{"code": "urn:iso:std:iso:5218#1"}]});
    drop(app.admin().request("PUT", "/concept-groups/sons").json(&definition).send());
    let repeated = client.post("/Eligibility/$evaluate", &again(&body, &first.json())).expect(200);
    assert_eq!(repeated.bytes(), first.bytes(), "another concept group is not its concern");
    drop(app.admin().request("PUT", "/concept-groups/feminine_gender").json(&definition).send().expect(200));
    let refused = client.post("/Eligibility/$evaluate", &again(&body, &first.json())).expect(409);
    assert!(refused.detail().contains("concept groups"), "{}", refused.detail());
    assert_eq!(refused.code(), "decision_not_repeatable");
}

#[test]
fn a_decision_about_something_else_is_refused() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": [reference("1")]});
    let first = client.evaluate(&body);
    let other = json!({"expression": "is_male(me)", "subjects": [reference("1")], "decision": first["decision"]});
    let refused = client.post("/Eligibility/$evaluate", &other).expect(422);
    assert_eq!(errors(&refused.json()), [("decision.expression_digest".to_owned(), "other_expression".to_owned())]);
    let other = json!({"expression": "is_female(me)", "subjects": [reference("2")], "decision": first["decision"]});
    let refused = client.post("/Eligibility/$evaluate", &other).expect(409);
    assert!(refused.detail().contains(&format!("`{}` at version 1", reference("1"))), "{}", refused.detail());
    let day = with(again(&body, &first), json!({"as_of": "2020-01-01"}));
    let refused = client.post("/Eligibility/$evaluate", &day).expect(422);
    assert_eq!(errors(&refused.json()), [("as_of".to_owned(), "contradiction".to_owned())]);
}

#[test]
fn a_decision_is_not_repeated_about_the_next_owner_of_an_identifier() {
    let (_app, client) = register();
    let tax_id = json!({"system": "urn:svc:vocab:id-type#tax_id", "value": "T-1"});
    let moving = json!({"system": NATIONAL_ID, "value": "X"});
    let ended = with(moving.clone(), json!({"period": {"end": "2026-02-01"}}));
    let woman = json!({"identifier": [moving, tax_id], "gender": FEMALE});
    drop(client.create_individual(&woman));
    let body = json!({"expression": "is_female(me)", "subjects": [reference("X")]});
    let first = client.evaluate(&body);
    let patch = client.request("PATCH", &path("Individual", "X")).json(&json!({"identifier": [ended, tax_id]}));
    drop(patch.send().expect(200));
    drop(client.post("/Eligibility/$evaluate", &again(&body, &first)).expect(200));
    drop(client.create_individual(&person("X", json!({"gender": MALE}))));
    let refused = client.post("/Eligibility/$evaluate", &again(&body, &first)).expect(409);
    assert_eq!(refused.code(), "decision_not_repeatable");
    assert!(refused.detail().contains(&format!("`{}`", reference("X"))), "{}", refused.detail());
    drop(client.post("/Eligibility/$evaluate", &body).expect(200));
}

#[test]
fn an_incomplete_decision_is_rejected_with_the_missing_members() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": [reference("1")]});
    for (member, value, field, code) in [
        ("engine", Value::Null, "decision.engine", "required"),
        ("as_of", json!("today"), "decision.as_of", "invalid_date"),
        ("versions", json!([{"reference": "x"}]), "decision.versions[0].version_id", "required"),
        ("versions", json!("x"), "decision.versions", "wrong_type"),
        (
            "versions",
            json!([{"reference": "x", "version_id": "01"}]),
            "decision.versions[0].version_id",
            "invalid_version",
        ),
        ("visibility", json!("all"), "decision.visibility", "unknown_value"),
        ("signature", json!("x"), "decision.signature", "unknown_field"),
    ] {
        let refused = tampered(&client, &body, |decision| decision[member] = value).expect(422);
        let reported = errors(&refused.json());
        assert!(reported.contains(&(field.to_owned(), code.to_owned())), "{member}: {reported:?}");
    }
}

#[test]
fn a_decision_reveals_no_record_that_the_client_may_no_longer_see() {
    let (app, _) = register();
    let colleague = |scopes: &[&str]| {
        let credentials =
            app.admin().create_client(&json!({"name": "colleague", "organization": "Ministry", "scopes": scopes}));
        app.client_of(&credentials)
    };
    let body = json!({"expression": "is_female(me)", "subjects": [reference("1")]});
    let decision = colleague(&["individual:read", "eligibility:read"]).evaluate(&body)["decision"].clone();
    let ask = |scopes: &[&str], of: &str| {
        let body = json!({"expression": "is_female(me)", "subjects": [reference(of)], "decision": decision});
        let response = colleague(scopes).post("/Eligibility/$evaluate", &body);
        (response.status, response.detail())
    };
    assert_eq!(ask(&["eligibility:read"], "1").0, 403);
    assert_eq!(ask(&["eligibility:read"], "1"), ask(&["eligibility:read"], "ABSENT"));
    let restricted = colleague(&["eligibility:read"]);
    app.admin().grant_fields(restricted.id(), "individual:read", &["name"]);
    let restricted = app.client_of(restricted.credentials());
    assert_eq!(restricted.post("/Eligibility/$evaluate", &again(&body, &json!({"decision": decision}))).status, 403);
}
