//! Invalid rules: 422 with the fault and its position.

use daftar_tests::{ApiClient, TestApp, errors, redacted};
use serde_json::{Value, json};

fn evaluate(client: &ApiClient, expression: &Value) -> daftar_tests::Response {
    client.post("/Eligibility/$evaluate", &json!({"expression": expression, "subjects": [{"type": "individual"}]}))
}

#[test]
fn every_fault_is_reported_with_its_position() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for (expression, code, line, column) in [
        ("me.birth_dat > today()", "unknown_field", 1, 4),
        ("\n\n  absent == 1", "unknown_name", 3, 3),
        ("is_femal(me)", "unknown_function", 1, 1),
        ("me.gender == code('urn:iso:std:iso:5218#7')", "unknown_code", 1, 14),
        ("in_group(me.gender, 'nobodys_group')", "unknown_concept_group", 1, 21),
    ] {
        let refused = evaluate(&client, &expression.into()).expect(422);
        let problem = refused.json();
        let diagnostic = &problem["diagnostics"][0];
        let place = (diagnostic["line"].as_u64(), diagnostic["column"].as_u64());
        assert_eq!(diagnostic["code"], code, "{expression}: {problem}");
        assert_eq!(diagnostic["severity"], "error", "{expression}: {problem}");
        assert_eq!(place.0, Some(line), "{expression}: {problem}");
        assert!(place.1 >= Some(column), "{expression}: {problem}");
        assert!(diagnostic["length"].as_u64() > Some(0), "{expression}: {problem}");
        assert!(refused.detail().starts_with("the expression is not valid: "), "{}", refused.detail());
    }
}

#[test]
fn syntax_types_and_arguments_are_checked_before_any_record_is_read() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for expression in [
        "",
        " ",
        "(",
        "me.",
        "is_female(me",
        "is_female(me) &&",
        "1 +",
        "'open",
        "me == ",
        "))",
        "@#$",
        "me me",
        "1 + 1",
        "me.birth_date",
        "'text'",
        "me.gender == 2",
        "is_female()",
        "is_female(me, me)",
        "age_years(me.gender)",
        "me.birth_date > 5",
        "code(me.gender)",
        "date('2026-02-30') == today()",
        "members.exists(m)",
        "me.income.amount + 1 > 2",
        "import os",
        "while(true)",
        "me['gender'] == 1",
        "x.y.z",
        "size(me) > 1",
        "me.name.family.matches('(')",
        "me.country == me.marital_status",
    ] {
        let refused = evaluate(&client, &expression.into());
        assert_eq!(refused.status, 422, "{expression}: {}", refused.text());
        let problem = refused.json();
        assert!(!problem["diagnostics"].as_array().unwrap().is_empty(), "{expression}: {problem}");
        for diagnostic in problem["diagnostics"].as_array().unwrap() {
            assert!(diagnostic["line"].as_u64() >= Some(1) && diagnostic["column"].as_u64() >= Some(1), "{problem}");
            assert!(!diagnostic["message"].as_str().unwrap().is_empty(), "{problem}");
        }
    }
}

#[test]
fn all_faults_of_a_rule_are_reported_together() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let refused = evaluate(&client, &"is_femal(me) &&\nme.birth_dat > today()".into()).expect(422);
    insta::assert_json_snapshot!(redacted(&refused.json()), @r#"
    {
      "code": "invalid_expression",
      "detail": "the expression is not valid: line 1, column 1: there is no function `is_femal`; did you mean `is_female`?",
      "diagnostics": [
        {
          "code": "unknown_function",
          "column": 1,
          "length": 8,
          "line": 1,
          "message": "there is no function `is_femal`; did you mean `is_female`?",
          "parameters": [
            "is_femal",
            "is_female"
          ],
          "reason": "no_function_suggested",
          "severity": "error",
          "suggestion": "is_female"
        },
        {
          "code": "unknown_field",
          "column": 4,
          "length": 9,
          "line": 2,
          "message": "`me` has no field `birth_dat`; did you mean `birth_date`?",
          "parameters": [
            "me",
            "birth_dat",
            "birth_date"
          ],
          "reason": "no_field_suggested",
          "severity": "error",
          "suggestion": "birth_date"
        }
      ],
      "instance": "/api/v2/Eligibility/$evaluate",
      "request_id": "[request_id]",
      "status": 422,
      "title": "Unprocessable Entity",
      "type": "[public_url]/docs/errors/invalid_expression"
    }
    "#);
}

#[test]
fn bodies_without_a_rule_are_reported() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for (expression, code) in [
        (Value::Null, "required"),
        (json!(7), "wrong_type"),
        (json!(["is_female(me)"]), "wrong_type"),
        (json!("1".repeat(8 * 1024 + 1)), "too_long"),
    ] {
        let refused = evaluate(&client, &expression).expect(422);
        assert_eq!(errors(&refused.json()), [("expression".to_owned(), code.to_owned())]);
    }
    for (more, field, code) in [
        (json!({"subject": "household"}), "subject", "unknown_value"),
        (json!({"as_of": "today"}), "as_of", "invalid_date"),
        (json!({"explain": "yes"}), "explain", "wrong_type"),
        (json!({"explane": true}), "explane", "unknown_field"),
    ] {
        let body = daftar_tests::records::with(json!({"expression": "is_female(me)", "subjects": [{}]}), more);
        let refused = client.post("/Eligibility/$evaluate", &body).expect(422);
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())]);
    }
}
