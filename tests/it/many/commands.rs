//! Commands where the records are in a database.

use daftar_tests::postgres::{Processes, run};
use daftar_tests::records::{FEMALE, NATIONAL_ID, path, person};
use serde_json::json;

#[test]
fn a_backup_of_any_process_is_whole_and_what_a_database_does_by_itself_is_refused() {
    let mut processes = Processes::start(2);
    let credentials = processes.credentials(0, &["individual:all"]);
    let client = processes.client_of(0, &credentials);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE}))));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("register.daftar");
    let file = file.to_str().unwrap();
    let data_dir = processes.data_dir(1).to_owned();
    drop(run(&data_dir, &["backup", file]).expect_success());
    drop(run(&data_dir, &["backup", file, "--check"]).expect_success());

    let refused = run(&data_dir, &["verify"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("pg_amcheck"), "{refused:?}");
    let refused = run(&data_dir, &["restore", file]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("daftar migrate"), "{refused:?}");
    let looked = run(&data_dir, &["doctor", "--json"]);
    assert!(looked.stdout.contains("changes by other processes are heard of"), "{looked:?}");

    // Into a folder it can be put back, and served from there.
    let restored = folder.path().join("restored");
    drop(daftar_tests::process::run(&restored, &["restore", file]).expect_success());
    let server = daftar_tests::Server::serve(&restored, &[]);
    let token = daftar_tests::token::fetch(&server.connection(), &credentials);
    let client = daftar_tests::ApiClient::new(server.connection(), credentials.clone(), token);
    assert_eq!(client.get(&path("Individual", "1")).expect(200).json()["identifier"][0]["system"], NATIONAL_ID);
    drop(server.stop());

    // A command opens the database by itself where no server answers for the folder.
    let (stopped, data_dir) = processes.stop(1);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let listed = run(&data_dir, &["client", "list", "--json"]).expect_success();
    assert!(listed.stdout.contains(&credentials.id), "{listed:?}");
    processes.start_again(1, data_dir);
    assert_eq!(processes.at(1, &processes.client_of(1, &credentials)).get(&path("Individual", "1")).status, 200);
}
