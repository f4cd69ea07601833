//! Rules on records given in the request.

use daftar_tests::records::{FEMALE, GENDER, HOUSEHOLD, MALE, ROLE, with};
use daftar_tests::{ApiClient, TestApp, errors, redacted};
use serde_json::{Value, json};

fn app_with_evaluator() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    (app, client)
}

/// Outcome and missing facts of one rule on one inline record.
#[track_caller]
fn outcome(client: &ApiClient, expression: &str, subject: &Value) -> (String, Vec<String>) {
    let response = client.evaluate(&json!({"expression": expression, "subjects": [subject], "as_of": "2026-03-01"}));
    let result = &response["results"][0];
    let missing = result["missing"].as_array().unwrap_or_else(|| panic!("{response}"));
    let missing = missing.iter().map(|path| path.as_str().unwrap().to_owned()).collect();
    (result["outcome"].as_str().unwrap().to_owned(), missing)
}

#[test]
fn every_helper_answers_in_three_ways() {
    let (_app, client) = app_with_evaluator();
    let woman =
        json!({"type": "individual", "gender": FEMALE, "birth_date": "1961-03-08", "role": format!("{ROLE}#head")});
    let man =
        json!({"type": "individual", "gender": MALE, "birth_date": "2016-03-01", "role": format!("{ROLE}#child")});
    let empty = json!({"type": "individual"});
    let cases: [(&str, &str); 12] = [
        ("is_female(me)", "me.gender"),
        ("not is_male(me)", "me.gender"),
        ("is_female(me.gender)", "me.gender"),
        ("is_head(me)", "me.role"),
        ("in_group(me.gender, 'feminine_gender')", "me.gender"),
        ("me.gender == code('urn:iso:std:iso:5218#2')", "me.gender"),
        ("me.gender.code == '2'", "me.gender"),
        ("me.gender.display == 'Female'", "me.gender"),
        ("age_years(me.birth_date) >= 60", "me.birth_date"),
        ("between(age_years(me.birth_date), 60, 64)", "me.birth_date"),
        ("days_since(me.birth_date) > 10000", "me.birth_date"),
        ("me.birth_date < date('2000-01-01')", "me.birth_date"),
    ];
    for (expression, missing) in cases {
        assert_eq!(outcome(&client, expression, &woman), ("eligible".to_owned(), vec![]), "{expression}");
        assert_eq!(outcome(&client, expression, &man), ("not_eligible".to_owned(), vec![]), "{expression}");
        let expected = ("undetermined".to_owned(), vec![missing.to_owned()]);
        assert_eq!(outcome(&client, expression, &empty), expected, "{expression}");
    }
}

#[test]
fn a_missing_fact_matters_only_where_the_answer_depends_on_it() {
    let (_app, client) = app_with_evaluator();
    let woman = json!({"type": "individual", "gender": FEMALE});
    for (expression, expected, missing) in [
        ("is_female(me) || age_years(me.birth_date) > 60", "eligible", vec![]),
        ("age_years(me.birth_date) > 60 || is_female(me)", "eligible", vec![]),
        ("age_years(me.birth_date) > 60 && is_male(me)", "not_eligible", vec![]),
        ("is_female(me) && age_years(me.birth_date) > 60", "undetermined", vec!["me.birth_date"]),
        ("has(me.birth_date)", "not_eligible", vec![]),
        ("has(me.gender)", "eligible", vec![]),
        (
            "me.marital_status.code == me.country.code && me.name.family == 'x'",
            "undetermined",
            vec!["me.country", "me.marital_status", "me.name.family"],
        ),
    ] {
        let missing: Vec<String> = missing.into_iter().map(str::to_owned).collect();
        assert_eq!(outcome(&client, expression, &woman), (expected.to_owned(), missing), "{expression}");
    }
    let not_known = json!({"type": "individual", "gender": format!("{GENDER}#0")});
    assert_eq!(
        outcome(&client, "is_female(me)", &not_known),
        ("undetermined".to_owned(), vec!["me.gender".to_owned()])
    );
    assert_eq!(outcome(&client, "me.gender.code == '0'", &not_known).0, "eligible", "gender 0 is itself in `.code`");
}

