//! The keys that sign tokens: rotated on a running server and on a stopped one, rejected when they are weak.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use daftar_tests::process::run;
use daftar_tests::records::with;
use daftar_tests::{ApiClient, Server, TestApp, errors, token};
use serde_json::{Value, json};

const LIFETIME_S: i64 = 86_400;
/// A replaced key is accepted for this time beyond the lifetime of its tokens.
const MARGIN_S: i64 = 60;

fn key(data_dir: &Path, arguments: &[&str]) -> Value {
    run(data_dir, &[&["key", "--json"], arguments].concat()).expect_success().json()["data"].take()
}

fn kid(token: &str) -> String {
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    header["kid"].as_str().unwrap().to_owned()
}

fn kids(keys: &Value) -> Vec<&str> {
    keys.as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect()
}

fn kids_on_disk(app: &TestApp) -> Vec<String> {
    kids_in(app, "keys/token.json")
}

fn kids_of_decisions(app: &TestApp) -> Vec<String> {
    kids_in(app, "keys/decisions.json")
}

fn kids_in(app: &TestApp, file: &str) -> Vec<String> {
    let file = std::fs::read_to_string(app.data_dir().join(file)).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    kids(&file["keys"]).into_iter().map(str::to_owned).collect()
}

fn refusal(client: &ApiClient) -> String {
    client.get("/Individual").expect(401).detail().to_owned()
}

#[test]
fn a_new_key_signs_at_once_and_tokens_of_the_old_one_are_good_until_they_expire() {
    let mut app = TestApp::start();
    let before = app.client(&["individual:read"]);
    assert_eq!(before.get("/Individual").status, 200, "it is in the cache");
    let old = kid(before.token());
    let sealing = kids_of_decisions(&app).remove(0);
    let key_of = |kid: &str, usage: &str| json!({"kid": kid, "use": usage, "status": "signs", "created_at": "2026-03-01T12:00:00.000Z", "age_days": 0});
    let mut listed = key(app.data_dir(), &["list"]);
    assert!(listed[1]["public_key"].take().is_string() && listed[0].get("public_key").is_none(), "{listed}");
    let of_decisions = with(key_of(&sealing, "decisions"), json!({"public_key": null}));
    assert_eq!(listed, json!([key_of(&old, "tokens"), of_decisions]));
    app.advance_seconds(100);
    let rotated = key(app.data_dir(), &["rotate"]);
    let new = rotated[0]["kid"].as_str().unwrap().to_owned();
    assert_eq!(kids(&rotated), [&new, &old]);
    assert_eq!((&rotated[0]["status"], &rotated[1]["status"]), (&json!("signs"), &json!("accepted")));
    assert_eq!(rotated[1]["accepted_until"], "2026-03-02T12:02:40.000Z", "a day and the margin");
    assert_eq!(before.get("/Individual").status, 200);
    let after = app.client_of(before.credentials());
    assert_eq!(kid(after.token()), new, "without a restart");
    assert_eq!(after.get("/Individual").status, 200);

    app.restart();
    assert_eq!(kids_on_disk(&app), [new.clone(), old.clone()]);
    assert_eq!((before.get("/Individual").status, after.get("/Individual").status), (200, 200));
    app.advance_seconds(LIFETIME_S - 101);
    assert_eq!(before.get("/Individual").status, 200, "to its last second");
    app.advance_seconds(1);
    assert!(refusal(&before).contains("expired"));
    assert_eq!(after.get("/Individual").status, 200);
    app.advance_seconds(100 + MARGIN_S);
    assert!(refusal(&before).contains("malformed"), "its key is known no more");
    assert_eq!(kids(&key(app.data_dir(), &["list"])), [&new, &sealing]);
    app.restart();
    assert_eq!(kids_on_disk(&app), std::slice::from_ref(&new), "nor is it on disk");
    let newest = app.client_of(before.credentials());
    assert_eq!((kid(newest.token()), newest.get("/Individual").status), (new, 200));
}

#[test]
fn a_rotation_is_in_the_audit_log_and_a_refused_one_too() {
    let app = TestApp::start();
    let old = kids_on_disk(&app).remove(0);
    let rotate = |body: Value| app.admin().request("POST", "/signing-keys").json(&body).send();
    let rotated = rotate(json!({"overlap_s": 2 * LIFETIME_S})).expect(201).json();
    assert_eq!(rotated["data"][1]["accepted_until"], "2026-03-03T12:01:00.000Z");
    for (overlap_s, code) in [(LIFETIME_S - 1, "out_of_range"), (2_678_401, "out_of_range"), (0, "wrong_type")] {
        let refused = rotate(json!({"overlap_s": overlap_s})).expect(422).json();
        assert_eq!(errors(&refused), [("overlap_s".to_owned(), code.to_owned())], "{refused}");
    }
    assert_eq!(errors(&rotate(json!({"secret": "mine"})).expect(422).json())[0].1, "unknown_field");
    let new = kids_on_disk(&app).remove(0);
    let lines = app.admin().get("/audit?record=signing-keys").expect(200).json()["data"].take();
    let lines = lines.as_array().unwrap();
    let done: Vec<&Value> = lines.iter().filter(|line| line["outcome"] == "allowed").collect();
    assert_eq!(done.len(), 1, "{lines:#?}");
    let note = format!("signing key {new} signs from now on; tokens of {old} are accepted until 2026-03-03T12:01:00Z");
    assert_eq!((&done[0]["note"], &done[0]["actor"]), (&json!(note), &json!("administrator")));
    assert_eq!((&done[0]["action"], &done[0]["status"]), (&json!("administer"), &json!(201)));
    assert_eq!(lines.iter().filter(|line| line["outcome"] == "refused").count(), 2, "{lines:#?}");
}

