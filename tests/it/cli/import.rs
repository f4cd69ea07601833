//! `daftar import`, on a running and on a stopped server.

mod interrupted;
mod kill;
mod openspp;
mod relationships;
mod table;

use std::path::{Path, PathBuf};

use daftar_tests::TestApp;
use daftar_tests::process::{Finished, run};
use daftar_tests::records::{FEMALE, HOUSEHOLD, NATIONAL_ID, ROLE, household, person, reference, with};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The exit code of an import with rejected lines.
pub const REJECTS: i32 = 3;

/// Imports a file, and returns the output of the command.
pub fn import(data_dir: &Path, file: &Path, more: &[&str]) -> Finished {
    run(data_dir, &[&["import", file.to_str().unwrap(), "--json"], more].concat())
}

/// A file of lines.
pub fn lines(folder: &Path, name: &str, lines: &[Value]) -> PathBuf {
    let path = folder.join(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    path
}

/// The rejects of an import, each with its line and the fields and kinds of faults.
pub fn rejects(file: &Path) -> Vec<(u64, Vec<(String, String)>)> {
    let text = std::fs::read_to_string(format!("{}.rejects.ndjson", file.display())).unwrap();
    let read = text.lines().map(|line| {
        let reject: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let errors = reject["errors"].as_array().unwrap().iter();
        let errors = errors.map(|error| {
            assert!(!text(&error["message"]).is_empty());
            (text(&error["field"]), text(&error["code"]))
        });
        (reject["line"].as_u64().unwrap(), errors.collect())
    });
    read.collect()
}

/// A line of that type.
pub fn of_type(kind: &str, body: Value) -> Value {
    with(body, json!({"type": kind}))
}

fn individual(id: &str, more: Value) -> Value {
    of_type("Individual", person(id, more))
}

fn counts(finished: &Finished) -> [u64; 5] {
    let reported = finished.json();
    ["read", "created", "updated", "skipped", "rejected"].map(|name| reported[name].as_u64().unwrap())
}

/// Every kind of record, and every kind of rejection.
fn a_file(folder: &Path) -> PathBuf {
    let path = lines(
        folder,
        "all.ndjson",
        &[
            individual("1", json!({"gender": FEMALE, "name": {"given": "Asha"}})),
            individual("2", json!({"birth_date": "1990-03-07"})),
            of_type("Group", household("G1", &[("1", "head"), ("2", "child")])),
            of_type("Program", with(person("P1", json!({"name": "Pension", "target_type": "individual"})), json!({}))),
            of_type(
                "ProgramMembership",
                json!({
                    "program": format!("Program/{NATIONAL_ID}|P1"), "beneficiary": reference("1"),
                    "status": "enrolled", "enrollment_date": "2026-01-02"
                }),
            ),
            of_type(
                "Consent",
                json!({
                    "consent_id": "123e4567-e89b-42d3-a456-426614174000", "subject": reference("2"), "grantee": "M",
                    "effective_date": "2026-01-01", "scopes": ["individual"]
                }),
            ),
            // Rejected from here on.
            individual("1", json!({})),
            individual("3", json!({"gender": "urn:iso:std:iso:5218#99", "birthdate": "2000-01-01"})),
            of_type("Group", household("G2", &[("4", "head")])),
            individual("4", json!({})),
            json!({"identifier": []}),
            of_type("Household", json!({})),
        ],
    );
    let more = b"not json\n\n{\"type\":\"Individual\",\"active\":true,\"active\":false}\n\xff{}\n";
    let text = [std::fs::read(&path).unwrap().as_slice(), more].concat();
    std::fs::write(&path, text).unwrap();
    path
}

fn imports(data_dir: &Path, folder: &Path) {
    let file = a_file(folder);
    let finished = import(data_dir, &file, &[]);
    assert_eq!(finished.code, REJECTS, "{finished:?}");
    assert_eq!(counts(&finished), [15, 7, 0, 0, 8], "{finished:?}");
    let reported = rejects(&file);
    let codes: Vec<(u64, &str)> = reported.iter().map(|(line, errors)| (*line, errors[0].1.as_str())).collect();
    assert_eq!(
        codes,
        [
            (7, "in_use"),
            (8, "unknown_field"),
            (9, "later_line"),
            (11, "required"),
            (12, "unknown_value"),
            (13, "malformed"),
            (15, "malformed"),
            (16, "malformed"),
        ]
    );
    assert!(!folder.join("all.ndjson.progress.json").exists(), "it has ended");
    // The faults are corrected in the rejects file itself, and that is imported.
    let rejected = folder.join("all.ndjson.rejects.ndjson");
    let text = std::fs::read_to_string(&rejected).unwrap();
    let corrected: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let corrected: Vec<Value> = corrected
        .into_iter()
        .filter(|line: &Value| [8, 9].contains(&line["line"].as_u64().unwrap()))
        .map(|mut line| {
            if line["line"] == 8 {
                line["record"] = individual("3", json!({"gender": FEMALE, "birth_date": "2000-01-01"}));
            }
            line
        })
        .collect();
    let again = lines(folder, "corrected.ndjson", &corrected);
    assert_eq!(counts(&import(data_dir, &again, &[]).expect_success()), [2, 2, 0, 0, 0]);
    assert!(!folder.join("corrected.ndjson.rejects.ndjson").exists(), "nothing was refused");
}

#[test]
fn valid_lines_are_written_and_the_rest_is_reported() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    imports(app.data_dir(), folder.path());
    let client = app.client(&["individual:all", "group:all", "program:read", "program_membership:read"]);
    let person = client.get(&daftar_tests::records::path("Individual", "1")).expect(200).json();
    assert_eq!((&person["gender"]["uri"], &person["name"]["given"]), (&json!(FEMALE), &json!("Asha")));
    assert_eq!(person["meta"]["version_id"], "1");
    let group = client.get(&daftar_tests::records::path("Group", "G1")).expect(200).json();
    assert_eq!((&group["group_type"]["uri"], &group["quantity"]), (&json!(HOUSEHOLD), &json!(2)));
    assert_eq!(group["member"][0]["role"]["uri"], format!("{ROLE}#head"));
    let found = client.get("/Individual?_count=1").expect(200).json();
    assert_eq!(found["total"], 4);
    // Each record has its audit entry, and the import has its own.
    let audit = |more: &str| app.admin().get(&format!("/audit?{more}")).expect(200).json()["data"].clone();
    let created = audit("action=create&actor=administrator&_count=1000");
    assert_eq!(created.as_array().unwrap().len(), 9, "{created}");
    let operation = created[8]["operation"].as_str().unwrap();
    assert_eq!(operation, "POST /admin/v1/import line 1");
    let whole = audit("action=administer&text=lines%20read");
    assert_eq!(whole.as_array().unwrap().len(), 2, "{whole}");
    assert!(whole[1]["note"].as_str().unwrap().contains("15 lines read, 7 created"), "{whole}");
}

