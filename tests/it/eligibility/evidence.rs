//! Evidence bundles: exported over HTTP and by the command line, and repeated without the register.

use std::path::{Path, PathBuf};
use std::process::Command;

use daftar::auth::key_ring::DecisionKeyRing;
use daftar::service::eligibility::evidence::{self, Content};
use daftar_tests::process::{Finished, finish, run};
use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, household, person, reference, with};
use daftar_tests::{ApiClient, TestApp, artifacts};
use serde_json::{Value, json};

use crate::consent::world::{consent_client, give};
use crate::program;

const OCCUPATION: &str = "urn:ilo:isco-08";
const EVIDENCE: &str = "/Eligibility/$evidence";
/// Reads a hierarchy, an open vocabulary, texts of codes, a list of structures, members and memberships.
const RULE: &str = "is_female(me) && age_years(me.birth_date) >= 60\n  && descends_from(me.education, 'urn:unesco:isced:2011#2')\n  && descends_from(me.occupation, 'urn:ilo:isco-08#FARM')\n  && me.gender.display != '' && me.address.exists(a, a.city == 'Thiès')\n  && members.exists(m, is_male(m)) && !programs.exists(p, p.status == 'enrolled')";
const SCOPES: &[&str] = &["individual:all", "group:all", "program:read", "program_membership:read", "eligibility:read"];

/// A register with an open vocabulary of occupations, a program, and a household of a woman of 65 and a man.
fn register() -> (TestApp, ApiClient, tempfile::TempDir) {
    let plugins = tempfile::tempdir().unwrap();
    let names = ["id-type", "gender", "relationship", "group-type", "education", "eligibility-cel"];
    for file in names.map(artifacts::plugin).into_iter().chain([artifacts::fixture("open-occupation")]) {
        std::fs::copy(&file, plugins.path().join(file.file_name().unwrap())).unwrap();
    }
    let app = TestApp::builder().plugins(plugins.path()).start();
    let client = app.client(SCOPES);
    let woman = json!({
        "gender": FEMALE, "birth_date": "1961-01-01", "education": "urn:unesco:isced:2011#24",
        "occupation": format!("{OCCUPATION}#FARM+FISH"), "address": [{"city": "Dakar"}, {"city": "Thiès"}],
        "name": {"family": "Hidden-Name"},
    });
    drop(client.post("/Individual", &person("1", woman)).expect(201));
    drop(client.post("/Individual", &person("2", json!({"gender": MALE}))).expect(201));
    drop(client.post("/Group", &household("H-1", &[("1", "head"), ("2", "spouse")])).expect(201));
    program::create(&app, "PENSION", json!({"eligibility": RULE}));
    (app, client, plugins)
}

fn program_body() -> Value {
    json!({"program": format!("Program/{NATIONAL_ID}|PENSION"), "subjects": [reference("1"), reference("2")], "explain": true})
}

