//! A register that moves into PostgreSQL while it is served: a backup first, later writes at the end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daftar_tests::postgres::{self, Database, Processes};
use daftar_tests::process::{self, Finished, Server};
use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, ROLE, household, path, person, reference, with};
use daftar_tests::{Admin, ApiClient, packs, token};
use serde_json::{Value, json};

use super::moved::copy_keys;

const SCOPES: [&str; 6] =
    ["individual:all", "group:all", "program:all", "program_membership:all", "eligibility:read", "vocabulary:read"];
const MINISTRY: &str = "Ministry of Health";
/// Number of people in each round of writes.
const PEOPLE: usize = 12;

/// Maximum number of rounds.
const ROUNDS_MAX: usize = 16;

/// A client that writes to the register, and its results of each round.
struct Writing {
    client: ApiClient,
    admin: Admin,
    /// Requests whose audit entries are searched at the end.
    requests: Vec<String>,
    /// Clients that were created.
    clients: Vec<daftar_tests::Credentials>,
}

fn id(round: &str, number: usize) -> String {
    format!("{round}-{number}")
}

fn program(round: &str) -> Value {
    json!({
        "identifier": [{"system": NATIONAL_ID, "value": format!("P-{round}")}], "name": format!("Program {round}"),
        "target_type": "individual", "eligibility": "is_female(me)", "enforce_eligibility": true,
    })
}

impl Writing {
    /// New people, a household, a program with memberships, consents, a client; and existing records are changed.
    fn round(&mut self, round: &str, before: Option<&str>) {
        for number in 0..PEOPLE {
            let gender = if number % 2 == 0 { FEMALE } else { MALE };
            let more =
                json!({"gender": gender, "birth_date": format!("19{}-03-01", 50 + number), "name": {"given": round}});
            let created = self.client.post("/Individual", &person(&id(round, number), more)).expect(201);
            self.requests.extend(created.header("x-request-id").map(str::to_owned));
        }
        let members = [(id(round, 0), "head"), (id(round, 1), "spouse")];
        let members: Vec<(&str, &str)> = members.iter().map(|(person, role)| (person.as_str(), *role)).collect();
        drop(self.client.create_group(&household(&id(round, 100), &members)));
        drop(self.admin.request("POST", "/programs").json(&program(round)).send().expect(201));
        for number in [0, 2] {
            let place = json!({
                "program": format!("Program/{NATIONAL_ID}|P-{round}"), "beneficiary": reference(&id(round, number)), "status": "enrolled",
            });
            drop(self.client.post("/ProgramMembership", &place).expect(201));
        }
        self.consent(&id(round, 3));
        let made = json!({"name": format!("of {round}"), "scopes": ["individual:read", "individual:search"]});
        self.clients.push(self.admin.create_client(&made));
        if let Some(before) = before {
            self.change(round, before);
        }
    }

    fn consent(&self, person: &str) {
        let consent = json!({
            "subject": reference(person), "grantee": MINISTRY, "scopes": ["individual"], "effective_date": "2026-03-01",
        });
        drop(self.admin.request("POST", "/consents").json(&consent).send().expect(201));
    }

    /// Changes the records of an earlier round: people, an identifier that moves from one to another, a member who
    /// joins, a membership that ends, a client that gets a scope.
    fn change(&mut self, round: &str, before: &str) {
        for number in 4..8 {
            let target = path("Individual", &id(before, number));
            let patch = json!({"name": {"given": format!("{before} in {round}")}});
            drop(self.client.request("PATCH", &target).json(&patch).send().expect(200));
        }
        let (from, to) = (id(before, 10), id(round, 8));
        let renamed = json!({"identifier": [
            {"system": NATIONAL_ID, "value": from, "period": {"end": "2026-01-01"}},
            {"system": NATIONAL_ID, "value": format!("{from}-new")},
        ]});
        drop(self.client.request("PATCH", &path("Individual", &from)).json(&renamed).send().expect(200));
        let both = json!({"identifier": [
            {"system": NATIONAL_ID, "value": to}, {"system": NATIONAL_ID, "value": from},
        ]});
        drop(self.client.request("PATCH", &path("Individual", &to)).json(&both).send().expect(200));
        let joins =
            with(json!({"entity": {"reference": reference(&id(round, 9))}}), json!({"role": format!("{ROLE}#child")}));
        let joined = self.client.post(&format!("{}/$add-member", path("Group", &id(before, 100))), &joins).expect(201);
        self.requests.extend(joined.header("x-request-id").map(str::to_owned));
        let ended = json!({
            "program": format!("Program/{NATIONAL_ID}|P-{before}"), "beneficiary": reference(&id(before, 0)), "status": "exited",
        });
        drop(self.client.request("PUT", &path("ProgramMembership", &id(before, 0))).json(&ended).send().expect(200));
        if let [.., earlier, _] = self.clients.as_slice() {
            self.admin.grant(&earlier.id, "group:read");
        }
    }
}

