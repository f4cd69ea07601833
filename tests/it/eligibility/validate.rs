//! `$validate`: faults, read facts and cost of an expression, without reading any record.

use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

fn validate(client: &ApiClient, expression: &str, subject: &str) -> Value {
    let body = json!({"expression": expression, "subject": subject});
    client.post("/Eligibility/$validate", &body).expect(200).json()
}

/// Severity, code and position of every diagnostic.
fn problems(checked: &Value) -> Vec<String> {
    let diagnostics = checked["diagnostics"].as_array().unwrap();
    let text = |diagnostic: &Value, name: &str| diagnostic[name].as_str().unwrap().to_owned();
    diagnostics
        .iter()
        .map(|one| {
            let place = format!("{}:{}+{}", one["line"], one["column"], one["length"]);
            format!("{} {} {place}", text(one, "severity"), text(one, "code"))
        })
        .collect()
}

#[test]
fn a_right_expression_is_described() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let checked = validate(&client, "is_female(me) && members.exists(m, age_years(m.birth_date) < 6)", "individual");
    assert_eq!((&checked["valid"], &checked["result_type"]), (&json!(true), &json!("bool")), "{checked}");
    assert_eq!(checked["references"], json!(["me.gender", "members.birth_date"]));
    assert_eq!(checked["diagnostics"], json!([]));
    let steps = |name: &str| checked["cost"][name].as_u64().unwrap_or_else(|| panic!("{name}: {checked}"));
    assert!(steps("steps_min") >= 1 && steps("steps_max") > steps("steps_min"), "{checked}");
    assert!(steps("list_items") >= 1, "{checked}");
    let count = validate(&client, "size(members) > 3", "group");
    assert_eq!(count["references"], json!(["members"]), "which members there are, and nothing about them");
}

#[test]
fn people_are_meant_where_nothing_is_said() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let ask = |body: Value| client.post("/Eligibility/$validate", &body).expect(200).json();
    assert_eq!(ask(json!({"expression": "is_female(me)"})), validate(&client, "is_female(me)", "individual"));
    assert_eq!(validate(&client, "is_female(me)", "group")["valid"], false, "a group has no gender");
}

#[test]
fn faults_are_reported_with_position_and_closest_name() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for (expression, expected, suggestion) in [
        ("is_femal(me)", "error unknown_function 1:1+8", json!("is_female")),
        ("true ||\n  me.birth_dat > as_of", "error unknown_field 2:6+9", json!("birth_date")),
        ("in_group(me.gender, 'femine_gender')", "error unknown_concept_group 1:21+15", json!("feminine_gender")),
        ("me.gender == code('urn:iso:std:iso:5218#7')", "error unknown_code 1:19+24", json!("urn:iso:std:iso:5218#0")),
        ("me.gender", "error not_boolean 1:1+9", Value::Null),
    ] {
        let checked = validate(&client, expression, "individual");
        assert_eq!(checked["valid"], false, "{expression}: {checked}");
        assert_eq!(problems(&checked), [expected], "{expression}: {checked}");
        let found = &checked["diagnostics"][0]["suggestion"];
        assert_eq!(found.is_null(), suggestion.is_null(), "{expression}: {checked}");
        if expected.contains("concept_group") || expected.contains("unknown_f") {
            assert_eq!(*found, suggestion, "{expression}");
        }
    }
}

/// The expression with the suggestion of its first diagnostic in place of the faulty text, as clients apply it: between
/// the quotation marks of a literal unless the suggestion is an expression itself.
fn fixed(expression: &str, diagnostic: &Value) -> Option<String> {
    let suggestion = diagnostic["suggestion"].as_str()?;
    let at = |name: &str| usize::try_from(diagnostic[name].as_u64().unwrap()).unwrap();
    let characters: Vec<char> = expression.chars().collect();
    let (before, rest) = characters.split_at(at("column") - 1);
    let (text, after) = rest.split_at(at("length"));
    let is_literal = text.first() == Some(&'\'') && !suggestion.contains('\'');
    let written = if is_literal { format!("'{suggestion}'") } else { suggestion.to_owned() };
    let join = |characters: &[char]| characters.iter().collect::<String>();
    Some(format!("{}{written}{}", join(before), join(after)))
}

