//! Tables, and exports that are imported again.

use std::path::Path;

use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, NATIONAL_ID, household, path, person};
use serde_json::{Value, json};

use super::{REJECTS, counts, import, individual, lines, of_type, rejects};

const MAPPING: &str = r#"
empty = ["", "NA"]
ignore = ["interviewer"]
[[column]]
name = "id"
field = "identifier[urn:svc:vocab:id-type#national_id]"
[[column]]
name = "name"
field = "name.given"
[[column]]
name = "born"
field = "birth_date"
date = ["%d/%m/%Y"]
[[column]]
name = "sex"
field = "gender"
codes = { F = "urn:iso:std:iso:5218#2", M = "urn:iso:std:iso:5218#1" }
[[column]]
name = "phone"
field = "telecom[phone]"
[household]
column = "hh"
system = "urn:svc:vocab:id-type#tax_id"
[household.role]
name = "relation"
codes = { head = "urn:svc:vocab:relationship#head", child = "urn:svc:vocab:relationship#child" }
[[household.constant]]
field = "group_type"
value = "urn:svc:vocab:group-type#household"
"#;

fn write(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn rows_become_people_in_households() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let mapping = write(folder.path(), "m.toml", MAPPING);
    let mapping = ["--mapping", mapping.to_str().unwrap()];
    let table = "\u{feff}id,name,born,sex,phone,hh,relation,interviewer\r\n\
        1,\"Asha, \"\"Didi\"\"\",07/03/1990,F,'+977 1,H1,head,x\r\n\
        2,Bir,NA,M,,H1,child,x\r\n\
        3,Chandra,2001,M,,H1,child,x\r\n\
        4,Dil,,F,,H2,head,x\r\n\
        5,\"Ek\nAdhikari\",,F,,,,x\r\n\
        6,Fal,,F,,H1,child,x\r\n";
    let file = write(folder.path(), "survey.csv", table);
    let finished = import(app.data_dir(), &file, &mapping);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [9, 6, 1, 0, 2]), "{finished:?}");
    let reported = rejects(&file);
    let reported: Vec<(u64, &str)> = reported.iter().map(|(line, errors)| (*line, errors[0].1.as_str())).collect();
    assert_eq!(reported, [(4, "invalid_date"), (6, "control_character")]);
    let client = app.client(&["individual:all", "group:all"]);
    let asha = client.get(&path("Individual", "1")).expect(200).json();
    assert_eq!((&asha["name"]["given"], &asha["birth_date"]), (&json!("Asha, \"Didi\""), &json!("1990-03-07")));
    assert_eq!(asha["telecom"], json!([{"system": "phone", "value": "+977 1"}]));
    let home = client.get("/Group/urn:svc:vocab:id-type%23tax_id%7CH1").expect(200).json();
    assert_eq!(home["quantity"], 3, "who comes later joins: {home}");
    assert_eq!(home["member"][0]["role"]["code"], "head");
    // The row that could not be read is corrected as a row.
    let rows = folder.path().join("survey.csv.rejects.csv");
    let text = std::fs::read_to_string(&rows).unwrap();
    assert!(text.ends_with("3,Chandra,2001,M,,H1,child,x\r\n"), "{text}");
    let corrected = write(folder.path(), "corrected.csv", &text.replace("2001", "07/03/2001"));
    assert_eq!(counts(&import(app.data_dir(), &corrected, &mapping).expect_success()), [2, 1, 1, 0, 0]);
    let home = client.get("/Group/urn:svc:vocab:id-type%23tax_id%7CH1").expect(200).json();
    assert_eq!(home["quantity"], 4);
}

#[test]
fn rejected_rows_of_a_table_with_tabs_are_corrected_as_such_a_table() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let table = format!("identifier[{NATIONAL_ID}]\tname.given\n1\tAsha, Didi\n2\n");
    let file = write(folder.path(), "survey.tsv", &table);
    let finished = import(app.data_dir(), &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [2, 1, 0, 0, 1]), "{finished:?}");
    assert!(!folder.path().join("survey.tsv.rejects.csv").exists());
    let rows = folder.path().join("survey.tsv.rejects.tsv");
    let text = std::fs::read_to_string(&rows).unwrap();
    assert!(text.ends_with("\tname.given\n2\n"), "{text}");
    std::fs::write(&rows, text.replace("\n2\n", "\n2\tBir, Dai\n")).unwrap();
    assert_eq!(counts(&import(app.data_dir(), &rows, &[]).expect_success()), [1, 1, 0, 0, 0]);
    let read = app.client(&["individual:read"]).get(&path("Individual", "2")).expect(200).json();
    assert_eq!(read["name"]["given"], "Bir, Dai");
}

