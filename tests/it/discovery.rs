//! Endpoints open to every caller.

use daftar_tests::TestApp;

#[test]
fn the_authorization_server_describes_itself() {
    let app =
        TestApp::builder().config(|config| config.server.public_url = Some("https://registry.example".to_owned()));
    let app = app.start();
    let mut described =
        app.anonymous().request("GET", "/.well-known/oauth-authorization-server").send().expect(200).json();
    let scopes = described.as_object_mut().unwrap().remove("scopes_supported").unwrap();
    assert_eq!(scopes.as_array().unwrap().len(), 24, "those that open something");
    assert!(scopes.as_array().unwrap().contains(&"individual:read".into()));
    insta::assert_json_snapshot!(described, @r#"
    {
      "grant_types_supported": [
        "client_credentials"
      ],
      "issuer": "https://registry.example",
      "response_types_supported": [],
      "token_endpoint": "https://registry.example/api/v2/oauth/token",
      "token_endpoint_auth_methods_supported": [
        "client_secret_basic",
        "client_secret_post"
      ]
    }
    "#);
}

#[test]
fn health_reports_liveness_and_readiness_without_rate_limit() {
    let app = TestApp::start();
    let probe = app.anonymous();
    for _ in 0..40 {
        assert_eq!(probe.request("GET", "/health/live").send().expect(200).text(), "ok\n");
        assert_eq!(probe.request("GET", "/health/ready").send().expect(200).text(), "ok\n");
    }
}

#[test]
fn a_register_without_an_engine_is_ready_and_reports_degraded_parts() {
    let empty = tempfile::tempdir().unwrap();
    let app = TestApp::builder().plugins(empty.path()).start();
    assert_eq!(app.anonymous().request("GET", "/health/live").send().status, 200);
    let ready = app.anonymous().request("GET", "/health/ready").send().expect(200);
    let expected = "degraded: no eligibility engine is active, so calls that evaluate an expression are 503\n";
    assert_eq!(ready.text(), expected);
    let client = app.client(&["individual:all", "eligibility:read"]);
    assert_eq!(client.get("/Individual").status, 200);
    let rule = serde_json::json!({"expression": "true", "subjects": [{"type": "Individual"}]});
    let refused = client.post("/Eligibility/$evaluate", &rule).expect(503);
    assert!(refused.detail().contains("no eligibility engine is active"), "{}", refused.detail());
    assert_eq!(refused.code(), "no_eligibility_engine");
    let page = app.admin().metrics();
    assert!(page.contains("\ndaftar_ready 1\n") && page.contains("\ndaftar_eligibility_engine_active 0\n"), "{page}");
}

#[test]
fn an_unknown_path_is_404_and_a_method_that_is_not_offered_405() {
    let app = TestApp::start();
    for path in
        ["/", "/api", "/api/v2", "/api/v2/Nothing", "/api/v1/Individual", "/api/v2/individual", "/admin/v1/clients"]
    {
        let response = app.anonymous().request("GET", path).send();
        assert_eq!(response.status, 404, "{path}");
        assert!(response.json().get("instance").is_none(), "{path}");
    }
    for (method, path, allowed) in [
        ("DELETE", "/api/v2/Individual/urn:a|b", "GET,HEAD,PATCH,PUT"),
        ("PUT", "/api/v2/Individual", "GET,HEAD,POST"),
        ("PUT", "/api/v2/Group", "GET,HEAD,POST"),
        ("GET", "/api/v2/Eligibility/$evaluate", "POST"),
        ("POST", "/health/live", "GET,HEAD"),
    ] {
        let response = app.anonymous().request(method, path).send().expect(405);
        let mut allow: Vec<&str> = response.header("allow").unwrap().split(',').map(str::trim).collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{method} {path}");
        assert!(response.detail().contains(method), "{}", response.detail());
    }
}
