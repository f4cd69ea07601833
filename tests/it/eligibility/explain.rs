//! `explain`: the value of each part of a rule for one subject, and the facts that it read.

use daftar_tests::records::{FEMALE, MALE, ROLE, household, person, reference};
use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

fn explained(client: &ApiClient, expression: &str, subject: Value) -> Value {
    let body = json!({"expression": expression, "subjects": [subject], "explain": true});
    client.evaluate(&body)["results"][0].clone()
}

/// Every part as `value text`, indented by its depth.
fn parts(node: &Value, depth: usize, reported: &mut Vec<String>) {
    reported.push(format!("{}{} {}", "  ".repeat(depth), node["value"], node["text"].as_str().unwrap()));
    for child in node["children"].as_array().unwrap() {
        parts(child, depth + 1, reported);
    }
}

/// All facts that any part read.
fn seen(node: &Value, all: &mut Vec<(String, Value)>) {
    all.extend(node["seen"].as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())));
    for child in node["children"].as_array().unwrap() {
        seen(child, all);
    }
}

#[test]
fn each_part_of_a_rule_is_explained_with_its_value() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let rule = "is_female(me) && age_years(me.birth_date) >= 60";
    let result = explained(&client, rule, json!({"gender": FEMALE, "birth_date": "1950-01-01"}));
    assert_eq!(result["outcome"], "eligible");
    let root = &result["explanation"];
    assert_eq!((&root["text"], &root["value"]), (&json!(rule), &json!(true)), "{root}");
    let mut reported = Vec::new();
    parts(root, 0, &mut reported);
    for part in ["  true is_female(me)", "  true age_years(me.birth_date) >= 60", "    76 age_years(me.birth_date)"] {
        assert!(reported.iter().any(|one| one == part), "{part} in {reported:#?}");
    }
    let mut facts = Vec::new();
    seen(root, &mut facts);
    assert!(facts.contains(&("me.birth_date".to_owned(), json!("1950-01-01"))), "{facts:?}");
    let gender = facts.iter().find(|(name, _)| name == "me.gender").unwrap();
    assert_eq!((&gender.1["uri"], &gender.1["display"]), (&json!(FEMALE), &json!("Female")), "{gender:?}");
}

#[test]
fn the_answer_is_the_same_with_and_without_an_explanation() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    for expression in ["is_female(me)", "is_female(me) || me.birth_date < as_of", "10 / int(me.income.amount) > 1"] {
        let subjects =
            json!([{"gender": FEMALE}, {"gender": MALE, "birth_date": "1990-01-01"}, {}, {"income": {"amount": 0}}]);
        let plain = client.evaluate(&json!({"expression": expression, "subjects": subjects}));
        let mut reported = client.evaluate(&json!({"expression": expression, "subjects": subjects, "explain": true}));
        for result in reported["results"].as_array_mut().unwrap() {
            let explanation = result.as_object_mut().unwrap().remove("explanation").unwrap();
            let expected = match result["outcome"].as_str().unwrap() {
                "eligible" => json!(true),
                "not_eligible" => json!(false),
                _ => Value::Null,
            };
            assert_eq!(explanation["value"], expected, "{expression}: {explanation}");
        }
        assert_eq!(reported, plain, "{expression}");
    }
}

#[test]
fn undetermined_parts_name_missing_facts() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let result = explained(&client, "is_female(me) && age_years(me.birth_date) >= 60", json!({"gender": FEMALE}));
    assert_eq!((&result["outcome"], &result["missing"]), (&json!("undetermined"), &json!(["me.birth_date"])));
    let mut facts = Vec::new();
    seen(&result["explanation"], &mut facts);
    assert!(facts.contains(&("me.birth_date".to_owned(), Value::Null)), "{facts:?}");
    let mut reported = Vec::new();
    parts(&result["explanation"], 0, &mut reported);
    assert!(reported.iter().any(|one| one == "  null age_years(me.birth_date) >= 60"), "{reported:#?}");
}

#[test]
fn members_are_explained_one_by_one() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read", "individual:all", "group:all"]);
    for (id, gender) in [("1", MALE), ("2", FEMALE)] {
        drop(client.create_individual(&person(id, json!({"gender": gender}))));
    }
    drop(client.create_group(&household("H-1", &[("1", "spouse"), ("2", "head")])));
    let rule = "members.exists(m, is_head(m) && is_female(m))";
    let result = explained(&client, rule, json!(reference("1")));
    assert_eq!(result["outcome"], "eligible", "{result}");
    let mut facts = Vec::new();
    seen(&result["explanation"], &mut facts);
    let names: Vec<&str> = facts.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"members[0].role") && names.contains(&"members[1].gender"), "{names:?}");
    let role = facts.iter().find(|(name, _)| name == "members[1].role").unwrap();
    assert_eq!(role.1["uri"], json!(format!("{ROLE}#head")));
}

#[test]
fn how_much_is_explained_at_once_is_bounded() {
    let app = TestApp::start();
    let client = app.client(&["eligibility:read"]);
    let ask = |count: usize, expression: &str| {
        let subjects = vec![json!({"gender": FEMALE}); count];
        client.post("/Eligibility/$evaluate", &json!({"expression": expression, "subjects": subjects, "explain": true}))
    };
    assert_eq!(ask(100, "is_female(me)").expect(200).json()["results"].as_array().unwrap().len(), 100);
    let refused = ask(101, "is_female(me)").expect(422);
    assert_eq!(errors(&refused.json()), [("subjects".to_owned(), "too_many".to_owned())]);
    let wide = format!("is_female(me) && {}", vec!["me.gender.code != '7'"; 180].join(" && "));
    let refused = ask(100, &wide).expect(422);
    assert!(refused.detail().contains("20000 for `explained_parts`"), "{}", refused.detail());
    assert_eq!(ask(1, &wide).expect(200).json()["results"][0]["explanation"]["value"], true);
}