#[test]
fn one_file_for_rejected_lines_and_rows_is_refused_before_any_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "survey.csv", &format!("identifier[{NATIONAL_ID}],name.given\n1\n"));
    let data_dir = folder.path().join("data");
    let bad = folder.path().join("bad.csv");
    let refused = import(&data_dir, &file, &["--rejects", bad.to_str().unwrap()]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains(&format!("--rejects {}", bad.with_extension("ndjson").display())), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the table");
}

#[test]
fn a_row_with_an_empty_address_before_another_one_is_rejected() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let header = format!("identifier[{NATIONAL_ID}],address.city,address[1].city");
    let file = write(folder.path(), "survey.csv", &format!("{header}\n1,Jumla,Pokhara\n2,,Pokhara\n3,Jumla,\n"));
    let finished = import(app.data_dir(), &file, &[]);
    assert_eq!((finished.code, counts(&finished)), (REJECTS, [3, 2, 0, 0, 1]), "{finished:?}");
    assert_eq!(rejects(&file), [(3, vec![("address[0]".to_owned(), "required".to_owned())])]);
    let rows = std::fs::read_to_string(folder.path().join("survey.csv.rejects.csv")).unwrap();
    assert_eq!(rows, format!("{header}\n2,,Pokhara\n"));
}

#[test]
fn the_survey_of_the_examples_is_imported_whole() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/household-survey");
    for name in ["survey.csv", "mapping.toml"] {
        std::fs::copy(examples.join(name), folder.path().join(name)).unwrap();
    }
    let mapping = folder.path().join("mapping.toml");
    let mapping = ["--mapping", mapping.to_str().unwrap()];
    let finished = import(app.data_dir(), &folder.path().join("survey.csv"), &mapping).expect_success();
    assert_eq!(counts(&finished), [99, 99, 0, 0, 0], "75 people and their 24 households");
    let client = app.client(&["group:all", "individual:all"]);
    let home = client.get("/Group/urn:svc:vocab:id-type%23tax_id%7CHH-0024").expect(200).json();
    assert_eq!(home["member"][0]["role"]["code"], "head", "{home}");
}

#[test]
fn a_mapping_that_does_not_fit_is_refused_with_everything_that_is_wrong() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    let mapping = write(folder.path(), "m.toml", "[[column]]\nname = 'nam'\nfield = 'name.givn'\n");
    let file = write(folder.path(), "t.csv", "name,id\nx,1\n");
    let refused = import(app.data_dir(), &file, &["--mapping", mapping.to_str().unwrap()]);
    assert_eq!((refused.code, refused.stdout.as_str()), (66, ""), "{refused:?}");
    for what in ["did you mean `name`?", "did you mean `name.given`?", "nothing takes the column `name`, `id`"] {
        assert!(refused.stderr.contains(what), "{what}: {refused:?}");
    }
    let example = run(app.data_dir(), &["import", "--example-mapping"]).expect_success().stdout;
    assert!(example.contains("[household.role]"), "{example}");
}

/// Registers a record of every kind, in a file that an export writes.
fn fill(data_dir: &Path, folder: &Path) {
    let photo = "iVBORw0KGgo=";
    let all = [
        individual("1", json!({"gender": FEMALE, "name": {"given": "=A"}, "photo": photo, "languages": []})),
        individual("2", json!({"birth_date": "1990-03-07", "address": [{"city": "Jumla", "line": ["a;b", "c"]}]})),
        of_type("Group", household("G1", &[("1", "head"), ("2", "child")])),
        of_type("Program", person("P1", json!({"name": "Pension", "target_type": "individual"}))),
        of_type(
            "ProgramMembership",
            json!({
                "program": format!("Program/{NATIONAL_ID}|P1"), "status": "enrolled",
                "beneficiary": format!("Individual/{NATIONAL_ID}|2"), "enrollment_date": "2026-01-02"
            }),
        ),
        of_type(
            "Consent",
            json!({
                "consent_id": "123e4567-e89b-42d3-a456-426614174000", "subject": format!("Individual/{NATIONAL_ID}|2"),
                "grantee": "M", "effective_date": "2026-01-01", "scopes": ["individual"], "status": "withdrawn"
            }),
        ),
    ];
    let file = lines(folder, "fill.ndjson", &all);
    assert_eq!(counts(&import(data_dir, &file, &[]).expect_success()), [6, 6, 0, 0, 0]);
}