/// Requests made before and after.
fn responses(client: &ApiClient, rounds: &[String]) -> Vec<Value> {
    let mut responses = Vec::new();
    let found = |query: &str| {
        let found = client.get(query).expect(200).json();
        json!([query, found["total"], found["data"]])
    };
    for query in [
        "/Individual?gender=urn:iso:std:iso:5218%232&_sort=-birth_date&_count=50",
        "/Individual?name=a&_count=50",
        "/Individual?_count=20&_offset=10",
        "/Group?_count=20&_sort=_last_updated",
        "/ProgramMembership?status=enrolled&_count=50",
        "/ProgramMembership?status=exited&_count=50",
        "/Program?_count=50",
    ] {
        responses.push(found(query));
    }
    for round in rounds {
        for number in [0, 4, 8, 9, 10] {
            responses.push(client.get(&path("Individual", &id(round, number))).expect(200).json());
        }
        responses.push(client.get(&path("Group", &id(round, 100))).expect(200).json());
    }
    let rule =
        json!({"expression": "is_female(me) && programs.size() > 0", "subject": "individual", "as_of": "2026-03-01"});
    let preview = client.post("/Eligibility/$preview", &rule).expect(200).json();
    responses.push(json!([preview["eligible"], preview["not_eligible"], preview["undetermined"]]));
    responses
}

/// Administrative data before and after.
fn administered(admin: &Admin, requests: &[String]) -> Vec<Value> {
    let consents = admin.get("/consents?_count=100").expect(200).json();
    let mut seen = vec![consents["total"].clone(), consents["data"].clone()];
    for request in requests {
        let lines = admin.get(&format!("/audit?request_id={request}")).expect(200).json();
        assert!(lines["data"].as_array().is_some_and(|lines| !lines.is_empty()), "{request}: {lines}");
        seen.push(lines["data"].clone());
    }
    seen
}

fn version_of(admin: &Admin, name: &str) -> Option<String> {
    let plugins = admin.get("/plugins").expect(200).json();
    let plugin = plugins["data"].as_array()?.iter().find(|plugin| plugin["name"] == name)?.clone();
    plugin["version"].as_str().map(str::to_owned)
}

/// A command of an operator on the old server's folder, by its configuration.
fn migrate(data_dir: &Path, more: &[&str]) -> Finished {
    let config = data_dir.with_extension("toml");
    let config = config.to_str().expect("a path is UTF-8");
    process::run(data_dir, &[&["migrate"], more, &["--config", config]].concat())
}