#[test]
fn the_reference_date_decides_the_age() {
    let (_app, client) = app_with_evaluator();
    let ask = |as_of: Option<&str>, born: &str, rule: &str| {
        let mut body = json!({"expression": rule, "subjects": [{"type": "individual", "birth_date": born}]});
        if let Some(as_of) = as_of {
            body["as_of"] = as_of.into();
        }
        let response = client.evaluate(&body);
        (response["results"][0]["outcome"].as_str().unwrap().to_owned(), response["decision"]["as_of"].clone())
    };
    let sixty = "age_years(me.birth_date) >= 60";
    assert_eq!(ask(Some("2025-12-31"), "1966-01-01", sixty), ("not_eligible".to_owned(), "2025-12-31".into()));
    assert_eq!(ask(Some("2026-01-01"), "1966-01-01", sixty), ("eligible".to_owned(), "2026-01-01".into()));
    assert_eq!(
        ask(None, "1966-03-01", sixty),
        ("eligible".to_owned(), "2026-03-01".into()),
        "today, where none is given"
    );
    assert_eq!(ask(None, "1966-03-02", sixty).0, "not_eligible");
    let eighteen = "age_years(me.birth_date) >= 18";
    assert_eq!(ask(Some("2026-02-28"), "2008-02-29", eighteen).0, "not_eligible", "born on 29 February");
    assert_eq!(ask(Some("2026-03-01"), "2008-02-29", eighteen).0, "eligible", "birthday 1 March");
    assert_eq!(
        ask(Some("2026-01-31"), "2000-01-01", "today() == date('2026-01-31') && as_of == today()").0,
        "eligible"
    );
}

