//! Programs that name the eligibility engine of their rule, beside the active engine.

use daftar::domain::manifest::PluginName;
use daftar_tests::records::{NATIONAL_ID, person, reference};
use daftar_tests::{ApiClient, Response, TestApp, artifacts, errors};
use serde_json::{Value, json};

use super::{admin_path, create, program};

/// The active engine.
const ACTIVE: &str = "eligibility-cel";
/// The other engine: every subject is eligible by every rule.
const OTHER: &str = "misbehaving-engine";
/// A rule that only the other engine compiles.
const RULE: &str = "each and every one";

/// A register with two engines, one individual, and a client.
fn register() -> (TestApp, ApiClient) {
    let active = PluginName::parse(ACTIVE).ok();
    let app = TestApp::builder().config(|config| config.plugins.engine = active).start();
    drop(app.admin().install(&other()).expect(201));
    let client = app.client(&["individual:all", "program:read", "program_membership:all", "eligibility:read"]);
    drop(client.create_individual(&person("1", json!({}))));
    (app, client)
}

fn other() -> Vec<u8> {
    std::fs::read(artifacts::fixture(OTHER)).unwrap()
}

fn write(app: &TestApp, method: &str, path: &str, body: &Value) -> Response {
    app.admin().request(method, path).json(body).send()
}

fn patch(app: &TestApp, id: &str, body: &Value) -> Response {
    write(app, "PATCH", &admin_path(id), body)
}

fn rule(call: &str, client: &ApiClient, more: Value) -> Response {
    client.post(&format!("/Eligibility/${call}"), &more)
}

fn named(id: &str) -> String {
    format!("Program/{NATIONAL_ID}|{id}")
}

fn enrol(client: &ApiClient, id: &str) -> Response {
    let body = json!({
        "program": named(id), "beneficiary": reference("1"), "status": "enrolled", "enrollment_date": "2026-03-01",
    });
    client.post("/ProgramMembership", &body)
}

#[test]
fn the_rule_of_a_program_is_checked_and_decided_by_the_engine_that_it_names() {
    let (app, client) = register();
    let by_other = json!({"eligibility": RULE, "engine": OTHER, "enforce_eligibility": true});
    assert_eq!(write(&app, "POST", "/programs", &program("P", json!({"eligibility": RULE}))).status, 422);
    let unknown = write(&app, "POST", "/programs", &program("P", json!({"engine": "gear"}))).expect(422);
    assert_eq!(errors(&unknown.json()), [("engine".to_owned(), "not_installed".to_owned())]);
    assert!(unknown.text().contains(&format!("there are `{ACTIVE}`, `{OTHER}`")), "{}", unknown.text());
    assert_eq!(create(&app, "P", by_other)["engine"], OTHER);
    create(&app, "Q", json!({"eligibility": "me.active", "enforce_eligibility": true}));

    let subjects = json!([reference("1")]);
    let decided = |id: &str| {
        let body = json!({"program": named(id), "subjects": subjects, "explain": true});
        let evaluated = rule("evaluate", &client, body).expect(200).json();
        (
            evaluated["results"][0]["outcome"].clone(),
            evaluated["decision"]["engine"].as_str().unwrap().to_owned(),
            evaluated,
        )
    };
    let (outcome, engine, evaluated) = decided("P");
    assert_eq!(outcome, "eligible");
    assert!(engine.starts_with(&format!("{OTHER}@")), "{engine}");
    assert_eq!(evaluated["results"][0]["explanation"]["text"], RULE);
    let again = json!({"program": named("P"), "subjects": subjects, "decision": evaluated["decision"]});
    assert_eq!(rule("evaluate", &client, again).expect(200).json()["decision"], evaluated["decision"]);
    assert!(decided("Q").1.starts_with(&format!("{ACTIVE}@")));
    drop(enrol(&client, "P").expect(201));

    let refused = patch(&app, "P", &json!({"engine": null})).expect(422).json();
    assert_eq!(refused["code"], "invalid_expression", "the active engine does not compile the rule: {refused}");
    let refused = patch(&app, "P", &json!({"engine": "gear"})).expect(422).json();
    assert_eq!(errors(&refused), [("engine".to_owned(), "not_installed".to_owned())]);
    assert_eq!(app.admin().get("/program-rules").expect(200).json(), json!({"data": []}));
}