#[test]
fn a_register_moves_while_it_is_served_and_answers_as_the_old_server_did_at_its_end() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (data_dir, database) = (folder.path().join("register"), Arc::new(Database::shared()));
    daftar_tests::template::copy_to(&data_dir);
    let (key, reported) = packs::key(folder.path(), "key.pem");
    let trusted = format!("trusted_keys = [\"{} tests\"]", reported["public_key"].as_str().expect("a public key"));
    let settings =
        format!("[store.postgres]\nurl = \"{}\"\n[plugins]\nallow_unsigned = true\n{trusted}\n", database.url());
    std::fs::write(data_dir.with_extension("toml"), settings).expect("settings can be written");
    let config = data_dir.with_extension("toml");
    let server = Server::serve(&data_dir, &["--config", config.to_str().expect("a path is UTF-8")]);
    let admin = || Server::admin(&data_dir);
    let made = json!({
        "name": "test", "scopes": SCOPES, "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000,
    });
    let credentials = admin().create_client(&made);
    let connection = server.connection();
    let issued = token::fetch(&connection, &credentials);
    let client = ApiClient::new(connection, credentials.clone(), issued);
    let mut writing = Writing { client: client.clone(), admin: admin(), requests: Vec::new(), clients: Vec::new() };
    let pack = packs::build(folder.path(), "1.0.0", Some(&key));
    drop(process::run(&data_dir, &["plugin", "install", pack.to_str().expect("UTF-8")]).expect_success());
    writing.round("a", None);

    let file = folder.path().join("register.daftar");
    let file = file.to_str().expect("a path is UTF-8").to_owned();
    drop(process::run(&data_dir, &["backup", &file]).expect_success());
    writing.round("b", Some("a"));

    // A truncated backup fills nothing.
    let whole = std::fs::read(&file).expect("the backup can be read");
    let cut = folder.path().join("cut.daftar");
    std::fs::write(&cut, &whole[..whole.len() * 2 / 3]).expect("a file can be written");
    let refused = migrate(&data_dir, &["fill", "--to", "postgres", "--backup", cut.to_str().expect("UTF-8")]);
    assert!(refused.code == 66 && refused.stderr.contains("cut.daftar"), "{refused:?}");
    let early = migrate(&data_dir, &["catch-up"]);
    assert!(early.code != 0 && early.stderr.contains("in use by another process"), "{early:?}");

    // The database is filled while clients write to the old server.
    let (mut rounds, is_over) = (vec!["a".to_owned(), "b".to_owned()], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| {
            let moved = migrate(&data_dir, &["fill", "--to", "postgres", "--backup", &file, "--json"]);
            is_over.store(true, Ordering::Release);
            moved
        });
        while (!is_over.load(Ordering::Acquire) && rounds.len() < ROUNDS_MAX) || rounds.len() < 4 {
            let (round, before) = (format!("c{}", rounds.len()), rounds.last().cloned());
            writing.round(&round, before.as_deref());
            rounds.push(round);
        }
        let moved = migrating.join().expect("it ran").expect_success().json();
        assert_eq!((&moved["differences"], &moved["reported"]), (&json!(0), &json!([])));
        assert_eq!((&moved["copied"]["individuals"], &moved["same"]["individuals"]), (&json!(PEOPLE), &json!(PEOPLE)));
    });
    let again = migrate(&data_dir, &["fill", "--to", "postgres", "--backup", &file]);
    assert!(again.code != 0 && again.stderr.contains("holds a register"), "{again:?}");

    // The old server stops.
    let (before, seen) = (responses(&client, &rounds), administered(&writing.admin, &writing.requests));
    assert_eq!(server.stop().code, 0);
    let caught_up = migrate(&data_dir, &["catch-up", "--json"]).expect_success().json();
    assert_eq!((&caught_up["differences"], &caught_up["reported"]), (&json!(0), &json!([])));
    let people = PEOPLE * (rounds.len() - 1) + 5;
    assert_eq!(
        caught_up["caught_up"]["individuals"], people,
        "the new ones, and of the first round those that were changed"
    );
    // Each version is compared: in every round but the last five people were changed, and in every one but the first
    // one who took an identifier over.
    let changes = 6 * (rounds.len() - 1);
    assert_eq!(caught_up["same"]["individuals"], people + changes);
    assert!(caught_up["since"].as_u64() < caught_up["sequence"].as_u64(), "{caught_up}");
    let again = migrate(&data_dir, &["catch-up"]).expect_success();
    assert!(again.stdout.contains("there is nothing to bring"), "{again:?}");
    let compared = migrate(&data_dir, &["compare", "--json"]).expect_success().json();
    let people = PEOPLE * rounds.len() + changes;
    assert_eq!(compared["same"]["individuals"], people);
    // As after a comparison that was interrupted: the next one is complete, and the one after it is not.
    database.sql("UPDATE daftar.origin SET is_compared = false");
    let compared = migrate(&data_dir, &["compare", "--json"]).expect_success().json();
    assert_eq!(compared["same"]["individuals"], people);
    let served = folder.path().join("served");
    let _config = postgres::settings(&served, &database.url(), Some(folder.path()), "");
    let refused = postgres::run(&served, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for reported in ["not compared with its source", "run `daftar migrate catch-up --to postgres` again"] {
        assert!(refused.stderr.contains(reported), "{refused:?}");
    }
    for expected in [json!(people), Value::Null] {
        let again = migrate(&data_dir, &["catch-up", "--json"]).expect_success().json();
        assert_eq!((&again["differences"], &again["same"]["individuals"]), (&json!(0), &expected));
    }

    // The first server starts on the old folder: its plugins become those of all servers, unchanged.
    let mut processes = Processes::start_on(database.clone(), 0, &trusted);
    copy_keys(&data_dir, processes.shared_dir());
    let first = postgres::serve(&data_dir, &database.url(), Some(processes.shared_dir()), &trusted);
    let connection = first.connection();
    let at_first = ApiClient::new(connection, credentials, client.token().to_owned());
    assert_eq!(responses(&at_first, &rounds), before);
    assert_eq!(administered(&Server::admin(&data_dir), &writing.requests), seen);
    for _ in 0..2 {
        let number = processes.start_one();
        assert_eq!(responses(&processes.at(number, &client), &rounds), before, "process {number}");
        assert_eq!(administered(&processes.admin(number), &writing.requests), seen, "process {number}");
        assert_eq!(version_of(&processes.admin(number), "small").as_deref(), Some("1.0.0"), "process {number}");
        for made in &writing.clients {
            let of_round = processes.client_of(number, made);
            assert_eq!(of_round.get(&path("Individual", &id("a", 0))).status, 200);
        }
    }
    assert_eq!(version_of(&Server::admin(&data_dir), "small").as_deref(), Some("1.0.0"));
    drop(at_first.create_individual(&person("new", json!({"gender": FEMALE}))));
    assert_eq!(processes.at(0, &client).get(&path("Individual", "new")).status, 200);

    // Now the database is ahead of the folder.
    let refused = migrate(&data_dir, &["catch-up"]);
    assert!(refused.code != 0 && refused.stderr.contains("was written to since"), "{refused:?}");
    assert_eq!(first.stop().code, 0);
}

