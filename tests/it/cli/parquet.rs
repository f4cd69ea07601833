//! `daftar export --format parquet`: tables for analysts.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use daftar_tests::TestApp;
use daftar_tests::postgres::Processes;
use daftar_tests::process::{Finished, command, finish, run};
use daftar_tests::records::{FEMALE, NATIONAL_ID, household, path, person, reference, with};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value, json};

use super::import::{REJECTS, rejects};

const UNAVAILABLE: i32 = 69;
const OUTPUT: i32 = 73;
const DENIED: i32 = 77;
const FILES: [&str; 7] = [
    "consent.parquet",
    "household.parquet",
    "household_member.parquet",
    "individual.parquet",
    "individual_identifier.parquet",
    "program.parquet",
    "program_membership.parquet",
];

/// Registers a record of every kind.
fn fill(data_dir: &Path, folder: &Path) {
    let of = |kind: &str, record: Value| with(json!({"type": kind}), record);
    let asha = json!({
        "identifier": [
            {"system": "urn:x:old", "value": "7", "period": {"end": "2020-01-31"}}, {"system": NATIONAL_ID, "value": "1"}
        ],
        "name": {"family": "Rai", "given": "Asha"}, "birth_date": "1969-12-31", "birth_date_estimated": true,
        "gender": FEMALE, "languages": ["urn:iso:std:iso:639#ne", "urn:iso:std:iso:639#en"], "health_conditions": [],
        "address": [{"city": "Jumla", "line": ["a", "b"], "region": "Karnali"}, {"city": "Pokhara"}],
        "income": {"amount": 1234.56, "currency": "urn:iso:std:iso:4217#NPR", "period": "month"}, "photo": "iVBORw0KGgo=",
    });
    let bir = person("2", json!({"active": false, "deceased_date": "2026-01-05"}));
    let all = [
        of("Individual", asha),
        of("Individual", bir),
        of("Group", with(household("G|1", &[("1", "head"), ("2", "child")]), json!({"name": "Rai", "active": true}))),
        of(
            "Program",
            person("P", json!({"name": "Pension", "target_type": "individual", "period": {"start": "2026-01-01"}})),
        ),
        of(
            "ProgramMembership",
            json!({
                "program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": format!("Individual/{NATIONAL_ID}|2"),
                "status": "exited", "enrollment_date": "2026-01-02", "exit_date": "2026-02-03", "exit_reason": "died",
            }),
        ),
        of(
            "Consent",
            json!({
                "consent_id": "123e4567-e89b-42d3-a456-426614174000", "subject": format!("Group/{NATIONAL_ID}|G|1"),
                "grantee": "M", "effective_date": "2026-01-01", "scopes": ["group"], "status": "withdrawn",
            }),
        ),
    ];
    let lines: String = all.iter().map(|record| format!("{record}\n")).collect();
    let file = folder.join("fill.ndjson");
    std::fs::write(&file, lines).unwrap();
    drop(run(data_dir, &["identifier-system", "add", "urn:x:old"]).expect_success());
    drop(run(data_dir, &["import", file.to_str().unwrap()]).expect_success());
}

fn export(data_dir: &Path, out: &Path, more: &[&str]) -> Finished {
    let out = out.to_str().unwrap();
    run(data_dir, &[&["export", "--format", "parquet", "--out", out, "--json"], more].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A value as JSON: days and timestamps as numbers, `days` and `ms` since 1970.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(truth) => json!(truth),
        Field::Long(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::Str(text) => json!(text),
        Field::Date(days) => json!({"days": days}),
        Field::TimestampMillis(ms) => json!({"ms": ms}),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        other => panic!("no column has such values: {other:?}"),
    }
}

/// The rows of a file, without NULL values.
fn rows(folder: &Path, table: &str) -> Vec<Value> {
    let file = std::fs::File::open(folder.join(format!("{table}.parquet"))).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        Value::Object(cells.filter(|(_, value)| !value.is_null()).collect::<Map<String, Value>>())
    });
    rows.collect()
}

/// The rows of records without values that differ from run to run, which are compared with the lines of an export:
/// versions and timestamps.
fn stable_rows(folder: &Path, table: &str, kind: &str, lines: &[Value]) -> Vec<Value> {
    let mut rows = rows(folder, table);
    let records: Vec<&Value> = lines.iter().filter(|line| line["type"] == kind).collect();
    assert_eq!(rows.len(), records.len(), "{table}");
    for (row, record) in rows.iter_mut().zip(records) {
        let meta = &record["meta"];
        let instant: jiff::Timestamp = meta["last_updated"].as_str().unwrap().parse().unwrap();
        let row = row.as_object_mut().unwrap();
        assert_eq!(row.remove("last_updated"), Some(json!({"ms": instant.as_millisecond()})), "{table}");
        let version = row.remove("version_id").unwrap().to_string();
        assert_eq!(Some(version.as_str()), meta["version_id"].as_str(), "{table}");
    }
    rows
}

