//! A register that moved from the embedded store into PostgreSQL returns the same responses, from the tables of the
//! database and from memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daftar_tests::postgres::{self, Database, IN_MEMORY, Processes};
use daftar_tests::process::{self, Server};
use daftar_tests::records::{FEMALE, MALE, household, path, person, with};
use daftar_tests::{ApiClient, token};
use serde_json::{Value, json};

/// A rule over fields that no column of the register contains.
const IN_NORTH: (&str, &str) = ("individual", "me.address.exists(a, a.region == 'North')");

/// More than two partitions of the smallest size.
const PEOPLE: usize = 2_600;
/// The scopes of a client that may call everything.
const SCOPES: [&str; 5] = ["individual:all", "group:all", "eligibility:read", "program_membership:all", "program:all"];
/// Rules over columns, over records and over households, some of whose members are in another partition.
const RULES: [(&str, &str); 7] = [
    ("individual", "is_female(me) && age_years(me.birth_date) >= 60"),
    ("individual", "members.exists(m, is_head(m) && age_years(m.birth_date) >= 60)"),
    IN_NORTH,
    ("individual", "1 / me.languages.size() > 0"),
    ("individual", "programs.size() == 0"),
    ("group", "members.exists(m, is_head(m) && is_female(m))"),
    ("group", "me.active"),
];

/// People, a third of whom have no gender, and households of two who were registered far apart.
fn register(folder: &Path) -> PathBuf {
    let mut lines = Vec::with_capacity(PEOPLE * 3 / 2);
    for number in 0..PEOPLE {
        let region = ["North", "South", "East"][number % 3];
        let mut more = json!({"type": "Individual", "address": [{"region": region}]});
        if let Some(gender) = [Some(FEMALE), Some(MALE), None][number % 3] {
            more["gender"] = json!(gender);
        }
        if number % 7 != 0 {
            more["birth_date"] = json!(format!("{}-03-01", 1930 + number % 90));
        }
        if number % 11 == 0 {
            more["languages"] = json!([]);
        }
        lines.push(person(&number.to_string(), more));
    }
    for number in 0..PEOPLE / 2 {
        let (head, spouse) = (number.to_string(), (number + PEOPLE / 2).to_string());
        let group = household(&format!("H-{number}"), &[(&head, "head"), (&spouse, "spouse")]);
        lines.push(with(group, json!({"type": "Group"})));
    }
    let path = folder.join("register.ndjson");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).expect("a file can be written");
    path
}

/// A preview without the fields that identify its snapshot.
fn preview(client: &ApiClient, (subject, expression): (&str, &str), filter: &Value) -> Value {
    let body = json!({
        "expression": expression, "subject": subject, "filter": filter, "as_of": "2026-03-01", "sample": 50,
    });
    client.post("/Eligibility/$preview", &body).expect(200).json()
}

/// The listed outcome of each subject, in the order of registration.
fn listed_outcomes(client: &ApiClient, (subject, expression): (&str, &str)) -> Vec<Value> {
    let body = json!({"expression": expression, "subject": subject, "as_of": "2026-03-01", "subjects": true});
    let request = client.request("POST", "/Eligibility/$preview").header("Accept", "application/x-ndjson");
    let lines = request.json(&body).send().expect(200).lines();
    lines.into_iter().filter(|line| line.get("subject").is_some()).collect()
}

/// The responses that have to be the same before and after.
fn responses(client: &ApiClient) -> Vec<Value> {
    let mut responses: Vec<Value> = RULES.iter().map(|rule| preview(client, *rule, &json!({}))).collect();
    responses.push(preview(client, RULES[0], &json!({"region": "South"})));
    responses.push(preview(client, RULES[5], &json!({"_last_updated": "ge2020-01-01"})));
    responses.push(json!(listed_outcomes(client, RULES[1])));
    for query in [
        "/Individual?gender=urn:iso:std:iso:5218%232&birth_date=ge1980-01-01&region=north&_sort=-birth_date&_count=30",
        "/Individual?_count=5&_offset=2000",
        "/Group?_count=5&_sort=_last_updated",
    ] {
        let found = client.get(query).expect(200).json();
        responses.push(json!([found["total"], found["data"]]));
    }
    responses.push(client.get(&path("Individual", "17")).expect(200).json());
    responses.push(client.get(&path("Group", "H-17")).expect(200).json());
    responses
}

pub fn copy_keys(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("keys")).expect("a folder can be made");
    let copied = std::process::Command::new("cp").arg("-a").arg(from.join("keys/.")).arg(to.join("keys")).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

/// The register in the embedded store, stopped: its folder, a client of it, and its responses.
fn embedded(folder: &Path) -> (PathBuf, ApiClient, Vec<Value>) {
    let data_dir = folder.join("embedded");
    daftar_tests::template::copy_to(&data_dir);
    let server = Server::serve(&data_dir, &["--config", allowing(folder).to_str().expect("a path is UTF-8")]);
    let credentials = process::create_client(&data_dir, &SCOPES);
    let connection = server.connection();
    let issued = token::fetch(&connection, &credentials);
    let client = ApiClient::new(connection, credentials, issued);
    let file = register(folder);
    let imported = process::run(&data_dir, &["import", file.to_str().expect("a path is UTF-8"), "--json"]);
    assert_eq!(imported.expect_success().json()["created"], PEOPLE + PEOPLE / 2);
    let responses = responses(&client);
    assert_eq!(server.stop().code, 0);
    (data_dir, client, responses)
}

