//! A headless browser that is driven through the workbench of the server's own program. Screenshots of every view are
//! in `pictures/workbench` of the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use daftar_tests::{Credentials, Server, artifacts, process, script as steps};
use serde_json::{Value, json};

use super::people::{Person, all_people, woman_without_age};

/// The scripts that drive it.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/workbench");
/// The scopes of an analyst.
const SCOPES: [&str; 3] = ["eligibility:read", "individual:read", "vocabulary:read"];
/// The further scopes of one who proposes rules for programs.
const PROPOSAL_SCOPES: [&str; 4] = ["eligibility:create", "group:read", "program:read", "program_membership:read"];

#[test]
fn an_analyst_goes_through_every_view() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let people = all_people();
    let server = serve(folder.path(), &data_dir, &people);
    let client = client(&data_dir, "600");
    let limited = self::client(&data_dir, "3");

    let year = this_year();
    let by_a = |person: &Person| person.is_woman_of(60, year);
    let by_b = |person: &Person| person.is_poor_of(65, year);
    let of_a =
        |outcome: Option<bool>| count_of(&people, |person| by_a(person) == Some(true) && by_b(person) == outcome);
    let count = |meets: &dyn Fn(&Person) -> bool| count_of(&people, meets);
    let reported = |client: &Credentials| json!({"client_id": client.id, "client_secret": client.secret});
    let given = json!({
        "url": server.url,
        "chromium": browser.chromium,
        "pictures": artifacts::pictures("workbench"),
        "client": reported(&client),
        "limited": reported(&limited),
        "rule": "is_female(me) && age_years(me.birth_date) >= 60",
        "counts": {
            "eligible": count(&|person| by_a(person) == Some(true)),
            "not_eligible": count(&|person| by_a(person) == Some(false)),
            "undetermined": count(&|person| by_a(person).is_none()),
        },
        "reasons": super::texts::reasons().keys().collect::<Vec<_>>(),
        "other": "age_years(me.birth_date) >= 65 && me.income.amount < 1000.0",
        "moves": {
            "gained": count(&|person| by_b(person) == Some(true) && by_a(person) != Some(true)),
            "refused": of_a(Some(false)),
            "undetermined": of_a(None),
            "kept": of_a(Some(true)),
        },
    });
    browser.walk("analyst.mjs", &given.to_string(), |what| match what {
        "revoke" => {
            for command in ["disable", "enable"] {
                drop(process::run(&data_dir, &["client", command, &client.id]).expect_success());
            }
        }
        other => panic!("unknown step `{other}`"),
    });
    drop(server.stop());
}

#[test]
fn an_analyst_builds_rules_without_the_editor() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let people = all_people();
    let server = serve(folder.path(), &data_dir, &people);
    let client = client(&data_dir, "600");
    let year = this_year();
    let count = |outcome: Option<bool>| count_of(&people, |person| person.is_woman_of(60, year) == outcome);
    let given = json!({
        "url": server.url,
        "chromium": browser.chromium,
        "pictures": artifacts::pictures("workbench-builder"),
        "client": {"client_id": client.id, "client_secret": client.secret},
        "counts": {"eligible": count(Some(true)), "not_eligible": count(Some(false)), "undetermined": count(None)},
    });
    browser.walk("builder.mjs", &given.to_string(), |what| panic!("unknown step `{what}`"));
    drop(server.stop());
}

#[test]
fn an_analyst_works_in_arabic_by_keyboard_alone() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let people = all_people();
    let (given_name, family_name) = ("زينب", "الحداد");
    let server = serve_with(folder.path(), &data_dir, &people, &[woman_without_age(given_name, family_name)]);
    let scopes = [&SCOPES[..], &PROPOSAL_SCOPES].concat();
    let client = client_with(&data_dir, "600", &scopes);

    let year = this_year();
    let by_a = |person: &Person| person.is_pensioner_from(65, year);
    let by_b = |person: &Person| person.is_pensioner_from(62, year);
    let count = |outcome: Option<bool>| count_of(&people, |person| by_a(person) == outcome);
    let moved = |is_of_a: bool, outcome: Option<bool>| {
        count_of(&people, |person| (by_a(person) == Some(true)) == is_of_a && by_b(person) == outcome)
    };
    let given = json!({
        "url": server.url,
        "chromium": browser.chromium,
        "pictures": artifacts::pictures("workbench-arabic"),
        "client": {"client_id": client.id, "client_secret": client.secret},
        "undetermined": {"name": format!("{given_name} {family_name}")},
        // The woman is not one of the counted people.
        "counts": {"eligible": count(Some(true)), "not_eligible": count(Some(false)), "undetermined": count(None) + 1},
        "moves": {
            "gained": moved(false, Some(true)),
            "refused": moved(true, Some(false)),
            "undetermined": moved(true, None),
            "kept": moved(true, Some(true)),
        },
    });
    browser.walk("arabic.mjs", &given.to_string(), |what| panic!("unknown step `{what}`"));
    drop(server.stop());
}