#[test]
fn an_export_that_is_imported_elsewhere_is_exported_again_byte_by_byte() {
    let (first, mut second, folder) = (TestApp::start(), TestApp::start(), tempfile::tempdir().unwrap());
    fill(first.data_dir(), folder.path());
    // A photo must be of a supported type: a change makes it a version of its own as well.
    let export = |data_dir: &Path, name: &str| {
        let file = folder.path().join(name);
        let reported = run(data_dir, &["export", file.to_str().unwrap(), "--json"]).expect_success().json();
        (std::fs::read(&file).unwrap(), reported)
    };
    let (bytes, reported) = export(first.data_dir(), "one.ndjson");
    assert_eq!(reported["records"], 6);
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(r#""gender":"urn:iso:std:iso:5218#2""#) && !text.contains("meta"), "{text}");
    second.stop();
    let file = folder.path().join("one.ndjson");
    assert_eq!(counts(&import(second.data_dir(), &file, &[]).expect_success()), [6, 6, 0, 0, 0]);
    assert_eq!(export(second.data_dir(), "two.ndjson").0, bytes, "from a stopped server");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!folder.path().join("one.ndjson.partial").exists());
    let again = run(first.data_dir(), &["export", file.to_str().unwrap()]);
    assert!(again.code == 73 && again.stderr.contains("is there already"), "{again:?}");
}

#[test]
fn an_export_honours_its_options_and_tables_can_be_imported_again() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    fill(app.data_dir(), folder.path());
    let export = |name: &str, more: &[&str]| {
        let file = folder.path().join(name);
        let finished = run(app.data_dir(), &[&["export", file.to_str().unwrap(), "--json"], more].concat());
        (finished, std::fs::read_to_string(&file).unwrap_or_default())
    };
    let (_, women) = export("women.ndjson", &["--filter", &format!("gender={FEMALE}")]);
    assert_eq!(women.lines().count(), 1, "{women}");
    let (_, groups) = export("groups.ndjson", &["--type", "Group", "--type", "Program"]);
    let kinds: Vec<Value> =
        groups.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, [json!("Group"), json!("Program")]);
    let (refused, _) = export("x.ndjson", &["--filter", "gendr=1"]);
    assert!(refused.code == 1 && refused.stderr.contains("gendr"), "{refused:?}");
    let mapping = "[[column]]\nname = 'id'\nfield = 'identifier[urn:svc:vocab:id-type#national_id]'\n\
        [[column]]\nname = 'name'\nfield = 'name.given'\n\
        [[column]]\nname = 'sex'\nfield = 'gender'\ncodes = { F = 'urn:iso:std:iso:5218#2' }\n\
        [[column]]\nname = 'sex_label'\nfield = 'gender'\nlabel = true\n\
        [[column]]\nname = 'lines'\nfield = 'address.line'\nseparator = '|'\n";
    let mapping = write(folder.path(), "m.toml", mapping);
    let mapping = ["--mapping", mapping.to_str().unwrap(), "--type", "Individual", "--language", "fr"];
    let (_, table) = export("people.csv", &mapping);
    assert_eq!(table, "id,name,sex,sex_label,lines\n1,'=A,F,Féminin,\n2,,,,a;b|c\n");
    let other = TestApp::start();
    let file = folder.path().join("people.csv");
    let imported = import(other.data_dir(), &file, &mapping[..2]).expect_success();
    assert_eq!(counts(&imported), [2, 2, 0, 0, 0]);
    let read = other.client(&["individual:read"]).get(&path("Individual", "1")).expect(200).json();
    assert_eq!(read["name"]["given"], "=A", "a formula comes back as the text that it was");
}

#[test]
fn a_table_that_would_be_read_as_other_records_is_not_written() {
    let (app, folder) = (TestApp::start(), tempfile::tempdir().unwrap());
    fill(app.data_dir(), folder.path());
    let id = format!("[[column]]\nname = 'id'\nfield = 'identifier[{NATIONAL_ID}]'\n");
    let lines = "[[column]]\nname = 'address lines'\nfield = 'address.line'\n";
    let name = "[[column]]\nname = 'given'\nfield = 'name.given'\n";
    for (mapping, column, number, remedy) in [
        (format!("{id}{lines}"), "`address lines`", "2", "a `separator` that no item contains"),
        (format!("empty = ['', \"'=A\"]\n{id}{name}"), "`given`", "1", "from `empty`"),
    ] {
        let mapping = write(folder.path(), "m.toml", &mapping);
        let file = folder.path().join("people.csv");
        let arguments =
            ["export", file.to_str().unwrap(), "--type", "Individual", "--mapping", mapping.to_str().unwrap()];
        let refused = run(app.data_dir(), &arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (66, ""), "{refused:?}");
        for part in [column, &format!("record {number} of the export"), remedy] {
            assert!(refused.stderr.contains(part), "{part}: {refused:?}");
        }
        assert!(!refused.stderr.contains("--resume"), "{refused:?}");
        for name in ["people.csv", "people.csv.partial", "people.csv.progress.json"] {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
    }
}
