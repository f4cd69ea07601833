//! Two programs that exclude each other, and two clients that enrol the same person at the same time.

use daftar_tests::records::{NATIONAL_ID, person, reference};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

use crate::program;

/// Number of people who are enrolled by two clients each.
const PEOPLE: usize = 24;

fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "program_membership:all"]);
    for (id, other) in [("A", "B"), ("B", "A")] {
        let rule =
            format!("not programs.exists(p, p.program == 'Program/{NATIONAL_ID}|{other}' && p.status == 'enrolled')");
        program::create(&app, id, json!({"eligibility": rule, "enforce_eligibility": true}));
    }
    for id in 1..=PEOPLE {
        drop(client.create_individual(&person(&id.to_string(), json!({}))));
    }
    (app, client)
}

fn place(program: &str, beneficiary: usize, status: &str) -> Value {
    let program = format!("Program/{NATIONAL_ID}|{program}");
    json!({"program": program, "beneficiary": reference(&beneficiary.to_string()), "status": status})
}

/// Does the same for both programs concurrently, and returns the statuses, the lowest first.
fn both(each: impl Fn(&str) -> u16 + Sync) -> [u16; 2] {
    let each = &each;
    let mut statuses = std::thread::scope(|scope| {
        ["A", "B"].map(|program| scope.spawn(move || each(program))).map(|sender| sender.join().unwrap())
    });
    statuses.sort_unstable();
    statuses
}

/// Enrolled people, by their number of programs.
fn assert_memberships_are_exclusive(client: &ApiClient, entered: u64) {
    let enrolled = client.get("/ProgramMembership?status=enrolled&_count=100").expect(200).json();
    let mut people: Vec<&str> =
        enrolled["data"].as_array().unwrap().iter().map(|one| one["beneficiary"].as_str().unwrap()).collect();
    people.sort_unstable();
    assert_eq!(people.len() as u64, entered);
    people.dedup();
    assert_eq!(people.len() as u64, entered, "a person is in both");
}

#[test]
fn one_of_two_requests_that_meet_enrols() {
    let (_app, client) = register();
    for id in 1..=PEOPLE {
        let statuses = both(|program| {
            let response = client.post("/ProgramMembership", &place(program, id, "enrolled"));
            assert!(response.status == 201 || response.detail().contains("not_eligible"), "{}", response.text());
            response.status
        });
        assert_eq!(statuses, [201, 409], "{id}");
    }
    assert_memberships_are_exclusive(&client, PEOPLE as u64);
}

#[test]
fn one_of_two_transactions_or_named_requests_that_meet_enrols() {
    let (_app, client) = register();
    for id in 1..=PEOPLE {
        let statuses = both(|program| {
            let resource = place(program, id, "enrolled");
            if id % 2 == 0 {
                let key = format!("{program}-{id}");
                let request = client.request("POST", "/ProgramMembership").header("Idempotency-Key", key);
                return request.json(&resource).send().status;
            }
            let entry = json!({"request": {"method": "POST", "url": "ProgramMembership"}, "resource": resource});
            client.post("/$batch", &json!({"type": "transaction", "entry": [entry]})).status
        });
        let expected = if id % 2 == 0 { [201, 409] } else { [200, 422] };
        assert_eq!(statuses, expected, "{id}");
    }
    assert_memberships_are_exclusive(&client, PEOPLE as u64);
}

#[test]
fn one_of_two_drafts_that_are_decided_at_once_becomes_an_enrolment() {
    let (_app, client) = register();
    for id in 1..=PEOPLE {
        for program in ["A", "B"] {
            drop(client.post("/ProgramMembership", &place(program, id, "draft")).expect(201));
        }
        let statuses = both(|program| {
            let key = |id: &str| format!("{}%7C{id}", NATIONAL_ID.replace('#', "%23"));
            let target = format!("/ProgramMembership/{}?program=Program/{}", key(&id.to_string()), key(program));
            client.request("PUT", &target).json(&place(program, id, "enrolled")).send().status
        });
        assert_eq!(statuses, [200, 409], "{id}");
    }
    assert_memberships_are_exclusive(&client, PEOPLE as u64);
}
