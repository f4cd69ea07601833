//! `compare`: two rules over one snapshot give the outcomes of two previews, subject by subject.

use daftar_tests::postgres::{IN_MEMORY, Processes};
use daftar_tests::records::{FEMALE, MALE, person, reference};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

use super::{analyst, fill, preview, register};

const OUTCOMES: [&str; 3] = ["eligible", "not_eligible", "undetermined"];

/// Pairs of rules: of columns, of records, of both, with the texts of codes, with errors, and of equal outcomes.
const OF_PEOPLE: &[(&str, &str)] = &[
    ("is_female(me) && age_years(me.birth_date) >= 60", "age_years(me.birth_date) >= 50"),
    ("is_female(me)", "me.address.exists(a, a.region == 'Nord-Est')"),
    ("me.gender.display == 'Female'", "me.role.display.startsWith('H') && is_head(me)"),
    ("1 / me.languages.size() > 0", "has(me.name.family) || is_male(me)"),
    ("true", "1 / me.languages.size() > 0"),
    ("members.exists(m, is_female(m))", "me.birth_date < date('1970-01-01')"),
    ("me.birth_date < date('1970-01-01')", "members.all(m, is_head(m) || age_years(m.birth_date) < 60)"),
    ("programs.size() == 0", "members.size() == 3"),
    ("is_female(me)", "is_female(me)"),
];
const OF_GROUPS: &[(&str, &str)] = &[
    ("me.active", "members.size() == 3"),
    ("members.exists(m, is_head(m) && is_female(m))", "has(me.name) || me.group_type.code == 'household'"),
];

/// The count of a cell.
fn cell(cells: &Value, first: &str, second: &str) -> u64 {
    let cells = cells.as_array().unwrap();
    assert_eq!(cells.len(), 9, "{cells:?}");
    let found: Vec<&Value> = cells.iter().filter(|cell| cell["a"] == first && cell["b"] == second).collect();
    assert_eq!(found.len(), 1, "{cells:?}");
    found[0]["count"].as_u64().unwrap()
}

/// The sums of a table are the counts of each rule alone.
#[track_caller]
fn adds_up(cells: &Value, first: &Value, second: &Value) {
    for outcome in OUTCOMES {
        let sum = |of: &dyn Fn(&str) -> u64| OUTCOMES.iter().map(|other| of(other)).sum::<u64>();
        assert_eq!(json!(sum(&|other| cell(cells, outcome, other))), first[outcome], "{cells} {first}");
        assert_eq!(json!(sum(&|other| cell(cells, other, outcome))), second[outcome], "{cells} {second}");
    }
    let total: u64 = OUTCOMES.iter().flat_map(|one| OUTCOMES.map(|other| cell(cells, one, other))).sum();
    assert_eq!((json!(total), &first["total"]), (first["total"].clone(), &second["total"]));
}

/// Compares two rules with their single previews.
#[track_caller]
fn agrees(client: &ApiClient, subject: &str, (a, b): (&str, &str)) {
    let body =
        |expression: &str| json!({"expression": expression, "subject": subject, "as_of": "2026-03-01", "sample": 100});
    let [first, second] = [a, b].map(|expression| preview(client, &body(expression)));
    let mut request = body(a);
    request["compare"] = json!(b);
    let mut compared = preview(client, &request);
    let lines = client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson");
    let streamed = lines.json(&request).send().expect(200).lines();
    assert_eq!(streamed.last(), Some(&compared), "{a} | {b}");

    let comparison = compared.as_object_mut().unwrap().remove("comparison").unwrap();
    for (shown, other) in
        compared["sample"].as_array_mut().unwrap().iter_mut().zip(second["sample"].as_array().unwrap())
    {
        assert_eq!(shown.as_object_mut().unwrap().remove("compared").unwrap(), other["outcome"], "{a} | {b}");
    }
    assert_eq!(compared, first, "the first rule is counted as without a comparison: {a} | {b}");

    adds_up(&comparison["cells"], &first, &second);
    for breakdown in ["by_gender", "by_age_band", "by_region"] {
        let rows = comparison[breakdown].as_array().unwrap();
        let [of_first, of_second] = [&first, &second].map(|single| single[breakdown].as_array().unwrap());
        assert_eq!((rows.len(), rows.len()), (of_first.len(), of_second.len()), "{breakdown}");
        for ((row, of_first), of_second) in rows.iter().zip(of_first).zip(of_second) {
            for name in ["code", "display", "from", "to", "region"] {
                assert_eq!(row[name], of_first[name], "{breakdown}");
            }
            adds_up(&row["cells"], of_first, of_second);
        }
    }

    let pairs = first["sample"].as_array().unwrap().iter().zip(second["sample"].as_array().unwrap());
    let mut moved = [Vec::new(), Vec::new()];
    let mut counted = [[0_u64; 3]; 3];
    for (one, other) in pairs {
        assert_eq!(one["subject"], other["subject"]);
        let place = |outcome: &Value| OUTCOMES.iter().position(|known| outcome == known).unwrap();
        counted[place(&one["outcome"])][place(&other["outcome"])] += 1;
        let row = json!({"subject": one["subject"], "a": one["outcome"], "b": other["outcome"]});
        match (one["outcome"] == "eligible", other["outcome"] == "eligible") {
            (false, true) => moved[0].push(row),
            (true, false) => moved[1].push(row),
            _ => {}
        }
    }
    for (row, one) in counted.iter().zip(OUTCOMES) {
        for (count, other) in row.iter().zip(OUTCOMES) {
            assert_eq!(cell(&comparison["cells"], one, other), *count, "{a} | {b}: {one} {other}");
        }
    }
    assert_eq!(json!([comparison["gained"], comparison["lost"]]), json!(moved), "{a} | {b}");
}