#[test]
fn a_rule_of_a_request_may_name_its_engine() {
    let (app, client) = register();
    let with_engine = |engine: Value| json!({"expression": RULE, "engine": engine});
    let checked = |engine: Value| rule("validate", &client, with_engine(engine)).expect(200).json()["valid"].clone();
    assert_eq!((checked(json!(OTHER)), checked(Value::Null)), (json!(true), json!(false)));
    let counted = rule("preview", &client, with_engine(json!(OTHER))).expect(200).json();
    assert_eq!((&counted["total"], &counted["eligible"]), (&json!(1), &json!(1)));
    let mut body = with_engine(json!(OTHER));
    body["subjects"] = json!([reference("1")]);
    assert_eq!(rule("evaluate", &client, body.clone()).expect(200).json()["results"][0]["outcome"], "eligible");
    for call in ["validate", "preview", "evaluate"] {
        let mut unknown = if call == "evaluate" { body.clone() } else { with_engine(Value::Null) };
        unknown["engine"] = json!("gear");
        let refused = rule(call, &client, unknown).expect(422).json();
        assert_eq!(errors(&refused), [("engine".to_owned(), "not_installed".to_owned())], "{call}");
    }
    create(&app, "P", json!({"eligibility": "me.active"}));
    let both = json!({"program": named("P"), "engine": OTHER, "subjects": [reference("1")]});
    let refused = rule("evaluate", &client, both).expect(422).json();
    assert_eq!(errors(&refused), [("engine".to_owned(), "contradiction".to_owned())]);
}

#[test]
fn an_engine_that_a_program_names_is_removed_only_by_force_and_missed_by_name() {
    let (app, client) = register();
    create(&app, "P", json!({"eligibility": RULE, "engine": OTHER, "enforce_eligibility": true}));
    create(&app, "Q", json!({"eligibility": "me.active"}));
    let reviewed = app.admin().request("POST", "/plugin-reviews").body("application/wasm", other()).send().expect(200);
    let reviewed = reviewed.json();
    for program in reviewed["programs"].as_array().unwrap() {
        assert_eq!((&program["compared"], &program["changes"]), (&json!(1), &json!([])), "{reviewed}");
        assert_eq!(program.get("problem").unwrap_or(&Value::Null), &Value::Null, "each has its own engine: {reviewed}");
    }

    let path = format!("/plugins/{OTHER}");
    let refused = app.admin().request("DELETE", &path).send().expect(409);
    assert!(refused.detail().contains("1 programs name the engine `misbehaving-engine`"), "{}", refused.detail());
    drop(app.admin().request("DELETE", &format!("{path}?force=true")).send().expect(204));
    let broken = app.admin().get("/program-rules").expect(200).json();
    assert_eq!(broken["data"].as_array().map(Vec::len), Some(1), "{broken}");
    assert!(broken["data"][0]["message"].as_str().unwrap().contains("`misbehaving-engine`"), "{broken}");
    let body = json!({"program": named("P"), "subjects": [reference("1")]});
    let missed = rule("evaluate", &client, body.clone()).expect(503).json();
    assert_eq!(missed["code"], "no_eligibility_engine", "{missed}");
    assert_eq!(enrol(&client, "P").expect(503).json()["code"], "no_eligibility_engine");
    drop(patch(&app, "P", &json!({"description": "no change of the rule"})).expect(200));

    drop(app.admin().install(&other()).expect(201));
    assert_eq!(rule("evaluate", &client, body).expect(200).json()["results"][0]["outcome"], "eligible");
    drop(enrol(&client, "P").expect(201));
}