#[test]
fn an_import_works_on_the_folder_of_a_stopped_server() {
    let (mut app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    app.stop();
    imports(app.data_dir(), folder.path());
}

#[test]
fn existing_records_are_rejected_skipped_or_replaced_as_requested() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"name": {"given": "Asha"}, "gender": FEMALE}))));
    let file = |name: &str, first: Value| lines(folder.path(), name, &[first, individual("2", json!({}))]);
    let new = || individual("1", json!({"name": {"given": "Usha"}}));
    let skipped = import(app.data_dir(), &file("skip.ndjson", new()), &["--on-existing", "skip"]).expect_success();
    assert_eq!(counts(&skipped), [2, 1, 0, 1, 0]);
    let read = || client.get(&daftar_tests::records::path("Individual", "1")).expect(200).json();
    assert_eq!(read()["name"]["given"], "Asha");
    let updated = import(app.data_dir(), &file("update.ndjson", new()), &["--on-existing", "update"]).expect_success();
    assert_eq!(counts(&updated), [2, 0, 2, 0, 0]);
    let replaced = read();
    assert_eq!((&replaced["name"]["given"], replaced.get("gender")), (&json!("Usha"), None), "as by PUT");
    assert_eq!(replaced["meta"]["version_id"], "2");
    let stale = individual("1", json!({"meta": {"version_id": "1"}}));
    let file = file("stale.ndjson", stale);
    let refused = import(app.data_dir(), &file, &["--on-existing", "update"]);
    assert_eq!((refused.code, counts(&refused)), (REJECTS, [2, 0, 1, 0, 1]));
    assert_eq!(rejects(&file)[0].1[0].1, "version_mismatch");
}

