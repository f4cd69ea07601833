//! `daftar import --from openspp`: people and groups of OpenSPP's API, in every form that it returns.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use daftar_tests::TestApp;
use daftar_tests::process::{Finished, command, run};
use serde_json::{Value, json};

use super::{REJECTS, counts, rejects};

const NATIONAL_ID: &str = "urn:openspp:vocab:id-type#national_id";

fn theirs(id: &str, more: Value) -> Value {
    let name = json!({"family": "Reyes", "given": id, "middle": "", "text": format!("REYES, {id}")});
    let identifier = json!([{"system": NATIONAL_ID, "value": id}]);
    let mut person = json!({"type": "Individual", "identifier": identifier, "active": true, "name": name});
    person.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    person
}

fn household(id: &str, members: &[(&str, Value)]) -> Value {
    let members: Vec<Value> = members
        .iter()
        .map(|(person, role)| {
            let reference = format!("Individual/{NATIONAL_ID}|{person}");
            let role = json!({"coding": [{"system": "urn:openspp:vocab:group-membership-type", "code": role, "display": "x"}]});
            json!({"entity": {"reference": reference, "display": "REYES"}, "inactive": false, "role": role})
        })
        .collect();
    json!({
        "type": "Group", "identifier": [{"system": "urn:openspp:vocab:id-type#tax_id", "value": id}], "active": true,
        "groupType": "household", "name": "Reyes", "quantity": members.len(), "member": members,
    })
}

fn written(folder: &Path, name: &str, text: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn import(app: &TestApp, file: &Path, more: &[&str]) -> Finished {
    run(app.data_dir(), &[&["import", "--from", "openspp", file.to_str().unwrap(), "--json"], more].concat())
}

/// Unmapped fields: the position, the field and the reason of each.
fn unmapped(file: &Path) -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(format!("{}.unmapped.ndjson", file.display())).unwrap_or_default();
    let read = text.lines().map(|line| {
        let reported: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| reported[name].as_str().unwrap().to_owned();
        assert!(!text("message").is_empty() && reported.get("value").is_some(), "{reported}");
        (text("place"), text("field"), text("code"))
    });
    read.collect()
}

fn fields(file: &Path) -> Vec<(String, String)> {
    unmapped(file).into_iter().map(|(_, field, code)| (field, code)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(field, code)| ((*field).to_owned(), (*code).to_owned())).collect()
}

#[test]
fn every_field_is_mapped_or_reported() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let coded = |code: &str| json!({"coding": [{"system": "urn:iso:std:iso:5218", "code": code, "display": "Female"}], "text": "Female"});
    let maria = theirs(
        "M",
        json!({
            "birthDate": "1961-03-08", "birthDateEstimated": true, "gender": coded("2"), "photo": "aGVsbG8=",
            "telecom": [
                {"system": "phone", "value": "+63 1", "use": "home", "rank": 1}, {"system": "fax", "value": "+63 2"},
            ],
            "address": [
                {"type": "physical", "line": [], "city": "Iloilo", "district": "D", "state": "Visayas", "country": "PH",
                 "postalCode": "5000", "text": "Iloilo, Visayas"},
            ],
            "groupMembership": [
                {"group": {"reference": "Group/urn:openspp:vocab:id-type|H-1"}},
                {"group": {"reference": "Group/urn:openspp:vocab:id-type|H-9"}},
            ],
            "extension": {"farmer": {"url": "urn:x", "farmSize": 2.5, "crops": ["a"]}, "empty": {}},
            "meta": {"versionId": "17", "lastUpdated": "2026-01-01T00:00:00", "source": "urn:s"},
            "_consent": {"status": "active"}, "nothing": null, "": "x",
        }),
    );
    let jose = theirs(
        "J",
        json!({"gender": {"coding": [{"system": "urn:iso:std:iso:5218", "code": "1"}, {"system": "urn:x", "code": "m"}], "text": "a boy"}}),
    );
    let words = theirs("W", json!({"gender": {"coding": [], "text": "not told"}}));
    let group = household("H-1", &[("M", json!("head")), ("J", json!("tenant")), ("W", json!("child"))]);
    let text: String = [group, maria, jose, words].iter().map(|record| format!("{record}\n")).collect();
    let file = written(folder.path(), "all.ndjson", text.as_bytes());
    let finished = import(&app, &file, &[]).expect_success();
    assert_eq!(counts(&finished), [4, 4, 0, 0, 0], "{finished:?}");
    let expected = [
        ("telecom[1]", "no_field"),
        ("groupMembership[1]", "not_in_group"),
        ("", "no_field"),
        ("_consent.status", "no_field"),
        ("extension.empty", "no_field"),
        ("extension.farmer.crops", "no_field"),
        ("extension.farmer.farmSize", "no_field"),
        ("extension.farmer.url", "no_field"),
        ("meta.lastUpdated", "no_field"),
        ("meta.source", "no_field"),
        ("meta.versionId", "no_field"),
        ("gender.coding[1]", "further_code"),
        ("gender.text", "no_code"),
        ("gender.text", "no_code"),
        ("member[1].role", "left_out"),
    ];
    assert_eq!(fields(&file), pairs(&expected));
    assert_eq!(finished.json()["unmapped"]["count"], expected.len());

    let client = app.client(&["individual:read", "group:read"]);
    let read = client.get("/Individual/urn:svc:vocab:id-type%23national_id|M").expect(200).json();
    let shown = ["name", "birth_date", "birth_date_estimated", "photo", "telecom"].map(|name| read[name].clone());
    assert_eq!(
        shown,
        [
            json!({"family": "Reyes", "given": "M", "text": "REYES, M"}),
            json!("1961-03-08"),
            json!(true),
            json!("aGVsbG8="),
            json!([{"system": "phone", "value": "+63 1", "use": "home", "rank": 1}]),
        ]
    );
    assert_eq!((&read["gender"]["code"], &read["address"][0]["country"]["code"]), (&json!("2"), &json!("PH")));
    let address = &read["address"][0];
    assert_eq!(
        (&address["region"], &address["postal_code"], address.get("line")),
        (&json!("Visayas"), &json!("5000"), None)
    );
    let group = client.get("/Group/urn:svc:vocab:id-type%23tax_id|H-1").expect(200).json();
    let roles: Vec<&Value> = group["member"].as_array().unwrap().iter().map(|member| &member["role"]["code"]).collect();
    assert_eq!(roles, [&json!("head"), &Value::Null, &json!("child")]);
    assert_eq!((&group["group_type"]["code"], &group["quantity"]), (&json!("household"), &json!(3)));
}