fn contains_the_same_records_as_the_api(data_dir: &Path, lines: &str) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("reporting");
    let reported = export(data_dir, &out, &["--language", "fr"]).expect_success().json();
    assert_eq!(reported["records"], 6);
    assert_eq!(names(&out), FILES);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let id = |value: &str| format!("{NATIONAL_ID}|{value}");
    let [asha, bir] = <[Value; 2]>::try_from(stable_rows(&out, "individual", "Individual", &lines)).unwrap();
    let expected = json!({
        "id": id("1"), "key": 1, "identifier_count": 2, "active": true, "name_family": "Rai", "name_given": "Asha",
        "birth_date": {"days": -1}, "birth_date_estimated": true, "gender": FEMALE, "gender_label": "Féminin",
        "languages": ["urn:iso:std:iso:639#ne", "urn:iso:std:iso:639#en"],
        "languages_label": lines[0]["languages"].as_array().unwrap().iter().map(|code| &code["display"]).collect::<Vec<_>>(),
        "health_conditions": [], "health_conditions_label": [],
        "address_city": "Jumla", "address_line": ["a", "b"], "address_region": "Karnali", "address_count": 2,
        "income_amount": 1234.56, "income_currency": "urn:iso:std:iso:4217#NPR",
        "income_currency_label": lines[0]["income"]["currency"]["display"], "income_period": "month",
    });
    assert_eq!(asha, expected);
    let expected =
        json!({"id": id("2"), "key": 2, "identifier_count": 1, "active": false, "deceased_date": {"days": 20_458}});
    assert_eq!(bir, expected);
    let identifier = |key: u64, person: &str| json!({"individual_id": id(person), "individual_key": key});
    let identifiers = [
        with(identifier(1, "1"), json!({"system": "urn:x:old", "value": "7", "period_end": {"days": 18_292}})),
        with(identifier(1, "1"), json!({"system": NATIONAL_ID, "value": "1"})),
        with(identifier(2, "2"), json!({"system": NATIONAL_ID, "value": "2"})),
    ];
    assert_eq!(rows(&out, "individual_identifier"), identifiers);
    let group = lines.iter().find(|line| line["type"] == "Group").unwrap();
    let expected = json!({
        "id": id("G|1"), "key": 1, "identifier_count": 1, "active": true, "name": "Rai", "quantity": 2,
        "group_type": group["group_type"]["uri"], "group_type_label": group["group_type"]["display"],
    });
    assert_eq!(stable_rows(&out, "household", "Group", &lines), [expected]);
    let member = |place: usize, person: &str| {
        let role = &group["member"][place]["role"];
        json!({
            "household_id": id("G|1"), "household_key": 1, "individual_id": id(person), "individual_key": place + 1,
            "role": role["uri"], "role_label": role["display"], "inactive": false,
        })
    };
    assert_eq!(rows(&out, "household_member"), [member(0, "1"), member(1, "2")]);
    let expected = json!({
        "id": id("P"), "key": 1, "identifier_count": 1, "active": true, "name": "Pension", "target_type": "individual",
        "enforce_eligibility": false, "period_start": {"days": 20_454},
    });
    assert_eq!(stable_rows(&out, "program", "Program", &lines), [expected]);
    let expected = json!({
        "key": 1, "program_id": id("P"), "program_key": 1, "beneficiary_kind": "Individual", "beneficiary_id": id("2"),
        "beneficiary_key": 2, "status": "exited", "enrollment_date": {"days": 20_455}, "exit_date": {"days": 20_487},
        "exit_reason": "died",
    });
    assert_eq!(stable_rows(&out, "program_membership", "ProgramMembership", &lines), [expected]);
    let consent = lines.iter().find(|line| line["type"] == "Consent").unwrap();
    let expected = json!({
        "id": "123e4567-e89b-42d3-a456-426614174000", "key": 1, "subject_kind": "Group", "subject_id": id("G|1"),
        "subject_key": 1, "grantee": "M", "effective_date": {"days": 20_454}, "scopes": ["group"], "status": "withdrawn",
        "legal_basis": consent["legal_basis"],
    });
    assert_eq!(stable_rows(&out, "consent", "Consent", &lines), [expected]);

    // Each file is readable for its owner alone, names its snapshot, and has the reported digest.
    for file in reported["files"].as_array().unwrap() {
        let path = out.join(file["file"].as_str().unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata();
        assert_eq!(file["rows"].as_i64(), Some(metadata.num_rows()), "{file}");
        let message = metadata.key_value_metadata().unwrap().iter().find(|pair| pair.key == "daftar.as_of").unwrap();
        assert_eq!(message.value.as_deref(), reported["as_of"].as_str());
        assert_eq!(file["sha256"].as_str().map(str::len), Some(64));
    }
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o700);
}

