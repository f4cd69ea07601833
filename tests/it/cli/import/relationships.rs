//! Relationships to records that were created later.

use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::{NATIONAL_ID, ROLE, household, path, with};
use serde_json::{Value, json};

use super::{REJECTS, counts, import, individual, lines, of_type, rejects};

fn related(kind: &str, id: &str, role: &str) -> Value {
    json!({"target": {"reference": format!("{kind}/{NATIONAL_ID}|{id}")}, "type": format!("{ROLE}#{role}")})
}

fn addition(kind: &str, id: &str, relationships: &[Value]) -> Value {
    let identifier = json!([{"system": NATIONAL_ID, "value": id}]);
    json!({"type": kind, "identifier": identifier, "relationship": relationships, "$on_existing": "add-relationships"})
}

#[test]
fn records_that_refer_to_each_other_survive_an_export_and_an_import() {
    let (first, second, folder) = (TestApp::start(), TestApp::start(), tempfile::tempdir().unwrap());
    let people = ["1", "2", "3", "4"].map(|id| individual(id, json!({})));
    let groups = ["G1", "G2"].map(|id| of_type("Group", household(id, &[("1", "head")])));
    let file = lines(folder.path(), "fill.ndjson", &[&people[..], &groups].concat());
    assert_eq!(counts(&import(first.data_dir(), &file, &[]).expect_success()), [6, 6, 0, 0, 0]);
    let client = first.client(&["individual:all", "group:all"]);
    for (kind, id, relationships) in [
        ("Individual", "1", json!([related("Individual", "2", "spouse")])),
        // The order is part of the record: the last relationship waits, too.
        (
            "Individual",
            "2",
            json!([
                related("Individual", "1", "spouse"),
                with(related("Individual", "4", "child"), json!({"period": {"start": "2020-01-01"}})),
                related("Individual", "1", "sibling"),
            ]),
        ),
        ("Individual", "3", json!([])),
        ("Individual", "4", json!([related("Individual", "2", "parent")])),
        ("Group", "G1", json!([related("Group", "G2", "affiliated_with")])),
        ("Group", "G2", json!([related("Group", "G1", "affiliated_with")])),
    ] {
        let body = json!({"relationship": relationships});
        drop(client.request("PATCH", &path(kind, id)).json(&body).send().expect(200));
    }
    let export = |app: &TestApp, name: &str| {
        let file = folder.path().join(name);
        let reported = run(app.data_dir(), &["export", file.to_str().unwrap(), "--json"]).expect_success().json();
        assert_eq!(reported["records"], 6, "a record is counted once");
        (std::fs::read_to_string(&file).unwrap(), file)
    };
    let (exported, file) = export(&first, "one.ndjson");
    let read: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own = |line: &Value| {
        let count = |name: &str| line[name].as_array().map(Vec::len);
        let id = line["identifier"][0]["value"].as_str().unwrap().to_owned();
        (id, count("relationship"), line["$later_relationships"].as_u64(), line["$on_existing"] == "add-relationships")
    };
    let relationships: Vec<(String, Option<usize>, Option<u64>, bool)> = read.iter().map(own).collect();
    let expected = [
        ("1", Some(1), Some(1), false),
        ("2", Some(3), Some(2), false),
        ("3", Some(0), None, false),
        ("4", Some(1), None, false),
        ("1", Some(1), None, true),
        ("2", Some(2), None, true),
        ("G1", Some(1), Some(1), false),
        ("G2", Some(1), None, false),
        ("G1", Some(1), None, true),
    ];
    let expected = expected.map(|(id, count, later, is_addition)| (id.to_owned(), count, later, is_addition));
    assert_eq!(relationships, expected, "{exported}");
    let later = [
        with(related("Individual", "4", "child"), json!({"period": {"start": "2020-01-01"}})),
        related("Individual", "1", "sibling"),
    ];
    assert_eq!(read[5], addition("Individual", "2", &later));
    let dry_run = import(second.data_dir(), &file, &["--dry-run"]).expect_success();
    assert_eq!(counts(&dry_run), [9, 6, 3, 0, 0]);
    assert_eq!(counts(&import(second.data_dir(), &file, &[]).expect_success()), [9, 6, 3, 0, 0]);
    assert_eq!(export(&second, "two.ndjson").0, exported);
    let again = import(second.data_dir(), &file, &["--on-existing", "skip"]).expect_success();
    assert_eq!(counts(&again), [9, 0, 0, 9, 0], "the relationships are there");
    // An update replaces each record once, with all its relationships.
    let again = import(second.data_dir(), &file, &["--on-existing", "update"]).expect_success();
    assert_eq!(counts(&again), [9, 0, 6, 3, 0]);
    assert_eq!(export(&second, "three.ndjson").0, exported);
    let versions = second.client(&["individual:read"]).get(&path("Individual", "2")).expect(200).json();
    assert_eq!(versions["meta"]["version_id"], "3");
    // Of records that exist and such that do not: the relationships of a new one follow.
    let (third, lone) = (TestApp::start(), lines(folder.path(), "lone.ndjson", &people[..2]));
    assert_eq!(counts(&import(third.data_dir(), &lone, &[]).expect_success()), [2, 2, 0, 0, 0]);
    let mixed = import(third.data_dir(), &file, &["--on-existing", "update"]).expect_success();
    assert_eq!(counts(&mixed), [9, 4, 4, 1, 0]);
    assert_eq!(export(&third, "four.ndjson").0, exported);

    // Each cursor continues with the rest.
    let admin = first.admin();
    let all = admin.get("/export").expect(200).text();
    let cursors: Vec<(usize, &str)> =
        all.match_indices("{\"$export\":{\"cursor\"").map(|(at, _)| (at, &all[at..])).collect();
    assert!(cursors.len() > 5, "{all}");
    for (_, rest) in cursors {
        let (progress, rest) = rest.split_once('\n').unwrap();
        let progress: Value = serde_json::from_str(progress).unwrap();
        let cursor = progress["$export"]["cursor"].as_str().unwrap();
        let continued = admin.get(&format!("/export?cursor={cursor}")).expect(200).text();
        let records = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("{\"$export\"")).map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        assert_eq!(records(&continued), records(rest));
    }
    // Lines that no import accepts contain the complete record.
    for whole in ["codes=object", "meta=true", "keys=true"] {
        let lines = admin.get(&format!("/export?{whole}&type=Group")).expect(200).lines();
        let groups: Vec<&Value> = lines.iter().filter(|line| line.get("type").is_some()).collect();
        assert_eq!((groups.len(), groups[0].get("$later_relationships")), (2, None), "{groups:?}");
    }
}

