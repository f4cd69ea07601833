//! `/openapi.json`, `/docs` and `/metadata` as served.

use std::collections::BTreeSet;

use daftar_tests::{TestApp, artifacts};
use serde_json::Value;

const PATHS: [&str; 6] =
    ["/openapi.json", "/docs/api", "/metadata", "/api/v2/openapi.json", "/api/v2/docs/api", "/api/v2/metadata"];

#[test]
fn every_caller_reads_them_and_a_current_copy_gets_304() {
    let app = TestApp::start();
    for path in PATHS {
        let anonymous = app.anonymous();
        let first = anonymous.request("GET", path).send().expect(200);
        let tag = first.header("etag").unwrap().to_owned();
        assert!(tag.starts_with('"') && tag.len() > 30, "{tag} is no strong tag");
        let limit = if path.contains("/docs") { "300" } else { "30" };
        assert_eq!(first.header("x-ratelimit-limit"), Some(limit), "{path} is counted by address");
        assert_eq!(first.header("cache-control"), Some("no-cache"));
        let again = anonymous.request("GET", path).header("If-None-Match", &tag).send().expect(304);
        assert_eq!((again.header("etag"), again.bytes()), (Some(tag.as_str()), &[][..]));
        let other = anonymous.request("GET", path).header("If-None-Match", "\"x\"").send().expect(200);
        assert_eq!(other.bytes(), first.bytes(), "{path} has equal bytes under one tag");
        assert_eq!(anonymous.request("HEAD", path).send().expect(200).header("etag"), Some(tag.as_str()));
        assert_eq!(anonymous.request("POST", path).send().expect(405).header("allow"), Some("GET,HEAD"));
        let refused = anonymous.request("GET", &format!("{path}?a=1")).send().expect(400);
        let known =
            if path.contains("/docs") { "known here: highlight, search" } else { "this call has no parameters" };
        assert_eq!(refused.detail(), format!("unknown parameter `a`; {known}"));
    }
}

#[test]
fn they_are_refused_to_an_address_that_asks_too_often() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    for _ in 0..30 {
        drop(anonymous.request("GET", "/metadata").send().expect(200));
    }
    assert!(anonymous.request("GET", "/openapi.json").send().expect(429).number("retry-after") >= 1);
    drop(app.anonymous().request("GET", "/openapi.json").send().expect(200));
}

#[test]
fn the_document_describes_the_fields_of_installed_modules() {
    let app = TestApp::start();
    let extension =
        |document: &Value| document["components"]["schemas"]["IndividualSent"]["properties"]["extension"].clone();
    let before = app.anonymous().request("GET", "/openapi.json").send().expect(200);
    assert_eq!(extension(&before.json())["properties"], Value::Null);
    let module = std::fs::read(artifacts::module("farmer-registry")).unwrap();
    drop(app.admin().install(&module).expect(201));
    let after = app.anonymous().request("GET", "/openapi.json").send().expect(200);
    assert_ne!(before.header("etag"), after.header("etag"));
    let crops = extension(&after.json())["properties"]["farmer"]["properties"]["crops"].clone();
    assert_eq!(crops["items"]["$ref"], "#/components/schemas/CodeSent", "{crops}");
    let metadata = app.anonymous().request("GET", "/metadata").send().expect(200).json();
    let modules = metadata["modules"].as_array().unwrap();
    let farmer = modules.iter().find(|module| module["name"] == "farmer-registry").unwrap();
    assert_eq!(farmer["extension_fields"], serde_json::json!(["farmer.crops"]));
    for kind in ["Individual", "Group"] {
        let resource = metadata["resources"].as_array().unwrap().iter().find(|one| one["type"] == kind).unwrap();
        let names: Vec<&str> =
            resource["search_parameters"].as_array().unwrap().iter().map(|one| text(&one["name"])).collect();
        for name in ["extension.farmer.crops", "extension.farmer.crops:below"] {
            assert!(names.contains(&name), "{kind}: {names:?}");
        }
    }
    let patch = &after.json()["components"]["schemas"]["IndividualPatch"]["properties"]["income"];
    assert!(patch.to_string().contains("amount"), "{patch}");
    assert!(!patch.to_string().contains("required"), "a patch names some fields of a part: {patch}");
}