#[test]
fn incompatible_steps_are_rejected_with_the_valid_ones() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let refused = |arguments: &[&str]| {
        let refused = process::run(folder.path(), &[&["migrate"], arguments].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        refused.stderr
    };
    let file = folder.path().join("register.daftar");
    std::fs::write(&file, "daftar-backup").expect("a file can be written");
    let file = file.to_str().expect("a path is UTF-8");
    let from_backup = ["fill", "--to", "postgres", "--backup", file];
    for more in [&["catch-up", "--backup", file][..], &["compare", "--backup", file], &["compare", "--to", "sled"]] {
        assert!(refused(more).contains("unexpected argument"), "{more:?}");
    }
    assert!(refused(&["fill"]).contains("--to"));
    assert!(refused(&["fill", "--to", "postgres", "--trusted-key", file]).contains("--backup"));
    assert!(refused(&["fill", "--to", "sled", "--backup", file]).contains("daftar restore"));
    assert!(refused(&["fill", "--to", "postgres", "--admin-url", "http://127.0.0.1:1"]).contains("--backup"));
    // A file that is not a backup, and a folder that is not one.
    let config = folder.path().join("daftar.toml");
    let database = Database::shared();
    std::fs::write(&config, format!("[store.postgres]\nurl = \"{}\"\n", database.url())).expect("it can be written");
    let config = ["--config", config.to_str().expect("UTF-8")];
    let nothing = folder.path().join("nothing");
    for (more, code, reported) in [
        (from_backup.to_vec(), 66, "its first line"),
        (vec!["fill", "--to", "postgres", "--backup", nothing.to_str().expect("UTF-8")], 66, "nothing"),
        (vec!["catch-up"], 1, "there is no register in"),
    ] {
        let refused = process::run(&nothing, &[&["migrate"], &more[..], &config].concat());
        assert!(refused.code == code && refused.stderr.contains(reported), "{more:?}: {refused:?}");
    }
    assert!(!nothing.exists(), "nothing was made");
}
