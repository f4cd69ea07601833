//! A restored register equals the one that was backed up.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use daftar_tests::process::run;
use daftar_tests::records::{NATIONAL_ID, path, person, reference, with};
use daftar_tests::{ApiClient, TestApp, template, token};
use serde_json::json;

use super::*;
use crate::program;

/// Requests of the tests to a register, with its responses.
fn responses(client: &ApiClient, admin: &Admin) -> Vec<(String, u16, String)> {
    let mut requested: Vec<String> = (0..8).map(|number| path("Individual", &number.to_string())).collect();
    requested.extend(
        ["/Individual?_count=100&_sort=-birth_date", "/Individual?name=family3", "/Group", "/Program"]
            .map(str::to_owned),
    );
    requested.extend([path("Group", "H"), format!("{}/membership-history", path("Group", "H")), path("Program", "P")]);
    requested.extend([format!("{}/groups", path("Individual", "1")), "/ProgramMembership".to_owned()]);
    requested.extend(["/Vocabulary", "/Vocabulary/urn:svc:vocab:id-type/codes"].map(str::to_owned));
    let mut responses = Vec::new();
    for requested in requested {
        let response = client.get(&requested);
        // The address of the server is not part of a register.
        let text = response.text().replace(&client.connection().url(), "");
        // Each rejection has an id of its own.
        let text = if response.status == 200 { text } else { response.json()["detail"].to_string() };
        responses.push((requested, response.status, text));
    }
    for requested in ["/clients", "/local-codes", "/identifier-systems", "/consents", "/programs", "/concept-groups"] {
        let response = admin.get(requested);
        responses.push((requested.to_owned(), response.status, response.text()));
    }
    for name in admin.plugin_names() {
        let plugin = admin.get(&format!("/plugins/{name}")).expect(200).json();
        responses.push((name, 200, plugin["digest"].to_string()));
    }
    responses
}

/// The records with their keys, by which reporting tables are joined.
fn keyed_records(admin: &Admin) -> Vec<Value> {
    let lines = admin.get("/export?meta=true&keys=true").expect(200).lines();
    lines.into_iter().filter(|line| line.get("$export").is_none()).collect()
}

#[test]
fn a_restored_register_answers_as_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("register.daftar");
    let mut app = TestApp::start();
    let admin = app.admin();
    let client = furnish(&app);
    // One of each kind: a photo that was replaced, a name that changed, an identifier that ended, a program with a
    // member, local codes, identifier systems, a client that is disabled, a plugin that was removed.
    let send = |method: &str, target: &str, body: Value| client.request(method, target).json(&body).send();
    for photo in [vec![1_u8; 300_000], vec![2; 5]] {
        drop(send("PATCH", &path("Individual", "1"), json!({"photo": BASE64.encode(photo)})).expect(200));
    }
    drop(send("PATCH", &path("Individual", "2"), json!({"name": {"family": "Renamed"}})).expect(200));
    let ended = json!([{"system": NATIONAL_ID, "value": "3", "period": {"end": "2026-01-01"}}, {"system": NATIONAL_ID, "value": "33"}]);
    drop(send("PATCH", &path("Individual", "3"), json!({"identifier": ended})).expect(200));
    program::create(&app, "P", json!({}));
    let membership =
        json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference("1"), "status": "enrolled"});
    drop(client.post("/ProgramMembership", &membership).expect(201));
    let code = json!({"code": "urn:svc:vocab:id-type#farmer_id", "labels": {"en": "Farmer ID"}});
    drop(admin.request("POST", "/local-codes").json(&code).send().expect(201));
    drop(
        admin.request("POST", "/identifier-systems").json(&json!({"uri": "https://example.org/id"})).send().expect(201),
    );
    let disabled = app.client(&["individual:read"]);
    admin.disable(disabled.id());
    drop(admin.request("DELETE", "/plugins/religion?force=true").send().expect(204));

    // Decisions under two keys, the older of which was replaced.
    let judge = app.client(&["individual:read", "eligibility:read"]);
    let question = json!({"expression": "has(me.name)", "subjects": [reference("1"), reference("2")]});
    let decide = || {
        let response = judge.post("/Eligibility/$evaluate", &question).expect(200);
        (with(question.clone(), json!({"decision": response.json()["decision"]})), response.text())
    };
    let mut decided = vec![decide()];
    drop(admin.request("POST", "/signing-keys").json(&json!({"use": "decisions"})).send().expect(201));
    decided.push(decide());
    let reported = back_up(app.data_dir(), &file, &[]).expect_success().json();
    let expected = json!({"individuals": 6, "groups": 1, "programs": 1, "program_memberships": 1, "consents": 0});
    for (name, count) in expected.as_object().unwrap() {
        assert_eq!(reported["counts"].get(name).unwrap_or(&json!(0)), count, "{name}: {reported}");
    }
    let before = responses(&client, &admin);
    let lines = audit_lines(&admin);
    let keyed = keyed_records(&admin);
    assert!(keyed.len() == 9 && keyed.iter().all(|record| record["key"].is_u64()), "{keyed:?}");
    app.stop();

    let other = TestApp::builder().prepared(|data_dir| {
        let restored = restore(data_dir, &file).expect_success().json();
        assert_eq!((&restored["checksum"], &restored["has_keys"]), (&reported["checksum"], &json!(true)), "{restored}");
        assert!(!data_dir.join("restore.unfinished").exists());
        assert!(!data_dir.join("admin.token").exists(), "the token of the administrator belongs to the machine");
        template::copy_compiled_to(data_dir);
    });
    let other = other.start();
    // The token issued by the old server is valid, and so is the secret.
    let again = ApiClient::new(other.anonymous(), client.credentials().clone(), client.token().to_owned());
    let after = responses(&again, &other.admin());
    assert_eq!(after.len(), before.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after, before);
    }
    assert_eq!(keyed_records(&other.admin()), keyed);
    let _token = token::fetch(&other.anonymous(), client.credentials());
    let old = ApiClient::new(other.anonymous(), disabled.credentials().clone(), disabled.token().to_owned());
    assert_eq!(old.get(&path("Individual", "1")).status, 401, "disabled still");
    assert!(!other.admin().plugin_names().contains(&"religion".to_owned()), "removed still");
    // Every entry up to the backup is present, and comes first.
    let stored = audit_lines(&other.admin());
    let is_backup = |line: &&Value| line["records"] == json!(["backup"]);
    let up_to_backup: Vec<_> = lines.iter().skip_while(|line| !is_backup(line)).skip(1).collect();
    assert!(
        up_to_backup.len() > 10 && stored.iter().rev().take(up_to_backup.len()).eq(up_to_backup.iter().rev().copied())
    );
    let judge = other.client_of(judge.credentials());
    for (question, response) in decided {
        assert_eq!(judge.post("/Eligibility/$evaluate", &question).expect(200).text(), response);
    }
    // It is usable: rules run, and new writes get versions and keys of its own.
    let client = other.client_of(client.credentials());
    drop(client.post("/Individual", &person("new", json!({}))).expect(201));
    drop(client.post("/Individual", &person("33", json!({}))).expect(409));
    drop(client.post("/Individual", &person("3", json!({}))).expect(201));
}

