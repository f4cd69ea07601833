//! `daftar client`, on a running and on a stopped server.

use std::path::Path;

use daftar_tests::process::{command, finish, run};
use daftar_tests::{Credentials, Server, TestApp, redacted, token};
use serde_json::{Value, json};

fn json_of(data_dir: &Path, arguments: &[&str]) -> Value {
    run(data_dir, &[&["client", "--json"], arguments].concat()).expect_success().json()
}

fn scopes(data_dir: &Path, id: &str) -> Value {
    json_of(data_dir, &["show", id])["scopes"].take()
}

/// The commands, for a running or a stopped server.
fn administer(data_dir: &Path) -> Credentials {
    let created = json_of(data_dir, &["create", "--name", "clinic", "--scope", "individual:read", "group:read"]);
    insta::allow_duplicates! {
        insta::assert_json_snapshot!(redacted(&created), @r#"
        {
          "client_id": "[client_id]",
          "client_secret": "[client_secret]",
          "scopes": [
            "individual:read",
            "group:read"
          ]
        }
        "#);
    }
    let credentials = Credentials::read(&created);
    let id = credentials.id.as_str();
    let shown = json_of(data_dir, &["show", id]);
    assert_eq!((&shown["name"], &shown["status"]), (&json!("clinic"), &json!("active")));
    assert_eq!(json_of(data_dir, &["list"])["data"], json!([shown]));
    assert_eq!(json_of(data_dir, &["disable", id])["status"], "disabled");
    assert_eq!(json_of(data_dir, &["enable", id])["status"], "active");
    drop(json_of(data_dir, &["grant", id, "--scope", "eligibility:all"]));
    assert_eq!(scopes(data_dir, id), json!(["individual:read", "group:read", "eligibility:all"]));
    drop(json_of(data_dir, &["revoke", id, "--scope", "group:read"]));
    assert_eq!(scopes(data_dir, id), json!(["individual:read", "eligibility:all"]));

    let granted = json_of(data_dir, &["grant", id, "--scope", "individual:read", "--fields", "name,birth_date"]);
    assert_eq!(granted["fields"], json!({"individual:read": ["birth_date", "name"]}));
    for command in [&["client", "list"][..], &["client", "show", id]] {
        let text = run(data_dir, command).expect_success().stdout;
        assert!(text.contains("individual:read[birth_date,name] eligibility:all"), "{text}");
    }
    let whole = json_of(data_dir, &["grant", id, "--scope", "individual:read"]);
    assert_eq!(whole.get("fields"), None, "it is replaced");

    let text = run(data_dir, &["client", "list"]).expect_success().stdout;
    assert!(text.starts_with("CLIENT_ID") && text.contains(id) && text.contains("active"), "{text}");
    let text = run(data_dir, &["client", "show", id]).expect_success().stdout;
    assert!(text.contains("individual:read") && !text.contains(&credentials.secret), "{text}");

    for (arguments, what) in [
        (&["show", "absent"][..], "no such client `absent`"),
        (&["grant", id, "--scope", "individual:fly"], "individual:fly"),
        (&["grant", id, "--scope", "individual:read", "--fields", "birthdate"], "did you mean `birth_date`?"),
        (&["grant", id, "--scope", "individual:read", "--fields", ""], "fields[0]"),
        (&["revoke", id, "--scope", "group:read"], "does not hold `group:read`"),
        (&["create", "--name", "x", "--scope", "fly"], "fly"),
        (&["create", "--name", "x", "--rate-limit-per-minute", "0"], "rate_limit_per_minute"),
    ] {
        let refused = run(data_dir, &[&["client"], arguments].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
    credentials
}

#[test]
fn clients_are_administered_on_a_running_server() {
    let app = TestApp::start();
    let credentials = administer(app.data_dir());
    // `enable` does not accept older tokens: they and the change have the same timestamp on the stopped clock.
    app.advance_seconds(1);
    let client = app.client_of(&credentials);
    assert_eq!(client.get("/Individual").status, 200);
    drop(json_of(app.data_dir(), &["revoke", client.id(), "--scope", "individual:read"]));
    assert_eq!(client.get("/Individual").status, 403, "a revoked scope acts at once");
    drop(json_of(app.data_dir(), &["disable", client.id()]));
    assert_eq!(client.get("/Individual").status, 401, "a disabled client is refused on its next call");
}

#[test]
fn clients_are_administered_on_a_stopped_server() {
    let mut app = TestApp::start();
    app.stop();
    let credentials = administer(app.data_dir());
    // The commands used the machine's clock, so a server with the same clock continues from their result.
    let server = Server::serve(app.data_dir(), &[]);
    let token = token::fetch(&server.connection(), &credentials);
    assert_eq!(server.connection().request("GET", "/api/v2/Individual").bearer(&token).send().status, 200);
    drop(server.stop().expect_success());
}

#[test]
fn a_register_can_be_prepared_before_its_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let created = json_of(&data_dir, &["create", "--name", "first", "--scope", "individual:read"]);
    let server = Server::serve(&data_dir, &[]);
    let token = token::fetch(&server.connection(), &Credentials::read(&created));
    assert_eq!(server.connection().request("GET", "/api/v2/Individual").bearer(&token).send().status, 200);
    drop(server.stop().expect_success());
}

#[test]
fn a_distant_server_is_reached_by_address_and_token() {
    let app = TestApp::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let url = app.admin_listener().url();
    let token_file = app.data_dir().join("admin.token");
    let distant = || command(&elsewhere.path().join("data"), &["client", "list", "--json", "--admin-url", &url]);
    let refused = finish(distant());
    assert_eq!(refused.code, 77, "{refused:?}");
    assert!(refused.stderr.contains("--admin-token-file"), "{refused:?}");
    let mut by_file = distant();
    by_file.arg("--admin-token-file").arg(&token_file);
    assert_eq!(finish(by_file).expect_success().json(), json!({"data": []}));
    let mut by_environment = distant();
    by_environment.env("DAFTAR_ADMIN_TOKEN", app.admin().token());
    assert_eq!(finish(by_environment).expect_success().json(), json!({"data": []}));
    let mut with_another = distant();
    with_another.env("DAFTAR_ADMIN_TOKEN", "x".repeat(60));
    let refused = finish(with_another);
    assert!(refused.code == 77 && refused.stderr.contains("admin token"), "{refused:?}");
    assert!(!elsewhere.path().join("data").exists(), "nothing is made here");
}

#[test]
fn a_server_that_died_is_not_taken_for_a_running_one() {
    let mut app = TestApp::start();
    app.stop();
    let stale = json!({"admin_url": "http://127.0.0.1:1", "process_id": u32::from(u16::MAX) * 1_000});
    std::fs::write(app.data_dir().join("server.json"), stale.to_string()).unwrap();
    assert_eq!(json_of(app.data_dir(), &["list"]), json!({"data": []}));
    assert!(!app.data_dir().join("server.json").exists(), "the next process to use the folder removes it");
}

#[test]
fn a_consent_scope_without_an_organization_is_noted() {
    let app = TestApp::start();
    let create = |more: &[&str]| {
        let arguments = ["client", "create", "--name", "office", "--scope", "individual:read,consent:read"];
        run(app.data_dir(), &[&arguments[..], more].concat()).expect_success()
    };
    let noted = create(&[]);
    assert!(noted.stderr.contains("daftar client set") && noted.stderr.contains("--organization"), "{noted:?}");
    assert!(noted.stdout.contains("individual:read consent:read"), "scopes by comma: {noted:?}");
    assert_eq!(create(&["--organization", "Red Cross"]).stderr, "");
}

#[test]
fn a_deleted_client_leaves_only_its_id() {
    let app = TestApp::start();
    let data_dir = app.data_dir();
    let credentials =
        Credentials::read(&json_of(data_dir, &["create", "--name", "clinic", "--scope", "individual:read"]));
    let id = credentials.id.as_str();
    let client = app.client_of(&credentials);
    assert_eq!(client.get("/Individual").status, 200);
    assert_eq!(json_of(data_dir, &["delete", id]), json!({"client_id": id, "deleted": true}));
    assert_eq!(client.get("/Individual").status, 401, "its token is rejected");
    let secret = std::fs::write(data_dir.join("secret.txt"), &credentials.secret);
    secret.unwrap();
    let secret = data_dir.join("secret.txt");
    let refused = run(data_dir, &["token", id, "--secret-file", secret.to_str().unwrap()]);
    assert_eq!(refused.code, 77, "{refused:?}");
    assert_eq!(json_of(data_dir, &["list"])["data"], json!([]));
    for command in [["client", "show", id], ["client", "delete", id], ["client", "enable", id]] {
        let refused = run(data_dir, &command);
        assert!(refused.code == 1 && refused.stderr.contains(&format!("no such client `{id}`")), "{refused:?}");
    }
    let entries = run(data_dir, &["audit", "query", "--json", "--record", id]).expect_success().stdout;
    for note in ["client deleted", "client created"] {
        assert!(entries.contains(&format!("\"note\":\"{note}\"")), "{entries}");
    }
}

#[test]
fn a_token_is_printed_for_curl_and_problems_are_named() {
    let app = TestApp::start();
    let data_dir = app.data_dir();
    let created = json_of(data_dir, &["create", "--name", "clinic", "--scope", "individual:read,group:read"]);
    let Credentials { id, secret, .. } = Credentials::read(&created);
    let file = data_dir.join("secret.txt");
    std::fs::write(&file, &secret).unwrap();
    let token = |more: &[&str]| {
        let url = app.anonymous().url();
        run(data_dir, &[&["token", &id, "--url", &url], more].concat())
    };
    let from_file = ["--secret-file", file.to_str().unwrap()];
    let printed = token(&from_file).expect_success().stdout;
    let response = app.anonymous().request("GET", "/api/v2/Individual").bearer(printed.trim()).send();
    assert_eq!(response.status, 200);
    let body = token(&[&from_file[..], &["--json", "--scope", "group:read"]].concat()).expect_success().json();
    assert_eq!((&body["scope"], &body["token_type"]), (&json!("group:read"), &json!("Bearer")));
    for (arguments, code, what) in [
        (&["--secret-file", "/nowhere/secret"][..], 66, "/nowhere/secret"),
        (&[], 2, "DAFTAR_CLIENT_SECRET"),
        (&[&from_file[..], &["--scope", "individual:all"]].concat(), 1, "was not granted individual:all"),
    ] {
        let refused = token(arguments);
        assert!(refused.code == code && refused.stderr.contains(what), "{refused:?}");
        assert!(!refused.stderr.contains(&secret), "{refused:?}");
    }
    std::fs::write(&file, "wrong").unwrap();
    let refused = token(&from_file);
    assert_eq!((refused.code, refused.stdout.as_str()), (77, ""), "{refused:?}");
}

#[test]
fn verbose_logs_requests_and_quiet_hides_notes() {
    let app = TestApp::start();
    let list = |more: &[&str]| run(app.data_dir(), &[&["client", "list"], more].concat()).expect_success();
    assert_eq!(list(&[]).stderr, "");
    let verbose = list(&["-v"]);
    assert!(verbose.stderr.contains("admin request") && verbose.stderr.contains("/admin/v1/clients"), "{verbose:?}");
    assert_eq!(verbose.stdout, list(&[]).stdout, "results are the same");
    let create = ["client", "create", "--name", "n", "--scope", "consent:read"];
    let note = "a client sees the consents given to its organization";
    assert!(run(app.data_dir(), &create).expect_success().stderr.contains(note));
    let quiet = run(app.data_dir(), &[&create[..], &["--quiet"]].concat()).expect_success();
    assert!(quiet.stderr.is_empty() && quiet.stdout.contains("client_secret"), "{quiet:?}");
    let both = run(app.data_dir(), &["client", "list", "-q", "-v"]);
    assert_eq!(both.code, 2, "{both:?}");
}
