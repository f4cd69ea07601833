//! A preview returns for each subject the result of `$evaluate`, whether a rule reads columns or records.

use daftar_tests::ApiClient;
use daftar_tests::records::{NATIONAL_ID, reference};
use serde_json::{Value, json};

use super::{preview, register};

/// Rules that read columns, and rules that read records, and both.
const OF_PEOPLE: &[&str] = &[
    "true",
    "is_female(me)",
    "is_female(me) && age_years(me.birth_date) >= 60",
    "me.income.amount < 500.0",
    "1 / me.languages.size() > 0",
    "me.active && !has(me.deceased_date)",
    "me.gender.display == 'Female'",
    "me.address.exists(a, a.region == 'Nord-Est')",
    "me.languages.size() == 0",
    "has(me.name.family) || is_male(me)",
    "members.exists(m, is_female(m))",
    "members.all(m, is_head(m) || age_years(m.birth_date) < 60)",
    "members.size() == 3",
    "members.exists(m, m.address.exists(a, a.district == 'D'))",
    "is_head(me)",
    "me.role.display.startsWith('H') && is_head(me)",
    "programs.size() == 0",
    "me.birth_date < date('1970-01-01')",
];
const OF_GROUPS: &[&str] = &[
    "me.active",
    "has(me.name) || me.group_type.code == 'household'",
    "members.exists(m, is_head(m) && is_female(m))",
    "members.filter(m, age_years(m.birth_date) >= 50).size() >= 1",
];

/// Results of `$evaluate` for each.
fn evaluated(client: &ApiClient, expression: &str, subject: &str, references: &[String]) -> Vec<Value> {
    let body = json!({
        "expression": expression, "subject": subject, "subjects": references, "as_of": "2026-03-01",
    });
    let response = client.evaluate(&body);
    response["results"].as_array().unwrap().clone()
}

#[track_caller]
fn agrees(client: &ApiClient, expression: &str, subject: &str, references: &[String]) {
    let results = evaluated(client, expression, subject, references);
    let body = json!({"expression": expression, "subject": subject, "as_of": "2026-03-01", "sample": 100});
    let counted = preview(client, &body);
    assert_eq!(counted["sample"], json!(results), "{expression}");
    let count = |outcome: &str| results.iter().filter(|result| result["outcome"] == outcome).count();
    for outcome in ["eligible", "not_eligible", "undetermined"] {
        assert_eq!(counted[outcome], count(outcome), "{expression}: {outcome}");
    }
    assert_eq!(counted["errors"], results.iter().filter(|result| result.get("errors").is_some()).count());
    for missing in counted["missing"].as_array().unwrap() {
        let lacks = |result: &&Value| result["missing"].as_array().unwrap().contains(&missing["field"]);
        assert_eq!(missing["count"], results.iter().filter(lacks).count(), "{expression}: {missing}");
    }
    let body = json!({"expression": expression, "subject": subject, "as_of": "2026-03-01", "subjects": true});
    let request = client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson");
    let lines = request.json(&body).send().expect(200).lines();
    let reported: Vec<&Value> = lines.iter().filter(|line| line.get("subject").is_some()).collect();
    assert_eq!(json!(reported), json!(results), "{expression}");
    assert_eq!(lines.last().unwrap()["eligible"], counted["eligible"]);
}

#[test]
fn people_are_decided_about_as_one_by_one() {
    let (_app, client) = register();
    let people: Vec<String> = (0..12).map(|number| reference(&number.to_string())).collect();
    for expression in OF_PEOPLE {
        agrees(&client, expression, "individual", &people);
    }
}

#[test]
fn groups_are_decided_about_as_one_by_one() {
    let (_app, client) = register();
    let groups: Vec<String> = (1..=4).map(|number| format!("Group/{NATIONAL_ID}|H-{number}")).collect();
    for expression in OF_GROUPS {
        agrees(&client, expression, "group", &groups);
    }
}
