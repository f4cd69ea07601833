//! `POST /Eligibility/$preview`

mod agreement;
mod comparison;
mod refusals;
mod streaming;
pub mod turns;
pub mod unread;
mod writes;

use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, household, person, reference, with};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

/// A client that may read people and groups, without a rate limit.
fn analyst(app: &TestApp) -> ApiClient {
    app.client(&["individual:all", "group:all", "eligibility:read", "program_membership:all", "program:all"])
}

/// A register of twelve people, some facts missing, in households of three, with one person in two and one in none.
fn register() -> (TestApp, ApiClient) {
    // The fuel ends expensive rules.
    let app = TestApp::builder().call_ms("eligibility-cel", 25_000).start();
    let client = analyst(&app);
    fill(&client);
    (app, client)
}

/// Writes the people and households of [`register`].
fn fill(client: &ApiClient) {
    let genders = [Some(FEMALE), Some(MALE), None];
    for number in 0..12_usize {
        let mut more = json!({});
        if let Some(gender) = genders[number % 3] {
            more["gender"] = json!(gender);
        }
        if number % 4 != 3 {
            more["birth_date"] = json!(format!("{}-03-01", 1950 + number * 6));
        }
        if number % 2 == 0 {
            more["address"] = json!([{"region": if number % 4 == 0 { "Nord-Est" } else { "Île" }, "district": "D"}]);
            more["income"] = json!({"amount": number as f64 * 100.0});
        }
        if number % 5 == 0 {
            more["languages"] = json!([]);
        }
        if number == 7 {
            more["active"] = json!(false);
        }
        drop(client.create_individual(&person(&number.to_string(), more)));
    }
    for (group, members) in [
        ("H-1", [("0", "head"), ("1", "spouse"), ("2", "child")]),
        ("H-2", [("5", "head"), ("4", "spouse"), ("3", "child")]),
        ("H-3", [("6", "head"), ("7", "spouse"), ("5", "child")]),
    ] {
        drop(client.create_group(&household(group, &members)));
    }
    let left = with(household("H-4", &[("8", "head")]), json!({"active": false}));
    drop(client.create_group(&left));
}

/// The response to a preview.
#[track_caller]
fn preview(client: &ApiClient, body: &Value) -> Value {
    client.post("/Eligibility/$preview", body).expect(200).json()
}

#[test]
fn it_counts_outcomes_as_a_whole_and_by_gender_age_and_region() {
    let (_app, client) = register();
    let body = json!({
        "expression": "is_female(me) && age_years(me.birth_date) >= 60", "as_of": "2026-01-01", "sample": 2,
    });
    let mut response = preview(&client, &body);
    let decision = response.as_object_mut().unwrap().remove("decision").unwrap();
    assert_eq!(decision["versions"], json!([]), "no record is named");
    assert_eq!((&decision["as_of"], &decision["visibility"]), (&json!("2026-01-01"), &Value::Null));
    let counts = |of: &Value| {
        ["total", "eligible", "not_eligible", "undetermined", "errors"].map(|name| of[name].as_u64().unwrap())
    };
    assert_eq!(counts(&response), [12, 1, 8, 3, 0]);
    let gender = |of: &Value| format!("{} {} {:?}", of["code"], of["display"], counts(of));
    let genders: Vec<String> = response["by_gender"].as_array().unwrap().iter().map(gender).collect();
    let expected = ["\"1\" \"Male\" [4, 0, 4, 0, 0]", "\"2\" \"Female\" [4, 1, 2, 1, 0]", "null null [4, 0, 2, 2, 0]"];
    assert_eq!(genders, expected);
    let band = |of: &Value| format!("{}-{} {:?}", of["from"], of["to"], counts(of));
    let bands: Vec<String> = response["by_age_band"].as_array().unwrap().iter().map(band).collect();
    let expected = [
        "15-17 [1, 0, 1, 0, 0]",
        "18-24 [1, 0, 1, 0, 0]",
        "25-34 [1, 0, 1, 0, 0]",
        "35-44 [1, 0, 1, 0, 0]",
        "45-54 [2, 0, 2, 0, 0]",
        "60-64 [1, 0, 0, 1, 0]",
        "65-69 [1, 0, 1, 0, 0]",
        "75-79 [1, 1, 0, 0, 0]",
        "null-null [3, 0, 1, 2, 0]",
    ];
    assert_eq!(bands, expected);
    let region = |of: &Value| format!("{} {:?}", of["region"], counts(of));
    let regions: Vec<String> = response["by_region"].as_array().unwrap().iter().map(region).collect();
    let expected = ["\"Île\" [3, 0, 2, 1, 0]", "\"Nord-Est\" [3, 1, 2, 0, 0]", "null [6, 0, 4, 2, 0]"];
    assert_eq!(regions, expected);
    let missing = json!([{"field": "me.birth_date", "count": 2}, {"field": "me.gender", "count": 2}]);
    assert_eq!(response["missing"], missing);
    let sample = json!([
        {"subject": reference("0"), "outcome": "eligible", "missing": []},
        {"subject": reference("6"), "outcome": "not_eligible", "missing": []},
    ]);
    assert_eq!(response["sample"], sample);
    assert_eq!(response["withheld"], json!([]));
    assert_eq!(preview(&client, &body)["decision"], decision, "the same question has the same answer");
}