#[test]
fn every_form_of_an_answer_gives_the_same_records() {
    let people = [theirs("1", json!({})), theirs("2", json!({}))];
    let group = household("H", &[("1", json!("head")), ("2", json!("child"))]);
    let search =
        json!({"data": [people[0], people[1], group], "meta": {"total": 3, "count": 3, "offset": 0}, "links": {}});
    let resources: Vec<Value> =
        [&people[0], &people[1], &group].iter().map(|record| json!({"resource": record})).collect();
    let bodies: Vec<Value> =
        [&group, &people[0], &people[1]].iter().map(|record| json!({"status": 201, "body": record})).collect();
    let forms = [
        ("page", format!("{search:#}")),
        ("lines", format!("{}\r\n\r\n{}\n{}", people[0], people[1], group)),
        ("array", json!([group, people[0], people[1]]).to_string()),
        (
            "pages",
            format!(
                "{}\n{}\n",
                json!({"data": [group], "meta": {"total": 1}}),
                json!({"data": people, "meta": {"total": 2}})
            ),
        ),
        ("bundle", json!({"resourceType": "Bundle", "type": "searchset", "total": 3, "entry": resources}).to_string()),
        ("batch", json!({"type": "batch-response", "entries": bodies}).to_string()),
        ("bulk", json!({"total": 3, "items": resources}).to_string()),
        ("documents", format!("\u{feff}{:#}\n{:#}\n{:#}", people[0], people[1], group)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let app = TestApp::start();
    for (name, text) in forms {
        let file = written(folder.path(), &format!("{name}.json"), text.as_bytes());
        let finished = import(&app, &file, &["--dry-run"]).expect_success();
        assert_eq!(counts(&finished), [3, 3, 0, 0, 0], "{name}: {finished:?}");
        assert_eq!(unmapped(&file), [], "{name}");
    }
}

#[test]
fn a_reference_without_the_kind_of_identifier_means_the_one_person_with_that_value() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let short = |id: &str| json!({"entity": {"reference": format!("Individual/urn:openspp:vocab:id-type|{id}")}, "inactive": false});
    let group = |id: &str, members: &[&str]| {
        let mut group = household(id, &[]);
        group["member"] = members.iter().map(|id| short(id)).collect();
        group.as_object_mut().unwrap().remove("quantity");
        group
    };
    let mut other = theirs("1", json!({}));
    other["identifier"][0]["system"] = json!("urn:openspp:vocab:id-type#passport");
    let place = |group: &str| json!({"groupMembership": [{"group": {"reference": format!("Group/urn:openspp:vocab:id-type|{group}")}}]});
    let records = [
        group("H-1", &["2", "3"]),
        group("H-2", &["1"]),
        other,
        theirs("1", json!({})),
        theirs("2", place("H-1")),
        theirs("3", json!({})),
    ];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let file = written(folder.path(), "short.ndjson", text.as_bytes());
    let finished = import(&app, &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [6, 5, 0, 0, 1]), "{finished:?}");
    assert_eq!(unmapped(&file), []);
    let refused = rejects(&folder.path().join("short.ndjson.daftar.ndjson"));
    assert_eq!(refused.len(), 1, "the reference is ambiguous: {refused:?}");
    let read = app.client(&["group:read"]).get("/Group/urn:svc:vocab:id-type%23tax_id|H-1").expect(200).json();
    assert_eq!(read["quantity"], 2);
}