#[test]
fn a_dry_run_reports_everything_and_writes_nothing() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let file = a_file(folder.path());
    let finished = import(app.data_dir(), &file, &["--dry-run", "--part-bytes", "300"]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [15, 7, 0, 0, 8]), "{finished:?}");
    let client = app.client(&["individual:all"]);
    assert_eq!(client.get("/Individual?_count=1").expect(200).json()["total"], 0);
    assert!(!folder.path().join("all.ndjson.progress.json").exists());
    assert!(folder.path().join("all.ndjson.dry-run.rejects.ndjson").exists());
    // The import does what it reported.
    assert_eq!(counts(&import(app.data_dir(), &file, &[])), [15, 7, 0, 0, 8]);
}

#[test]
fn a_dry_run_under_another_id_does_not_meet_the_lines_of_a_former_one() {
    let app = TestApp::start();
    let check = |id: &str| {
        let request = app.admin().request("POST", &format!("/import?id={id}&dry_run=true"));
        let line = format!("{}\n", individual("1", json!({})));
        request.body("application/x-ndjson", line.as_bytes()).send().expect(200).text()
    };
    assert!(check("dry-run-one").contains("\"created\":1"));
    assert!(check("dry-run-one").contains("\"in_use\""), "its lines are checked against each other");
    drop(app.admin().request("DELETE", "/import?id=dry-run-one").send().expect(200));
    let reported = check("dry-run-two");
    assert!(reported.contains("\"created\":1") && !reported.contains("in_use"), "{reported}");
}

#[test]
fn other_files_are_rejected_before_any_record_is_read() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("folder.ndjson")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe.ndjson"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    std::fs::write(path("what"), "{}").unwrap();
    std::fs::write(path("left.ndjson"), "{}").unwrap();
    std::fs::write(path("left.ndjson.rejects.ndjson"), "kept").unwrap();
    for (name, more, what, code) in [
        ("folder.ndjson", &[][..], "it is a folder", 66),
        ("pipe.ndjson", &[], "no regular file", 66),
        ("absent.ndjson", &[], "cannot read", 66),
        ("what", &[], "says by its name", 2),
        ("left.ndjson", &[], "is there from an earlier import", 73),
        ("left.ndjson", &["--resume"], "nothing to resume", 2),
        ("left.ndjson", &["--mapping", "m.toml"], "--mapping is for tables", 2),
    ] {
        let refused = import(app.data_dir(), &path(name), more);
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{name}: {refused:?}");
        assert!(refused.stderr.contains(what), "{name}: {refused:?}");
    }
    assert_eq!(std::fs::read_to_string(path("left.ndjson.rejects.ndjson")).unwrap(), "kept");
}

