//! Responses to writes of a client without read access to the record.

use daftar_tests::TestApp;
use daftar_tests::records::{FEMALE, household, person};
use serde_json::{Value, json};

fn keys(body: &Value) -> Vec<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_client_without_the_read_scope_gets_no_more_than_a_receipt() {
    let app = TestApp::start();
    let reader = app.client(&["individual:all", "group:all"]);
    let writer = app.client(&["individual:create", "group:create"]);
    let body = person("1", json!({"gender": FEMALE, "name": {"given": "Amina"}}));
    let created = writer.post("/Individual", &body).expect(201);
    assert_eq!(keys(&created.json()), ["identifier", "meta", "type"]);
    assert!(created.header("location").is_some() && created.header("etag").is_some());
    let created = writer.post("/Group", &household("H-1", &[("1", "head")])).expect(201);
    assert_eq!(keys(&created.json()), ["identifier", "meta", "type"]);
    let body = person("2", json!({"gender": FEMALE}));
    assert!(keys(&reader.create_individual(&body)).contains(&"gender"));
}

#[test]
fn a_rule_about_too_many_people_is_refused_with_the_number() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all", "eligibility:read"]);
    let people: Vec<String> = (0..30).map(|number| format!("P-{number}")).collect();
    for person_id in &people {
        client.create_individual(&person(person_id, json!({"gender": FEMALE})));
    }
    let members: Vec<(&str, &str)> = people.iter().map(|person| (person.as_str(), "child")).collect();
    client.create_group(&household("H-1", &members));
    let subject = "Group/urn:svc:vocab:id-type#national_id|H-1";
    let ask = |times: usize| {
        let body = json!({"expression": "members.size() > 29", "subject": "group", "subjects": vec![subject; times]});
        client.post("/Eligibility/$evaluate", &body)
    };
    let allowed = ask(600).expect(200).json();
    assert_eq!(allowed["results"][599]["outcome"], "eligible");
    let refused = ask(700).expect(422);
    assert!(refused.detail().contains("20000 people"), "{}", refused.detail());
}