#[test]
fn a_key_of_decisions_is_rotated_by_itself_and_the_replaced_one_stays() {
    let mut app = TestApp::start();
    let (tokens, old) = (kids_on_disk(&app), kids_of_decisions(&app).remove(0));
    let rotated = key(app.data_dir(), &["rotate", "--use", "decisions"]);
    let new = rotated[0]["kid"].as_str().unwrap().to_owned();
    assert_eq!(kids(&rotated), [&new, &old]);
    assert_eq!((&rotated[0]["status"], &rotated[1]["status"]), (&json!("signs"), &json!("accepted")));
    assert_eq!((&rotated[1]["use"], rotated[1].get("accepted_until")), (&json!("decisions"), None));
    assert_eq!((kids_on_disk(&app), kids_of_decisions(&app)), (tokens, vec![new.clone(), old.clone()]));
    let path = app.data_dir().join("keys/decisions.json");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    app.advance_seconds(10 * 365 * LIFETIME_S);
    app.restart();
    assert_eq!(kids_of_decisions(&app), [new.clone(), old.clone()], "however old it is");
    let rotate = |body: Value| app.admin().request("POST", "/signing-keys").json(&body).send();
    let refused = rotate(json!({"use": "decisions", "overlap_s": LIFETIME_S})).expect(422).json();
    assert_eq!(errors(&refused), [("overlap_s".to_owned(), "contradiction".to_owned())], "{refused}");
    let refused = rotate(json!({"use": "cursors"})).expect(422).json();
    assert_eq!(errors(&refused), [("use".to_owned(), "unknown_value".to_owned())], "{refused}");
    let lines = app.admin().get("/audit?record=signing-keys").expect(200).json()["data"].take();
    let note = format!("signing key {new} seals decisions from now on; decisions of {old} stay authentic");
    assert!(lines.as_array().unwrap().iter().any(|line| line["note"] == note.as_str()), "{lines:#?}");
}

#[test]
fn no_more_than_eight_keys_are_retained() {
    let app = TestApp::start();
    let rotate = || app.admin().request("POST", "/signing-keys").json(&json!({})).send();
    for _ in 1..8 {
        drop(rotate().expect(201));
    }
    let refused = rotate().expect(409);
    assert!(refused.detail().contains("the limit of 8 keys is reached"), "{}", refused.detail());
    assert!(refused.detail().contains("wait until 2026-03-02T12:01:00Z"), "{}", refused.detail());
    assert_eq!(app.client(&["individual:read"]).get("/Individual").status, 200);
}

#[test]
fn keys_are_rotated_in_the_folder_of_a_stopped_server_and_shown_as_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let client = daftar_tests::process::create_client(&data_dir, &["individual:read"]);
    let server = Server::serve(&data_dir, &[]);
    let before = token::fetch(&server.connection(), &client);
    drop(server.stop().expect_success());
    let text = run(&data_dir, &["key", "rotate"]).expect_success().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("KID") && lines[1].contains("signs") && lines[2].contains("accepted"), "{text}");
    assert!(lines[2].starts_with(&kid(&before)), "{text}");
    let refused = run(&data_dir, &["key", "rotate", "--overlap", "23h"]);
    assert!(refused.code == 1 && refused.stderr.contains("at least 86400 seconds"), "{refused:?}");
    for overlap in ["32d", "24", "-1h"] {
        assert_eq!(run(&data_dir, &["key", "rotate", "--overlap", overlap]).code, 2, "{overlap}");
    }
    let path = data_dir.join("keys/token.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&path).unwrap();
    let secret: Value = serde_json::from_str(&secret).unwrap();
    let secret = secret["keys"][0]["secret"].as_str().unwrap().to_owned();
    assert!(!text.contains(&secret) && !run(&data_dir, &["key", "list", "--json"]).stdout.contains(&secret));
    let server = Server::serve(&data_dir, &[]);
    let after = token::fetch(&server.connection(), &client);
    assert_ne!(kid(&after), kid(&before));
    for token in [&before, &after] {
        assert_eq!(server.connection().request("GET", "/api/v2/Individual").bearer(token).send().status, 200);
    }
    drop(server.stop().expect_success());
}

#[test]
fn a_weak_key_refuses_the_start_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    drop(run(&data_dir, &["client", "create", "--name", "first"]).expect_success());
    let path = data_dir.join("keys/token.json");
    let serve = || run(&data_dir, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let good = std::fs::read_to_string(&path).unwrap();
    let with_secret = |secret: &[u8]| {
        let mut file: Value = serde_json::from_str(&good).unwrap();
        file["keys"][0]["secret"] = json!(URL_SAFE_NO_PAD.encode(secret));
        std::fs::write(&path, file.to_string()).unwrap();
        URL_SAFE_NO_PAD.encode(secret)
    };
    let weak: [(&[u8], &str); 4] = [
        (b"short", "has 40 bits, at least 256 are required"),
        (&[0; 32], "one byte repeated"),
        (b"changeme-changeme-changeme-changeme-", "the same 9 bytes repeated"),
        (b"a long pass phrase that a person typed", "text of 38 characters"),
    ];
    for (secret, reason) in weak {
        let text = with_secret(secret);
        let refused = serve();
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("keys/token.json") && refused.stderr.contains(reason), "{refused:?}");
        assert!(!refused.stderr.contains(&text), "{refused:?}");
    }
    std::fs::write(&path, &good).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = serve();
    assert!(refused.code == 1 && refused.stderr.contains("may be read by other users (mode 644)"), "{refused:?}");
}
