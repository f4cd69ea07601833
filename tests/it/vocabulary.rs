//! `/Vocabulary` and `/ConceptGroup`

mod batch;
mod codes;
mod concept_groups;
mod conditional;
mod list;
mod malformed;
mod search;

use daftar_tests::{ApiClient, Response, TestApp, artifacts};
use serde_json::Value;

const COUNTRIES: &str = "urn:iso:std:iso:3166-1";
const OCCUPATIONS: &str = "urn:ilo:isco-08";

/// A client that may read codes.
fn reader(app: &TestApp) -> ApiClient {
    app.client(&["vocabulary:read"])
}

/// A register with occupations, loaded by default or not.
fn with_occupations() -> TestApp {
    let app = TestApp::start();
    if reader(&app).get(&format!("/Vocabulary/{OCCUPATIONS}")).status == 404 {
        let package = std::fs::read(artifacts::module("isco-08")).unwrap();
        drop(app.admin().install(&package).expect(201));
    }
    app
}

/// The codes of a page, in order.
fn codes(page: &Value) -> Vec<&str> {
    let items = page["data"].as_array().unwrap_or_else(|| panic!("no `data`: {page}"));
    items.iter().map(|item| item["code"].as_str().unwrap()).collect()
}

/// Name, reason and message of a rejection.
fn refusal(response: &Response) -> (String, String, String) {
    let error = response.json()["errors"][0].take();
    let text = |name: &str| error[name].as_str().unwrap_or_else(|| panic!("no errors: {}", response.text())).to_owned();
    (text("field"), text("code"), text("message"))
}