fn agree(client: &ApiClient) {
    for pair in OF_PEOPLE {
        agrees(client, "individual", *pair);
        agrees(client, "individual", (pair.1, pair.0));
    }
    for pair in OF_GROUPS {
        agrees(client, "group", *pair);
    }
}

#[test]
fn a_comparison_agrees_with_two_previews() {
    let (_app, client) = register();
    agree(&client);
}

/// People in runs of different lengths, some without a gender, a birth date or an income, so that the rules agree on
/// some runs and differ on others.
fn runs_of_people(client: &ApiClient) {
    for number in 0..90_usize {
        let mut more = json!({});
        if number / 17 % 3 != 1 {
            more["gender"] = json!(if number / 33 % 2 == 0 { FEMALE } else { MALE });
        }
        if number % 11 != 4 {
            more["birth_date"] = json!(format!("{}-02-28", 1940 + number / 2));
        }
        if number / 8 % 2 == 0 {
            more["income"] = json!({"amount": number as f64 * 10.0});
        }
        drop(client.create_individual(&person(&number.to_string(), more)));
    }
}

#[test]
fn rules_with_overlapping_disjoint_and_missing_columns_agree_with_two_previews() {
    let app = TestApp::start();
    let client = analyst(&app);
    runs_of_people(&client);
    let (women, adults) = ("is_female(me)", "age_years(me.birth_date) >= 18 && age_years(me.birth_date) < 60");
    let both = format!("{women} && {adults}");
    let poor = format!("{women} || me.income.amount < 400.0");
    for pair in [
        // Overlapping, disjoint and the same columns; a column of which many values are missing; no column at all.
        (both.as_str(), "age_years(me.birth_date) >= 21 && age_years(me.birth_date) < 65"),
        (both.as_str(), poor.as_str()),
        (women, adults),
        (both.as_str(), "is_female(me) && age_years(me.birth_date) >= 21"),
        (adults, "me.income.amount < 400.0"),
        ("!(me.income.amount >= 400.0)", "has(me.income.amount) && me.income.amount < 400.0"),
        ("true", both.as_str()),
        ("me.birth_date > date('2200-01-01') || me.income.amount >= 0.0", "me.income.amount < 0.0"),
    ] {
        agrees(&client, "individual", pair);
        agrees(&client, "individual", (pair.1, pair.0));
    }
}

#[test]
fn a_comparison_agrees_with_two_previews_on_postgres_with_each_index() {
    let mut processes = Processes::start(1);
    let scopes = ["individual:all", "group:all", "eligibility:read", "program_membership:all", "program:all"];
    let credentials = processes.credentials(0, &scopes);
    let client = processes.client_of(0, &credentials);
    fill(&client);
    agree(&client);
    processes.set_store(IN_MEMORY);
    let in_memory = processes.start_one();
    agree(&processes.client_of(in_memory, &credentials));
}

#[test]
fn lines_have_both_outcomes_and_moved_subjects_are_audited() {
    let (app, client) = register();
    let body = json!({
        "expression": "is_female(me)", "compare": "me.birth_date < date('1960-01-01')", "subjects": true, "sample": 1,
    });
    let lines = client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson");
    let response = lines.json(&body).send().expect(200);
    let lines = response.lines();
    let subjects: Vec<&Value> = lines.iter().filter(|line| line.get("subject").is_some()).collect();
    assert_eq!(subjects.len(), 12);
    let expected = json!({"subject": reference("0"), "outcome": "eligible", "compared": "eligible", "missing": []});
    assert_eq!(*subjects[0], expected);
    assert_eq!((&subjects[3]["outcome"], &subjects[3]["compared"]), (&json!("eligible"), &json!("undetermined")));
    let comparison = &lines.last().unwrap()["comparison"];
    let gained = json!([{"subject": reference("1"), "a": "not_eligible", "b": "eligible"}]);
    let lost = json!([{"subject": reference("3"), "a": "eligible", "b": "undetermined"}]);
    assert_eq!((&comparison["gained"], &comparison["lost"]), (&gained, &lost), "{comparison}");
    let audited = crate::audit::lines(&app, &response);
    let whole = audited.iter().find(|line| line["note"].as_str().unwrap().starts_with("a preview over 12")).unwrap();
    assert_eq!(whole["records"], json!([reference("0"), reference("1"), reference("3")]));
    let mut fields = crate::audit::texts(whole, "fields");
    fields.sort_unstable();
    assert_eq!(fields, ["me.birth_date", "me.gender"], "the fields that either rule reads");
}