fn allowing(folder: &Path) -> PathBuf {
    let path = folder.join("embedded.toml");
    std::fs::write(&path, "[plugins]\nallow_unsigned = true\n").expect("settings can be written");
    path
}

#[test]
fn a_register_moves_into_postgresql_and_back_and_answers_as_before() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (data_dir, client, before) = embedded(folder.path());
    let database = Arc::new(Database::shared());
    let settings = postgres::settings(&data_dir, &database.url(), None, "");
    let migrate = |data_dir: &Path, arguments: &[&str]| {
        let config = settings.to_str().expect("a path is UTF-8");
        process::run(data_dir, &[&["migrate"], arguments, &["--json", "--config", config]].concat())
    };
    let moved = migrate(&data_dir, &["fill", "--to", "postgres"]).expect_success().json();
    assert_eq!((&moved["differences"], &moved["reported"]), (&json!(0), &json!([])));
    assert_eq!(moved["same"]["individuals"], PEOPLE);
    assert!(moved["same"]["audit_values"].as_u64().is_some_and(|values| values > 0), "{moved}");
    let again = migrate(&data_dir, &["fill", "--to", "postgres"]);
    assert!(again.code != 0 && again.stderr.contains("holds a register"), "{again:?}");

    let mut processes = Processes::start_on(database, 0, "");
    copy_keys(&data_dir, processes.shared_dir());
    for _ in 0..2 {
        let _number = processes.start_one();
    }
    processes.set_store(IN_MEMORY);
    let _in_memory = processes.start_one();
    processes.is_ready(2);
    for number in 0..3 {
        assert_eq!(responses(&processes.at(number, &client)), before, "process {number}");
    }
    assert!(migrate(&data_dir, &["compare"]).code != 0, "clients' counts have gone on");

    // Later writes are in the next preview, of any process.
    let (first, second) = (processes.at(0, &client), processes.at(2, &client));
    let eligible = |client: &ApiClient| preview(client, RULES[0], &json!({}))["eligible"].as_u64().unwrap();
    let old = eligible(&first);
    drop(second.create_individual(&person("new", json!({"gender": FEMALE, "birth_date": "1940-01-01"}))));
    assert_eq!((eligible(&first), eligible(&second)), (old + 1, old + 1));
    let change = |id: &str, change: Value| {
        let changed = second.get(&path("Individual", id)).expect(200);
        let request = second.request("PATCH", &path("Individual", id));
        let request = request.header("If-Match", changed.header("etag").unwrap());
        assert_eq!(request.body("application/merge-patch+json", change.to_string()).send().status, 200);
    };
    change("0", json!({"birth_date": "1935-01-01"}));
    assert_eq!((eligible(&first), eligible(&second)), (old + 2, old + 2));

    // Fields of records that the servers have in memory by now are read again from the changed record.
    let in_north = |client: &ApiClient| preview(client, IN_NORTH, &json!({}))["eligible"].as_u64().unwrap();
    let old = in_north(&first);
    assert_eq!(in_north(&second), old);
    // The way back begins while the servers run, with a backup.
    let back = folder.path().join("back");
    let nothing = migrate(&back, &["catch-up", "--to", "sled"]);
    assert!(nothing.stderr.contains("there is no register in") && !back.exists(), "{nothing:?}");
    let file = folder.path().join("register.daftar");
    let file = file.to_str().expect("a path is UTF-8");
    drop(process::run(processes.data_dir(0), &["backup", file]).expect_success());
    drop(process::run(&back, &["restore", file]).expect_success());
    change("1", json!({"address": [{"region": "North"}]}));
    assert_eq!((in_north(&first), in_north(&second)), (old + 1, old + 1));
    let at_the_end = responses(&first);

    for number in 0..3 {
        assert_eq!(processes.stop(number).0.code, 0);
    }
    let caught_up = migrate(&back, &["catch-up", "--to", "sled"]).expect_success().json();
    assert_eq!((&caught_up["differences"], &caught_up["caught_up"]["individuals"]), (&json!(0), &json!(1)));
    // One more person, and the versions before the two changes.
    let compared = migrate(&back, &["compare"]).expect_success().json();
    assert_eq!((&compared["differences"], &compared["same"]["individuals"]), (&json!(0), &json!(PEOPLE + 3)));
    let config = allowing(&back);
    let server = Server::serve(&back, &["--config", config.to_str().expect("a path is UTF-8")]);
    let at_back = ApiClient::new(server.connection(), client.credentials().clone(), client.token().to_owned());
    assert_eq!(responses(&at_back), at_the_end);
    assert_eq!(server.stop().code, 0);
    let refused = migrate(&back, &["catch-up", "--to", "sled"]);
    assert!(refused.code == 1 && refused.stderr.contains("was written to since"), "{refused:?}");
}