#[test]
fn other_records_are_reported_with_all_their_fields() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let text = [
        json!({"data": [theirs("1", json!({})), {"type": "GroupMember", "status": "active"}], "meta": {"total": 7}})
            .to_string(),
        json!({"data": [theirs("2", json!({}))], "meta": {"total": 7}}).to_string(),
        json!({"items": [{"identifier": "a|b", "status": "not_found", "error": "Individual not found"}]}).to_string(),
        "7".to_owned(),
        "[\"x\"]".to_owned(),
        "{}".to_owned(),
    ];
    let file = written(folder.path(), "mixed.ndjson", text.join("\n").as_bytes());
    let finished = import(&app, &file, &[]).expect_success();
    assert_eq!(counts(&finished), [2, 2, 0, 0, 0], "{finished:?}");
    let reported: Vec<(String, String)> = unmapped(&file).into_iter().map(|(place, _, code)| (place, code)).collect();
    let expected = [
        ("line 1 data[1]", "other_record"),
        ("line 3 items[0]", "no_record"),
        ("line 4", "other_record"),
        ("line 5 [0]", "other_record"),
        ("line 6", "other_record"),
        ("pages of Individual", "pages_missing"),
    ];
    assert_eq!(reported, pairs(&expected));
}

#[test]
fn invalid_records_are_rejected_and_saved() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let deep = format!("{{\"type\":\"Individual\",\"x\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let hostile = [
        theirs("1", json!({})).to_string(),
        "{\"type\":\"Individual\",".to_owned(),
        format!("{{\"type\":\"Individual\",\"identifier\":[{{\"system\":\"{NATIONAL_ID}\",\"value\":\"2\"}}],\"active\":true,\"active\":false}}"),
        deep,
        // Wrong types everywhere: no value is guessed.
        json!({"type": "Individual", "identifier": "PH-3", "name": ["x"], "telecom": {"a": 1}, "gender": 2, "address": "x"}).to_string(),
        json!({"type": "Individual", "identifier": [{"system": 7, "value": {"a": 1}}, 8, null]}).to_string(),
        json!({"type": "Individual"}).to_string(),
        theirs("4", json!({"gender": {"coding": [{"system": "urn:iso:std:iso:5218", "code": "7"}]}})).to_string(),
        theirs("5", json!({"birthDate": "08/03/1961"})).to_string(),
        json!({"type": "Group", "identifier": [], "member": "x", "groupType": 3, "quantity": "many"}).to_string(),
        household("H-1", &[("ABSENT", json!("head"))]).to_string(),
        household("H-2", &[("1", json!("head"))]).to_string().replace("Individual/", "Robert'); DROP|"),
    ];
    let text = [hostile.join("\n").as_bytes(), b"\n\xff\xfe{}\n"].concat();
    let file = written(folder.path(), "hostile.ndjson", &text);
    let finished = import(&app, &file, &[]);
    assert_eq!(finished.code, REJECTS, "{finished:?}");
    let [read, created, _, _, rejected] = counts(&finished);
    assert_eq!((read, created, rejected), (13, 1, 12), "{finished:?}");
    let lines = folder.path().join("hostile.ndjson.daftar.ndjson");
    assert_eq!(rejects(&lines).len(), 12);
    // The register is unchanged except for the one person.
    assert_eq!(app.client(&["individual:read"]).get("/Individual").expect(200).json()["total"], 1);
}

