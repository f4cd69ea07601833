//! Rules on records of the register, with the households around them.

use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, household, person, reference, with};
use daftar_tests::{ApiClient, TestApp, redacted};
use serde_json::{Value, json};

/// A household of three (woman of 65 as head, her husband, a child of unknown age), and a person who lives alone.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all", "eligibility:read"]);
    for (id, more) in [
        ("1", json!({"gender": FEMALE, "birth_date": "1961-03-01"})),
        ("2", json!({"gender": MALE, "birth_date": "1959-01-01"})),
        ("3", json!({})),
        ("4", json!({"gender": FEMALE, "birth_date": "1930-01-01"})),
    ] {
        drop(client.create_individual(&person(id, more)));
    }
    drop(client.create_group(&household("H-1", &[("1", "head"), ("2", "spouse"), ("3", "child")])));
    (app, client)
}

/// The outcome for each of some people, with missing facts.
#[track_caller]
fn outcomes(client: &ApiClient, expression: &str, people: &[&str]) -> Vec<String> {
    let subjects: Vec<String> = people.iter().map(|id| reference(id)).collect();
    let response = client.evaluate(&json!({"expression": expression, "subjects": subjects}));
    let results = response["results"].as_array().unwrap();
    let reported = |result: &Value| {
        let missing: Vec<&str> = result["missing"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        [result["outcome"].as_str().unwrap(), &missing.join(",")].join(" ").trim_end().to_owned()
    };
    results.iter().map(reported).collect()
}

#[test]
fn people_of_the_register_are_decided_about_in_the_order_asked() {
    let (_app, client) = register();
    let rule = "is_female(me) && age_years(me.birth_date) >= 65";
    let expected = ["not_eligible", "undetermined me.birth_date,me.gender", "eligible", "eligible"];
    assert_eq!(outcomes(&client, rule, &["2", "3", "1", "4"]), expected);
}

#[test]
fn roles_and_members_come_from_the_one_active_household() {
    let (_app, client) = register();
    assert_eq!(outcomes(&client, "is_head(me)", &["1", "2", "3"]), ["eligible", "not_eligible", "not_eligible"]);
    let has_a_man = "members.exists(m, is_male(m))";
    assert_eq!(outcomes(&client, has_a_man, &["1", "3", "4"]), ["eligible", "eligible", "not_eligible"]);
    let has_a_child = "members.exists(m, age_years(m.birth_date) < 18)";
    assert_eq!(outcomes(&client, has_a_child, &["1", "4"]), ["undetermined members.birth_date", "not_eligible"]);
    assert_eq!(outcomes(&client, "members.size() == 3", &["1", "2", "4"]), ["eligible", "eligible", "not_eligible"]);
    assert_eq!(
        outcomes(&client, "members.all(m, is_head(m) || !is_female(m))", &["2"]),
        ["undetermined members.gender"]
    );
}

#[test]
fn two_households_are_ambiguous_and_a_family_is_not_a_household() {
    let (_app, client) = register();
    let family = with(household("F-1", &[("4", "head")]), json!({"group_type": "urn:svc:vocab:group-type#family"}));
    drop(client.create_group(&family));
    assert_eq!(outcomes(&client, "members.size() == 0", &["4"]), ["eligible"], "a family is no household");
    drop(client.create_group(&household("H-2", &[("1", "head")])));
    assert_eq!(outcomes(&client, "members.exists(m, is_male(m))", &["1"]), ["undetermined members"]);
    assert_eq!(outcomes(&client, "members.exists(m, is_male(m))", &["2"]), ["eligible"]);
}

#[test]
fn a_field_of_a_member_of_an_unknown_household_is_no_empty_optional_value() {
    let (_app, client) = register();
    let rule = "!members[0].?income.?amount.hasValue()";
    assert_eq!(outcomes(&client, rule, &["1"]), ["eligible"], "nothing is recorded");
    drop(client.create_group(&household("H-2", &[("1", "head")])));
    assert_eq!(outcomes(&client, rule, &["1"]), ["undetermined members"]);
}

#[test]
fn texts_of_a_code_in_the_rule_do_not_depend_on_the_other_subjects() {
    let (_app, client) = register();
    let rule = format!("(is_female(me) ? me.gender : code('{FEMALE}')).code == '2'");
    assert_eq!(outcomes(&client, &rule, &["2"]), ["eligible"]);
    assert_eq!(outcomes(&client, &rule, &["2", "1"]), ["eligible", "eligible"]);
}

#[test]
fn an_ended_member_is_not_counted_on_a_later_day() {
    let (_app, client) = register();
    let mut body = household("H-2", &[("4", "head")]);
    body["member"][0]["period"] = json!({"start": "2025-01-01", "end": "2025-12-31"});
    drop(client.create_group(&body));
    let ask = |as_of: &str| {
        let body = json!({"expression": "is_head(me)", "subjects": [reference("4")], "as_of": as_of});
        client.evaluate(&body)["results"][0]["outcome"].clone()
    };
    assert_eq!(ask("2025-06-01"), "eligible");
    assert_ne!(ask("2026-03-01"), "eligible");
    assert_ne!(ask("2024-12-31"), "eligible");
}

#[test]
fn a_group_is_decided_about_with_its_members() {
    let (_app, client) = register();
    let response = client.evaluate(&json!({
        "subject": "group",
        "expression": "me.group_type.code == 'household' && members.exists(m, is_head(m) && is_female(m))",
        "subjects": [format!("Group/{NATIONAL_ID}|H-1"), format!("Group/{NATIONAL_ID}|H-9")],
    }));
    assert_eq!(response["results"][0]["outcome"], "eligible");
    assert_eq!(response["results"][1]["error"], json!({"status": 404, "detail": "no such Group"}));
}

#[test]
fn an_unknown_subject_is_a_separate_error_and_versions_list_the_records_read() {
    let (_app, client) = register();
    let body = json!({
        "expression": "is_female(me) && members.size() > 1",
        "subjects": [reference("1"), reference("ABSENT"), {"type": "individual", "gender": MALE}],
        "as_of": "2026-01-01",
    });
    let response = client.evaluate(&body);
    assert_eq!(client.evaluate(&body), response, "the same question has the same answer");
    insta::assert_json_snapshot!(redacted(&response["results"]), @r#"
    [
      {
        "missing": [],
        "outcome": "eligible",
        "subject": "Individual/urn:svc:vocab:id-type#national_id|1"
      },
      {
        "error": {
          "detail": "no such Individual",
          "status": 404
        },
        "subject": "Individual/urn:svc:vocab:id-type#national_id|ABSENT"
      },
      {
        "missing": [],
        "outcome": "not_eligible",
        "subject": "subjects[2]"
      }
    ]
    "#);
    insta::assert_json_snapshot!(response["decision"]["versions"], @r#"
    [
      {
        "reference": "Group/urn:svc:vocab:id-type#national_id|H-1",
        "version_id": "1"
      },
      {
        "reference": "Individual/urn:svc:vocab:id-type#national_id|1",
        "version_id": "1"
      },
      {
        "reference": "Individual/urn:svc:vocab:id-type#national_id|2",
        "version_id": "1"
      },
      {
        "reference": "Individual/urn:svc:vocab:id-type#national_id|3",
        "version_id": "1"
      }
    ]
    "#);
}
