//! Starts from checkpoints: fast, and with the same responses as from the records.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daftar::columns::checkpoint::CheckpointFolder;
use daftar::domain::change::ChangedRecord;
use daftar::domain::individual::{ACTIVE, IndividualDetails};
use daftar::domain::record::{Record, RecordId, RecordMeta, VersionId};
use daftar_tests::process::{create_client, run};
use daftar_tests::records::{household, person};
use daftar_tests::{Credentials, Finished, Server, token};
use serde_json::{Value, json};

const FROM_CHECKPOINT: &str = "the register was read from its checkpoint";
const FROM_RECORDS: &str = "the register was read from its records";
const QUARANTINED: &str = "is quarantined";

/// A data folder with a client.
struct Register {
    folder: tempfile::TempDir,
    credentials: Credentials,
}

impl Register {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let credentials = create_client(&folder.path().join("data"), &["individual:all", "group:all"]);
        Self { folder, credentials }
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn serve(&self) -> Server {
        Server::serve(&self.data_dir(), &[])
    }

    fn checkpoints(&self) -> Vec<PathBuf> {
        files(&self.data_dir().join("checkpoints"))
    }

    /// Sends a request and returns the body of its response.
    fn send(&self, server: &Server, method: &str, path: &str, body: Option<&Value>) -> Value {
        let token = token::fetch(&server.connection(), &self.credentials);
        let request = server.connection().request(method, &format!("/api/v2{path}")).bearer(&token);
        let request = if let Some(body) = body { request.json(body) } else { request };
        let response = request.send();
        assert!(response.status < 300, "{method} {path}: {}", response.status);
        response.json()
    }

    fn create(&self, server: &Server, numbers: std::ops::RangeInclusive<u32>) {
        for number in numbers {
            let gender = ["urn:iso:std:iso:5218#1", "urn:iso:std:iso:5218#2"][number as usize % 2];
            let name = json!({"family": "Diallo", "given": format!("Zoë{number}")});
            let body = person(&number.to_string(), json!({"name": name, "gender": gender}));
            self.send(server, "POST", "/Individual", Some(&body));
        }
    }

    /// Results of searches of every kind.
    fn responses(&self, server: &Server) -> Vec<Value> {
        let searches = [
            "/Individual?_count=100",
            "/Individual?name=zo",
            "/Individual?gender=urn:iso:std:iso:5218%232&_sort=-name",
            "/Individual?identifier=urn:svc:vocab:id-type%23national_id%7C3",
            "/Individual?active=false",
            "/Individual?group=none",
            "/Group?_count=100",
        ];
        let found = searches.iter().map(|search| self.send(server, "GET", search, None));
        found.map(|found| json!([found["total"], found["data"]])).collect()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()));
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().collect();
    files.sort();
    files
}

#[track_caller]
fn assert_logged(finished: &Finished, expected: &[&str], unexpected: &[&str]) {
    for text in expected {
        assert!(finished.stderr.contains(text), "`{text}` is missing: {}", finished.stderr);
    }
    for text in unexpected {
        assert!(!finished.stderr.contains(text), "`{text}` is there: {}", finished.stderr);
    }
}

#[test]
fn a_server_that_stops_leaves_a_checkpoint_and_the_next_one_starts_from_it() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, 1..=12);
    let group = household("H1", &[("1", "head"), ("2", "spouse")]);
    register.send(&server, "POST", "/Group", Some(&group));
    let before = register.responses(&server);
    assert_eq!(before[0][0], 12);
    assert_logged(&server.stop().expect_success(), &[FROM_RECORDS, "a checkpoint was written"], &[QUARANTINED]);
    assert!(!register.checkpoints().is_empty());

    let server = register.serve();
    assert_eq!(register.responses(&server), before);
    // Changed, new and newly grouped after the checkpoint; then the power is cut.
    register.create(&server, 13..=15);
    let path = "/Individual/urn:svc:vocab:id-type%23national_id%7C3";
    let patch = json!({"active": false, "name": {"family": "Traoré"}});
    let token = token::fetch(&server.connection(), &register.credentials);
    let patched = server.connection().request("PATCH", &format!("/api/v2{path}")).bearer(&token);
    let patched = patched.header("If-Match", "\"1\"");
    let patched = patched.body("application/merge-patch+json", patch.to_string()).send();
    assert_eq!(patched.status, 200);
    register.send(&server, "POST", "/Group", Some(&household("H2", &[("3", "head"), ("14", "spouse")])));
    let after = register.responses(&server);
    assert_eq!((&after[0][0], &after[4][0], &after[6][0]), (&json!(15), &json!(1), &json!(2)));
    server.kill();

    let server = register.serve();
    assert_eq!(register.responses(&server), after);
    let finished = server.stop().expect_success();
    assert_logged(&finished, &[FROM_CHECKPOINT, "a checkpoint was written"], &[FROM_RECORDS, QUARANTINED]);
    let server = register.serve();
    assert_eq!(register.responses(&server), after);
    let finished = server.stop().expect_success();
    assert_logged(&finished, &[FROM_CHECKPOINT], &[FROM_RECORDS, "a checkpoint was written"]);
    assert!(!finished.stderr.contains("Diallo") && !finished.stderr.contains("Zoë"), "{}", finished.stderr);
}

