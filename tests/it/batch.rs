//! `/$batch`

mod crash;
mod deadline;
mod enrolment;
mod hostile;
mod independent;
mod limits;
mod transaction;

use daftar_tests::records::{NATIONAL_ID, person};
use daftar_tests::{ApiClient, Response};
use serde_json::{Value, json};

/// The name by which entries refer to the record that another one creates.
fn placeholder(number: u32) -> String {
    format!("urn:uuid:00000000-0000-4000-8000-{number:012}")
}

fn entry(method: &str, url: &str, resource: Value) -> Value {
    let mut entry = json!({"request": {"method": method, "url": url}});
    if !resource.is_null() {
        entry["resource"] = resource;
    }
    entry
}

fn get(url: &str) -> Value {
    entry("GET", url, Value::Null)
}

/// Registers a person that others refer to by that placeholder.
fn create(id: &str, number: u32) -> Value {
    let mut entry = entry("POST", "Individual", person(id, json!({})));
    entry["full_url"] = placeholder(number).into();
    entry
}

/// A group with these referenced members.
fn family(id: &str, references: &[String]) -> Value {
    let members: Vec<Value> = references.iter().map(|one| json!({"entity": {"reference": one}})).collect();
    entry("POST", "Group", json!({"identifier": [{"system": NATIONAL_ID, "value": id}], "member": members}))
}

fn send(client: &ApiClient, kind: &str, entries: Vec<Value>) -> Response {
    client.post("/$batch", &json!({"type": kind, "entry": entries}))
}

fn statuses(response: &Response) -> Vec<i64> {
    let body = response.json();
    body["entry"].as_array().unwrap().iter().map(|entry| entry["response"]["status"].as_i64().unwrap()).collect()
}

/// Number of people.
fn people(client: &ApiClient) -> i64 {
    client.get("/Individual?_count=1").expect(200).json()["total"].as_i64().unwrap()
}
