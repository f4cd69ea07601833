//! Unauthenticated callers: their audit entries, and that they cannot fill the log.

use daftar_tests::TestApp;
use serde_json::json;

use super::{found, lines};

#[test]
fn a_token_and_its_refusals_are_written_down_without_any_secret() {
    let app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "t", "scopes": ["individual:read"]}));
    let form = |id: &str, secret: &str| {
        let body = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
        app.token_request().body("application/x-www-form-urlencoded", body).send()
    };
    let issued = form(&credentials.id, &credentials.secret).expect(200);
    let line = &lines(&app, &issued)[0];
    assert_eq!(
        (&line["action"], &line["outcome"], &line["status"]),
        (&json!("authenticate"), &json!("allowed"), &json!(200))
    );
    assert_eq!(line["client"], credentials.id);
    let note = line["note"].as_str().unwrap();
    assert!(note.ends_with("for 86400 s with scopes: individual:read"), "{note}");
    let token = issued.json()["access_token"].as_str().unwrap().to_owned();
    assert!(!line.to_string().contains(&token));

    let wrong = form(&credentials.id, "not-the-secret").expect(401);
    let line = &lines(&app, &wrong)[0];
    assert_eq!((&line["actor"], &line["outcome"]), (&json!("unknown"), &json!("refused")));
    assert_eq!((&line["reason"], &line["records"]), (&json!("invalid_client"), &json!([credentials.id])));
    let swapped = form(&credentials.secret, &credentials.id).expect(401);
    let line = &lines(&app, &swapped)[0];
    assert_eq!((&line["reason"], &line["records"]), (&json!("invalid_client: no such client"), &json!([])));
    for secret in [credentials.secret.as_str(), "not-the-secret"] {
        assert!(!found(&app, "_count=1000").iter().any(|line| line.to_string().contains(secret)), "no secret");
    }
}

#[test]
fn calls_without_a_sound_token_are_counted_together() {
    let app = TestApp::start();
    let anonymous = app.anonymous();
    let call = |number: u32| {
        anonymous.request("GET", &format!("/api/v2/Individual?name={number}")).bearer("forged").send().status
    };
    for number in 0..20 {
        assert_eq!(call(number), 401);
    }
    let refused = || found(&app, "actor=unknown&action=authenticate&text=Individual");
    assert_eq!(refused().len(), 1, "the first is audited immediately");
    app.advance_seconds(61);
    assert_eq!(call(20), 401);
    let reported = refused();
    let counts: Vec<u64> = reported.iter().map(|line| line["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 19, 1], "the next minute's first, the repetitions, the first: {reported:#?}");
    assert!(reported.iter().all(|line| line["status"] == 401 && line["records"] == json!([])), "{reported:#?}");
}

#[test]
fn a_disabled_client_and_a_revoked_token_are_audited_with_the_client_id() {
    let app = TestApp::start();
    let client = app.client(&["individual:read"]);
    app.advance_seconds(1);
    app.admin().disable(client.id());
    let response = client.get("/Individual").expect(401);
    assert_eq!(response.code(), "client_disabled");
    let line = &lines(&app, &response)[0];
    assert_eq!((&line["client"], &line["action"]), (&json!(client.id()), &json!("authenticate")));
    assert_eq!((&line["outcome"], &line["reason"]), (&json!("refused"), &json!("the client is disabled")));
    app.admin().enable(client.id());
    let response = client.get("/Individual").expect(401);
    let line = &lines(&app, &response)[0];
    assert_eq!((&line["actor"], &line["records"]), (&json!("unknown"), &json!([client.id()])));
}

#[test]
fn a_wrong_admin_token_is_written_down() {
    let app = TestApp::start();
    let path = "/admin/v1/clients";
    assert_eq!(app.admin_listener().request("GET", path).bearer("wrong").send().status, 401);
    let line = &found(&app, "actor=unknown")[0];
    assert_eq!((&line["operation"], &line["status"]), (&json!("GET /admin/v1/clients"), &json!(401)));
}
