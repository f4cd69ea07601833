//! One folder of keys for all processes.

use daftar_tests::postgres::{Processes, serve, settings};
use daftar_tests::records::{path, person, reference, with};
use daftar_tests::{Server, process};
use serde_json::json;

#[test]
fn a_token_that_is_signed_with_a_new_key_is_good_on_the_others_at_once() {
    let processes = Processes::start(2);
    let credentials = processes.credentials(0, &["individual:read"]);
    let before = processes.client_of(1, &credentials);
    for number in [0, 1, 0] {
        drop(processes.admin(number).request("POST", "/signing-keys").json(&json!({})).send().expect(201));
        let client = processes.client_of(number, &credentials);
        assert_eq!(processes.at(1 - number, &client).get(&path("Individual", "absent")).status, 404);
    }
    assert_eq!(before.get(&path("Individual", "absent")).status, 404, "tokens of before are good");
    let keys = |number: usize| processes.admin(number).get("/signing-keys").expect(200).text();
    assert_eq!(keys(0), keys(1));
}

#[test]
fn a_decision_of_one_is_repeated_by_the_others_also_under_a_new_key() {
    let processes = Processes::start(2);
    let credentials = processes.credentials(0, &["individual:all", "eligibility:read"]);
    let clients = [0, 1].map(|number| processes.client_of(number, &credentials));
    drop(clients[0].create_individual(&person("1", json!({"active": true}))));
    let body = json!({"expression": "me.active", "subjects": [reference("1")]});
    let mut seals = Vec::new();
    for number in [0, 1, 0] {
        let rotation = json!({"use": "decisions"});
        drop(processes.admin(number).request("POST", "/signing-keys").json(&rotation).send().expect(201));
        let decision = clients[number].evaluate(&body)["decision"].take();
        seals.push(decision["seal"].as_str().unwrap().split_once('.').unwrap().0.to_owned());
        let again = with(body.clone(), json!({"decision": decision}));
        drop(clients[1 - number].post("/Eligibility/$evaluate", &again).expect(200));
        let changed = with(again, json!({"decision": with(decision, json!({"as_of": "2020-01-01"}))}));
        drop(clients[1 - number].post("/Eligibility/$evaluate", &changed).expect(422));
    }
    seals.dedup();
    assert_eq!(seals.len(), 3, "each under the new key: {seals:?}");
}

#[test]
fn a_process_with_other_keys_does_not_start_and_one_with_theirs_does() {
    let processes = Processes::start(1);
    let url = processes.database().url();
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let config = settings(&data_dir, &url, None, "");
    let mut command =
        process::command(&data_dir, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command.arg("--config").arg(config);
    let mut server = Server::begin(command);
    while server.next_line().is_some() {}
    let ended = server.stop();
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("are not those of the register in the database"), "{ended:?}");
    drop(serve(&data_dir, &url, Some(processes.shared_dir()), "").stop());
}