fn save(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Runs `daftar replay` in a folder without a register.
fn replay(folder: &Path, bundle: &Path, more: &[&str]) -> Finished {
    let engine = artifacts::plugin("eligibility-cel");
    let mut command = Command::new(artifacts::program());
    command.current_dir(folder).arg("replay").arg(bundle).args(more);
    if !more.contains(&"--engine") {
        command.arg("--engine").arg(engine);
    }
    finish(command)
}

fn content(bundle: &[u8]) -> Content {
    evidence::open(bundle).unwrap().content
}

/// The same bundle with another content, signed with a key of another folder.
fn forged(bundle: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut changed = serde_json::to_value(content(bundle)).unwrap();
    change(&mut changed);
    let folder = tempfile::tempdir().unwrap();
    let ring = DecisionKeyRing::load_or_create(folder.path(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    evidence::sign(&ring.load(), &serde_json::from_value(changed).unwrap()).unwrap()
}

#[test]
fn a_decision_is_repeated_without_the_register() {
    let (mut app, client, plugins) = register();
    let body = program_body();
    let evaluated = client.post("/Eligibility/$evaluate", &body).expect(200);
    let bundle = client.post(EVIDENCE, &body).expect(200).bytes().to_vec();
    let own = content(&bundle);
    assert_eq!(own.response.as_bytes(), evaluated.bytes(), "the response of `$evaluate` in the bundle");
    assert_eq!(evaluated.json()["results"][0]["outcome"], "eligible", "{}", evaluated.text());
    assert_eq!(client.post(EVIDENCE, &body).expect(200).bytes(), bundle, "the same decision is the same bundle");
    assert!(!String::from_utf8_lossy(&bundle).contains("Hidden-Name"), "only facts that the rule reads");
    let again = with(body, json!({"decision": evaluated.json()["decision"]}));
    let repeated = content(client.post(EVIDENCE, &again).expect(200).bytes());
    assert_eq!(repeated.response, own.response, "an earlier decision can be exported");

    let folder = tempfile::tempdir().unwrap();
    let by_command = folder.path().join("by-command.json");
    let (program, of) = (format!("{NATIONAL_ID}|PENSION"), format!("{NATIONAL_ID}|1"));
    let arguments = ["eval", "--program", &program, "--of", &of, "--evidence", by_command.to_str().unwrap()];
    let exported = run(app.data_dir(), &arguments).expect_success();
    assert!(exported.stdout.contains("eligible") && exported.stderr.contains("wrote `"), "{exported:?}");
    let taken = run(app.data_dir(), &arguments);
    assert!(taken.code == 73 && taken.stderr.contains("exists already"), "{taken:?}");
    let keys = run(app.data_dir(), &["key", "export"]).expect_success();
    let keys = save(folder.path(), "keys.json", keys.stdout.as_bytes());
    let keys = keys.to_str().unwrap();
    let entries = app.admin().get("/audit?action=evaluate").expect(200).json();
    assert!(entries.to_string().contains("evidence bundle issued"), "{entries}");

    app.stop();
    std::fs::remove_dir_all(app.data_dir()).unwrap();
    drop(plugins);
    let file = save(folder.path(), "bundle.json", &bundle);
    let repeated = replay(folder.path(), &file, &["--key", keys]).expect_success();
    assert!(
        repeated
            .stdout
            .contains(&format!("identical: the repeated response has the same {} bytes", own.response.len()))
    );
    assert!(repeated.stdout.contains("me.occupation = Farming + Fishing (FARM+FISH)"), "{}", repeated.stdout);
    assert!(repeated.stdout.contains("(checked with --key)") && repeated.stderr.is_empty(), "{repeated:?}");
    let unchecked = replay(folder.path(), &by_command, &["--json"]).expect_success();
    let reported = unchecked.json();
    assert_eq!((&reported["identical"], &reported["key"]["checked"]), (&json!(true), &json!(false)));
    assert_eq!(reported["response"]["results"][0]["outcome"], "eligible", "{reported}");
    assert!(unchecked.stderr.contains("comes from the bundle itself"), "{unchecked:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no register is made");
}

#[test]
fn changed_bundles_other_keys_and_other_engines_are_rejected() {
    let (app, client, _plugins) = register();
    let bundle = client.post(EVIDENCE, &program_body()).expect(200).bytes().to_vec();
    let folder = tempfile::tempdir().unwrap();
    let keys = run(app.data_dir(), &["key", "export"]).expect_success().stdout;
    let keys = save(folder.path(), "keys.json", keys.as_bytes());
    let keys = keys.to_str().unwrap();
    let fails = |bytes: &[u8], more: &[&str], code: i32, part: &str| {
        let finished = replay(folder.path(), &save(folder.path(), "bundle.json", bytes), more);
        assert!(finished.code == code && finished.stderr.contains(part), "{part}: {finished:?}");
    };
    let changed = String::from_utf8(bundle.clone()).unwrap().replacen("1961-01-01", "1962-01-01", 1);
    fails(changed.as_bytes(), &[], 66, "it was changed after it was signed");
    fails(b"{}", &[], 66, "it is not an evidence bundle");

    let young = forged(&bundle, |content| content["subjects"][0]["facts"]["me.birth_date"] = json!(["2001-01-01"]));
    fails(&young, &["--key", keys], 66, "it is signed by the key");
    fails(&young, &[], 1, "`results[0].outcome` was recorded as \"eligible\" and is now \"not_eligible\"");
    let outcome = forged(&bundle, |content| {
        let response = content["response"].as_str().unwrap();
        content["response"] = json!(response.replacen("\"outcome\":\"not_eligible\"", "\"outcome\":\"eligible\"", 1));
    });
    let difference = "`results[1].outcome` was recorded as \"eligible\" and is now \"not_eligible\"";
    // The engine is compiled for each of these commands, so no case is run twice.
    let reported = replay(folder.path(), &save(folder.path(), "bundle.json", &outcome), &["--json"]);
    assert_eq!((reported.code, &reported.json()["identical"]), (1, &json!(false)), "{reported:?}");
    assert!(reported.json()["difference"].as_str().unwrap().contains(difference));

    let other = artifacts::fixture("open-occupation");
    fails(&bundle, &["--engine", other.to_str().unwrap()], 66, "has the digest sha256:");
    for (name, change, part) in
        [("facts", json!({}), "`facts` lacks `me."), ("members", json!(7), "values of `members.gender` for 7 rows")]
    {
        fails(&forged(&bundle, |content| content["subjects"][0][name] = change), &[], 66, part);
    }
    let other_rule = forged(&bundle, |content| content["expression"] = json!("is_female(me)"));
    fails(&other_rule, &[], 66, "asks other questions");
    let broken_rule = forged(&bundle, |content| content["expression"] = json!("me.("));
    fails(&broken_rule, &[], 66, "the rule cannot be repeated");
}

#[test]
fn a_bundle_has_no_fact_that_the_client_may_not_see() {
    let app = TestApp::start();
    let writer = app.client(&["individual:all", "group:all"]);
    let hidden = "1950-12-31";
    drop(writer.create_individual(&person("1", json!({"gender": FEMALE, "birth_date": hidden}))));
    drop(writer.create_individual(&person("2", json!({"gender": MALE, "birth_date": hidden}))));
    let client = consent_client(&app, json!({}));
    drop(give(&app, &reference("1"), json!({"scopes": ["individual"], "fields": ["gender"]})));
    let rule = "is_female(me) && age_years(me.birth_date) >= 60";
    let body = |id: &str| json!({"expression": rule, "subjects": [reference(id)], "explain": true});
    let bundle = client.post(EVIDENCE, &body("1")).expect(200).bytes().to_vec();
    assert!(!String::from_utf8_lossy(&bundle).contains(hidden), "{}", String::from_utf8_lossy(&bundle));
    let own = content(&bundle);
    assert_eq!(own.subjects[0].facts["me.birth_date"], [Value::Null]);
    assert!(own.response.contains("\"visibility\":\"consent\"") && own.response.contains("undetermined"));
    let folder = tempfile::tempdir().unwrap();
    drop(replay(folder.path(), &save(folder.path(), "bundle.json", &bundle), &[]).expect_success());

    let refused = client.post(EVIDENCE, &body("2")).expect(404);
    assert!(!refused.text().contains(hidden), "{}", refused.text());
    let limited = app.client(&["eligibility:read"]);
    drop(limited.post(EVIDENCE, &body("1")).expect(403));
    let many = json!({"expression": "true", "subjects": vec![json!({}); 101]});
    assert!(limited.post(EVIDENCE, &many).expect(422).text().contains("at most 100 subjects"));
    let inline = json!({"expression": "is_female(me)", "subjects": [{"gender": FEMALE}]});
    let bundle = limited.post(EVIDENCE, &inline).expect(200).bytes().to_vec();
    let repeated = replay(folder.path(), &save(folder.path(), "bundle.json", &bundle), &[]).expect_success();
    assert!(repeated.stdout.contains("subjects[0]"), "{}", repeated.stdout);
}