const LINES: &str = "/export?codes=object&meta=true&photos=false&keys=true&language=fr";

fn record_lines(text: &str) -> String {
    assert!(!text.contains("\"photo\""), "photos are left out: {text}");
    text.lines().filter(|line| !line.starts_with("{\"$export\"")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn tables_match_the_api_with_a_running_or_stopped_server() {
    let (mut app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    fill(app.data_dir(), folder.path());
    let lines = record_lines(&app.admin().get(LINES).expect(200).text());
    contains_the_same_records_as_the_api(app.data_dir(), &lines);
    app.stop();
    contains_the_same_records_as_the_api(app.data_dir(), &lines);
}

#[test]
fn tables_match_the_api_on_postgresql() {
    if !daftar_test_needs::programs(&["initdb", "setpriv"]) {
        return;
    }
    let (servers, folder) = (Processes::start(1), tempfile::tempdir().unwrap());
    fill(servers.data_dir(0), folder.path());
    let lines = record_lines(&servers.admin(0).get(LINES).expect(200).text());
    contains_the_same_records_as_the_api(servers.data_dir(0), &lines);
}

#[test]
fn an_id_that_two_records_share_is_two_keys() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let client = app.client(&["individual:all", "group:all"]);
    drop(client.create_individual(&person("1", json!({"name": {"given": "First"}}))));
    drop(client.create_group(&household("H", &[("1", "head")])));
    let ended = json!({"identifier": [{"system": NATIONAL_ID, "value": "1", "period": {"end": "2020-01-01"}}]});
    drop(client.request("PATCH", &path("Individual", "1")).json(&ended).send().expect(200));
    drop(client.create_individual(&person("1", json!({"name": {"given": "Second"}}))));
    drop(client.create_group(&household("G", &[("1", "head")])));
    let out = folder.path().join("reporting");
    drop(export(app.data_dir(), &out, &[]).expect_success());
    let columns = |table: &str, names: &[&str]| -> Vec<Value> {
        rows(&out, table).iter().map(|row| names.iter().map(|name| row[*name].clone()).collect()).collect()
    };
    let id = |value: &str| format!("{NATIONAL_ID}|{value}");
    assert_eq!(
        columns("individual", &["id", "key", "name_given"]),
        [json!([id("1"), 1, "First"]), json!([id("1"), 2, "Second"])]
    );
    assert_eq!(
        columns("individual_identifier", &["individual_id", "individual_key"]),
        [json!([id("1"), 1]), json!([id("1"), 2])]
    );
    assert_eq!(
        columns("household_member", &["household_id", "household_key", "individual_id", "individual_key"]),
        [json!([id("H"), 1, id("1"), 1]), json!([id("G"), 2, id("1"), 2])]
    );
}

/// True if an object in the value has a member `key`.
fn has_key(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("key") || members.values().any(has_key),
        Value::Array(items) => items.iter().any(has_key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn keys_are_in_an_export_that_requests_them_and_in_no_response_to_a_client() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    fill(app.data_dir(), folder.path());
    let lines = |query: &str| -> Vec<Value> {
        let lines = app.admin().get(&format!("/export?{query}")).expect(200).lines();
        lines.into_iter().filter(|line| line.get("$export").is_none()).collect()
    };
    let keyed = lines("keys=true");
    assert!(keyed.len() == 6 && keyed.iter().all(|line| line["key"].is_u64()), "{keyed:?}");
    assert_eq!(keyed[2]["member"][1]["entity"], json!({"key": 2, "reference": reference("2")}));
    assert_eq!(keyed[4]["beneficiary"], json!({"key": 2, "reference": reference("2")}));
    for query in ["", "keys=false", "meta=true&codes=object"] {
        assert!(!lines(query).iter().any(has_key), "{query}");
    }
    assert_eq!(app.admin().get("/export?keys=1").expect(400).code(), "malformed_request");

    // Such a line is not imported: the register numbers its records itself.
    let file = folder.path().join("keyed.ndjson");
    std::fs::write(&file, format!("{}\n", with(keyed[0].clone(), person("3", json!({}))))).unwrap();
    let refused = run(app.data_dir(), &["import", file.to_str().unwrap()]);
    assert_eq!(refused.code, REJECTS, "{refused:?}");
    assert_eq!(rejects(&file)[0].1, [("key".to_owned(), "unknown_field".to_owned())]);

    let scopes = ["individual:all", "group:all", "program:all", "program_membership:all"];
    let client = app.client(&scopes);
    for (kind, value) in [("Individual", "1"), ("Group", "G|1"), ("Program", "P")] {
        let found = client.get(&format!("/{kind}")).expect(200).json();
        assert!(found["total"] != 0 && !has_key(&found), "{found}");
        assert!(!has_key(&client.get(&path(kind, value)).expect(200).json()), "{kind}");
        assert_eq!(client.get(&format!("/{kind}?keys=true")).expect(400).code(), "unknown_parameter");
    }
    let found = client.get("/ProgramMembership").expect(200).json();
    assert!(found["total"] == 1 && !has_key(&found), "{found}");
    let places = client.get(&format!("{}/groups", path("Individual", "2"))).expect(200).json();
    assert!(places["total"] == 1 && !has_key(&places), "{places}");
    let credentials = app.admin().create_client(&json!({
        "name": "reader", "organization": "M", "scopes": ["consent:read"],
        "rate_limit_per_minute": 1_000, "rate_limit_per_day": 1_000,
    }));
    let consent = app.client_of(&credentials).get("/Consent/123e4567-e89b-42d3-a456-426614174000").expect(200).json();
    assert!(consent["subject"].is_string() && !has_key(&consent), "{consent}");
}

#[test]
fn requested_tables_are_written_and_an_empty_register_gives_empty_tables() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(export(app.data_dir(), &empty, &[]).expect_success().json()["records"], 0);
    assert_eq!(names(&empty), FILES);
    assert!(FILES.iter().all(|file| rows(&empty, file.trim_end_matches(".parquet")).is_empty()));
    fill(app.data_dir(), folder.path());
    let groups = folder.path().join("groups");
    drop(export(app.data_dir(), &groups, &["--type", "Group,Program"]).expect_success());
    assert_eq!(names(&groups), ["household.parquet", "household_member.parquet", "program.parquet"]);
    let women = folder.path().join("women");
    drop(export(app.data_dir(), &women, &["--filter", &format!("gender={FEMALE}")]).expect_success());
    assert_eq!(names(&women), ["individual.parquet", "individual_identifier.parquet"]);
    assert_eq!(rows(&women, "individual").len(), 1);
    let message =
        run(app.data_dir(), &["export", "--format", "parquet", "--out", folder.path().join("t").to_str().unwrap()]);
    let message = message.expect_success().stdout;
    assert!(
        message.contains("6 records as of ") && message.contains("individual.parquet  2 rows, sha256 "),
        "{message}"
    );
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let parquet = ["--format", "parquet", "--out", out];
    for arguments in [
        &["export"][..],
        &["export", "--format", "parquet"],
        &["export", "--out", out],
        &["export", "people.ndjson", "--out", out],
        &["export", "--format", "csv", "--out", out],
        &[&["export", "people.ndjson"], &parquet[..]].concat(),
        &[&["export", "--resume"], &parquet[..]].concat(),
        &[&["export", "--with-meta"], &parquet[..]].concat(),
        &[&["export", "--mapping", "m.toml"], &parquet[..]].concat(),
        &[&["export", "--filter", "gender"], &parquet[..]].concat(),
    ] {
        let refused = run(app.data_dir(), arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{arguments:?}: {refused:?}");
    }
    // A rejection by the server leaves no file either.
    let refused = export(app.data_dir(), Path::new(out), &["--filter", "gendr=1"]);
    assert!(refused.code == 1 && refused.stderr.contains("gendr"), "{refused:?}");
    assert!(!Path::new(out).exists());
    let help = run(app.data_dir(), &["export", "--help"]).expect_success().stdout;
    assert!(help.contains("daftar export --format parquet --out"), "{help}");
}

#[test]
fn a_folder_that_cannot_take_the_files_is_named_and_left_as_it_is() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    let refused = export(app.data_dir(), &out, &[]);
    assert!(refused.code == OUTPUT && refused.stderr.contains("`notes.txt`"), "{refused:?}");
    assert_eq!(names(&out), ["notes.txt"]);
    let refused = export(app.data_dir(), &out.join("notes.txt"), &[]);
    assert!(refused.code == OUTPUT && refused.stderr.contains("notes.txt"), "{refused:?}");
    let refused = export(app.data_dir(), &folder.path().join("nowhere/out"), &[]);
    assert!(refused.code == OUTPUT && refused.stderr.contains("its folder does not exist"), "{refused:?}");
}

#[test]
fn a_full_disk_is_reported_and_no_file_is_left() {
    let Some(mount) = daftar_test_needs::program("mount") else { return };
    let (app, folder, disk) = (TestApp::start(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(app.data_dir(), folder.path());
    // A page for the folder and a few for files: seven files do not fit.
    let mounted = Command::new(mount).args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(disk.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        daftar_test_needs::not_run("the right to mount a file system", "run the tests as root, with CAP_SYS_ADMIN");
        return;
    }
    let out = disk.path().join("out");
    let reported = export(app.data_dir(), &out, &[]);
    let is_gone = !out.exists();
    assert!(Command::new("umount").arg("-l").arg(disk.path()).status().unwrap().success());
    assert!(reported.code == OUTPUT && reported.stderr.contains("full"), "{reported:?}");
    assert!(is_gone);
}

/// Output of an export whose server sends that response and closes the connection.
fn export_from(response: &'static str, out: &Path) -> Finished {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 1_024];
        while !request.ends_with(b"\r\n\r\n") {
            let read = connection.read(&mut buffer).unwrap();
            assert!(read > 0, "the request ends");
            request.extend_from_slice(&buffer[..read]);
        }
        connection.write_all(response.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let nowhere = tempfile::tempdir().unwrap();
    let mut export = command(nowhere.path(), &["export", "--format", "parquet", "--out", out.to_str().unwrap()]);
    export.args(["--admin-url", &url]).env("DAFTAR_ADMIN_TOKEN", "t".repeat(43));
    let reported = finish(export);
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /admin/v1/export?") && request.contains("photos=false&keys=true"), "{request}");
    reported
}

#[test]
fn a_server_whose_exports_have_no_keys_is_reported_as_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (code, detail, is_older) in [
        ("unknown_parameter", "unknown parameter `keys`; known here: name", true),
        ("malformed_request", "filters are those of a search of people: they go with `type=Individual` alone", true),
        ("unknown_parameter", "unknown parameter `photos`; known here: name", false),
    ] {
        let problem = json!({
            "type": "/docs/errors", "code": code, "title": "Bad Request", "status": 400, "detail": detail, "request_id": "1",
        });
        let body = problem.to_string();
        let head = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        let reported = export_from((head + &body).leak(), &out);
        assert!(reported.code == 1 && reported.stderr.contains(detail), "{reported:?}");
        assert_eq!(reported.stderr.contains("the server is of an older version"), is_older, "{reported:?}");
        assert!(!out.exists());
    }
}

#[test]
fn a_server_that_goes_away_or_refuses_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (out, there) = (folder.path().join("out"), folder.path().join("there"));
    std::fs::create_dir(&there).unwrap();
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";
    const RECORD: &str =
        "{\"type\":\"Program\",\"identifier\":[{\"system\":\"urn:x:y\",\"value\":\"1\"}],\"name\":\"P\"}\n";
    for (response, code) in [
        (HEAD.to_owned() + RECORD, UNAVAILABLE),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n{RECORD}"), UNAVAILABLE),
        (
            format!(
                "{HEAD}{RECORD}{{\"$export\":{{\"stopped\":{{\"status\":503,\"detail\":\"the registry is not available\"}}}}}}\n"
            ),
            UNAVAILABLE,
        ),
        // The text of a name that is a number is not reported, it may be a person's.
        (HEAD.to_owned() + "{\"type\":\"Program\",\"name\":4711906652}\n", 1),
        ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned(), DENIED),
    ] {
        let response: &'static str = response.leak();
        let reported = export_from(response, &out);
        assert_eq!(reported.code, code, "{response}: {reported:?}");
        assert!(!reported.stderr.contains("4711906652"), "{reported:?}");
        assert!(!out.exists(), "{response}: the folder that was made is gone");
        assert_eq!(export_from(response, &there).code, code);
        assert_eq!(names(&there), [""; 0], "{response}: the folder is empty as it was");
    }
}
