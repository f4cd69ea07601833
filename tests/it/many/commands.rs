//! Commands where the records are in a database.

use std::path::Path;

use daftar_tests::postgres::{self, Database, Processes, eventually, run};
use daftar_tests::process::Finished;
use daftar_tests::records::{FEMALE, NATIONAL_ID, household, path, person, reference};
use daftar_tests::{ApiClient, Server, token};
use serde_json::{Value, json};

#[test]
fn a_backup_of_any_process_is_whole_and_commands_work_as_on_a_folder() {
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

    let verified = run(&data_dir, &["verify", "--json"]).expect_success().json();
    assert_eq!(
        (&verified["valid"], &verified["listed"]),
        (&json!(true), &json!([])),
        "of a running server: {verified}"
    );
    // The folder of a server is not empty, and its database neither.
    let refused = run(&data_dir, &["restore", file]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("a backup is restored into an empty folder"), "{refused:?}");
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

/// A register in a database, with one of everything that belongs together, and a backup of it; its servers have
/// stopped.
fn backed_up(folder: &Path) -> (Processes, daftar_tests::Credentials, String) {
    let mut processes = Processes::start(1);
    let scopes = ["individual:all", "group:all", "program:all", "program_membership:all"];
    let credentials = processes.credentials(0, &scopes);
    let client = processes.client_of(0, &credentials);
    for number in ["1", "2"] {
        drop(client.create_individual(&person(number, json!({"gender": FEMALE, "name": {"given": "Amina"}}))));
    }
    let patch = json!({"identifier": [
        {"system": NATIONAL_ID, "value": "2-new"}, {"system": NATIONAL_ID, "value": "2", "period": {"end": "2026-01-01"}},
    ]});
    drop(client.request("PATCH", &path("Individual", "2")).json(&patch).send().expect(200));
    drop(client.create_group(&household("H", &[("1", "head"), ("2-new", "spouse")])));
    let program = json!({
        "identifier": [{"system": NATIONAL_ID, "value": "P"}], "name": "Program", "target_type": "individual",
    });
    drop(processes.admin(0).request("POST", "/programs").json(&program).send().expect(201));
    let enrolled = json!({
        "program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference("1"), "status": "enrolled",
    });
    drop(client.post("/ProgramMembership", &enrolled).expect(201));
    let file = folder.join("register.daftar").to_str().expect("a path is UTF-8").to_owned();
    drop(run(processes.data_dir(0), &["backup", &file]).expect_success());
    assert_eq!(processes.stop(0).0.code, 0);
    (processes, credentials, file)
}

#[test]
fn a_backup_is_restored_into_an_empty_database_and_served_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let (_processes, credentials, file) = backed_up(folder.path());
    let database = Database::shared();
    let restored = folder.path().join("restored");
    let _config = postgres::settings(&restored, &database.url(), None, "");

    // A backup that was cut off leaves an empty database, and a folder that no server opens.
    let whole = std::fs::read(&file).unwrap();
    let cut = folder.path().join("cut.daftar");
    std::fs::write(&cut, &whole[..whole.len() * 2 / 3]).unwrap();
    let refused = run(&restored, &["restore", cut.to_str().unwrap()]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_eq!(database.sql("SELECT count(*) FROM daftar.record").trim(), "0");
    assert!(restored.join("restore.unfinished").exists());
    let refused = run(&restored, &["restore", &file]);
    assert!(refused.code != 0 && refused.stderr.contains("was not finished"), "{refused:?}");
    std::fs::remove_dir_all(&restored).unwrap();

    let reported = run(&restored, &["restore", &file, "--json"]).expect_success().json();
    assert_eq!((&reported["findings"], &reported["has_keys"]), (&json!(0), &json!(true)), "{reported}");
    assert!(!restored.join("restore.unfinished").exists());
    assert!(!restored.join("store").exists(), "no register is in the folder");
    let other = folder.path().join("other");
    let _config = postgres::settings(&other, &database.url(), None, "");
    let again = run(&other, &["restore", &file]);
    assert!(again.code != 0 && again.stderr.contains("holds a register"), "{again:?}");
    assert!(!other.exists(), "nothing was made");

    let server = postgres::serve(&restored, &database.url(), None, "");
    let issued = token::fetch(&server.connection(), &credentials);
    let client = ApiClient::new(server.connection(), credentials, issued);
    assert_eq!(client.get(&path("Individual", "2-new")).expect(200).json()["name"]["given"], "Amina");
    assert_eq!(client.get(&path("Group", "H")).expect(200).json()["member"].as_array().map(Vec::len), Some(2));
    assert_eq!(client.get("/Individual?name=amina").expect(200).json()["total"], 2);
    drop(client.create_individual(&person("3", json!({}))));
    assert_eq!(server.stop().code, 0);
    drop(run(&restored, &["verify"]).expect_success());
}

fn findings(reported: &Finished) -> Vec<String> {
    let listed = reported.json()["listed"].as_array().cloned().unwrap_or_default();
    listed
        .iter()
        .map(|found: &Value| {
            format!("{}: {}: {}", text(&found["part"]), text(&found["place"]), text(&found["problem"]))
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn every_fault_in_a_database_is_found_and_named_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let (_processes, _, file) = backed_up(folder.path());
    let cases = [
        ("SELECT 1", vec![]),
        (
            "DELETE FROM daftar.identifier WHERE value = '1'",
            vec![
                "identifiers: Individual `urn:svc:vocab:id-type#national_id|1`: it is not indexed by its identifier of system",
            ],
        ),
        (
            "DELETE FROM daftar.earlier_version",
            vec!["history: Individual `urn:svc:vocab:id-type#national_id|2-new`: version 1 is missing"],
        ),
        (
            "DELETE FROM daftar.open_membership",
            vec!["open_memberships: ProgramMembership number 1: it is enrolled, but indexed as not open"],
        ),
        (
            "UPDATE daftar.search_individual SET birth_date = '1970-01-02' WHERE id = 1",
            vec![
                "indexes: Individual `urn:svc:vocab:id-type#national_id|1`: the rows that searches read differ from the record",
            ],
        ),
        (
            "DELETE FROM daftar.search_member WHERE place = 1",
            vec![
                "indexes: Group `urn:svc:vocab:id-type#national_id|H`: the rows that searches read differ from the record",
            ],
        ),
        (
            "UPDATE daftar.record SET value = value - 'meta' WHERE kind = 2",
            vec!["records: Group number 1: the stored group cannot be read"],
        ),
        (
            "UPDATE daftar.last SET consent = 7",
            vec!["files: the row of last numbers: its last number of Consent is 7, but the last one is 0"],
        ),
    ];
    for (number, (damage, expected)) in cases.into_iter().enumerate() {
        let database = Database::shared();
        let data_dir = folder.path().join(format!("damaged-{number}"));
        let _config = postgres::settings(&data_dir, &database.url(), None, "");
        drop(run(&data_dir, &["restore", &file]).expect_success());
        drop(database.sql(damage));
        let reported = run(&data_dir, &["verify", "--json"]);
        let found = findings(&reported);
        assert_eq!(found.len(), expected.len(), "{damage}: {reported:?}");
        assert!(
            found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected)),
            "{damage}: {found:?}"
        );
        assert_eq!(reported.code, i32::from(!expected.is_empty()), "{damage}: {reported:?}");
    }
}

#[test]
fn a_register_goes_from_a_database_into_a_folder_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let (_processes, credentials, file) = backed_up(folder.path());
    let (first, second) = (Database::shared(), Database::shared());
    let (data_dir, back) = (folder.path().join("first"), folder.path().join("back"));
    let _config = postgres::settings(&data_dir, &first.url(), None, "");
    drop(run(&data_dir, &["restore", &file]).expect_success());
    let _config = postgres::settings(&back, &first.url(), None, "");
    let out = run(&back, &["migrate", "fill", "--to", "sled", "--json"]).expect_success().json();
    assert_eq!((&out["differences"], &out["copied"]["individuals"]), (&json!(0), &json!(2)), "{out}");
    drop(run(&back, &["migrate", "compare"]).expect_success());
    drop(daftar_tests::process::run(&back, &["verify"]).expect_success());
    let _config = postgres::settings(&back, &second.url(), None, "");
    let again = run(&back, &["migrate", "fill", "--to", "postgres", "--json"]).expect_success().json();
    assert_eq!((&again["differences"], &again["copied"]), (&json!(0), &out["copied"]), "{again}");
    drop(run(&back, &["verify"]).expect_success());
    super::moved::copy_keys(&data_dir, &back);
    let server: Server = postgres::serve(&back, &second.url(), None, "");
    let issued = token::fetch(&server.connection(), &credentials);
    let client = ApiClient::new(server.connection(), credentials, issued);
    assert_eq!(client.get(&path("Individual", "1")).expect(200).json()["name"]["given"], "Amina");
    assert_eq!(server.stop().code, 0);
}

#[test]
fn a_backup_through_one_server_is_reported_by_all() {
    const LAST: &str = "daftar_backup_last_timestamp_seconds";
    let processes = Processes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let _made = run(processes.data_dir(0), &["backup", file.to_str().unwrap()]).expect_success();
    let reported = |number| {
        let page = processes.admin(number).metrics();
        page.lines().any(|line| line.starts_with(LAST))
    };
    eventually("the server that made it reports it", || reported(0));
    eventually("the other server reports it", || reported(1));
}
