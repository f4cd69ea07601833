//! Rules read only fields that their client may see.

use daftar_tests::TestApp;
use daftar_tests::records::{FEMALE, household, person, reference};
use serde_json::json;

/// Fields of people and of groups that are granted, a rule, of whom, and the field that stops it.
type Case = (&'static [&'static str], &'static [&'static str], &'static str, &'static str, Option<&'static str>);

/// A household of one woman.
fn register() -> TestApp {
    let app = TestApp::start();
    let clerk = app.client(&["individual:create", "group:create"]);
    drop(clerk.create_individual(&person("1", json!({"gender": FEMALE, "birth_date": "1950-01-01"}))));
    drop(clerk.create_group(&household("H-1", &[("1", "head")])));
    app
}

#[test]
fn a_rule_needs_each_field_that_it_reads() {
    let app = register();
    let group = "Group/urn:svc:vocab:id-type#national_id|H-1";
    let cases: [Case; 9] = [
        (&["gender"], &[], "is_female(me)", "me", None),
        (&["gender"], &[], "is_female(me) || me.birth_date < as_of", "me", Some("birth_date")),
        (&["gender"], &["member"], "members.exists(m, is_female(m))", "group", None),
        (&["gender"], &["member"], "members.exists(m, is_head(m))", "group", None),
        (&["name"], &["member"], "members.exists(m, is_female(m))", "group", Some("gender")),
        (&["gender"], &["name"], "members.exists(m, is_female(m))", "group", Some("member")),
        (&["gender"], &["name"], "size(members) > 0", "group", Some("member")),
        (&["gender"], &["member", "active"], "is_head(me)", "me", Some("group_type")),
        (&["gender"], &["member", "active", "group_type"], "is_head(me)", "me", None),
    ];
    for (of_people, of_groups, expression, of, hidden) in cases {
        let client = app.client(&["eligibility:read"]);
        app.admin().grant_fields(client.id(), "individual:read", of_people);
        app.admin().grant_fields(client.id(), "group:read", of_groups);
        let client = app.client_of(client.credentials());
        let (subject, of) = if of == "me" { ("individual", reference("1")) } else { ("group", group.to_owned()) };
        let body = json!({"expression": expression, "subject": subject, "subjects": [of]});
        let response = client.post("/Eligibility/$evaluate", &body);
        let context = format!("{of_people:?} {of_groups:?} {expression}: {}", response.text());
        match hidden {
            None => assert_eq!(response.json()["results"][0]["outcome"], "eligible", "{context}"),
            Some(field) => {
                assert_eq!(response.status, 403, "{context}");
                assert_eq!(response.json()["errors"][0]["field"], field, "{context}");
                assert!(response.detail().contains("a rule cannot read it"), "{context}");
            }
        }
    }
}

#[test]
fn inline_data_of_a_request_is_not_restricted() {
    let app = register();
    let client = app.client(&["eligibility:read"]);
    app.admin().grant_fields(client.id(), "individual:read", &[]);
    let client = app.client_of(client.credentials());
    let body = json!({"expression": "is_female(me)", "subjects": [{"type": "individual", "gender": FEMALE}]});
    assert_eq!(client.evaluate(&body)["results"][0]["outcome"], "eligible");
    let both = json!({"expression": "is_female(me)", "subjects": [{"type": "individual"}, reference("1")]});
    assert_eq!(client.post("/Eligibility/$evaluate", &both).status, 403);
}
