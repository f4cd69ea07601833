//! Bodies that are JSON and wrong: 422 naming every field.

use daftar_tests::records::{NATIONAL_ID, person};
use daftar_tests::{TestApp, errors, redacted};
use serde_json::{Value, json};

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(field, code)| ((*field).to_owned(), (*code).to_owned())).collect()
}

#[test]
fn each_wrong_field_is_named_with_its_kind_of_fault() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let identifier = |more: Value| json!({"identifier": [more]});
    let cases: Vec<(Value, &[(&str, &str)])> = vec![
        (json!({}), &[("identifier", "required")]),
        (json!({"identifier": []}), &[("identifier", "required")]),
        (json!({"identifier": "A-1"}), &[("identifier", "wrong_type"), ("identifier", "required")]),
        (identifier(json!({"system": NATIONAL_ID})), &[("identifier[0].value", "required")]),
        (identifier(json!({"value": "A-1"})), &[("identifier[0].system", "required")]),
        (identifier(json!({"system": "nope", "value": "A-1"})), &[("identifier[0].system", "invalid_identifier")]),
        (identifier(json!({"system": NATIONAL_ID, "value": " A"})), &[("identifier[0].value", "invalid_identifier")]),
        (identifier(json!({"system": NATIONAL_ID, "value": "x".repeat(201)})), &[("identifier[0].value", "too_long")]),
        (identifier(json!({"system": NATIONAL_ID, "value": 7})), &[("identifier[0].value", "wrong_type")]),
        (
            identifier(json!({"system": NATIONAL_ID, "value": "A", "extra": 1})),
            &[("identifier[0].extra", "unknown_field")],
        ),
        (
            identifier(json!({"system": "urn:svc:vocab:id-type#ration_card", "value": "A"})),
            &[("identifier[0].system", "unknown_system")],
        ),
        (
            identifier(json!({"system": "https://example.org/ids", "value": "A"})),
            &[("identifier[0].system", "unknown_system")],
        ),
        (person("A", json!({"nickname": "x"})), &[("nickname", "unknown_field")]),
        (person("A", json!({"brith_date": "1990-01-01"})), &[("brith_date", "unknown_field")]),
        (person("A", json!({"type": "Group"})), &[("type", "wrong_type")]),
        (person("A", json!({"resourceType": 1})), &[("resourceType", "wrong_type")]),
        (person("A", json!({"active": "true"})), &[("active", "wrong_type")]),
        (person("A", json!({"name": "Rosa"})), &[("name", "wrong_type")]),
        (person("A", json!({"name": {"given": ""}})), &[("name.given", "empty")]),
        (person("A", json!({"name": {"given": "a\nb"}})), &[("name.given", "control_character")]),
        (person("A", json!({"name": {"first": "Rosa"}})), &[("name.first", "unknown_field")]),
        (person("A", json!({"birth_date": "1990-02-30"})), &[("birth_date", "invalid_date")]),
        (person("A", json!({"birth_date": "1990-1-1"})), &[("birth_date", "invalid_date")]),
        (person("A", json!({"birth_date": "08/03/1961"})), &[("birth_date", "invalid_date")]),
        (person("A", json!({"birth_date": "1990-01-01T00:00:00Z"})), &[("birth_date", "invalid_date")]),
        (person("A", json!({"birth_date": "0001-01-01"})), &[("birth_date", "invalid_date")]),
        (
            person("A", json!({"birth_date": "2000-01-01", "deceased_date": "1999-12-31"})),
            &[("deceased_date", "invalid_date")],
        ),
        (person("A", json!({"telecom": [{"system": "fax", "value": "1"}]})), &[("telecom[0].system", "unknown_value")]),
        (
            person("A", json!({"telecom": [{"system": "phone", "rank": 0}]})),
            &[("telecom[0].rank", "wrong_type"), ("telecom[0].value", "required")],
        ),
        (person("A", json!({"income": {"amount": -1}})), &[("income.amount", "wrong_type")]),
        (person("A", json!({"income": {}})), &[("income.amount", "required")]),
        (person("A", json!({"address": {"city": "x"}})), &[("address", "wrong_type")]),
        (person("A", json!({"address": ["x"]})), &[("address[0]", "wrong_type")]),
    ];
    for (body, expected) in &cases {
        let refused = client.post("/Individual", body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(errors(&refused.json()), pairs(expected), "{body}");
    }
    assert_eq!(client.found(""), Vec::<String>::new(), "nothing of them is kept");
}

#[test]
fn all_faults_are_reported_together() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let body = json!({
        "identifier": [{"system": NATIONAL_ID, "value": "A"}, {"system": NATIONAL_ID, "value": "A"}],
        "brith_date": "1990-01-01",
        "deceased_date": "yesterday",
        "name": {"given": 1},
    });
    let refused = client.post("/Individual", &body).expect(422);
    insta::assert_json_snapshot!(redacted(&refused.json()), @r#"
    {
      "code": "validation_failed",
      "detail": "identifier[1]: the same identifier appears twice (and 3 more)",
      "errors": [
        {
          "code": "duplicate",
          "field": "identifier[1]",
          "message": "the same identifier appears twice"
        },
        {
          "code": "wrong_type",
          "field": "name.given",
          "message": "must be a text, not a number"
        },
        {
          "code": "invalid_date",
          "field": "deceased_date",
          "message": "a date must be a valid day in the format YYYY-MM-DD, between the years 1800 and 2999"
        },
        {
          "code": "unknown_field",
          "field": "brith_date",
          "message": "there is no such field; did you mean `birth_date`?"
        }
      ],
      "instance": "/api/v2/Individual",
      "request_id": "[request_id]",
      "status": 422,
      "title": "Unprocessable Entity",
      "type": "[public_url]/docs/errors/validation_failed"
    }
    "#);
}

#[test]
fn an_unknown_identifier_system_is_answered_with_the_known_ones() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let body = json!({"identifier": [{"system": "urn:svc:vocab:id-type#ration_card", "value": "A"}]});
    let detail = client.post("/Individual", &body).expect(422).detail();
    for known in ["national_id", "passport", "tax_id", "birth_certificate"] {
        assert!(detail.contains(&format!("urn:svc:vocab:id-type#{known}")), "{detail}");
    }
}

#[test]
fn lists_are_bounded() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let body = person("A", json!({"telecom": vec![json!({"system": "phone", "value": "1"}); 10_000]}));
    let refused = client.post("/Individual", &body).expect(422);
    assert_eq!(errors(&refused.json()), pairs(&[("telecom", "too_many")]));
    let many: Value =
        (0..500).map(|number| (format!("unknown_{number}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let refused = client.post("/Individual", &many).expect(422);
    assert!(errors(&refused.json()).len() <= 50, "a list of problems is bounded too");
}