#[test]
fn a_checkpoint_that_is_damaged_or_of_another_register_is_quarantined() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, 1..=6);
    let responses = register.responses(&server);
    drop(server.stop().expect_success());
    let other = Register::new();
    let server = other.serve();
    other.create(&server, 1..=9);
    drop(server.stop().expect_success());

    let mine = register.checkpoints().pop().unwrap();
    let sound = fs::read(&mine).unwrap();
    let mut flipped = sound.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 4;
    let foreign = fs::read(other.checkpoints().pop().unwrap()).unwrap();
    let cases: [(&[u8], &str); 4] = [
        (&flipped, "a checksum does not match"),
        (&sound[..sound.len() - 9], "it is truncated"),
        (&foreign, "it is from the future"),
        (b"", "it is too short"),
    ];
    for (bytes, reason) in cases {
        register.checkpoints().iter().for_each(|file| fs::remove_file(file).unwrap());
        fs::write(&mine, bytes).unwrap();
        let server = register.serve();
        assert_eq!(register.responses(&server), responses, "{reason}");
        assert_logged(&server.stop().expect_success(), &[QUARANTINED, reason, FROM_RECORDS], &[FROM_CHECKPOINT]);
        let aside = mine.with_extension("checkpoint.corrupt");
        assert_eq!(fs::read(aside).unwrap(), bytes, "it is retained for analysis");
    }
    // As many writes as the other register, so that its checkpoint is not from the future.
    let server = register.serve();
    register.create(&server, 7..=20);
    let responses = register.responses(&server);
    drop(server.stop().expect_success());
    register.checkpoints().iter().for_each(|file| fs::remove_file(file).unwrap());
    fs::write(&mine, &foreign).unwrap();
    let server = register.serve();
    assert_eq!(register.responses(&server), responses);
    let finished = server.stop().expect_success();
    assert_logged(&finished, &[QUARANTINED, "it is of another register", FROM_RECORDS], &[FROM_CHECKPOINT]);
}

#[test]
fn a_folder_that_cannot_hold_checkpoints_stops_nothing() {
    let register = Register::new();
    fs::create_dir_all(register.data_dir()).unwrap();
    let folder = register.data_dir().join("checkpoints");
    let _none_yet = fs::remove_dir_all(&folder);
    fs::write(&folder, b"a file stands in the way").unwrap();
    let server = register.serve();
    register.create(&server, 1..=2);
    assert_eq!(register.responses(&server)[0][0], 2);
    assert_logged(&server.stop().expect_success(), &["checkpoints cannot be written"], &["a checkpoint was written"]);
}

/// The problems of a stopped register's checkpoints that `daftar verify` reports, a line each; there must be no others.
#[track_caller]
fn found(register: &Register) -> Vec<String> {
    let reported = run(&register.data_dir(), &["verify"]);
    let lines: Vec<String> = reported.stdout.lines().map(str::to_owned).collect();
    if reported.code == 0 {
        assert!(lines.len() == 1 && lines[0].ends_with("no errors"), "{reported:?}");
        return Vec::new();
    }
    assert!(lines.iter().all(|line| line.starts_with("checkpoints: `checkpoints/")), "{reported:?}");
    lines
}

#[test]
fn verification_of_a_stopped_register_compares_each_checkpoint_with_the_records() {
    let register = Register::new();
    let server = register.serve();
    register.create(&server, 1..=6);
    drop(server.stop().expect_success());
    let reported = run(&register.data_dir(), &["verify", "--json"]).expect_success().json();
    let parts = reported["parts"].as_array().unwrap();
    let checked = parts.iter().find(|part| part["part"] == "checkpoints").unwrap();
    assert_eq!(checked, &json!({"part": "checkpoints", "checked": 6, "findings": 0}));
    // Later writes are applied.
    let server = register.serve();
    register.create(&server, 7..=9);
    register.send(&server, "POST", "/Group", Some(&household("H1", &[("1", "head"), ("7", "spouse")])));
    server.kill();
    assert_eq!(found(&register), Vec::<String>::new());

    // Complete, with valid checksums, but different from the records.
    let folder = CheckpointFolder::open(register.data_dir().join("checkpoints")).unwrap();
    let file = folder.newest_first().unwrap().remove(0).unwrap();
    let (columns, path, sound) = (file.load().unwrap(), file.path.clone(), fs::read(&file.path).unwrap());
    let meta = RecordMeta { version: VersionId(1), last_updated: jiff::Timestamp::UNIX_EPOCH, source: None };
    let details = IndividualDetails::default().with(ACTIVE, false);
    columns.load(&[ChangedRecord::Individual(Arc::new(Record { id: RecordId(2), meta, details }))]);
    folder.write(&columns.image(), file.mark).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let lines = found(&register);
    let start = format!("checkpoints: `checkpoints/{name}`: Individual `urn:svc:vocab:id-type#national_id|2`: ");
    assert!(lines.len() == 1 && lines[0].starts_with(&start), "{lines:?}");
    assert!(lines[0].ends_with("; remove the file: nothing is lost, the next start reads the records themselves"));

    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 4;
    for (bytes, reason) in [
        (flipped.as_slice(), "a checksum does not match"),
        (&sound[..sound.len() - 9], "it is truncated"),
        (b"".as_slice(), "it is too short"),
    ] {
        fs::write(&path, bytes).unwrap();
        let lines = found(&register);
        let start = format!("checkpoints: `checkpoints/{name}`: {reason}; remove the file");
        assert!(lines.len() == 1 && lines[0].starts_with(&start), "{lines:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "verification changes nothing");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(found(&register), Vec::<String>::new());
}
