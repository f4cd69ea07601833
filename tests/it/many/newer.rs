//! Servers of two releases on one database, as during a rolling upgrade. The newer one is simulated: data under tags of
//! its own, and its additions to the tables, are put into the database as it would put them. The older ones are real.

use std::sync::Arc;

use daftar_domain::code::CodeUri;
use daftar_domain::consent::ConsentRecord;
use daftar_domain::group::GroupRecord;
use daftar_domain::individual::IndividualRecord;
use daftar_domain::program::ProgramRecord;
use daftar_domain::program_membership::ProgramMembershipRecord;
use daftar_domain::record::{Fields, Record, RecordId, RecordType};
use daftar_domain::schema::{REVISION, Tag};
use daftar_domain::value::{Value, Values};
use daftar_store::StoredCodeTable;
use daftar_store::record::json::{CodeNames, MEMBERS, decode_one, encode_one};
use daftar_tests::postgres::{self, Database, IN_MEMORY, Processes};
use daftar_tests::process::{self, Server};
use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, ROLE, household, path, person, reference, with};
use daftar_tests::{ApiClient, token};
use serde_json::{Value as Json, json};

const SCOPES: [&str; 4] = ["individual:all", "group:all", "program:all", "program_membership:all"];
/// The revision of the schema that the newer server has.
const NEWER: u16 = REVISION + 1;

/// Changes of the tables by the newer server, which an older one can use.
const NEWER_LAYOUT: &str = "\
INSERT INTO daftar.layout_history SELECT 1000, name, applied_on, checksum FROM daftar.layout_history LIMIT 1;
ALTER TABLE daftar.search_individual ADD COLUMN registered_on integer;
ALTER TABLE daftar.search_group ADD COLUMN registered_on integer;
ALTER TABLE daftar.search_membership ADD COLUMN registered_on integer;
ALTER TABLE daftar.search_consent ADD COLUMN registered_on integer;
CREATE INDEX search_individual_registered_on ON daftar.search_individual (registered_on);
UPDATE daftar.search_individual SET registered_on = 20001 WHERE id = 1;
UPDATE daftar.search_group SET registered_on = 20002;
UPDATE daftar.search_membership SET registered_on = 20004;
UPDATE daftar.search_consent SET registered_on = 20005";
/// Its additional search columns.
const COLUMNS: &str = "\
SELECT registered_on FROM daftar.search_individual WHERE id = 1
UNION ALL SELECT registered_on FROM daftar.search_group
UNION ALL SELECT registered_on FROM daftar.search_membership
UNION ALL SELECT registered_on FROM daftar.search_consent ORDER BY 1";

fn number<T: RecordType>() -> usize {
    T::KIND.place() + 1
}

/// The first record of a kind, as it is stored.
fn stored<T: RecordType>(database: &Database) -> String {
    database.sql(&format!("SELECT value FROM daftar.record WHERE kind = {} AND id = 1", number::<T>()))
}

fn decoded<T: RecordType>(database: &Database) -> Record<Fields<T>> {
    decode_one(RecordId(1), stored::<T>(database).trim().as_bytes()).unwrap()
}

fn store<T: RecordType>(database: &Database, json: &str) {
    let kind = number::<T>();
    database.sql(&format!("UPDATE daftar.record SET value = $json${json}$json$ WHERE kind = {kind} AND id = 1"));
}

/// The texts of all codes.
fn names(database: &Database) -> CodeNames {
    let uris = database.sql("SELECT system || '#' || code FROM daftar.code ORDER BY number");
    let codes = uris.lines().map(|uri| CodeUri::parse(uri).unwrap()).collect();
    let mut names = CodeNames::new();
    names.apply(&StoredCodeTable { codes, editions: Vec::new() });
    names
}