#[test]
fn a_line_adds_relationships_and_changes_nothing_else() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let people = ["1", "2"].map(|id| individual(id, json!({"name": {"given": "A"}})));
    let many: Vec<Value> = (0..101).map(|_| related("Individual", "2", "spouse")).collect();
    let full: Vec<Value> = (1..=100)
        .map(|day| {
            let start = format!("{}-01-01", 1900 + day);
            let end = format!("{}-12-31", 1900 + day);
            with(related("Individual", "1", "spouse"), json!({"period": {"start": start, "end": end}}))
        })
        .collect();
    let all = [
        people[0].clone(),
        people[1].clone(),
        addition("Individual", "1", &[related("Individual", "2", "spouse")]),
        addition("Individual", "1", &[related("Individual", "2", "spouse"), related("Individual", "2", "sibling")]),
        addition("Individual", "2", &full),
        // Rejected from here on.
        addition("Individual", "3", &[related("Individual", "2", "spouse")]),
        addition("Individual", "1", &[related("Individual", "9", "spouse")]),
        addition("Individual", "1", &[related("Individual", "1", "spouse")]),
        addition("Individual", "1", &many),
        addition("Individual", "2", &[related("Individual", "1", "sibling")]),
        addition(
            "Individual",
            "1",
            &[with(related("Individual", "2", "spouse"), json!({"period": {"start": "2020-01-01"}}))],
        ),
        with(addition("Individual", "1", &[related("Individual", "2", "child")]), json!({"name": {"given": "B"}})),
        with(addition("Individual", "1", &[]), json!({"relationship": null})),
        with(addition("Program", "1", &[]), json!({"name": "P", "target_type": "individual"})),
        individual("4", json!({"relationship": [related("Individual", "1", "spouse")], "$later_relationships": 2})),
    ];
    let file = lines(folder.path(), "all.ndjson", &all);
    let finished = import(app.data_dir(), &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [15, 2, 3, 0, 10]), "{finished:?}");
    let expected = [
        (6, "identifier", "not_found"),
        (7, "relationship[0].target.reference", "unresolved_reference"),
        (8, "relationship[0].target.reference", "self_reference"),
        (9, "relationship", "too_many"),
        (10, "relationship", "too_many"),
        (11, "relationship", "duplicate"),
        (12, "name", "unknown_field"),
        (13, "relationship", "required"),
        (14, "$on_existing", "unknown_value"),
        (15, "$later_relationships", "wrong_type"),
    ];
    let reported = rejects(&file);
    let reported: Vec<(u64, &str, &str)> =
        reported.iter().map(|(line, errors)| (*line, errors[0].0.as_str(), errors[0].1.as_str())).collect();
    assert_eq!(reported, expected);
    let read = app.client(&["individual:read"]).get(&path("Individual", "1")).expect(200).json();
    let roles: Vec<&Value> = read["relationship"].as_array().unwrap().iter().map(|one| &one["type"]["code"]).collect();
    assert_eq!((roles, &read["name"]["given"]), (vec![&json!("spouse"), &json!("sibling")], &json!("A")));
    assert_eq!(read["meta"]["version_id"], "3", "a line that adds nothing writes nothing");
    drop(run(app.data_dir(), &["verify"]).expect_success());
}