#[test]
fn an_analyst_tests_saves_and_proposes_rules() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let people = all_people();
    let server = serve(folder.path(), &data_dir, &people);
    let scopes = [&SCOPES[..], &PROPOSAL_SCOPES].concat();
    let client = client_with(&data_dir, "600", &scopes);
    let rule = "is_female(me) && age_years(me.birth_date) >= 60";
    let (identifier, name) = ("urn:svc:vocab:id-type#tax_id|PENSION", "Pension of the state");
    let of_program = ["--identifier", identifier, "--name", name, "--target-type", "individual", "--eligibility", rule];
    drop(process::run(&data_dir, &[&["program", "create"][..], &of_program].concat()).expect_success());

    let year = this_year();
    let count = |by_a: &dyn Fn(Option<bool>) -> bool, by_b: Option<bool>| {
        count_of(&people, |person| by_a(person.is_woman_of(60, year)) && person.is_poor_of(65, year) == by_b)
    };
    let given = json!({
        "url": server.url,
        "chromium": browser.chromium,
        "pictures": artifacts::pictures("workbench-keep"),
        "client": {"client_id": client.id, "client_secret": client.secret},
        "rule": rule,
        "other": "age_years(me.birth_date) >= 65 && me.income.amount < 1000.0",
        "program": name,
        "eligible": "W-0002",
        "moves": {
            "gained": count(&|outcome| outcome != Some(true), Some(true)),
            "refused": count(&|outcome| outcome == Some(true), Some(false)),
        },
    });
    browser.walk("keep.mjs", &given.to_string(), |what| match what {
        "accept" => accept_draft(&data_dir, &format!("Program/{identifier}")),
        other => panic!("unknown step `{other}`"),
    });
    drop(server.stop());
}

/// Accepts the only open draft for that program.
fn accept_draft(data_dir: &Path, program: &str) {
    let list = ["rule-draft", "list", "--status", "open", "--program", program, "--json"];
    let drafts = process::run(data_dir, &list).expect_success().json();
    let [draft] = drafts["data"].as_array().unwrap().as_slice() else { panic!("not one draft: {drafts}") };
    let (id, version) = (draft["id"].as_str().unwrap(), draft["version"].to_string());
    drop(process::run(data_dir, &["rule-draft", "accept", id, "--if-version", &version]).expect_success());
}

/// A server with those people.
fn serve(folder: &Path, data_dir: &Path, people: &[Person]) -> Server {
    serve_with(folder, data_dir, people, &[])
}

/// A server with those people and further records.
fn serve_with(folder: &Path, data_dir: &Path, people: &[Person], more: &[Value]) -> Server {
    let lines: String =
        people.iter().map(Person::line).chain(more.iter().cloned()).map(|line| format!("{line}\n")).collect();
    let file = folder.join("people.ndjson");
    std::fs::write(&file, lines).unwrap();
    let server = Server::serve(data_dir, &[]);
    drop(process::run(data_dir, &["import", file.to_str().unwrap()]).expect_success());
    server
}

fn this_year() -> i16 {
    jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).year()
}

fn count_of(people: &[Person], meets: impl Fn(&Person) -> bool) -> usize {
    people.iter().filter(|person| meets(person)).count()
}

#[test]
fn an_administrator_installs_a_plugin_and_removes_it() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &[]);
    let known: Value = serde_json::from_slice(&std::fs::read(data_dir.join("server.json")).unwrap()).unwrap();
    let given = json!({
        "url": known["admin_url"],
        "chromium": browser.chromium,
        "pictures": artifacts::pictures("workbench-admin"),
        "token": std::fs::read_to_string(data_dir.join("admin.token")).unwrap().trim(),
        "module": artifacts::module("farmer-registry"),
    });
    browser.walk("administrator.mjs", &given.to_string(), |what| panic!("unknown step `{what}`"));
    drop(server.stop());
}

fn client(data_dir: &Path, per_minute: &str) -> Credentials {
    client_with(data_dir, per_minute, &SCOPES)
}

fn client_with(data_dir: &Path, per_minute: &str, scopes: &[&str]) -> Credentials {
    let mut arguments = vec!["client", "create", "--name", "analyst", "--rate-limit-per-minute", per_minute, "--json"];
    arguments.extend(scopes.iter().flat_map(|scope| ["--scope", *scope]));
    Credentials::read(&process::run(data_dir, &arguments).expect_success().json())
}

/// The runtime of the scripts, and the browser with its absolute path.
struct Browser {
    node: PathBuf,
    chromium: PathBuf,
}

impl Browser {
    /// The one of this machine; without it a test is not run.
    fn find() -> Option<Self> {
        let is_there = daftar_test_needs::programs(&["chromium", "node"]);
        let found = is_there.then(|| ["node", "chromium"].map(daftar_test_needs::program));
        let Some([Some(node), Some(chromium)]) = found else { return None };
        // The scripts search for their packages next to themselves.
        artifacts::place_scripts(Path::new(SCRIPTS), &artifacts::clients().join("browser"));
        Some(Self { node, chromium })
    }

    /// Runs the script; `act` performs the requested steps.
    #[track_caller]
    fn walk(&self, script: &str, given: &str, act: impl Fn(&str)) {
        let mut command = Command::new(&self.node);
        command.arg(artifacts::clients().join("browser").join(script));
        command.env("DAFTAR_WORKBENCH_WALK", given).env_remove("NODE_OPTIONS");
        steps::walk(command, script, act);
    }
}
