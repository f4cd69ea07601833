//! The admin listener.

use daftar_tests::records::with;
use daftar_tests::{Admin, TestApp, errors, redacted};
use serde_json::json;

#[test]
fn nothing_is_answered_without_the_admin_token() {
    let app = TestApp::start();
    let api_token = app.client(&["individual:all", "group:all", "eligibility:all"]).token().to_owned();
    let admin_token = app.admin().token().to_owned();
    for (method, path) in [
        ("GET", "/admin/v1/clients"),
        ("POST", "/admin/v1/clients"),
        ("GET", "/admin/v1/plugins"),
        ("POST", "/admin/v1/plugins"),
        ("DELETE", "/admin/v1/plugins/gender"),
        ("GET", "/admin/v1/nothing"),
        ("GET", "/"),
        ("GET", "/api/v2/Individual"),
    ] {
        let request = || app.admin_listener().request(method, path);
        let refused = request().send().expect(401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"daftar admin\""));
        assert!(refused.detail().contains("admin.token"), "{}", refused.detail());
        for wrong in ["x", &api_token, &admin_token[..admin_token.len() - 1], &format!("{admin_token}x")] {
            assert_eq!(request().bearer(wrong).send().status, 401, "{method} {path}");
        }
        assert_eq!(request().bearer(&admin_token).bearer(&admin_token).send().status, 401, "{method} {path}");
        assert_eq!(request().header("Authorization", &admin_token).send().status, 401, "{method} {path}");
        assert_ne!(request().bearer(&admin_token).send().status, 401, "{method} {path}");
    }
}

#[test]
fn nothing_of_the_admin_api_is_on_the_public_listener_and_the_reverse() {
    let app = TestApp::start();
    let token = app.admin().token().to_owned();
    for path in ["/admin", "/admin/v1", "/admin/v1/clients", "/admin/v1/plugins", "/clients", "/api/v2/clients"] {
        let response = app.anonymous().request("GET", path).bearer(&token).send();
        assert_eq!(response.status, 404, "{path}");
    }
    let as_api_token = app.anonymous().request("GET", "/api/v2/Individual").bearer(&token).send();
    assert_eq!(as_api_token.status, 401);
    for path in ["/api/v2/Individual", "/metadata", "/.well-known/oauth-authorization-server"] {
        assert_eq!(app.admin_listener().request("GET", path).bearer(&token).send().status, 404, "{path}");
    }
}

