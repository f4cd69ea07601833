//! A decision is repeated only for the client that received it, and unchanged.

use daftar_tests::records::{FEMALE, NATIONAL_ID, household, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, errors};
use serde_json::{Value, json};

use crate::program;

const SCOPES: &[&str] = &["individual:all", "group:all", "program:read", "program_membership:all", "eligibility:read"];

fn client(app: &TestApp, organization: Option<&str>) -> ApiClient {
    app.client_of(&app.admin().create_client(&json!({
        "name": "test", "organization": organization, "scopes": SCOPES,
        "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    })))
}

/// A person who moved, in a household of two.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = client(&app, None);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE, "address": [{"city": "Oldtown"}]}))));
    drop(client.create_individual(&person("2", json!({}))));
    drop(client.create_group(&household("H-1", &[("1", "head"), ("2", "spouse")])));
    let moved = json!({"address": [{"city": "Newtown"}]});
    drop(client.request("PATCH", &path("Individual", "1")).json(&moved).send().expect(200));
    (app, client)
}

fn question() -> Value {
    json!({
        "expression": "me.address.exists(a, a.city == 'x') || members.exists(m, has(m.gender))", "explain": true,
        "subjects": [reference("1")],
    })
}

fn repeat(client: &ApiClient, decision: &Value) -> Response {
    client.post("/Eligibility/$evaluate", &with(question(), json!({"decision": decision})))
}

#[track_caller]
fn is_not_authentic(response: Response) {
    let refused = response.expect(422).json();
    assert_eq!(errors(&refused), [("decision".to_owned(), "decision_not_authentic".to_owned())], "{refused}");
    assert_eq!(refused["code"], "decision_not_authentic", "{refused}");
}

#[test]
fn no_version_is_read_that_the_decision_was_not_made_with() {
    let (_app, client) = register();
    let first = client.post("/Eligibility/$evaluate", &question()).expect(200);
    let mut decision = first.json()["decision"].take();
    assert_eq!(repeat(&client, &decision).expect(200).bytes(), first.bytes());
    let at = |decision: &Value| {
        let versions = decision["versions"].as_array().unwrap().iter();
        versions.clone().position(|one| one["reference"] == reference("1").as_str()).unwrap()
    };
    let place = at(&decision);
    assert_eq!(decision["versions"][place]["version_id"], "2");
    decision["versions"][place]["version_id"] = json!("1");
    let refused = repeat(&client, &decision);
    assert!(!refused.text().contains("Oldtown"), "{}", refused.text());
    is_not_authentic(refused);
}

/// Every leaf of a value.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| leaves(value, &format!("{at}/{name}"), found))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, value)| leaves(value, &format!("{at}/{place}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => found.push(at.to_owned()),
    }
}

#[test]
fn a_decision_with_any_change_is_rejected() {
    let (_app, client) = register();
    let decision = client.evaluate(&question())["decision"].take();
    drop(repeat(&client, &decision).expect(200));
    let mut places = Vec::new();
    leaves(&decision, "", &mut places);
    assert!(places.len() > 12, "{places:?}");
    for place in places {
        let text = decision.pointer(&place).unwrap().as_str().unwrap().to_owned();
        for other in
            [format!("{text}0"), text[1..].to_owned(), text.to_uppercase(), "2020-01-01".to_owned(), "1".to_owned()]
        {
            if other == text {
                continue;
            }
            let mut changed = decision.clone();
            *changed.pointer_mut(&place).unwrap() = json!(other);
            drop(repeat(&client, &changed).expect(422));
        }
    }
    for (list, more) in [
        ("versions", json!({"reference": reference("3"), "version_id": "1"})),
        ("vocabularies", json!({"namespace": "urn:x", "version": "1", "digest": "sha256:0"})),
    ] {
        let mut longer = decision.clone();
        longer[list].as_array_mut().unwrap().push(more);
        is_not_authentic(repeat(&client, &longer));
        let mut shorter = decision.clone();
        shorter[list].as_array_mut().unwrap().pop();
        is_not_authentic(repeat(&client, &shorter));
        let mut twice = decision.clone();
        let first = twice[list][0].clone();
        twice[list].as_array_mut().unwrap().push(first);
        drop(repeat(&client, &twice).expect(422));
    }
    for seal in [Value::Null, json!(""), json!("."), json!(7), json!({}), json!("x".repeat(10_000))] {
        is_not_authentic(repeat(&client, &with(decision.clone(), json!({"seal": seal}))));
    }
    is_not_authentic(repeat(&client, &with(decision.clone(), json!({"visibility": "consent"}))));
    let mut without = decision.clone();
    without.as_object_mut().unwrap().remove("seal");
    is_not_authentic(repeat(&client, &without));
    let mut reordered = decision.clone();
    reordered["versions"].as_array_mut().unwrap().reverse();
    drop(repeat(&client, &reordered).expect(200));
}

#[test]
fn the_seal_of_another_decision_does_not_fit() {
    let (_app, client) = register();
    let now = client.evaluate(&question())["decision"].take();
    drop(client.request("PATCH", &path("Individual", "1")).json(&json!({"active": true})).send().expect(200));
    let later = client.evaluate(&question())["decision"].take();
    assert_ne!(now["seal"], later["seal"]);
    is_not_authentic(repeat(&client, &with(now, json!({"seal": later["seal"]}))));
}

#[test]
fn clients_of_one_organization_share_their_decisions_and_no_others_do() {
    let (app, alone) = register();
    let [one, other, elsewhere] = [Some("Ministry"), Some("Ministry"), Some("Agency")].map(|name| client(&app, name));
    let decision = one.evaluate(&question())["decision"].take();
    for client in [&one, &other] {
        drop(repeat(client, &decision).expect(200));
    }
    for client in [&elsewhere, &alone] {
        is_not_authentic(repeat(client, &decision));
    }
    let own = alone.evaluate(&question())["decision"].take();
    drop(repeat(&alone, &own).expect(200));
    for other in [&client(&app, None), &one] {
        is_not_authentic(repeat(other, &own));
    }
    let eval = app.admin().request("POST", "/eligibility/evaluate").json(&question()).send().expect(200).json();
    is_not_authentic(repeat(&one, &eval["decision"]));
    let again = with(question(), json!({"decision": eval["decision"]}));
    drop(app.admin().request("POST", "/eligibility/evaluate").json(&again).send().expect(200));
    let again = with(question(), json!({"decision": decision}));
    is_not_authentic(app.admin().request("POST", "/eligibility/evaluate").json(&again).send());
    // A client that changes its organization cannot use earlier decisions.
    let set = json!({"organization": "Agency"});
    drop(app.admin().request("PATCH", &format!("/clients/{}", other.id())).json(&set).send().expect(200));
    is_not_authentic(repeat(&app.client_of(other.credentials()), &decision));
}

#[test]
fn a_decision_is_repeated_after_its_key_was_replaced_and_not_after_it_was_taken_away() {
    let (mut app, client) = register();
    let before = client.evaluate(&question());
    let rotate = json!({"use": "decisions"});
    drop(app.admin().request("POST", "/signing-keys").json(&rotate).send().expect(201));
    let after = client.evaluate(&question());
    let key = |response: &Value| response["decision"]["seal"].as_str().unwrap().split_once('.').unwrap().0.to_owned();
    assert_ne!(key(&before), key(&after));
    for _ in 0..2 {
        for response in [&before, &after] {
            assert_eq!(repeat(&client, &response["decision"]).expect(200).json()["results"], response["results"]);
        }
        app.restart();
    }
    app.stop();
    std::fs::remove_file(app.data_dir().join("keys/decisions.json")).unwrap();
    app.restart();
    for response in [&before, &after] {
        is_not_authentic(repeat(&client, &response["decision"]));
    }
}

#[test]
fn a_program_is_read_at_a_version_only_where_the_decision_is_authentic() {
    let (app, client) = register();
    program::create(&app, "P", json!({"eligibility": "me.active"}));
    let body = json!({"program": format!("Program/{NATIONAL_ID}|P"), "subjects": [reference("2")]});
    let decision = client.evaluate(&body)["decision"].take();
    let patch = json!({"eligibility": "not me.active"});
    drop(app.admin().request("PATCH", &program::admin_path("P")).json(&patch).send().expect(200));
    drop(client.post("/Eligibility/$evaluate", &with(body.clone(), json!({"decision": decision}))).expect(200));
    let mut changed = decision.clone();
    let program = changed["versions"].as_array_mut().unwrap().iter_mut();
    for version in program.filter(|one| one["reference"].as_str().unwrap().starts_with("Program/")) {
        version["version_id"] = json!("9");
    }
    is_not_authentic(client.post("/Eligibility/$evaluate", &with(body, json!({"decision": changed}))));
}

#[test]
fn a_preview_has_a_sealed_decision_too() {
    let (_app, client) = register();
    let body = json!({"expression": "has(me.gender)", "subject": "individual"});
    let decision = client.post("/Eligibility/$preview", &body).expect(200).json()["decision"].take();
    assert!(decision["seal"].is_string(), "{decision}");
    let inline = json!({"expression": "has(me.gender)", "subjects": [{"type": "individual"}], "decision": decision});
    drop(client.post("/Eligibility/$evaluate", &inline).expect(200));
    let named = with(inline, json!({"subjects": [reference("1")]}));
    let response = client.post("/Eligibility/$evaluate", &named).expect(200).json();
    assert_eq!(response["results"][0]["error"]["status"], 404, "it names no records: {response}");
}

#[test]
fn a_repeat_is_audited_with_the_versions_that_were_read() {
    let (app, client) = register();
    let decision = client.evaluate(&question())["decision"].take();
    drop(client.request("PATCH", &path("Individual", "1")).json(&json!({"active": true})).send().expect(200));
    let lines = |response: &Response| {
        let id = response.header("x-request-id").unwrap();
        let page = app.admin().get(&format!("/audit?request_id={id}")).expect(200).json();
        let lines: Vec<Value> = page["data"].as_array().unwrap().clone();
        lines.into_iter().filter(|line| line["action"] == "evaluate").collect::<Vec<Value>>()
    };
    let repeated = lines(&repeat(&client, &decision).expect(200));
    assert_eq!(repeated.len(), 1, "{repeated:#?}");
    let note = repeated[0]["note"].as_str().unwrap();
    for (name, version) in [(reference("1"), "2"), (reference("2"), "1"), (format!("Group/{NATIONAL_ID}|H-1"), "1")] {
        assert!(note.contains(&format!("{name} at version {version}")), "{note}");
        assert!(repeated[0]["records"].as_array().unwrap().contains(&json!(name)), "{repeated:#?}");
    }
    let plain = lines(&client.post("/Eligibility/$evaluate", &question()).expect(200));
    assert_eq!(plain[0].get("note").filter(|note| !note.is_null()), None, "{plain:#?}");
}