#[test]
fn an_error_in_one_subject_leaves_the_others_their_outcome() {
    let (_app, client) = app_with_evaluator();
    let income = |amount: i64| json!({"type": "individual", "income": {"amount": amount}});
    let response = client.evaluate(&json!({
        "expression": "10 / int(me.income.amount) > 1",
        "subjects": [income(5), income(0), income(10)],
    }));
    insta::assert_json_snapshot!(response["results"], @r#"
    [
      {
        "missing": [],
        "outcome": "eligible",
        "subject": "subjects[0]"
      },
      {
        "errors": [
          {
            "code": "division_by_zero",
            "column": 4,
            "line": 1
          }
        ],
        "missing": [],
        "outcome": "undetermined",
        "subject": "subjects[1]"
      },
      {
        "missing": [],
        "outcome": "not_eligible",
        "subject": "subjects[2]"
      }
    ]
    "#);
}

#[test]
fn members_given_in_the_request_are_the_household() {
    let (_app, client) = app_with_evaluator();
    let rule = "members.exists(m, is_head(m) && is_female(m))";
    let member = |gender: &str, role: &str| json!({"gender": gender, "role": format!("{ROLE}#{role}")});
    let with_members = |members: Value| json!({"type": "individual", "members": members});
    let ask = |subject: &Value| outcome(&client, rule, subject);
    let female_head = with_members(json!([member(MALE, "spouse"), member(FEMALE, "head")]));
    assert_eq!(ask(&female_head), ("eligible".to_owned(), vec![]));
    let male_head = with_members(json!([member(MALE, "head"), member(FEMALE, "child")]));
    assert_eq!(ask(&male_head), ("not_eligible".to_owned(), vec![]));
    assert_eq!(ask(&with_members(json!([]))), ("not_eligible".to_owned(), vec![]), "known to be none");
    let unknown = with_members(json!([{"role": format!("{ROLE}#head")}]));
    assert_eq!(ask(&unknown), ("undetermined".to_owned(), vec!["members.gender".to_owned()]));
    assert_eq!(ask(&json!({"type": "individual"})), ("undetermined".to_owned(), vec!["members".to_owned()]));
}

#[test]
fn a_group_can_be_given_in_the_request() {
    let (_app, client) = app_with_evaluator();
    let group = json!({"type": "group", "group_type": HOUSEHOLD, "members": [{"birth_date": "1950-01-01"}, {}]});
    let response = client.evaluate(&json!({
        "subject": "group",
        "expression": "me.group_type == code('urn:svc:vocab:group-type#household') && members.exists(m, age_years(m.birth_date) > 70)",
        "subjects": [group],
    }));
    assert_eq!(response["results"][0]["outcome"], "eligible");
}

#[test]
fn a_response_names_its_inputs_and_is_reproducible() {
    let (_app, client) = app_with_evaluator();
    let body = json!({"expression": "is_female(me)", "subjects": [{"type": "individual", "gender": FEMALE}]});
    let first = client.evaluate(&body);
    assert_eq!(client.evaluate(&body), first);
    let decision = &first["decision"];
    assert!(decision["engine"].as_str().unwrap().starts_with("eligibility-cel@"), "{decision}");
    for digest in ["expression_digest", "concept_groups", "schema"] {
        let text = decision[digest].as_str().unwrap();
        assert!(text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64), "{digest}: {text}");
    }
    insta::assert_json_snapshot!(redacted(&first), @r#"
    {
      "decision": {
        "as_of": "2026-03-01",
        "concept_groups": "[concept_groups]",
        "engine": "[engine]",
        "expression_digest": "[expression_digest]",
        "schema": "[schema]",
        "seal": "[seal]",
        "versions": [],
        "vocabularies": [
          {
            "digest": "[digest]",
            "namespace": "urn:iso:std:iso:5218",
            "version": "2022"
          }
        ]
      },
      "results": [
        {
          "missing": [],
          "outcome": "eligible",
          "subject": "subjects[0]"
        }
      ]
    }
    "#);
    let other = client.evaluate(&json!({"expression": "is_male(me)", "subjects": [{"type": "individual"}]}));
    assert_ne!(other["decision"]["expression_digest"], decision["expression_digest"]);
    assert_eq!(other["decision"]["schema"], decision["schema"]);
}

#[test]
fn inline_records_are_checked_as_records_are() {
    let (_app, client) = app_with_evaluator();
    let ask = |subjects: Value| {
        client.post("/Eligibility/$evaluate", &json!({"expression": "is_female(me)", "subjects": subjects}))
    };
    for (subjects, field, code) in [
        (json!([{"gender": format!("{GENDER}#7")}]), "subjects[0].gender", "unknown_code"),
        (json!([{}, {"members": [{}, {"gender": "urn:x#1"}]}]), "subjects[1].members[1].gender", "unknown_vocabulary"),
        (json!([{"role": format!("{ROLE}#subsidiary")}]), "subjects[0].role", "wrong_kind"),
        (json!([{"nickname": "x"}]), "subjects[0].nickname", "unknown_field"),
        (json!([{"type": "group"}]), "subjects[0].type", "wrong_type"),
        (json!([7]), "subjects[0]", "wrong_type"),
        (json!(["Individual/x"]), "subjects[0]", "invalid_reference"),
        (json!(["Group/urn:x:y|1"]), "subjects[0]", "invalid_reference"),
        (json!([]), "subjects", "required"),
        (json!("all"), "subjects", "wrong_type"),
        (Value::Null, "subjects", "required"),
        (json!(vec![json!({}); 1_001]), "subjects", "too_many"),
    ] {
        let refused = ask(subjects.clone()).expect(422);
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())]);
    }
    assert_eq!(
        ask(json!(vec![json!({"gender": FEMALE}); 1_000])).expect(200).json()["results"].as_array().unwrap().len(),
        1_000
    );
}

