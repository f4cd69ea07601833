//! `Accept` with each media type, on every endpoint of both listeners.

use daftar::api::access::Access;
use daftar::api::endpoint::Endpoint;
use daftar::api::router::endpoints;
use daftar_tests::{ApiClient, TestApp};

/// A register and a client with all scopes.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let resources = ["individual", "group", "program", "program_membership", "consent", "vocabulary", "eligibility"];
    let scopes = resources.map(|resource| format!("{resource}:all"));
    let client = app.client(&scopes.each_ref().map(String::as_str));
    (app, client)
}

/// The media types of an endpoint's responses, and a path of it.
fn documented(endpoint: &Endpoint) -> (Vec<&'static str>, String) {
    let bodies = endpoint.operation.responses.iter().flat_map(|response| &response.bodies);
    let filled = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    let path: Vec<String> = endpoint.paths[0].split('/').map(filled).collect();
    (bodies.map(|(media_type, _)| *media_type).collect(), path.join("/"))
}

fn status(app: &TestApp, client: &ApiClient, endpoint: &Endpoint, path: &str, accept: &str) -> u16 {
    // Each from an address of its own: requests open to every caller are limited by address.
    let request = app.anonymous().request(endpoint.method.as_str(), path).header("Accept", accept);
    let request = if endpoint.access == Access::Public { request } else { request.bearer(client.token()) };
    let response = request.send();
    if response.status == 406 {
        assert!(response.detail().contains("`Accept` excludes the media types"), "{path}: {}", response.detail());
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
    }
    response.status
}

#[test]
fn every_endpoint_answers_406_if_no_media_type_is_acceptable() {
    let (app, client) = register();
    for endpoint in endpoints() {
        let (offered, path) = documented(&endpoint);
        let is_exempt = matches!(endpoint.access, Access::Token | Access::Health) || offered.is_empty();
        for refused in ["application/xml", "image/gif, text/csv;q=0.5", "*/*;q=0"] {
            let status = status(&app, &client, &endpoint, &path, refused);
            assert_eq!(status == 406, !is_exempt, "{} {path} {refused}: {status}", endpoint.method);
        }
        let whole = offered.join(", ");
        for taken in ["*/*", "", "image/png, */*;q=0.1", whole.as_str()] {
            let status = status(&app, &client, &endpoint, &path, taken);
            assert_ne!(status, 406, "{} {path} {taken}", endpoint.method);
        }
    }
}

#[test]
fn the_admin_api_answers_406_before_any_change() {
    let app = TestApp::start();
    let admin = app.admin();
    for (method, path) in crate::admin::calls(&admin) {
        let ask = |accept: &str| admin.request(method, &format!("{path}?unheard_of=1")).header("Accept", accept).send();
        let refused = ask("image/png, text/csv;q=0.5");
        if method == "DELETE"
            && ["/clients/x", "/identifier-systems/x", "/import", "/plugins/x"].contains(&path.as_str())
        {
            assert_eq!(refused.status, 400, "there is no body to be refused: {method} {path}");
            continue;
        }
        let detail = refused.expect(406).detail();
        let offered = detail.split('`').nth(3).unwrap_or_else(|| panic!("{method} {path}: {detail}"));
        for taken in [offered, "*/*", "image/png, */*;q=0.1"] {
            assert_eq!(ask(taken).status, 400, "{method} {path} {taken}");
        }
    }
    let exported = admin.request("GET", "/export").header("Accept", "application/json").send().expect(406);
    let there_is = "`Accept` excludes the media types of this response: `application/x-ndjson`";
    assert_eq!(exported.detail(), there_is);
    let listed = admin.request("GET", "/clients").header("Accept", "application/json").send().expect(200);
    assert_eq!(listed.header("content-type"), Some("application/json"));
    let anonymous = app.admin_listener().request("GET", "/admin/v1/clients").header("Accept", "text/html").send();
    assert_eq!(anonymous.status, 401, "authentication comes first");
    assert_eq!(admin.request("GET", "/nothing").header("Accept", "text/html").send().status, 404);
}

#[test]
fn a_406_lists_media_types_after_authentication_and_before_the_body() {
    let (app, client) = register();
    let refused = client.request("HEAD", "/Individual").header("Accept", "text/html").send();
    assert_eq!(refused.status, 406);
    let refused = client.request("POST", "/Individual").header("Accept", "text/html").body("text/plain", "{").send();
    assert_eq!(refused.expect(406).detail(), "`Accept` excludes the media types of this response: `application/json`");
    let create = |client: &ApiClient| {
        let request = client.request("POST", "/Individual").header("Accept", "text/html");
        request.header("Idempotency-Key", "a-key-of-its-own-1").body("text/plain", "{").send().status
    };
    assert_eq!((create(&client), create(&app.client(&["individual:read"]))), (406, 403));
    let anonymous = app.anonymous().request("GET", "/api/v2/Individual").header("Accept", "text/html").send();
    assert_eq!(anonymous.status, 401);
    let page = app.anonymous().request("GET", "/docs/api").header("Accept", "application/json").send().expect(406);
    assert!(page.detail().contains("`text/html`"), "{}", page.detail());
}
