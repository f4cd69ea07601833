//! One folder of keys for all processes.

use daftar_tests::postgres::{Processes, serve, settings};
use daftar_tests::records::path;
use daftar_tests::{Server, process};

#[test]
fn a_token_that_is_signed_with_a_new_key_is_good_on_the_others_at_once() {
    let processes = Processes::start(2);
    let credentials = processes.credentials(0, &["individual:read"]);
    let before = processes.client_of(1, &credentials);
    for number in [0, 1, 0] {
        drop(processes.admin(number).request("POST", "/signing-keys").json(&serde_json::json!({})).send().expect(201));
        let client = processes.client_of(number, &credentials);
        assert_eq!(processes.at(1 - number, &client).get(&path("Individual", "nobody")).status, 404);
    }
    assert_eq!(before.get(&path("Individual", "nobody")).status, 404, "tokens of before are good");
    let keys = |number: usize| processes.admin(number).get("/signing-keys").expect(200).text();
    assert_eq!(keys(0), keys(1));
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
    drop(serve(&data_dir, &url, Some(processes.common_dir()), "").stop());
}
