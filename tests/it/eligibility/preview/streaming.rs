//! Streamed responses: progress, subjects, the result, and the effect of a disconnect.

use daftar_tests::records::{FEMALE, MALE, person, reference};
use daftar_tests::{ApiClient, Request};
use serde_json::{Value, json};

use super::{preview, register};

fn streamed(client: &ApiClient, body: &Value) -> Request {
    client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson").json(body)
}

#[test]
fn the_result_is_the_last_line_after_progress() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me)", "sample": 3});
    let response = streamed(&client, &body).send().expect(200);
    assert_eq!(response.header("content-type"), Some("application/x-ndjson"));
    let lines = response.lines();
    assert_eq!(lines.first(), Some(&json!({"progress": {"done": 0, "total": 12}})));
    assert_eq!(lines[lines.len() - 2], json!({"progress": {"done": 12, "total": 12}}));
    assert_eq!(lines.last(), Some(&preview(&client, &body)));
}

#[test]
fn every_subject_is_listed_in_registration_order_and_audited() {
    let (app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": true, "filter": {"birth_date": "le1970-01-01"}});
    let response = streamed(&client, &body).send().expect(200);
    let lines = response.lines();
    let reported: Vec<&str> = lines.iter().filter_map(|line| line["subject"].as_str()).collect();
    assert_eq!(reported, [reference("0"), reference("1"), reference("2")]);
    assert_eq!(lines[1], json!({"subject": reference("0"), "outcome": "eligible", "missing": []}));
    assert_eq!(lines[3]["missing"], json!(["me.gender"]));
    let audited = crate::audit::lines(&app, &response);
    let shown = audited.iter().find(|line| line["note"] == "shown by a preview").unwrap();
    assert_eq!(shown["records"], json!(reported));
    assert_eq!((&shown["status"], &shown["outcome"]), (&json!(200), &json!("allowed")));
    let whole =
        audited.iter().find(|line| line["note"] == "a preview over 3 subjects, searched by birth_date").unwrap();
    assert_eq!((&whole["status"], &whole["outcome"]), (&json!(200), &json!("allowed")));
    assert_eq!(audited.len(), 2, "{audited:#?}");
}

#[test]
fn subjects_are_listed_only_as_ndjson() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": true});
    let refused = client.post("/Eligibility/$preview", &body).expect(422);
    let error = &refused.json()["errors"][0];
    assert_eq!((&error["field"], &error["code"]), (&json!("subjects"), &json!("not_streamed")));
}

#[test]
fn the_form_with_the_higher_quality_is_sent() {
    let (_app, client) = register();
    let body = json!({"expression": "is_female(me)"});
    for (accept, expected) in [
        ("application/json, application/x-ndjson;q=0.1", "application/json"),
        ("application/json;q=0, */*", "application/x-ndjson"),
        ("application/json, application/x-ndjson", "application/x-ndjson"),
        ("*/*", "application/json"),
    ] {
        let request = client.request("POST", "/Eligibility/$preview").header("Accept", accept);
        let response = request.json(&body).send().expect(200);
        assert_eq!(response.header("content-type"), Some(expected), "{accept}");
    }
}

#[test]
fn errors_before_the_first_line_have_their_own_status() {
    let (_app, client) = register();
    for (body, status) in [
        (json!({"expression": "is_female(me"}), 422),
        (json!({"expression": "me.birthdate"}), 422),
        (json!({"expression": "true", "filter": {"gendr": "x"}}), 400),
    ] {
        let response = streamed(&client, &body).send();
        assert_eq!(response.status, status, "{body}: {}", response.text());
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
    }
}

#[test]
fn a_disconnect_ends_the_preview_and_is_audited() {
    let (app, client) = register();
    let body = json!({"expression": "is_female(me)", "subjects": true});
    let head = streamed(&client, &body).leave_after("\"progress\"");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // Later clients are served as before.
    assert_eq!(preview(&client, &json!({"expression": "true"}))["eligible"], 12);
    let lines = app.admin().get("/audit?action=evaluate").expect(200).json();
    assert!(lines.to_string().contains("a preview over 12 subjects"), "{lines}");
}

#[test]
fn a_register_of_many_batches_comes_in_many_lines_of_progress() {
    let (_app, client) = register();
    for part in 0..6 {
        let entry = |number: usize| {
            let gender = if number.is_multiple_of(2) { FEMALE } else { MALE };
            let body = person(&format!("P{}", part * 500 + number), json!({"gender": gender}));
            json!({"request": {"method": "POST", "url": "Individual"}, "resource": body})
        };
        let entries: Vec<Value> = (0..500).map(entry).collect();
        drop(client.post("/$batch", &json!({"type": "batch", "entry": entries})).expect(200));
    }
    let body = json!({"expression": "is_female(me)", "subjects": true});
    let response = streamed(&client, &body).send().expect(200).lines();
    let reported = response.iter().filter(|line| line.get("subject").is_some()).count();
    assert_eq!(reported, 3_012);
    let done: Vec<u64> = response.iter().filter_map(|line| line["progress"]["done"].as_u64()).collect();
    assert!(done.len() > 2 && done.is_sorted(), "{done:?}");
    assert_eq!((done.first(), done.last()), (Some(&0), Some(&3_012)));
    assert_eq!(response.last().unwrap()["eligible"], 1_504);
    let counted = preview(&client, &json!({"expression": "is_female(me)"}));
    assert_eq!((&counted["total"], &counted["eligible"]), (&json!(3_012), &json!(1_504)));
}
