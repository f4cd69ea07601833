//! `/oauth/token`

use daftar_tests::token::{FORM, basic};
use daftar_tests::{Credentials, Request, Response, TestApp, redacted};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const GRANT: &str = "grant_type=client_credentials";

/// A register with one client, and the client.
fn app_with_client(scopes: &[&str]) -> (TestApp, Credentials) {
    let app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "clinic", "scopes": scopes}));
    (app, credentials)
}

fn with_form(app: &TestApp, credentials: &Credentials, more: &str) -> Request {
    let body = format!("{GRANT}&client_id={}&client_secret={}{more}", credentials.id, credentials.secret);
    app.token_request().body(FORM, body)
}

fn is_no_store(response: &Response) -> bool {
    response.header("cache-control") == Some("no-store")
}

#[test]
fn all_three_forms_give_a_token_that_works() {
    let (app, credentials) = app_with_client(&["individual:read", "group:all"]);
    let Credentials { id, secret } = &credentials;
    let json_body = json!({"grant_type": "client_credentials", "client_id": id, "client_secret": secret});
    let forms = [
        app.token_request().header("Authorization", basic(id, secret)).body(FORM, GRANT),
        with_form(&app, &credentials, ""),
        app.token_request().json(&json_body),
    ];
    for form in forms {
        let response = form.send().expect(200);
        assert!(is_no_store(&response), "{response:?}");
        assert_eq!(response.header("pragma"), Some("no-cache"));
        let reply = response.json();
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(redacted(&reply), @r#"
            {
              "access_token": "[access_token]",
              "expires_in": 86400,
              "scope": "individual:read group:all",
              "token_type": "Bearer"
            }
            "#);
        }
        let token = reply["access_token"].as_str().unwrap();
        let call = app.anonymous().request("GET", "/api/v2/Individual").bearer(token).send();
        assert_eq!(call.status, 200);
        let lower_case = app.anonymous().request("GET", "/api/v2/Individual");
        let call = lower_case.header("Authorization", format!("bearer {token}")).send();
        assert_eq!(call.status, 200, "the scheme's case does not matter");
    }
}

