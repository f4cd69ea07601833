//! Replayed requests about a person who is no longer visible.

use daftar_tests::records::{NATIONAL_ID, household, path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp, redacted};
use serde_json::{Value, json};

use super::world::{SCOPES, consent_client, give, group_reference};

const TAX_ID: &str = "urn:svc:vocab:id-type#tax_id";
/// An identifier that the client never sends.
const SECRET: &str = "T-4711";

/// A person, a group of hers, and a client of an organization that both consented to; with the names of the consents.
fn register() -> (TestApp, ApiClient, Vec<String>) {
    let app = TestApp::start();
    let writer = app.client(SCOPES);
    let identifiers =
        |first: &str| json!([{"system": NATIONAL_ID, "value": first}, {"system": TAX_ID, "value": SECRET}]);
    drop(writer.create_individual(&json!({"identifier": identifiers("1")})));
    drop(writer.create_individual(&person("2", json!({}))));
    let mut group = household("G", &[("1", "head")]);
    group["identifier"] = identifiers("G");
    drop(writer.create_group(&group));
    let subjects = [reference("1"), reference("2"), group_reference("G")];
    let consents = subjects.map(|subject| give(&app, &subject, json!({}))).to_vec();
    let client = consent_client(&app, json!({}));
    (app, client, consents)
}

fn withdraw(app: &TestApp, consents: &[String]) {
    for consent in consents {
        drop(app.admin().request("POST", &format!("/consents/{consent}/withdraw")).send().expect(200));
    }
}

fn send(client: &ApiClient, target: &str, key: &str, body: &Value) -> Response {
    client.request("POST", target).header("Idempotency-Key", key).json(body).send()
}

/// The parts of a batch's answer.
fn parts(response: &Response) -> Vec<Value> {
    response.json()["entry"].as_array().unwrap().clone()
}

fn lines(app: &TestApp, response: &Response) -> Vec<Value> {
    let id = response.header("x-request-id").unwrap();
    app.admin().get(&format!("/audit?request_id={id}")).expect(200).json()["data"].as_array().unwrap().clone()
}

#[test]
fn a_change_after_a_withdrawal_gets_the_response_for_a_missing_individual() {
    let (app, client, consents) = register();
    let patch = json!({"request": {"method": "PATCH", "url": path("Individual", "1")}, "resource": {"active": true}});
    let put = json!({"request": {"method": "PATCH", "url": path("Group", "G")}, "resource": {"name": "Ba"}});
    let new = |id: &str| json!({"request": {"method": "POST", "url": "Individual"}, "resource": person(id, json!({}))});
    for (kind, id) in [("batch", "N-1"), ("transaction", "N-2")] {
        let body = json!({"type": kind, "entry": [patch, new(id), put]});
        let first = send(&client, "/$batch", kind, &body).expect(200);
        assert!(first.text().contains(SECRET), "it is shown while there is a consent: {}", first.text());
    }
    let member = json!({"entity": {"reference": reference("2")}});
    let target = format!("{}/$add-member", path("Group", "G"));
    assert!(send(&client, &target, "add", &member).expect(201).text().contains(SECRET));
    let group = household("G-2", &[("1", "head")]);
    drop(send(&client, "/Group", "create", &group).expect(201));
    withdraw(&app, &consents);
    for (kind, id) in [("batch", "N-1"), ("transaction", "N-2")] {
        let again = send(&client, "/$batch", kind, &json!({"type": kind, "entry": [patch, new(id), put]})).expect(200);
        assert!(!again.text().contains(SECRET), "{}", again.text());
        let shown: Vec<Value> = parts(&again)
            .into_iter()
            .map(|part| json!([part["response"]["status"], part["response"]["etag"], part["problem"]["detail"]]))
            .collect();
        assert_eq!(
            shown,
            [
                json!([404, null, "no such Individual"]),
                json!([201, "\"1\"", null]),
                json!([404, null, "no such Group"])
            ],
            "{kind}"
        );
        let made = parts(&again)[1]["resource"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(made, ["identifier", "meta", "type"], "what it made itself");
        let reported: Vec<Value> = lines(&app, &again)
            .into_iter()
            .map(|line| json!([line["operation"], line["outcome"], line["status"]]))
            .collect();
        let (of_people, of_groups) = ("PATCH /api/v2/Individual/{identifier}", "PATCH /api/v2/Group/{identifier}");
        assert!(reported.contains(&json!([of_people, "refused", 404])), "{reported:?}");
        assert!(reported.contains(&json!([of_groups, "refused", 404])), "{reported:?}");
        assert!(reported.contains(&json!(["POST /api/v2/Individual", "allowed", 201])), "{reported:?}");
    }
    let gone = send(&client, &target, "add", &member).expect(404);
    let absent = client.post(&format!("{}/$add-member", path("Group", "absent")), &member).expect(404);
    assert_eq!(redacted(&gone.json()), redacted(&absent.json()));
    let names = |response: &Response| response.headers().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&gone), names(&absent));
    let reported = lines(&app, &gone);
    assert_eq!(
        (reported.len(), &reported[0]["outcome"], &reported[0]["status"]),
        (1, &json!("refused"), &json!(404)),
        "{reported:?}"
    );
    assert!(reported[0]["records"].to_string().contains("Group/urn:svc:vocab:id-type#national_id|G"), "{reported:?}");
    let made = send(&client, "/Group", "create", &group).expect(201);
    let members: Vec<_> = made.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["identifier", "meta", "type"]);
}

#[test]
fn a_new_membership_is_shown_alike_with_and_without_a_key() {
    let (app, client, consents) = register();
    for id in ["A", "B", "C"] {
        drop(crate::program::create(&app, id, json!({})));
    }
    let place = |program: &str| json!({"program": format!("Program/{NATIONAL_ID}|{program}"), "beneficiary": reference("1"), "status": "draft"});
    let plain = client.post("/ProgramMembership", &place("A")).expect(201).json();
    assert_eq!(plain["beneficiary"], reference("1"));
    let with_program = |mut body: Value| {
        body["program"] = plain["program"].clone();
        redacted(&body)
    };
    let named = send(&client, "/ProgramMembership", "k", &place("B")).expect(201).json();
    assert_eq!(with_program(named), redacted(&plain));
    let again = send(&client, "/ProgramMembership", "k", &place("B")).expect(201);
    assert_eq!(with_program(again.json()), redacted(&plain));
    let reported: Vec<Value> =
        lines(&app, &again).into_iter().map(|line| json!([line["action"], line["records"]])).collect();
    assert_eq!(reported, [json!(["read", [reference("1")]])]);
    let entry = json!({"request": {"method": "POST", "url": "ProgramMembership"}, "resource": place("C")});
    let made = client.post("/$batch", &json!({"type": "transaction", "entry": [entry]})).expect(200);
    assert_eq!(with_program(parts(&made)[0]["resource"].clone()), redacted(&plain));
    let consent = lines(&app, &made).into_iter().find(|line| line["action"] == "create").unwrap()["consents"].take();
    assert_eq!(consent, json!([consents[0]]));
}