#[test]
fn every_suggestion_yields_a_valid_rule_of_that_meaning() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for (faulty, expected) in [
        ("age_years(me.birth_date) => 60", "age_years(me.birth_date) >= 60"),
        ("me.gender == 'female'", "me.gender == code('urn:iso:std:iso:5218#2')"),
        ("me.gender == 'Féminin'", "me.gender == code('urn:iso:std:iso:5218#2')"),
        ("'1' == me.gender", "code('urn:iso:std:iso:5218#1') == me.gender"),
        ("members.exists(m, m.role == 'head')", "members.exists(m, m.role == code('urn:svc:vocab:relationship#head'))"),
        ("me.gender == 'urn:iso:std:iso:5218#2'", "me.gender == code('urn:iso:std:iso:5218#2')"),
        ("in_group(me.gender, 'femine_gender')", "in_group(me.gender, 'feminine_gender')"),
        ("me.birth_date < '1960-01-01'", "me.birth_date < date('1960-01-01')"),
        ("is_femal(me)", "is_female(me)"),
        ("me.birthdate < as_of", "me.birth_date < as_of"),
    ] {
        let diagnostic = &validate(&client, faulty, "individual")["diagnostics"][0];
        let fixed = fixed(faulty, diagnostic).unwrap_or_else(|| panic!("{faulty}: {diagnostic}"));
        assert_eq!(fixed, expected, "{faulty}: {diagnostic}");
        let checked = validate(&client, &fixed, "individual");
        assert_eq!((&checked["valid"], &checked["diagnostics"]), (&json!(true), &json!([])), "{fixed}");
    }
    for faulty in ["me.gender == 'woman of honour'", "me.gender == 'urn:iso:std:iso:639#ar'"] {
        let checked = validate(&client, faulty, "individual");
        assert_eq!(
            (&checked["valid"], &checked["diagnostics"][0]["suggestion"]),
            (&json!(false), &Value::Null),
            "{faulty}: {checked}"
        );
    }
    let body = json!({"expression": "me.gender == 'female'", "subjects": [{"type": "individual"}]});
    let refused = client.post("/Eligibility/$evaluate", &body).expect(422);
    assert_eq!(refused.json()["diagnostics"][0]["suggestion"], "code('urn:iso:std:iso:5218#2')", "{}", refused.text());
}

#[test]
fn codes_that_a_field_never_has_are_reported_by_every_function() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for (expression, expected) in [
        ("me.occupation == code('urn:iso:std:iso:5218#2')", "error never_true 1:18+30"),
        ("descends_from(me.occupation, 'urn:iso:std:iso:5218#2')", "warning never_true 1:30+24"),
        ("in_group(me.occupation, 'feminine_gender')", "warning never_true 1:25+17"),
        ("me.occupation.uri == 'urn:iso:std:iso:5218#2'", "warning never_true 1:22+24"),
    ] {
        assert_eq!(problems(&validate(&client, expression, "individual")), [expected], "{expression}");
    }
    for expression in [
        "descends_from(me.occupation, 'urn:ilo:isco-08#6')",
        "in_group(me.occupation, 'agricultural_workers')",
        "in_group(me.gender, 'feminine_gender') && me.occupation == code('urn:ilo:isco-08#6')",
    ] {
        assert_eq!(validate(&client, expression, "individual")["diagnostics"], json!([]), "{expression}");
    }
}