#[test]
fn malformed_requests_name_the_invalid_parameter() {
    let (app, Credentials { id, secret }) = app_with_client(&["individual:read"]);
    let whole = format!("{GRANT}&client_id={id}&client_secret={secret}");
    let password = whole.replace("client_credentials", "password");
    let right = basic(&id, &secret);
    let object = json!({"grant_type": "client_credentials", "client_id": id, "client_secret": secret}).to_string();
    let twice = object.replacen('{', &format!("{{\"client_id\": \"{id}\","), 1);
    let not_text = object.replace(&format!("\"{secret}\""), "7");
    let cases: [(Option<&str>, &str, &str, &str, &str); 26] = [
        (None, FORM, &password, "unsupported_grant_type", "client_credentials"),
        (None, FORM, "", "invalid_request", "grant_type is missing"),
        (None, FORM, GRANT, "invalid_request", "client_id is missing"),
        (None, FORM, &format!("{whole}&client_id={id}"), "invalid_request", "more than once"),
        (None, FORM, &format!("{whole}&grant_type=%zz"), "invalid_request", "form-encoded"),
        (Some(&right), FORM, &whole, "invalid_request", "in two ways"),
        (Some(&right), JSON, &object, "invalid_request", "form body"),
        (None, JSON, "{", "invalid_request", "not a JSON object"),
        (None, JSON, "[]", "invalid_request", "not a JSON object"),
        (None, JSON, &twice, "invalid_request", "more than once"),
        (None, JSON, &not_text, "invalid_request", "must be a string"),
        (None, "text/plain", &whole, "invalid_request", "Content-Type"),
        (None, "application/json; charset=utf-16", &object, "invalid_request", "charset"),
        (None, "multipart/form-data; boundary=x", &whole, "invalid_request", "Content-Type"),
        (None, FORM, &format!("{GRANT}&client_id={id}&client_secret="), "invalid_request", "client_secret is missing"),
        (None, FORM, &format!("{whole}&grant_type=client_credentials"), "invalid_request", "more than once"),
        (Some(&right), FORM, &format!("{GRANT}&client_id={id}"), "invalid_request", "in two ways"),
        (Some("Basic !!!"), FORM, GRANT, "invalid_request", "not base64"),
        (Some("Basic bm9jb2xvbg=="), FORM, GRANT, "invalid_request", "no colon"),
        (Some("Basic /////w=="), FORM, GRANT, "invalid_request", "not UTF-8"),
        (Some("Basic Og=="), FORM, GRANT, "invalid_request", "client_id"),
        (Some("Basic YTo="), FORM, GRANT, "invalid_request", "client_secret"),
        (Some("Basic"), FORM, GRANT, "invalid_request", "no colon"),
        (None, JSON, &"[".repeat(10_000), "invalid_request", "not a JSON object"),
        (
            None,
            JSON,
            "{\"grant_type\": \"client_credentials\", \"client_id\": {}}",
            "invalid_request",
            "must be a string",
        ),
        (None, FORM, &format!("{whole}&x={}", "x".repeat(20_000)), "invalid_request", "limit"),
    ];
    for (authorization, content_type, body, error, what) in cases {
        let mut request = app.token_request().body(content_type, body);
        if let Some(authorization) = authorization {
            request = request.header("Authorization", authorization);
        }
        let response = request.send();
        let reply = response.json();
        assert_eq!(reply["error"], error, "{content_type} {body}: {reply}");
        assert!(response.status == 400 || response.status == 413, "{content_type} {body}: {reply}");
        assert!(response.detail().contains(what), "{content_type} {body}: {reply}");
        assert!(!response.text().contains(&secret), "{reply}");
        assert!(is_no_store(&response), "{response:?}");
    }
    let both = app.token_request().header("Authorization", &right).header("Authorization", &right).body(FORM, GRANT);
    assert_eq!(both.send().expect(400).json()["error"], "invalid_request");
    let encoded = app.token_request().body(FORM, &whole).header("Content-Encoding", "gzip").send().expect(400);
    assert!(encoded.detail().contains("Content-Encoding"), "{}", encoded.detail());
    let two_types = app.token_request().body(FORM, &whole).header("Content-Type", FORM).send().expect(400);
    assert!(two_types.detail().contains("more than one Content-Type"), "{}", two_types.detail());
    let other_scheme = app.token_request().header("Authorization", "Digest x").body(FORM, GRANT).send().expect(401);
    assert_eq!(other_scheme.json()["error"], "invalid_client");
    assert_eq!(other_scheme.header("www-authenticate"), Some("Basic realm=\"daftar\""));
    let accepted = app.token_request().body(FORM, format!("{whole}&unknown=1&unknown=2")).send();
    assert_eq!(accepted.status, 200, "unknown fields are ignored");
}

#[test]
fn credentials_in_the_url_are_refused_even_where_the_body_is_right() {
    let (app, Credentials { id, secret }) = app_with_client(&["individual:read"]);
    let body = format!("{GRANT}&client_id={id}&client_secret={secret}");
    for (query, what) in [
        (format!("client_id={id}&client_secret={secret}"), Some("client_id")),
        (format!("client_secret={secret}"), Some("client_secret")),
        ("grant_type=client_credentials".to_owned(), Some("grant_type")),
        ("unknown=1".to_owned(), None),
    ] {
        let target = format!("{}?{query}", daftar_tests::token::PATH);
        let response = app.anonymous().request("POST", &target).body(FORM, &body).send();
        assert_eq!(response.status, if what.is_some() { 400 } else { 200 }, "{}", response.text());
        if let Some(name) = what {
            assert!(response.detail().contains(&format!("the field {name} is in the URL")), "{}", response.detail());
            assert!(!response.text().contains(&secret));
        }
    }
}

/// The complete response to a token request, without values that always differ.
fn answer_in_bytes(app: &TestApp, head: &str, body: &str) -> String {
    let length = body.len();
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {FORM}\r\nContent-Length: {length}\r\n{head}\r\n{body}",
        daftar_tests::token::PATH
    );
    let response = String::from_utf8(app.anonymous().exchange(request.as_bytes())).unwrap();
    let is_its_own = |line: &str| line.starts_with("x-request-id: ") || line.starts_with("date: ");
    response.split("\r\n").filter(|line| !is_its_own(line)).collect::<Vec<_>>().join("\r\n")
}