/// The same values with one of that revision in the record and in each of its parts.
fn with_later(values: &Values, revision: u16) -> Values {
    fn within(value: &Value, revision: u16) -> Value {
        match value {
            Value::Struct(values) => Value::Struct(with_later(values, revision)),
            Value::List(items) => Value::List(items.iter().map(|item| within(item, revision)).collect()),
            other => other.clone(),
        }
    }
    let known = values.iter().map(|(tag, value)| (tag, within(value, revision)));
    // Its text as `jsonb` gives it back.
    let member = Value::later(revision, r#"{"clan":{"uri": "urn:x:clan#1", "number": [1.50, "ገ"]}}"#.as_bytes());
    known.chain([(Tag(900), Value::later(revision, b"what is later")), (MEMBERS, member)]).collect()
}

/// The newer server writes a record: members that the older ones do not have, and values under its tags.
fn bring<T: RecordType>(database: &Database) {
    let mut record = decoded::<T>(database);
    record.details.values = with_later(&record.details.values, NEWER);
    let json = encode_one(&record, &names(database)).unwrap();
    store::<T>(database, std::str::from_utf8(&json).unwrap());
}

fn bring_all(database: &Database) {
    bring::<IndividualRecord>(database);
    bring::<GroupRecord>(database);
    bring::<ProgramRecord>(database);
    bring::<ProgramMembershipRecord>(database);
    bring::<ConsentRecord>(database);
}

/// The newer server reads a record that was written again since: all of its data is there.
fn check<T: RecordType>(database: &Database, versions: u64) {
    let record = decoded::<T>(database);
    let values = &record.details.values;
    assert_eq!(record.meta.version.0, versions, "{}", T::KIND);
    assert_eq!(values.later_revision(), Some(NEWER), "{}", T::KIND);
    assert_eq!(*values, with_later(&values.without_later(), NEWER), "{}", T::KIND);
}

/// One record of each kind, with every part.
fn register(processes: &Processes, client: &ApiClient) -> String {
    let full = json!({
        "name": {"given": "Abeba", "family": "Haile"}, "gender": FEMALE, "birth_date": "1980-01-01",
        "telecom": [{"system": "phone", "value": "+251911000001"}, {"system": "sms", "value": "+251911000002"}],
        "address": [{"region": "North", "line": ["a", "b"]}, {"region": "South"}],
        "income": {"amount": 12.5, "period": "month"},
    });
    drop(client.create_individual(&person("1", full)));
    drop(client.create_individual(&person("2", json!({}))));
    let household = household("H-1", &[("1", "head"), ("2", "spouse")]);
    drop(client.create_group(&with(household, json!({"address": [{"region": "North"}]}))));
    let admin = processes.admin(0);
    let program = json!({
        "identifier": [{"system": NATIONAL_ID, "value": "P-1"}], "name": "Pensions", "target_type": "individual",
    });
    drop(admin.request("POST", "/programs").json(&program).send().expect(201));
    drop(client.post("/ProgramMembership", &place("enrolled")).expect(201));
    let consent = json!({
        "subject": reference("1"), "grantee": "Ministry of Health", "scopes": ["individual"], "effective_date": "2026-03-01",
    });
    let consent = admin.request("POST", "/consents").json(&consent).send().expect(201).json();
    consent["consent_id"].as_str().expect("a consent has a name").to_owned()
}

fn place(status: &str) -> Json {
    json!({
        "program": format!("Program/{NATIONAL_ID}|P-1"), "beneficiary": reference("1"), "status": status,
    })
}

#[test]
fn data_of_a_newer_server_survives_every_write_of_older_ones() {
    let mut processes = Processes::start(1);
    // The other one holds the register in memory.
    processes.set_store(IN_MEMORY);
    let _in_memory = processes.start_one();
    processes.is_ready(1);
    let credentials = processes.credentials(0, &SCOPES);
    let client = processes.client_of(0, &credentials);
    let consent = register(&processes, &client);
    let (individual, group) = (path("Individual", "1"), path("Group", "H-1"));
    let before = [client.get(&individual).expect(200).json(), client.get(&group).expect(200).json()];
    processes.database().sql(NEWER_LAYOUT);
    bring_all(processes.database());

    // Older servers show the data that they know, and one that was stopped restarts.
    let other = processes.at(1, &client);
    assert_eq!([other.get(&individual).expect(200).json(), other.get(&group).expect(200).json()], before);
    let data_dir = processes.kill(1);
    processes.start_again(1, data_dir);
    processes.is_ready(1);
    let other = processes.at(1, &client);

    // They write records that they read, with changes; a part of one; a line of an import; a member; and records
    // managed by the administrator.
    let put = with(before[0].clone(), json!({"gender": MALE}));
    drop(client.request("PUT", &individual).json(&put).send().expect(200));
    let patch = json!({"name": {"given": "Almaz"}});
    drop(other.request("PATCH", &individual).json(&patch).send().expect(200));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("people.ndjson");
    let mut line = with(client.get(&individual).expect(200).json(), json!({"birth_date": "1981-01-01"}));
    line.as_object_mut().unwrap().remove("meta");
    std::fs::write(&file, format!("{line}\n")).unwrap();
    let import = ["import", file.to_str().unwrap(), "--on-existing", "update", "--json"];
    drop(postgres::run(processes.data_dir(0), &import).expect_success());
    check::<IndividualRecord>(processes.database(), 4);
    let put = with(before[1].clone(), json!({"name": "Haile"}));
    drop(other.request("PUT", &group).json(&put).send().expect(200));
    let member = group.clone() + &path("/member", "2").replace("//", "/");
    drop(client.request("PATCH", &member).json(&json!({"role": format!("{ROLE}#child")})).send().expect(200));
    check::<GroupRecord>(processes.database(), 3);
    let renamed = json!({"name": "Pensions of the old"});
    drop(processes.admin(1).request("PATCH", &path("programs", "P-1")).json(&renamed).send().expect(200));
    check::<ProgramRecord>(processes.database(), 2);
    drop(other.request("PUT", &path("ProgramMembership", "1")).json(&place("exited")).send().expect(200));
    check::<ProgramMembershipRecord>(processes.database(), 2);
    drop(processes.admin(1).request("POST", &format!("/consents/{consent}/withdraw")).send().expect(200));
    check::<ConsentRecord>(processes.database(), 2);

    // The search columns of both are valid, and the rows that the newer one has to check are recorded.
    let found = other.get("/Individual?gender=urn:iso:std:iso:5218%231&birth_date=1981-01-01").expect(200).json();
    assert_eq!(found["total"], 1);
    assert_eq!(
        processes.database().sql(COLUMNS).split_whitespace().collect::<Vec<_>>(),
        ["20001", "20002", "20004", "20005"]
    );
    let noted = processes.database().sql("SELECT kind, id, revision FROM daftar.search_behind ORDER BY kind");
    let expected: Vec<String> = (1..=5).map(|kind| format!("{kind}|1|{NEWER}")).collect();
    assert_eq!(noted.split_whitespace().collect::<Vec<_>>(), expected);

    // The same from a backup, in a folder that an older program serves, and from there in another database.
    let backup = folder.path().join("register.daftar");
    drop(postgres::run(processes.data_dir(0), &["backup", backup.to_str().unwrap()]).expect_success());
    let restored = folder.path().join("restored");
    drop(process::run(&restored, &["restore", backup.to_str().unwrap()]).expect_success());
    let server = Server::serve(&restored, &[]);
    let issued = token::fetch(&server.connection(), &credentials);
    let restored_client = ApiClient::new(server.connection(), credentials.clone(), issued);
    let patch = json!({"telecom": before[0]["telecom"], "birth_date": "1982-01-01"});
    drop(restored_client.request("PATCH", &individual).json(&patch).send().expect(200));
    assert_eq!(server.stop().code, 0);
    drop(process::run(&restored, &["verify"]).expect_success());
    let database = Arc::new(Database::shared());
    let config = postgres::settings(&restored, &database.url(), None, "");
    let migrate = ["migrate", "fill", "--to", "postgres", "--config", config.to_str().unwrap()];
    drop(process::run(&restored, &migrate).expect_success());
    check::<IndividualRecord>(&database, 5);
    check::<GroupRecord>(&database, 3);
    check::<ConsentRecord>(&database, 2);
    let noted = database.sql("SELECT kind, id, revision FROM daftar.search_behind ORDER BY kind");
    assert_eq!(noted.split_whitespace().collect::<Vec<_>>(), expected);
}

#[test]
fn data_that_no_server_can_have_stored_is_rejected_as_damage() {
    let mut processes = Processes::start(1);
    let client = processes.client_of(0, &processes.credentials(0, &SCOPES));
    drop(register(&processes, &client));
    drop(client.create_individual(&person("3", json!({}))));
    // A tag of this revision that this revision does not have, and a member that is missing.
    bring::<IndividualRecord>(processes.database());
    let damages = "UPDATE daftar.record SET value = jsonb_set(value - 'clan', '{name}', (value -> 'name') - 'clan') - 'revision' WHERE kind = 1 AND id = 1; \
                   UPDATE daftar.record SET value = value #- '{meta,last_updated}' WHERE kind = 2";
    drop(processes.database().sql(damages));
    for damaged in [path("Individual", "1"), path("Group", "H-1")] {
        assert_eq!(client.get(&damaged).status, 500, "{damaged}");
        assert_eq!(client.request("PATCH", &damaged).json(&json!({"active": true})).send().status, 500, "{damaged}");
    }
    assert_eq!(client.get(&path("Individual", "3")).status, 200, "others are served");
    let (stopped, _) = processes.stop(0);
    for message in [
        "a stored individual cannot be read: its `name` has a value with the tag 900, which its revision of the schema does not have",
        "a stored group cannot be read: its `meta.last_updated` is not valid",
    ] {
        assert!(stopped.stderr.contains(message), "{message}: {}", stopped.stderr);
    }
}
