//! Plugins that one process installs, replaces and removes.

use std::fs;

use daftar_tests::postgres::{Processes, eventually};
use daftar_tests::records::{path, person, reference};
use daftar_tests::{ApiClient, Server, artifacts, packs};
use serde_json::json;

fn version_of(processes: &Processes, number: usize, name: &str) -> Option<String> {
    let plugins = processes.admin(number).get("/plugins").expect(200).json();
    let plugins = plugins["data"].as_array().expect("a list").clone();
    let plugin = plugins.into_iter().find(|plugin| plugin["name"] == name)?;
    plugin["version"].as_str().map(str::to_owned)
}

#[test]
fn a_plugin_is_installed_replaced_and_removed_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let versions = ["1.0.0", "2.0.0"].map(|version| fs::read(packs::build(folder.path(), version, None)).unwrap());
    let mut processes = Processes::start(2);
    for (installs, (version, package)) in ["1.0.0", "2.0.0"].iter().zip(&versions).enumerate() {
        drop(processes.admin(installs).install(package).expect(201));
        for number in [0, 1] {
            eventually("the plugin runs on both", || {
                version_of(&processes, number, "small").as_deref() == Some(version)
            });
        }
    }
    let later = processes.start_one();
    assert_eq!(version_of(&processes, later, "small").as_deref(), Some("2.0.0"), "a process that comes later has it");
    let page = processes.admin(later).metrics();
    assert!(page.contains("daftar_plugins_not_synchronized 0"), "{page}");
    assert_eq!(processes.admin(0).request("DELETE", "/plugins/small").send().status, 204);
    for number in [1, later] {
        eventually("it is gone everywhere", || version_of(&processes, number, "small").is_none());
    }
}

#[test]
fn each_server_judges_the_plugins_of_the_database_by_its_own_policy() {
    let folder = tempfile::tempdir().unwrap();
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let mut processes = Processes::start(2);
    // The second one accepts plugins signed by that key, and no unsigned ones.
    let (_, data_dir) = processes.stop(1);
    let config = data_dir.with_extension("toml");
    let lax = fs::read_to_string(&config).unwrap();
    let trusted = format!("trusted_keys = [\"{}\"]", reported["public_key"].as_str().unwrap());
    fs::write(&config, lax.replace("allow_unsigned = true", &trusted)).unwrap();
    let strict = Server::serve(&data_dir, &["--config", config.to_str().unwrap()]);
    let admin = Server::admin(&data_dir);
    let listed = |which: &str| {
        let plugins = admin.get("/plugins").expect(200).json();
        plugins[which].as_array().unwrap().iter().find(|plugin| plugin["name"] == "small").cloned()
    };
    let unsigned = fs::read(packs::build(folder.path(), "1.0.0", None)).unwrap();
    drop(processes.admin(0).install(&unsigned).expect(201));
    eventually("the strict server says that it does not load it", || listed("unloaded").is_some());
    let reason = listed("unloaded").unwrap()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("step `signature`") && listed("data").is_none(), "{reason}");
    assert_eq!(version_of(&processes, 0, "small").as_deref(), Some("1.0.0"));
    let audited = || {
        let lines = processes.admin(0).get("/audit?action=plugin&_count=1000").expect(200).json()["data"].clone();
        let lines = lines.as_array().unwrap().iter().map(|line| (line["outcome"].clone(), line["note"].to_string()));
        lines.filter(|(_, note)| note.contains("taken over from the database")).collect::<Vec<_>>()
    };
    eventually("it is audited", || {
        audited().iter().any(|(outcome, note)| outcome == "refused" && note.contains("not signed"))
    });
    let page = admin.metrics();
    assert!(!page.contains("daftar_plugins_not_synchronized 0"), "{page}");

    let signed = packs::build(folder.path(), "1.1.0", Some(&key));
    let installed =
        daftar_tests::postgres::run(processes.data_dir(0), &["plugin", "install", signed.to_str().unwrap()]);
    drop(installed.expect_success());
    eventually("the strict server takes over what its key signed", || {
        listed("data").is_some_and(|plugin| plugin["version"] == "1.1.0")
    });
    assert!(listed("data").unwrap()["signer"].as_str().unwrap().starts_with("key "));
    let log = strict.stop().expect_success().stderr;
    assert!(log.contains("cannot be applied") && log.contains("small"), "{log}");
}

