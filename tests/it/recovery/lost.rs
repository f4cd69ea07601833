//! Keys, checkpoints or the newest state of the store are lost.

use daftar_tests::process::run;
use daftar_tests::{Credentials, Server, token};

use super::{Register, assert_reported, copy, names};

const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

fn status(server: &Server, token: &str) -> u16 {
    server.connection().request("GET", "/api/v2/Individual").bearer(token).send().status
}

/// The folder `keys` is lost, and a copy of it exists.
///
/// 1. The server does not start, says that the key is gone, and creates no other.
/// 2. Put the copy of `keys` into the data folder, with its mode.
/// 3. Start the server: secrets and tokens from before are valid.
#[test]
fn a_lost_key_folder_is_put_back_from_its_copy() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, &["1"]);
    let before = register.token(&server);
    drop(server.stop().expect_success());
    let (keys, stored) = (register.data_dir().join("keys"), register.folder.path().join("stored"));
    std::fs::rename(&keys, &stored).unwrap();

    let refused = run(&register.data_dir(), &SERVE);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_reported(&refused, &["the key for client secrets is gone", "put `keys` back from a backup"]);
    assert!(!keys.exists() || names(&keys).is_empty(), "no other key is created");
    assert_ne!(run(&register.data_dir(), &["client", "list"]).code, 0);

    copy(&stored, &keys);
    let server = register.serve();
    assert_eq!(status(&server, &before), 200, "a token from before is valid");
    assert_eq!(register.statuses(&server, ["1"]), [200]);
    drop(server.stop().expect_success());
}

/// The folder `keys` is lost, and no copy exists. The records are not encrypted and stay readable; every secret and token
/// is lost.
///
/// 1. Create keys: start another server in an empty folder and stop it.
/// 2. Put its `keys` into the data folder, and start the server.
/// 3. `daftar client rotate-secret` for each client, and hand the new secrets out.
#[test]
fn without_a_copy_of_the_keys_every_client_gets_a_new_secret() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, &["1"]);
    let before = register.token(&server);
    drop(server.stop().expect_success());
    let (keys, other) = (register.data_dir().join("keys"), register.folder.path().join("other"));
    std::fs::remove_dir_all(&keys).unwrap();

    drop(Server::serve(&other, &[]).stop().expect_success());
    copy(&other.join("keys"), &keys);
    let server = register.serve();
    assert_eq!(status(&server, &before), 401, "a token of the lost key");
    let request = server.connection().request("POST", token::PATH);
    let request = request.header("Authorization", token::basic(&register.credentials.id, &register.credentials.secret));
    assert_eq!(request.body(token::FORM, "grant_type=client_credentials").send().status, 401);
    let rotated = run(&register.data_dir(), &["client", "rotate-secret", &register.credentials.id, "--json"]);
    let rotated = rotated.expect_success().json();
    let secret = rotated["client_secret"].as_str().unwrap().to_owned();
    let id = register.credentials.id.clone();
    let register = Register { credentials: Credentials { id, secret }, ..register };
    assert_eq!(register.statuses(&server, ["1"]), [200]);
    drop(server.stop().expect_success());
    drop(run(&register.data_dir(), &["verify"]).expect_success());
}

/// The folder `checkpoints` is lost: nothing has to be done. The next start reads the records, which takes longer, and
/// writes a checkpoint.
#[test]
fn lost_checkpoints_are_written_again() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, &["1", "2"]);
    drop(server.stop().expect_success());
    let checkpoints = register.data_dir().join("checkpoints");
    assert!(!names(&checkpoints).is_empty());
    std::fs::remove_dir_all(&checkpoints).unwrap();
    let server = register.serve();
    assert_eq!(register.statuses(&server, ["1", "2", "3"]), [200, 200, 404]);
    let stopped = server.stop().expect_success();
    assert_reported(&stopped, &["the register was read from its records", "a checkpoint was written"]);
    assert!(!names(&checkpoints).is_empty());
    drop(run(&register.data_dir(), &["verify"]).expect_success());
}

/// The folder `store` is replaced by an older copy of it, for example from a snapshot of the disk: the writes since then
/// are lost. The checkpoints are of the newer state.
///
/// 1. Stop the server, and put the complete older folder `store` in place; leave the other folders.
/// 2. Start the server: it quarantines the newer checkpoints and reads the records.
/// 3. `daftar verify` finds nothing; writes continue.
#[test]
fn an_older_store_is_served_without_the_newer_checkpoints() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, &["old"]);
    drop(server.stop().expect_success());
    let (store, older) = (register.data_dir().join("store"), register.folder.path().join("older"));
    copy(&store, &older);
    let server = register.serve();
    register.create(&server, &["lost-1", "lost-2", "lost-3"]);
    drop(server.stop().expect_success());

    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&older, &store).unwrap();
    let server = register.serve();
    assert_eq!(register.statuses(&server, ["old", "lost-1"]), [200, 404]);
    // As many writes as were lost, and more: their numbers are used again.
    register.create(&server, &["lost-1", "new-1", "new-2", "new-3", "new-4"]);
    let stopped = server.stop().expect_success();
    assert_reported(&stopped, &["is quarantined"]);
    drop(run(&register.data_dir(), &["verify"]).expect_success());
    let server = register.serve();
    assert_eq!(register.statuses(&server, ["old", "lost-1", "lost-2", "new-4"]), [200, 200, 404, 200]);
    drop(server.stop().expect_success());
}