#[test]
fn a_backup_of_nothing_is_restored_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("register.daftar");
    let app = TestApp::start();
    let reported = back_up(app.data_dir(), &file, &[]).expect_success().json();
    assert_eq!((&reported["counts"].get("individuals"), &reported["sequence"].is_u64()), (&None, &true), "{reported}");
    let other = TestApp::builder().prepared(|data_dir| {
        drop(restore(data_dir, &file).expect_success());
        template::copy_compiled_to(data_dir);
    });
    let other = other.start();
    let client = other.client(&["individual:all"]);
    assert_eq!(client.get("/Individual").expect(200).json()["total"], 0);
    drop(client.post("/Individual", &person("1", json!({}))).expect(201));
}

#[test]
fn a_stopped_server_is_backed_up_too() {
    let folder = tempfile::tempdir().unwrap();
    let (running, stopped) = (folder.path().join("running.daftar"), folder.path().join("stopped.daftar"));
    let mut app = TestApp::start();
    drop(furnish(&app));
    let one = back_up(app.data_dir(), &running, &[]).expect_success().json();
    app.stop();
    let other = back_up(app.data_dir(), &stopped, &[]).expect_success().json();
    for name in ["individuals", "groups", "changes", "clients", "keys", "older_versions"] {
        assert_eq!(one["counts"].get(name), other["counts"].get(name), "{name}");
    }
    drop(check(&stopped).expect_success());
}

#[test]
fn without_keys_the_old_ones_are_placed_next_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("register.daftar");
    let mut app = TestApp::start();
    let client = furnish(&app);
    let reported = back_up(app.data_dir(), &file, &["--without-keys"]).expect_success().json();
    assert_eq!((&reported["keys"], reported["counts"].get("keys")), (&json!(false), None));
    app.stop();
    let bytes = std::fs::read(&file).unwrap();
    let key: Value = serde_json::from_slice(&std::fs::read(app.data_dir().join("keys/token.json")).unwrap()).unwrap();
    let secret = key["keys"][0]["secret"].as_str().unwrap().as_bytes().to_vec();
    assert!(!bytes.windows(secret.len()).any(|window| window == secret));

    let data_dir = folder.path().join("bare");
    let restored = restore(&data_dir, &file).expect_success().json();
    assert_eq!(restored["has_keys"], false);
    let refused = run(&data_dir, &["client", "list"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("the key for client secrets is gone"), "{refused:?}");

    let keys = app.data_dir().join("keys");
    let other = TestApp::builder().prepared(|data_dir| {
        let target = data_dir.join("keys");
        std::fs::create_dir_all(data_dir).unwrap();
        std::fs::rename(&keys, &target).unwrap();
        let restored = restore(data_dir, &file).expect_success().json();
        assert_eq!(restored["has_keys"], true);
        template::copy_compiled_to(data_dir);
    });
    let other = other.start();
    assert_eq!(other.client_of(client.credentials()).get("/Individual").expect(200).json()["total"], 6);
}