#[test]
fn a_resumed_import_adds_to_its_own_rejects_file() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let file = lines(folder.path(), "people.ndjson", &[individual("1", json!({"birth_date": "never"}))]);
    let (own, other) = (folder.path().join("own.ndjson"), folder.path().join("people.ndjson.rejects.ndjson"));
    std::fs::write(&other, "of an earlier import").unwrap();
    let text = std::fs::read(&file).unwrap();
    let digest: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    let progress = json!({
        "version": 1, "import": "0123456789", "rejects": own, "rejects_bytes": [0, 0],
        "of": {"sha256": digest, "bytes": text.len(), "on_existing": "reject"},
        "next": {"offset": 0, "line": 1, "unit": 1},
        "counts": {"read": 0, "created": 0, "updated": 0, "skipped": 0, "rejected": 0},
    });
    std::fs::write(folder.path().join("people.ndjson.progress.json"), progress.to_string()).unwrap();
    let refused = import(app.data_dir(), &file, &["--resume", "--rejects", other.to_str().unwrap()]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains(own.to_str().unwrap()), "{refused:?}");
    assert_eq!(import(app.data_dir(), &file, &["--resume"]).code, REJECTS);
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "of an earlier import");
    assert!(std::fs::read_to_string(&own).unwrap().contains("never"));
}

#[test]
fn lines_of_any_size_and_depth_are_refused_one_by_one() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("hostile.ndjson");
    let deep = format!("{{\"type\":\"Individual\",\"name\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let mut text = Vec::new();
    for line in [
        vec![b'x'; 100 << 20],
        vec![0; 4_096],
        deep.into_bytes(),
        b"{\"type\":\"Individual\",\"name\":{\"given\":\"a\\u0000\"}}".to_vec(),
        individual("1", json!({})).to_string().into_bytes(),
    ] {
        text.extend_from_slice(&line);
        text.extend_from_slice(b"\r\n");
    }
    std::fs::write(&file, text).unwrap();
    let finished = import(app.data_dir(), &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [5, 1, 0, 0, 4]), "{finished:?}");
    let reported = rejects(&file);
    let codes: Vec<(u64, &str)> = reported.iter().map(|(line, errors)| (*line, errors[0].1.as_str())).collect();
    assert_eq!(codes, [(1, "line_too_long"), (2, "malformed"), (3, "malformed"), (4, "malformed")]);
}

#[test]
fn a_line_of_very_many_objects_is_rejected_alone() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("objects.ndjson");
    let objects = format!("{{\"type\":\"Individual\",\"x\":[{}0]}}", "{\"\":0},".repeat(500_000));
    std::fs::write(&file, format!("{objects}\n{}\n", individual("1", json!({})))).unwrap();
    let finished = import(app.data_dir(), &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [2, 1, 0, 0, 1]), "{finished:?}");
    assert_eq!(rejects(&file)[0].1[0].1, "line_too_long");
}

#[test]
fn the_import_of_the_admin_api_names_missing_parameters() {
    let app = TestApp::start();
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    // The result of each line is streamed, so that the response has no length.
    let send = |query: &str, media_type: &str| {
        let url = format!("{}/admin/v1/import?{query}", app.admin_listener().url());
        let request = agent.post(url).header("Authorization", format!("Bearer {}", app.admin().token()));
        let mut response = request.header("Content-Type", media_type).send(&b"{}\n"[..]).unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    for (query, media_type, status, what) in [
        ("", "application/x-ndjson", 400, "`id` names the import"),
        ("id=0123456789&first_line=0", "application/x-ndjson", 400, "`first_line`"),
        ("id=0123456789&x=1", "application/x-ndjson", 400, "`x`"),
        ("id=0123456789", "application/json", 415, "application/x-ndjson"),
    ] {
        let (answered, text) = send(query, media_type);
        assert_eq!(answered, status, "{text}");
        assert!(text.contains(what), "{text}");
    }
    let (status, reported) = send("id=0123456789", "application/x-ndjson");
    let reported: Vec<Value> = reported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, &reported[0]["line"], &reported[0]["status"]), (200, &json!(1), &json!(422)));
    assert_eq!((&reported[1]["done"], &reported[1]["rejected"]), (&json!(true), &json!(1)));
    let (status, text) = send("id=another-one", "application/x-ndjson");
    assert!(status == 409 && text.contains("another import"), "{text}");
    drop(app.admin().request("DELETE", "/import?id=0123456789").send().expect(200));
    assert_eq!(send("id=another-one", "application/x-ndjson").0, 200);
}
