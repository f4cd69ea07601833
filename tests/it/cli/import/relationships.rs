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
    let relationships: Vec<(&Value, &Value, &Value)> = read
        .iter()
        .map(|line| (&line["identifier"][0]["value"], &line["$on_existing"], &line["relationship"]))
        .collect();
    let (absent, added) = (json!(null), json!("add-relationships"));
    let [spouse, parent] = [related("Individual", "1", "spouse"), related("Individual", "2", "parent")];
    let later = [
        with(related("Individual", "4", "child"), json!({"period": {"start": "2020-01-01"}})),
        related("Individual", "1", "sibling"),
    ];
    assert_eq!(
        relationships,
        [
            (&json!("1"), &absent, &absent),
            (&json!("2"), &absent, &json!([spouse])),
            (&json!("3"), &absent, &json!([])),
            (&json!("4"), &absent, &json!([parent])),
            (&json!("1"), &added, &json!([related("Individual", "2", "spouse")])),
            (&json!("2"), &added, &json!(later)),
            (&json!("G1"), &absent, &absent),
            (&json!("G2"), &absent, &json!([related("Group", "G1", "affiliated_with")])),
            (&json!("G1"), &added, &json!([related("Group", "G2", "affiliated_with")])),
        ],
        "{exported}"
    );
    let dry_run = import(second.data_dir(), &file, &["--dry-run"]).expect_success();
    assert_eq!(counts(&dry_run), [9, 6, 3, 0, 0]);
    assert_eq!(counts(&import(second.data_dir(), &file, &[]).expect_success()), [9, 6, 3, 0, 0]);
    assert_eq!(export(&second, "two.ndjson").0, exported);
    let again = import(second.data_dir(), &file, &["--on-existing", "skip"]).expect_success();
    assert_eq!(counts(&again), [9, 0, 0, 9, 0], "the relationships are there");

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
    let whole = admin.get("/export?codes=object&type=Group").expect(200).lines();
    let groups: Vec<&Value> = whole.iter().filter(|line| line.get("type").is_some()).collect();
    assert_eq!((groups.len(), groups[0]["relationship"].as_array().unwrap().len()), (2, 1), "{groups:?}");
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
    ];
    let file = lines(folder.path(), "all.ndjson", &all);
    let finished = import(app.data_dir(), &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [14, 2, 3, 0, 9]), "{finished:?}");
    let expected = [
        (6, "", "not_found"),
        (7, "relationship[0].target.reference", "unresolved_reference"),
        (8, "relationship[0].target.reference", "self_reference"),
        (9, "relationship", "too_many"),
        (10, "relationship", "too_many"),
        (11, "relationship", "duplicate"),
        (12, "name", "unknown_field"),
        (13, "relationship", "required"),
        (14, "$on_existing", "unknown_value"),
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