#[test]
fn no_byte_of_a_rejection_reveals_which_clients_exist() {
    let (app, right) = app_with_client(&["individual:read"]);
    let off = app.admin().create_client(&json!({"name": "off", "scopes": ["individual:read"]}));
    app.admin().disable(&off.id);
    let absent = "client-00000000000000000000000000000000";
    let cases: [(&str, &str); 8] = [
        (&right.id, "wrong"),
        (&right.id, &off.secret),
        (&off.id, &off.secret),
        (&off.id, "wrong"),
        (absent, &right.secret),
        (absent, "wrong"),
        ("no client id at all", "wrong"),
        ("../../etc/passwd", "' OR 1=1 --"),
    ];
    let encoded = |text: &str| text.replace(' ', "+").replace('/', "%2F").replace('\'', "%27").replace('=', "%3D");
    let mut responses = Vec::new();
    for (id, secret) in cases {
        let (id, secret) = (encoded(id), encoded(secret));
        for scope in ["", "&scope=nonsense"] {
            let body = format!("{GRANT}&client_id={id}&client_secret={secret}{scope}");
            responses.push(answer_in_bytes(&app, "", &body));
            let head = format!("Authorization: {}\r\n", basic(&id, &secret));
            responses.push(answer_in_bytes(&app, &head, &format!("{GRANT}{scope}")));
        }
    }
    assert!(responses[0].starts_with("HTTP/1.1 401 "), "{}", responses[0]);
    assert!(responses[0].contains("www-authenticate: Basic realm=\"daftar\""), "{}", responses[0]);
    for response in &responses {
        assert_eq!(response, &responses[0]);
    }
}

#[test]
fn an_unknown_id_a_wrong_secret_and_a_disabled_client_get_one_answer() {
    let (app, right) = app_with_client(&["individual:read"]);
    let wrong = Credentials { id: right.id.clone(), secret: format!("{}x", right.secret) };
    let unknown = Credentials { id: "client-absent".to_owned(), secret: right.secret.clone() };
    let mut responses: Vec<(u16, Value, Option<String>)> = Vec::new();
    let mut ask = |credentials: &Credentials| {
        let response = with_form(&app, credentials, "").send();
        let challenge = response.header("www-authenticate").map(str::to_owned);
        responses.push((response.status, response.json(), challenge));
    };
    ask(&wrong);
    ask(&unknown);
    app.admin().disable(&right.id);
    ask(&right);
    assert!(responses.windows(2).all(|pair| pair[0] == pair[1]), "{responses:?}");
    let (status, body, challenge) = &responses[0];
    assert_eq!((*status, challenge.as_deref()), (401, Some("Basic realm=\"daftar\"")));
    insta::assert_json_snapshot!(body, @r#"
    {
      "detail": "client authentication failed",
      "error": "invalid_client",
      "error_description": "client authentication failed"
    }
    "#);
}

#[test]
fn a_client_may_ask_for_less_and_never_for_more() {
    let (app, credentials) = app_with_client(&["individual:all", "group:read"]);
    let ask = |scope: &str| with_form(&app, &credentials, &format!("&scope={scope}")).send();
    for (requested, granted) in [
        ("individual:read", "individual:read"),
        ("group:read+individual:create", "individual:create group:read"),
        ("individual:all", "individual:all"),
        ("", "individual:all group:read"),
    ] {
        assert_eq!(ask(requested).expect(200).json()["scope"], granted, "{requested}");
    }
    for (requested, what) in [
        ("group:all", "group:all"),
        ("group:create", "group:create"),
        ("individual:read+nonsense", "nonsense"),
        ("individual:fly", "individual:fly"),
    ] {
        let refused = ask(requested).expect(400);
        assert_eq!(refused.json()["error"], "invalid_scope", "{requested}");
        assert!(refused.detail().contains(what), "{}", refused.detail());
    }
    let narrow = ask("individual:read").expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let call = |method: &str, path: &str| app.anonymous().request(method, path).bearer(&narrow);
    assert_eq!(call("GET", "/api/v2/Individual").send().status, 200);
    assert_eq!(call("POST", "/api/v2/Individual").json(&json!({})).send().status, 403);
}

#[test]
fn a_client_without_grants_gets_a_token_that_opens_nothing() {
    let (app, credentials) = app_with_client(&[]);
    let response = with_form(&app, &credentials, "").send().expect(200).json();
    assert_eq!(response["scope"], "");
    let token = response["access_token"].as_str().unwrap();
    let refused = app.anonymous().request("GET", "/api/v2/Individual").bearer(token).send().expect(403);
    assert_eq!(refused.detail(), "Missing required scope individual:read. Granted: none");
}

#[test]
fn other_methods_are_not_offered() {
    let app = TestApp::start();
    let refused = app.anonymous().request("GET", "/api/v2/oauth/token").send().expect(405);
    assert_eq!(refused.header("allow"), Some("POST"));
}
