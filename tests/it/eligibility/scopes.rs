//! Data of the register that a rule reads requires the scope of its resource.

use daftar_tests::TestApp;
use daftar_tests::records::{FEMALE, NATIONAL_ID, household, person, reference};
use serde_json::json;

#[test]
fn a_rule_reads_only_fields_granted_to_its_client() {
    let app = TestApp::start();
    let clerk = app.client(&["individual:create", "group:create"]);
    drop(clerk.create_individual(&person("1", json!({"gender": FEMALE}))));
    drop(clerk.create_group(&household("H-1", &[("1", "head")])));
    let stored = json!([reference("1")]);
    let inline = json!([{"type": "individual", "gender": FEMALE, "members": []}]);
    let (plain, of_members) = ("is_female(me)", "members.exists(m, is_female(m))");
    let cases = [
        (vec!["eligibility:read"], plain, &inline, None),
        (vec!["eligibility:read"], of_members, &inline, None),
        (vec!["eligibility:all"], plain, &inline, None),
        (vec!["eligibility:read"], plain, &stored, Some("individual:read")),
        (vec!["eligibility:read", "individual:search"], plain, &stored, Some("individual:read")),
        (vec!["eligibility:read", "individual:read"], plain, &stored, None),
        (vec!["eligibility:read", "individual:read"], of_members, &stored, Some("group:read")),
        (vec!["eligibility:read", "individual:read"], "is_head(me)", &stored, Some("group:read")),
        (vec!["eligibility:read", "group:read"], of_members, &stored, Some("individual:read")),
        (vec!["eligibility:read", "individual:read", "group:read"], of_members, &stored, None),
        (vec!["individual:read", "group:read"], plain, &inline, Some("eligibility:read")),
        (vec!["eligibility:create", "eligibility:search"], plain, &inline, Some("eligibility:read")),
    ];
    for (scopes, expression, subjects, missing) in cases {
        let client = app.client(&scopes);
        let response = client.post("/Eligibility/$evaluate", &json!({"expression": expression, "subjects": subjects}));
        let Some(missing) = missing else {
            assert_eq!(response.status, 200, "{scopes:?} {expression} {subjects}: {}", response.text());
            continue;
        };
        assert_eq!(response.status, 403, "{scopes:?} {expression} {subjects}: {}", response.text());
        let detail = response.detail();
        assert!(detail.starts_with(&format!("Missing required scope {missing}. Granted: ")), "{scopes:?}: {detail}");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.contains("insufficient_scope") && challenge.contains(missing), "{challenge}");
    }
    let group =
        json!({"subject": "group", "expression": "has(me.name)", "subjects": [format!("Group/{NATIONAL_ID}|H-1")]});
    let refused =
        app.client(&["eligibility:read", "individual:read"]).post("/Eligibility/$evaluate", &group).expect(403);
    assert!(refused.detail().contains("group:read"), "{}", refused.detail());
}

#[test]
fn existence_is_not_revealed_without_the_scope_to_read_people() {
    let app = TestApp::start();
    drop(app.client(&["individual:create"]).create_individual(&person("1", json!({}))));
    let client = app.client(&["eligibility:read"]);
    let ask = |id: &str| {
        let body = json!({"expression": "is_female(me)", "subjects": [reference(id)]});
        let response = client.post("/Eligibility/$evaluate", &body);
        (response.status, response.detail())
    };
    assert_eq!(ask("1"), ask("ABSENT"));
    assert_eq!(ask("1").0, 403);
}