#[test]
fn additions_find_the_record_whose_identifiers_were_reissued() {
    let (first, second, folder) = (TestApp::start(), TestApp::start(), tempfile::tempdir().unwrap());
    let ended = |id: &str| json!({"system": NATIONAL_ID, "value": id, "period": {"end": "2020-01-01"}});
    let people = [
        // The identifiers of the first two have ended, and others have them now.
        of_type("Individual", json!({"identifier": [ended("A")], "name": {"given": "A"}})),
        of_type("Individual", json!({"identifier": [ended("B"), {"system": NATIONAL_ID, "value": "B2"}]})),
        individual("A", json!({})),
        individual("B", json!({})),
        addition("Individual", "B2", &[related("Individual", "B", "spouse")]),
    ];
    let mut former = addition("Individual", "A", &[related("Individual", "B", "child")]);
    former["identifier"] = json!([ended("A")]);
    let file = lines(folder.path(), "fill.ndjson", &[&people[..], &[former]].concat());
    for more in [&["--dry-run"][..], &[]] {
        assert_eq!(counts(&import(first.data_dir(), &file, more).expect_success()), [6, 4, 2, 0, 0]);
    }
    let export = |app: &TestApp, name: &str| {
        let file = folder.path().join(name);
        drop(run(app.data_dir(), &["export", file.to_str().unwrap()]).expect_success());
        (std::fs::read_to_string(&file).unwrap(), file)
    };
    let (exported, file) = export(&first, "one.ndjson");
    assert_eq!(counts(&import(second.data_dir(), &file, &[]).expect_success()), [6, 4, 2, 0, 0]);
    assert_eq!(export(&second, "two.ndjson").0, exported);
    let holder = second.client(&["individual:read"]).get(&path("Individual", "A")).expect(200).json();
    assert_eq!(holder.get("relationship"), None, "the present holder of the identifier");
    // A dry run resolves what an addition refers to.
    let gone = lines(
        folder.path(),
        "gone.ndjson",
        &[individual("5", json!({})), addition("Individual", "5", &[related("Individual", "9", "spouse")])],
    );
    let dry_run = import(second.data_dir(), &gone, &["--dry-run"]);
    assert_eq!((dry_run.code, counts(&dry_run)), (REJECTS, [2, 1, 0, 0, 1]), "{dry_run:?}");
    // A record with some of the identifiers is another one.
    let mut other = addition("Individual", "B2", &[related("Individual", "A", "spouse")]);
    other["identifier"] = json!([{"system": NATIONAL_ID, "value": "B2"}, {"system": NATIONAL_ID, "value": "7"}]);
    let other = lines(folder.path(), "other.ndjson", &[other]);
    assert_eq!(import(second.data_dir(), &other, &[]).code, REJECTS);
    assert_eq!(rejects(&other), [(1, vec![("identifier".to_owned(), "not_found".to_owned())])]);
}
