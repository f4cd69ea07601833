//! Enforced rules of programs within a transaction: they see the changes of earlier entries.

use daftar_tests::records::{FEMALE, NATIONAL_ID, household, path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::{Value, json};

use crate::program;

/// Two people, of whom one is the head of a household, a program for people in households and two that exclude each
/// other.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all", "program_membership:all"]);
    for id in ["1", "2"] {
        drop(client.create_individual(&person(id, json!({"gender": FEMALE}))));
    }
    drop(client.create_group(&household("H", &[("1", "head")])));
    let enforced = |expression: String| json!({"eligibility": expression, "enforce_eligibility": true});
    program::create(&app, "HOUSED", enforced("members.exists(m, is_head(m))".to_owned()));
    for (id, other) in [("A", "B"), ("B", "A")] {
        let rule =
            format!("not programs.exists(p, p.program == 'Program/{NATIONAL_ID}|{other}' && p.status == 'enrolled')");
        program::create(&app, id, enforced(rule));
    }
    (app, client)
}

fn entry(method: &str, url: String, resource: Value) -> Value {
    json!({"request": {"method": method, "url": url}, "resource": resource})
}

fn enrol(program: &str, beneficiary: &str) -> Value {
    let program = format!("Program/{NATIONAL_ID}|{program}");
    entry(
        "POST",
        "ProgramMembership".to_owned(),
        json!({"program": program, "beneficiary": beneficiary, "status": "enrolled"}),
    )
}

fn join(id: &str) -> Value {
    let target = format!("{}/$add-member", path("Group", "H"));
    entry("POST", target, json!({"entity": {"reference": reference(id)}}))
}

fn submit(client: &ApiClient, entries: &[Value]) -> Response {
    client.post("/$batch", &json!({"type": "transaction", "entry": entries}))
}

/// The rejection of a transaction whose entry at that position may not be enrolled.
#[track_caller]
fn assert_not_eligible(refused: &Response, at: usize) {
    assert_eq!(refused.status, 422, "{}", refused.text());
    let start = format!("entry[{at}]: ");
    assert!(refused.detail().starts_with(&start) && refused.detail().contains("not_eligible"), "{}", refused.detail());
}

fn memberships(client: &ApiClient) -> u64 {
    client.get("/ProgramMembership").expect(200).json()["total"].as_u64().unwrap()
}

#[test]
fn a_rule_reads_members_added_earlier_in_the_batch() {
    let (_app, client) = register();
    assert_not_eligible(&submit(&client, &[enrol("HOUSED", &reference("2"))]), 0);
    assert_not_eligible(&submit(&client, &[enrol("HOUSED", &reference("2")), join("2")]), 0);
    drop(submit(&client, &[join("2"), enrol("HOUSED", &reference("2"))]).expect(200));
    let leaves = format!("{}/$remove-member", path("Group", "H"));
    let leave = entry("POST", leaves, json!({"entity": {"reference": reference("1")}}));
    assert_not_eligible(&submit(&client, &[leave, enrol("HOUSED", &reference("1"))]), 1);
    assert_eq!(memberships(&client), 1);
}

#[test]
fn a_rule_sees_a_person_and_a_household_of_the_same_transaction() {
    let (_app, client) = register();
    let named = |number: u8| format!("urn:uuid:00000000-0000-4000-8000-{number:012}");
    let mut made = entry("POST", "Individual".to_owned(), person("3", json!({})));
    made["full_url"] = json!(named(3));
    let mut group = household("NEW", &[("1", "child")]);
    group["member"] = json!([{"entity": {"reference": named(3)}, "role": "urn:svc:vocab:relationship#head"}]);
    let group = entry("POST", "Group".to_owned(), group);
    let entries = [made, group, enrol("HOUSED", &named(3))];
    let response = submit(&client, &entries).expect(200).json();
    assert_eq!(response["entry"][2]["resource"]["status"], "enrolled", "{response}");
}

#[test]
fn two_programs_that_exclude_each_other_do_not_share_a_beneficiary() {
    let (_app, client) = register();
    assert_not_eligible(&submit(&client, &[enrol("A", &reference("1")), enrol("B", &reference("1"))]), 1);
    assert_eq!(memberships(&client), 0);
    drop(submit(&client, &[enrol("A", &reference("1")), enrol("B", &reference("2"))]).expect(200));
    assert_not_eligible(&submit(&client, &[enrol("B", &reference("1"))]), 0);
    let target = format!("{}?program=Program/{}%7CA", path("ProgramMembership", "1"), NATIONAL_ID.replace('#', "%23"));
    let program = format!("Program/{NATIONAL_ID}|A");
    let out = json!({"program": program, "beneficiary": reference("1"), "status": "exited"});
    drop(submit(&client, &[entry("PUT", target, out), enrol("B", &reference("1"))]).expect(200));
    assert_eq!(memberships(&client), 3);
}