#[test]
fn a_group_that_is_not_set_is_a_warning_until_it_is() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let checked = validate(&client, "is_pregnant(me)", "individual");
    assert_eq!((&checked["valid"], problems(&checked).len()), (&json!(true), 1), "{checked}");
    let warning = &checked["diagnostics"][0];
    assert_eq!((&warning["severity"], &warning["code"]), (&json!("warning"), &json!("unset_concept_group")));
    let message = warning["message"].as_str().unwrap();
    assert!(
        message.contains("`pregnant_eligible`") && message.contains("concept_group.pregnant_eligible"),
        "{message}"
    );
    let named = json!(["pregnant_eligible", "concept_group.pregnant_eligible"]);
    assert_eq!((&warning["reason"], &warning["parameters"]), (&json!("unset_concept_group"), &named));
    let code = json!({"code": "urn:svc:vocab:pregnancy-status#pregnant", "labels": {"en": "Pregnant"}});
    let added = app.admin().request("POST", "/local-codes").json(&code).send();
    assert_eq!(added.status, 201, "{}", added.text());
    let definition = json!({"includes": [{"code": "urn:svc:vocab:pregnancy-status#pregnant"}]});
    let set = app.admin().request("PUT", "/concept-groups/pregnant_eligible").json(&definition).send();
    assert_eq!(set.status, 200, "{}", set.text());
    assert_eq!(validate(&client, "is_pregnant(me)", "individual")["diagnostics"], json!([]));
}

#[test]
fn reading_without_the_scope_is_a_warning() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let expression = "is_female(me) && me.birth_date < as_of && size(members) > 1";
    assert_eq!(
        validate(&client, expression, "individual")["diagnostics"],
        json!([]),
        "its rules are about its own data"
    );
    app.admin().grant_fields(client.id(), "individual:read", &["gender"]);
    let client = app.client_of(client.credentials());
    let checked = validate(&client, expression, "individual");
    assert_eq!(checked["valid"], true, "{checked}");
    let codes: Vec<&str> =
        checked["diagnostics"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["field_not_granted", "missing_scope"], "{checked}");
    let denied = &checked["diagnostics"][0];
    assert_eq!(
        (&denied["reason"], &denied["parameters"]),
        (&json!("rule_field_not_granted"), &json!(["me.birth_date"]))
    );
    let message = checked["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.contains("`me.birth_date`") && message.contains("`birth_date` of `individual`"), "{message}");
    let inline = json!({"expression": expression, "subjects": [{"gender": "urn:iso:std:iso:5218#2", "birth_date": "1950-01-01", "members": [{}, {}]}]});
    assert_eq!(client.evaluate(&inline)["results"][0]["outcome"], "eligible", "what it brings is its own");
}

#[test]
fn an_invalid_body_is_rejected_with_the_invalid_member() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for (body, field, code) in [
        (json!({}), "expression", "required"),
        (json!({"expression": 7}), "expression", "wrong_type"),
        (json!({"expression": "1".repeat(8 * 1024 + 1)}), "expression", "too_long"),
        (json!({"expression": "true", "subject": "household"}), "subject", "unknown_value"),
        (json!({"expression": "true", "subjects": []}), "subjects", "unknown_field"),
    ] {
        let refused = client.post("/Eligibility/$validate", &body).expect(422);
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
    }
    let long = client.post("/Eligibility/$validate", &json!({"expression": "1".repeat(8 * 1024 + 1)})).expect(422);
    assert!(long.detail().contains("8192 bytes"), "the budget and its size: {}", long.detail());
    let whole = format!("is_female(me){}", " ".repeat(8 * 1024 - 13));
    assert_eq!(validate(&client, &whole, "individual")["valid"], true, "as long as it may be");
}

#[test]
fn without_an_engine_validation_is_unavailable() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    drop(app.admin().request("DELETE", "/plugins/eligibility-cel?force=true").send().expect(204));
    let refused = client.post("/Eligibility/$validate", &json!({"expression": "true"})).expect(503);
    assert!(refused.detail().contains("daftar plugin install"), "{}", refused.detail());
}
