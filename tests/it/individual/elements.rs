//! `_elements`: which fields an answer holds.

use daftar_tests::TestApp;
use daftar_tests::records::{FEMALE, household, path, person};
use serde_json::{Value, json};

fn names(body: &Value) -> Vec<&String> {
    body.as_object().unwrap().keys().collect()
}

#[test]
fn an_answer_holds_the_fields_that_are_asked_for() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    let more = json!({"gender": FEMALE, "birth_date": "1980-01-31", "name": {"given": "Amina", "family": "Diallo"}});
    let whole = client.create_individual(&person("1", more));
    let target = format!("{}?_elements=name.given,gender.code,telecom", path("Individual", "1"));
    let part = client.get(&target).expect(200);
    assert_eq!(names(&part.json()), ["gender", "identifier", "meta", "name", "type"]);
    assert_eq!((&part.json()["name"], &part.json()["gender"]), (&json!({"given": "Amina"}), &json!({"code": "2"})));
    assert_eq!(part.header("etag"), Some("\"1\""));
    let page = client.get("/Individual?_elements=birth_date&_count=1").expect(200).json();
    assert_eq!(names(&page["data"][0]), ["birth_date", "identifier", "meta", "type"]);
    assert_eq!(page["data"][0]["meta"], whole["meta"]);
    assert!(page["links"]["self"].as_str().unwrap().contains("_elements=birth_date"), "{page}");
    drop(client.create_group(&household("H-1", &[("1", "head")])));
    let group = client.get(&format!("{}?_elements=member.role", path("Group", "H-1"))).expect(200).json();
    assert_eq!(names(&group), ["identifier", "member", "meta", "type"]);
    assert_eq!(names(&group["member"][0]), ["role"]);
    for wrong in
        ["_elements=", "_elements=nam", "_elements=name.first", "_elements=name&_elements=gender", "_element=name"]
    {
        for target in [path("Individual", "1"), "/Individual".to_owned(), path("Group", "H-1")] {
            assert_eq!(client.get(&format!("{target}?{wrong}")).status, 400, "{target} {wrong}");
        }
    }
    let refused = client.get(&format!("{}?_elements=birthdate", path("Individual", "1"))).expect(400);
    assert!(
        refused.detail().contains("`birthdate`") && refused.detail().contains("birth_date"),
        "{}",
        refused.detail()
    );
}
