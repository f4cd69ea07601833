//! The audit log: the entries of every call, and queries by the administrator.

mod admin;
mod calls;
mod query;
mod shown;
mod unauthenticated;

use daftar_tests::{Response, TestApp};
use serde_json::Value;

/// The entries of one request, newest first.
pub fn lines(app: &TestApp, response: &Response) -> Vec<Value> {
    let id = response.header("x-request-id").expect("every answer names its request");
    found(app, &format!("request_id={id}"))
}

/// The entries that a query finds, newest first.
fn found(app: &TestApp, query: &str) -> Vec<Value> {
    let page = app.admin().get(&format!("/audit?{query}")).expect(200).json();
    assert!(page["next"].is_null() || page["data"].as_array().unwrap().len() > 99, "one page holds them");
    page["data"].as_array().unwrap().clone()
}

/// The texts of a list.
pub fn texts(line: &Value, name: &str) -> Vec<String> {
    let texts = line[name].as_array().map(Vec::as_slice).unwrap_or_default();
    texts.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}