/// Installs language tags, and a module with a field for them. Returns a client of each of two servers.
fn speech(processes: &Processes, scopes: &[&str]) -> [ApiClient; 2] {
    let settings = r#"
name = "speech"
version = "1.0.0"
description = "What people speak."
licence = "CC0-1.0"

[[extension_field]]
path = "speech.language"
type = "coded"
vocabulary = "urn:ietf:bcp:47"

[[vocabulary]]
namespace = "urn:test:speech"
name = "Speech"
domain = "Core"
version = "1"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "s.tsv"
count = 1
"#;
    let tags = fs::read(artifacts::module("language-tag")).unwrap();
    let speech = crate::deployment::build(settings, &[("s.tsv", "code\na\n", "code\tlabel\na\tA\n")]);
    for package in [&tags, &speech] {
        drop(processes.admin(0).install(package).expect(201));
    }
    let credentials = processes.credentials(0, scopes);
    let clients = [0, 1].map(|number| processes.client_of(number, &credentials));
    for namespace in ["urn:ietf:bcp:47", "urn:test:speech"] {
        eventually("both servers publish it", || clients[1].get(&format!("/Vocabulary/{namespace}")).status == 200);
    }
    clients
}

#[test]
fn a_rule_knows_a_code_that_another_server_has_just_numbered() {
    let processes = Processes::start(2);
    let [writer, reader] = speech(&processes, &["individual:all", "eligibility:read", "vocabulary:read"]);
    for number in 0..16 {
        let tag = |language: &str| format!("urn:ietf:bcp:47#{language}-x-n{number}");
        let extension = json!({"extension": {"speech": {"language": tag("fr")}}});
        drop(writer.post("/Individual", &person(&number.to_string(), extension)).expect(201));
        let french = "descends_from(me.extension.speech.language, 'urn:ietf:bcp:47#fr')".to_owned();
        let arabic = format!("me.extension.speech.language == code('{}')", tag("ar"));
        let mut rules = [(french.clone(), "eligible"), (arabic, "not_eligible")];
        // The server may have the code after the first of the requests.
        rules.rotate_left(number % 2);
        if number % 4 > 1 {
            let preview = reader.post("/Eligibility/$preview", &json!({"expression": french})).expect(200).json();
            assert_eq!(preview["eligible"], number + 1, "{preview}");
        }
        for (expression, expected) in rules {
            let body = json!({"expression": expression, "subjects": [reference(&number.to_string())]});
            let response = reader.evaluate(&body);
            assert_eq!(response["results"][0]["outcome"], expected, "{number}: {response}");
        }
    }
}

#[test]
fn two_servers_bring_new_codes_of_an_open_vocabulary_at_the_same_time() {
    let processes = Processes::start(2);
    let clients = speech(&processes, &["individual:all", "vocabulary:read"]);
    let tag = |server: usize, number: usize| format!("urn:ietf:bcp:47#en-x-s{server}n{number}");
    std::thread::scope(|scope| {
        for (server, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..12 {
                    let extension = json!({"extension": {"speech": {"language": tag(server, number)}}});
                    let created = client.post("/Individual", &person(&format!("{server}-{number}"), extension));
                    assert_eq!(
                        created.expect(201).json()["extension"]["speech"]["language"]["uri"],
                        tag(server, number)
                    );
                }
            });
        }
    });
    for (server, number) in (0..2).flat_map(|server| (0..12).map(move |number| (server, number))) {
        for client in &clients {
            eventually("each server shows each code", || {
                let record = client.get(&path("Individual", &format!("{server}-{number}"))).expect(200).json();
                record["extension"]["speech"]["language"]["uri"] == tag(server, number)
            });
        }
    }
    // A rejected one gets no number: the share of the client is the codes of its records.
    let refused = json!({"extension": {"speech": {"language": "urn:ietf:bcp:47#en-x-refused"}}});
    drop(clients[1].post("/Individual", &person("0-0", refused)).expect(409));
    let share = processes.database().sql("SELECT value FROM daftar.counter WHERE starts_with(name, 'open/')");
    assert_eq!(share.trim(), "24", "{share}");
}