#[test]
fn the_admin_token_lies_in_a_file_for_its_owner_alone_and_stays() {
    use std::os::unix::fs::PermissionsExt;
    let mut app = TestApp::start();
    let file = app.data_dir().join("admin.token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(app.data_dir()).unwrap().permissions().mode() & 0o777, 0o700);
    let token = app.admin().token().to_owned();
    assert!(token.starts_with("daftar_admin_") && token.len() >= 43, "{}", token.len());
    app.restart();
    assert_eq!(app.admin().token(), token);
    assert_ne!(TestApp::start().admin().token(), token);
}

#[test]
fn a_client_goes_through_its_life() {
    let app = TestApp::start();
    let admin = app.admin();
    let body = json!({"name": "clinic", "scopes": ["group:read", "individual:read"], "rate_limit_per_minute": 5});
    let created = admin.request("POST", "/clients").json(&body).send().expect(201).json();
    insta::assert_json_snapshot!(redacted(&created), @r#"
    {
      "client_id": "[client_id]",
      "client_secret": "[client_secret]",
      "created_at": "2026-03-01T12:00:00.000Z",
      "effective_rate_limit_per_day": 10000,
      "effective_rate_limit_per_minute": 5,
      "name": "clinic",
      "rate_limit_per_minute": 5,
      "scopes": [
        "individual:read",
        "group:read"
      ],
      "secrets": [
        {
          "age_days": 0,
          "created_at": "2026-03-01T12:00:00.000Z"
        }
      ],
      "status": "active",
      "updated_at": "2026-03-01T12:00:00.000Z"
    }
    "#);
    let id = created["client_id"].as_str().unwrap();
    let secret = created["client_secret"].as_str().unwrap();
    let path = format!("/clients/{id}");
    app.advance_seconds(60);
    admin.disable(id);
    admin.grant(id, "consent:read");
    admin.revoke(id, "group:read");
    let shown = admin.get(&path).expect(200);
    assert!(!shown.text().contains(secret), "the secret is shown once");
    insta::assert_json_snapshot!(redacted(&shown.json()), @r#"
    {
      "client_id": "[client_id]",
      "created_at": "2026-03-01T12:00:00.000Z",
      "effective_rate_limit_per_day": 10000,
      "effective_rate_limit_per_minute": 5,
      "name": "clinic",
      "rate_limit_per_minute": 5,
      "scopes": [
        "individual:read",
        "consent:read"
      ],
      "secrets": [
        {
          "age_days": 0,
          "created_at": "2026-03-01T12:00:00.000Z"
        }
      ],
      "status": "disabled",
      "updated_at": "2026-03-01T12:01:00.002Z"
    }
    "#);
    assert_eq!(admin.get("/clients").expect(200).json()["data"], json!([shown.json()]));
    admin.enable(id);
    assert_eq!(admin.get(&path).expect(200).json()["status"], "active");
}

#[test]
fn a_change_acts_on_the_very_next_call() {
    let app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all"]);
    assert_eq!(client.get("/Individual").status, 200);
    admin.revoke(client.id(), "individual:all");
    let refused = client.get("/Individual").expect(403);
    assert_eq!(refused.detail(), "Missing required scope individual:read. Granted: none");
    admin.grant(client.id(), "individual:read");
    assert_eq!(client.get("/Individual").status, 200, "the token was issued for as much");
    admin.grant(client.id(), "group:create");
    assert_eq!(client.post("/Group", &json!({})).status, 403, "and for no more");
    admin.disable(client.id());
    assert_eq!(client.get("/Individual").expect(401).detail(), "the client is disabled");
}

#[test]
fn clients_and_their_grants_outlive_a_restart() {
    let mut app = TestApp::start();
    let stored = app.client(&["individual:read"]);
    let disabled = app.client(&["individual:read"]);
    app.admin().disable(disabled.id());
    app.restart();
    assert_eq!(stored.get("/Individual").status, 200);
    assert_eq!(disabled.get("/Individual").status, 401);
    assert_eq!(app.client_of(stored.credentials()).get("/Individual").status, 200);
}

#[test]
fn wrong_calls_are_refused_and_named() {
    let app = TestApp::start();
    let admin = app.admin();
    let whole = json!({"name": "clinic"});
    for (body, field, code) in [
        (json!({}), "name", "required"),
        (json!({"name": " "}), "name", "empty"),
        (json!({"name": "x".repeat(201)}), "name", "invalid"),
        (with(whole.clone(), json!({"scopes": ["individual:fly"]})), "scopes[0]", "unknown_scope"),
        (with(whole.clone(), json!({"scopes": "individual:read"})), "scopes", "wrong_type"),
        (with(whole.clone(), json!({"rate_limit_per_minute": 0})), "rate_limit_per_minute", "wrong_type"),
        (with(whole.clone(), json!({"rate_limit_per_day": 10_000_001})), "rate_limit_per_day", "invalid"),
        (with(whole.clone(), json!({"secret": "mine"})), "secret", "unknown_field"),
    ] {
        let refused = admin.request("POST", "/clients").json(&body).send().expect(422);
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
    }
    let id = admin.create_client(&whole).id;
    assert_eq!(admin.get("/clients/absent").expect(404).detail(), "no such client `absent`");
    assert_eq!(admin.get("/clients/no%20body").status, 400);
    assert_eq!(admin.request("POST", "/clients/absent/disable").send().status, 404);
    let refused = admin.request("DELETE", &format!("/clients/{id}/grants/individual:read")).send().expect(409);
    assert!(refused.detail().contains("does not hold"), "{}", refused.detail());
    assert_eq!(admin.request("DELETE", &format!("/clients/{id}/grants/fly")).send().status, 400);
    assert_eq!(admin.request("PUT", &format!("/clients/{id}")).send().status, 405);
    assert_eq!(admin.request("POST", "/clients").body("application/json", "{").send().status, 400);
    assert_eq!(admin.request("POST", "/clients").body("text/plain", "{}").send().status, 415);
}

/// Every call of the admin API: its method and a path of it.
pub fn calls(admin: &Admin) -> Vec<(&'static str, String)> {
    let mut calls = Vec::new();
    for (path, _) in daftar::admin::router::routes() {
        let filled = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
        let path = path.split('/').map(filled).collect::<Vec<_>>().join("/");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if admin.request(method, &format!("{path}?unheard_of=1")).send().status != 405 {
                calls.push((method, path.clone()));
            }
        }
    }
    assert!(calls.len() > 30, "{calls:?}");
    calls
}

#[test]
fn a_parameter_that_a_call_does_not_take_is_refused_and_named() {
    let app = TestApp::start();
    let admin = app.admin();
    for (method, path) in calls(&admin) {
        let refused = admin.request(method, &format!("{path}?unheard_of=1")).send();
        assert_eq!(refused.status, 400, "{method} {path}: {}", refused.text());
        assert!(refused.detail().contains("`unheard_of`"), "{method} {path}: {}", refused.detail());
    }
    let refused = admin.get("/clients?status=disabled").expect(400);
    assert_eq!(refused.detail(), "unknown parameter `status`; this call has no parameters");
}