#[test]
fn an_inline_group_may_be_a_whole_create_body() {
    let (_app, client) = app_with_evaluator();
    let group = json!({
        "type": "group", "group_type": HOUSEHOLD, "identifier": [{"system": "urn:x:y", "value": "1"}], "quantity": 2,
        "member": [{"entity": {"reference": "Individual/urn:x:y|1"}}], "relationship": [], "meta": {},
        "address": [{"city": "Gondar", "country": "urn:iso:std:iso:3166-1#ET"}],
    });
    let expected = ("eligible".to_owned(), vec![]);
    assert_eq!(outcome_of_group(&client, &format!("me.group_type == code('{HOUSEHOLD}')"), &group), expected);
    // Membership is given in `members`.
    let (outcome, missing) = outcome_of_group(&client, "members.exists(m, is_head(m))", &group);
    assert_eq!((outcome.as_str(), missing.len()), ("undetermined", 1), "{missing:?}");
    let mut wrong = group.clone();
    wrong["address"][0]["country"] = json!(FEMALE);
    let body = json!({"expression": "true", "subject": "group", "subjects": [wrong]});
    let refused = client.post("/Eligibility/$evaluate", &body).expect(422).json();
    assert_eq!(errors(&refused), [("subjects[0].address[0].country".to_owned(), "wrong_vocabulary".to_owned())]);
}

/// Outcome and missing facts of one rule about groups on one inline record.
#[track_caller]
fn outcome_of_group(client: &ApiClient, expression: &str, subject: &Value) -> (String, Vec<String>) {
    let body = json!({"expression": expression, "subject": "group", "subjects": [subject]});
    let response = client.evaluate(&body);
    let result = &response["results"][0];
    let missing = result["missing"].as_array().unwrap_or_else(|| panic!("{response}"));
    let missing = missing.iter().map(|path| path.as_str().unwrap().to_owned()).collect();
    (result["outcome"].as_str().unwrap().to_owned(), missing)
}

#[test]
fn wrong_codes_of_inline_records_are_reported_up_to_a_limit_with_suggestions() {
    let (_app, client) = app_with_evaluator();
    let wrong: Vec<String> = ('a'..='z').map(|letter| format!("urn:who:icd-11#1A00{letter}")).collect();
    let person = json!({"health_conditions": wrong, "role": format!("{ROLE}#hed")});
    let household = |members: usize| with(person.clone(), json!({"members": vec![&person; members]}));
    for (subjects, reported) in [
        (vec![household(0)], 27),
        (vec![household(0); 2], 50),
        (vec![household(1)], 50),
        (vec![household(20); 20], 50),
        (vec![household(0); 200], 50),
    ] {
        let body = json!({"expression": "is_female(me)", "subjects": subjects});
        let refused = client.post("/Eligibility/$evaluate", &body).expect(422).json();
        let problems = refused["errors"].as_array().unwrap();
        assert_eq!(problems.len(), reported);
        let is_searched = |problem: &&Value| problem["message"].as_str().unwrap().contains("did you mean");
        assert_eq!(problems.iter().filter(is_searched).count(), reported, "{refused}");
    }
}

#[test]
fn the_number_of_subjects_in_a_request_is_limited() {
    let (_app, client) = app_with_evaluator();
    let household = |members: usize| json!({"type": "individual", "members": vec![json!({}); members]});
    let ask = |mut subjects: Vec<Value>, last: Value| {
        subjects.push(last);
        client.post("/Eligibility/$evaluate", &json!({"expression": "members.size() > 0", "subjects": subjects}))
    };
    let taken = ask(vec![household(499); 39], household(499)).expect(200).json();
    assert_eq!(taken["results"].as_array().unwrap().len(), 40);
    for refused in [ask(vec![household(499); 39], household(500)), ask(vec![household(500); 40], household(1))] {
        assert_eq!(errors(&refused.expect(422).json()), [("subjects".to_owned(), "too_many".to_owned())]);
    }
}