#[test]
fn the_page_runs_nothing_and_loads_nothing() {
    let app = TestApp::start();
    let page = app.anonymous().request("GET", "/docs/api").send().expect(200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    let page = page.text();
    for absent in ["<script", "src=", "=\"javascript:", "@import", "url(", "http-equiv"] {
        assert!(!page.contains(absent), "the page has `{absent}`");
    }
    for shown in ["readIndividual", "GET", "/api/v2/Individual/{identifier}", "schema-individual", "individual:read"] {
        assert!(page.contains(shown), "the page lacks `{shown}`");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn the_metadata_follows_the_table_of_routes() {
    let app =
        TestApp::builder().config(|config| config.server.public_url = Some("https://registry.example".to_owned()));
    let app = app.start();
    let metadata = app.anonymous().request("GET", "/metadata").send().expect(200).json();
    assert_eq!(metadata["base_url"], "https://registry.example/api/v2");
    assert_eq!(metadata["token"]["endpoint"], "https://registry.example/api/v2/oauth/token");
    let resources = metadata["resources"].as_array().unwrap();
    let names: Vec<&str> = resources.iter().map(|resource| resource["type"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "ConceptGroup",
            "Consent",
            "Eligibility",
            "Group",
            "Individual",
            "Program",
            "ProgramMembership",
            "RuleDraft",
            "Vocabulary"
        ]
    );
    let of_resources: usize = resources.iter().map(|resource| resource["operations"].as_array().unwrap().len()).sum();
    let others = metadata["operations"].as_array().unwrap().len();
    assert_eq!(of_resources + others, daftar::api::router::endpoints().len());
    let individual = resources.iter().find(|resource| resource["type"] == "Individual").unwrap();
    assert_eq!(individual["paths"], serde_json::json!(["/api/v2/Individual", "/api/v2/individuals"]));
    let consent = resources.iter().find(|resource| resource["type"] == "Consent").unwrap();
    assert_eq!(consent["paths"], serde_json::json!(["/api/v2/Consent", "/api/v2/consents"]));
    let operations = resources.iter().flat_map(|resource| resource["operations"].as_array().unwrap());
    let of_member = operations.clone().find(|one| one["id"] == "addMember").unwrap();
    assert_eq!(of_member["also_at"], serde_json::json!(["/api/v2/groups/{identifier}/$add-member"]));
    let requested: BTreeSet<&str> = operations.flat_map(|one| one["scopes"].as_array().unwrap()).map(text).collect();
    let offered: Vec<&str> = metadata["token"]["scopes"].as_array().unwrap().iter().map(text).collect();
    for scope in &offered {
        let (resource, action) = scope.split_once(':').unwrap();
        let is_requested = |one: &&str| one.split_once(':').is_some_and(|(of, _)| of == resource);
        assert!(
            requested.contains(scope) || (action == "all" && requested.iter().any(is_requested)),
            "{scope} opens nothing"
        );
    }
    assert!(requested.iter().all(|scope| offered.contains(scope)), "{requested:?} {offered:?}");
    let gender =
        individual["search_parameters"].as_array().unwrap().iter().find(|one| one["name"] == "gender").unwrap();
    assert_eq!(gender["repeatable"], true);
    let program = resources.iter().find(|resource| resource["type"] == "Program").unwrap();
    assert_eq!(program["operations"][0]["scopes"], serde_json::json!(["program:search", "program:read"]));
    assert_eq!(metadata["limits"]["client_calls"], serde_json::json!({"per_minute": 60, "per_day": 10_000}));
    let engines =
        metadata["modules"].as_array().unwrap().iter().filter(|module| module["kind"] == "eligibility-engine");
    assert_eq!(engines.count(), 1);
}