#[test]
fn it_is_about_whom_the_filters_of_a_search_find() {
    let (_app, client) = register();
    let total = |filter: Value| {
        let response = preview(&client, &json!({"expression": "has(me.gender)", "filter": filter}));
        response["total"].as_u64().unwrap()
    };
    assert_eq!(total(json!({})), 12);
    assert_eq!(total(json!({"active": false})), 1);
    assert_eq!(total(json!({"gender": FEMALE})), 4);
    assert_eq!(total(json!({"birth_date": ["ge1956-03-01", "le1962-03-01"]})), 2);
    assert_eq!(total(json!({"region": "nord est"})), 3);
    assert_eq!(total(json!({"group": format!("{NATIONAL_ID}|H-1")})), 3);
    assert_eq!(total(json!({"identifier": format!("{NATIONAL_ID}|11")})), 1);
    assert_eq!(total(json!({"identifier": format!("{NATIONAL_ID}|none")})), 0);
    let none = preview(&client, &json!({"expression": "has(me.gender)", "filter": {"name": "absent"}, "sample": 10}));
    assert_eq!((&none["by_gender"], &none["sample"], &none["missing"]), (&json!([]), &json!([]), &json!([])));
}

#[test]
fn groups_are_counted_by_region_alone() {
    let (_app, client) = register();
    let body = json!({"expression": "members.size() == 3", "subject": "group", "sample": 4});
    let response = preview(&client, &body);
    assert_eq!((&response["total"], &response["eligible"]), (&json!(4), &json!(3)));
    assert_eq!((&response["by_gender"], &response["by_age_band"]), (&json!([]), &json!([])));
    assert_eq!(response["by_region"][0]["region"], Value::Null);
    assert_eq!(response["sample"][3]["subject"], format!("Group/{NATIONAL_ID}|H-4"));
}

#[test]
fn listed_subjects_are_audited_and_counted_ones_are_not() {
    let (app, client) = register();
    let response =
        client.post("/Eligibility/$preview", &json!({"expression": "is_female(me)", "sample": 2})).expect(200);
    let lines = crate::audit::lines(&app, &response);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["records"], json!([reference("0"), reference("6")]));
    assert_eq!(lines[0]["note"], "a preview over 12 subjects, searched by nothing");
    let response =
        client.post("/Eligibility/$preview", &json!({"expression": "is_female(me)", "filter": {"name": "x"}}));
    let lines = crate::audit::lines(&app, &response);
    assert_eq!(lines[0]["note"], "a preview over 0 subjects, searched by name");
    assert_eq!(lines[0].get("records").cloned().unwrap_or(json!([])), json!([]));
}