#[test]
fn a_file_that_cannot_be_read_writes_nothing() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    for (name, text, reason) in [
        ("empty.json", &b""[..], "it is empty"),
        ("blank.json", b"\n \n", "it is empty"),
        ("half.json", b"{\"data\": [\n{\"type\"", "it is no JSON"),
        ("text.json", b"hello", "it is no JSON"),
        ("utf16.json", b"\xff\xfe{\0}\0", "UTF-16"),
        ("latin.json", b"{\n\"a\": \"\xe9\"}", "not UTF-8"),
        ("twice.json", b"{\n\"type\":\"Individual\",\"type\":\"Group\"}", "appears twice"),
    ] {
        let file = written(folder.path(), name, text);
        let refused = import(&app, &file, &[]);
        assert_eq!(refused.code, 66, "{name}: {refused:?}");
        assert!(refused.stderr.contains(reason) && refused.stderr.contains(name), "{name}: {}", refused.stderr);
        assert!(!folder.path().join(format!("{name}.daftar.ndjson")).exists(), "{name}");
    }
    let folder_itself = import(&app, folder.path(), &[]);
    assert!(folder_itself.stderr.contains("no regular file"), "{}", folder_itself.stderr);
    let file = written(folder.path(), "one.json", theirs("1", json!({})).to_string().as_bytes());
    let wrong = import(&app, &file, &["--code", "head=child"]);
    assert!(wrong.stderr.contains("`--code head=child` is no pair of codes"), "{}", wrong.stderr);
    let alone = run(app.data_dir(), &["import", file.to_str().unwrap(), "--code", "a#b=c#d"]);
    assert!(alone.code == 2 && alone.stderr.contains("--from"), "{alone:?}");
}

#[test]
fn codes_of_the_command_go_before_the_table() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let group = household("H-1", &[("1", json!("tenant")), ("2", json!("head"))]);
    let text = format!("{}\n{}\n{}\n", theirs("1", json!({})), theirs("2", json!({})), group);
    let file = written(folder.path(), "roles.ndjson", text.as_bytes());
    let role = "urn:openspp:vocab:group-membership-type#";
    let tenant = format!("{role}tenant=urn:svc:vocab:relationship#non_relative");
    let head = format!("{role}head=");
    let finished = import(&app, &file, &["--code", &tenant, "--code", &head]).expect_success();
    assert_eq!(counts(&finished), [3, 3, 0, 0, 0]);
    assert_eq!(fields(&file), pairs(&[("member[1].role", "left_out")]));
    let group = app.client(&["group:read"]).get("/Group/urn:svc:vocab:id-type%23tax_id|H-1").expect(200).json();
    assert_eq!(group["member"][0]["role"]["code"], "non_relative");
}

#[test]
fn an_interrupted_import_resumes_and_a_finished_one_adds_new_records() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let client = app.client(&["individual:read", "group:read"]);
    let people: Vec<Value> = (0..400).map(|number| theirs(&format!("P{number}"), json!({}))).collect();
    let group = household("H-1", &[("P0", json!("head")), ("P399", json!("child"))]);
    let text: String = std::iter::once(&group).chain(&people).map(|record| format!("{record}\n")).collect();
    let file = written(folder.path(), "many.ndjson", text.as_bytes());
    let arguments = ["import", "--from", "openspp", file.to_str().unwrap(), "--part-bytes", "3000"];
    let mut child = command(app.data_dir(), &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let total = || client.get("/Individual?_count=1").expect(200).json()["total"].as_u64().unwrap();
    while total() < 100 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    drop(child.kill());
    let _ended = child.wait().unwrap();
    if folder.path().join("many.ndjson.daftar.ndjson.progress.json").exists() {
        let begins_anew = import(&app, &file, &[]);
        assert!(begins_anew.stderr.contains("resume with --resume"), "{}", begins_anew.stderr);
        let other =
            import(&app, &file, &["--resume", "--code", &format!("{NATIONAL_ID}=urn:svc:vocab:id-type#passport")]);
        assert!(other.stderr.contains("is not what it was"), "{}", other.stderr);
        let finished = import(&app, &file, &["--resume"]).expect_success();
        assert_eq!(counts(&finished), [401, 401, 0, 0, 0], "{finished:?}");
    }
    assert_eq!(total(), 400);
    let read = client.get("/Group/urn:svc:vocab:id-type%23tax_id|H-1").expect(200).json();
    assert_eq!((&read["quantity"], &read["meta"]["version_id"]), (&json!(2), &json!("1")));

    let more: String = text + &theirs("NEW", json!({})).to_string() + "\n";
    let file = written(folder.path(), "many.ndjson", more.as_bytes());
    let finished = import(&app, &file, &["--on-existing", "skip"]).expect_success();
    assert_eq!(counts(&finished), [402, 1, 0, 401, 0], "{finished:?}");
}