#[test]
fn a_filter_a_day_and_no_sample_apply_to_both_rules() {
    let (_app, client) = register();
    let response = preview(
        &client,
        &json!({
            "expression": "age_years(me.birth_date) >= 60", "compare": "age_years(me.birth_date) >= 70",
            "filter": {"birth_date": "le1960-01-01"}, "as_of": "2026-01-01",
        }),
    );
    let comparison = &response["comparison"];
    assert_eq!((response["total"].as_u64(), cell(&comparison["cells"], "eligible", "not_eligible")), (Some(2), 1));
    assert_eq!((&comparison["gained"], &comparison["lost"]), (&json!([]), &json!([])), "`sample` is 0");
    assert!(preview(&client, &json!({"expression": "true"})).get("comparison").is_none());
}

#[test]
fn an_invalid_second_rule_is_named() {
    let (_app, client) = register();
    for (second, code) in [
        ("me.birthdate == today()", "invalid_expression"),
        ("is_female(me", "invalid_expression"),
        ("in_group(me.gender, 'no such group')", "invalid_expression"),
    ] {
        let response =
            client.post("/Eligibility/$preview", &json!({"expression": "true", "compare": second})).expect(422);
        let body = response.json();
        assert_eq!((&body["code"], &body["errors"][0]["field"]), (&json!(code), &json!("compare")), "{body}");
        assert!(response.detail().contains("`compare`: "), "{body}");
        assert_eq!(body["diagnostics"].as_array().map(Vec::len), Some(1), "{body}");
        let response =
            client.post("/Eligibility/$preview", &json!({"expression": second, "compare": "true"})).expect(422);
        assert!(response.json().get("errors").is_none(), "the first rule is not `compare`: {}", response.text());
    }
    for (second, reported) in [(json!(7), "compare"), (json!("x".repeat(8_193)), "8192 bytes")] {
        let response =
            client.post("/Eligibility/$preview", &json!({"expression": "true", "compare": second})).expect(422);
        assert!(response.text().contains(reported), "{}", response.text());
    }
    let nested = (0..9).fold("true".to_owned(), |inner, level| format!("[1,2,3,4,5,6,7,8].all(x{level}, {inner})"));
    let body = json!({"expression": "true", "compare": nested});
    for expected in ["budget of ", "tried again in"] {
        let response = client.post("/Eligibility/$preview", &body).expect(422);
        assert!(response.detail().contains("`compare`: ") && response.detail().contains(expected));
        assert_eq!(response.json()["errors"][0]["field"], "compare");
    }
    assert_eq!(preview(&client, &json!({"expression": "true"}))["eligible"], 12);
}

#[test]
fn the_second_rule_reads_only_what_the_client_may_see() {
    let (app, _) = register();
    let credentials = app.admin().create_client(&json!({"name": "restricted", "scopes": ["eligibility:read"]}));
    app.admin().grant_fields(&credentials.id, "individual:read", &["gender"]);
    let client = app.client_of(&credentials);
    let body = |second: &str| json!({"expression": "is_female(me)", "compare": second, "sample": 1});
    let refused = client.post("/Eligibility/$preview", &body("age_years(me.birth_date) >= 60")).expect(403);
    assert_eq!(refused.json()["errors"][0]["field"], "birth_date", "{}", refused.text());
    let refused = client.post("/Eligibility/$preview", &body("programs.size() == 0")).expect(403);
    assert!(refused.text().contains("program_membership:read"), "{}", refused.text());
    let allowed = preview(&client, &body("is_male(me)"));
    let comparison = &allowed["comparison"];
    assert!(comparison.get("by_age_band").is_none() && comparison.get("by_region").is_none(), "{comparison}");
    assert!(comparison["by_gender"].is_array(), "{comparison}");
}

#[test]
fn a_client_with_consent_access_compares_only_consented_subjects() {
    let app = TestApp::start();
    let clerk = analyst(&app);
    for number in ["1", "2"] {
        drop(clerk.create_individual(&person(number, json!({"gender": FEMALE, "birth_date": "1950-01-01"}))));
    }
    let consent = json!({
        "subject": reference("1"), "grantee": "Ministry of Health", "scopes": ["individual"], "fields": ["gender"],
        "effective_date": "2026-01-01",
    });
    drop(app.admin().request("POST", "/consents").json(&consent).send().expect(201));
    let client = app.client_of(&app.admin().create_client(&json!({
        "name": "by consent", "organization": "Ministry of Health", "legal_basis": "consent",
        "scopes": ["individual:read", "group:read", "eligibility:read"],
    })));
    let body = json!({"expression": "is_female(me)", "compare": "age_years(me.birth_date) >= 60", "sample": 10});
    let response = preview(&client, &body);
    assert_eq!(cell(&response["comparison"]["cells"], "eligible", "undetermined"), 1, "{response}");
    let lost = json!([{"subject": reference("1"), "a": "eligible", "b": "undetermined"}]);
    assert_eq!((&response["total"], &response["comparison"]["lost"]), (&json!(1), &lost));
}
