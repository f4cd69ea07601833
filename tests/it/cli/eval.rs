//! `daftar eval`, on a running and on a stopped server.

use std::io::Write;
use std::process::Stdio;

use daftar_tests::TestApp;
use daftar_tests::process::{Finished, command, run};
use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, household, person};
use serde_json::{Value, json};

use crate::program;

const RULE: &str = "is_female(me) && age_years(me.birth_date) >= 60";

/// A woman of 65, a man of 40, and a person without known facts.
fn register() -> TestApp {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "group:create"]);
    drop(client.create_individual(&person("1", json!({"gender": FEMALE, "birth_date": "1961-01-01"}))));
    drop(client.create_individual(&person("2", json!({"gender": MALE, "birth_date": "1986-01-01"}))));
    drop(client.create_individual(&person("3", json!({}))));
    drop(client.create_group(&household("H-1", &[("1", "head"), ("2", "spouse")])));
    app
}

fn eval(app: &TestApp, arguments: &[&str]) -> Finished {
    run(app.data_dir(), &[&["eval"], arguments].concat())
}

fn id(value: &str) -> String {
    format!("{NATIONAL_ID}|{value}")
}

fn lists_eligible_subjects(app: &TestApp) {
    let reported = eval(app, &[RULE]).expect_success().stdout;
    let lines = [
        "SUBJECT                                         OUTCOME       MISSING OR WRONG",
        "Individual/urn:svc:vocab:id-type#national_id|1  eligible",
        "Individual/urn:svc:vocab:id-type#national_id|2  not eligible",
        "Individual/urn:svc:vocab:id-type#national_id|3  undetermined  me.birth_date, me.gender",
        "1 eligible, 1 not eligible, 1 undetermined",
    ];
    assert_eq!(reported.lines().collect::<Vec<&str>>(), lines);
    let of = eval(app, &[RULE, "--of", &id("2"), "--of", &id("ABSENT")]).expect_success().stdout;
    assert!(of.contains("no such Individual") && of.ends_with("1 not eligible, 1 not there\n"), "{of}");
    let response = eval(app, &["--json", "--sample", "2", RULE]).expect_success().json();
    assert_eq!(response["results"].as_array().unwrap().len(), 2);
    assert!(response["decision"]["engine"].as_str().unwrap().starts_with("eligibility-cel@"), "{response}");
    let groups = eval(app, &["members.size() == 2", "--subject", "group"]).expect_success().stdout;
    assert!(groups.contains("Group/urn:svc:vocab:id-type#national_id|H-1  eligible"), "{groups}");
}

#[test]
fn a_preview_counts_the_register_draws_bars_and_writes_a_table() {
    let app = register();
    let drawn = eval(&app, &[RULE, "--preview"]).expect_success().stdout;
    assert!(drawn.starts_with("3 in all: 1 eligible, 1 not eligible, 1 undetermined\n"), "{drawn}");
    assert!(drawn.contains("eligible by age") && drawn.contains(" 1 of 1\n"), "{drawn}");
    assert!(drawn.contains("1  me.birth_date") && drawn.contains("1  me.gender"), "{drawn}");
    let table = eval(&app, &[RULE, "--preview", "--csv", "--filter", "birth_date=le2000-01-01"]).expect_success();
    let expected = format!(
        "subject,outcome,missing,errors\nIndividual/{NATIONAL_ID}|1,eligible,,\nIndividual/{NATIONAL_ID}|2,not_eligible,,\n"
    );
    assert_eq!(table.stdout, expected);
    let response = eval(&app, &["--json", RULE, "--preview"]).expect_success().json();
    assert_eq!((&response["total"], &response["by_gender"][0]["eligible"]), (&json!(3), &json!(0)));
    let wrong = eval(&app, &[RULE, "--preview", "--filter", "birth_dat=le2000-01-01"]);
    assert!(wrong.stderr.contains("did you mean `birth_date`?"), "{}", wrong.stderr);
}

/// A rule that adds the man of 40 to [`RULE`].
const WIDER: &str = "age_years(me.birth_date) >= 30";

fn compares_two_rules(app: &TestApp) {
    let drawn = eval(app, &[RULE, "--preview", "--compare", WIDER]).expect_success().stdout;
    let lines = [
        "A: 3 in all: 1 eligible, 1 not eligible, 1 undetermined",
        "B: 3 in all: 2 eligible, 0 not eligible, 1 undetermined",
        "",
        "                   eligible by B  not eligible by B  undetermined by B",
        "eligible by A                  1                  0                  0",
        "not eligible by A              1                  0                  0",
        "undetermined by A              0                  0                  1",
        "",
        "1 gained (eligible by B only), 0 lost (eligible by A only)",
    ];
    assert_eq!(drawn.lines().collect::<Vec<&str>>(), lines);
    let table = eval(app, &[RULE, "--preview", "--compare", WIDER, "--csv", "--filter", "birth_date=le2000-01-01"]);
    let expected = format!(
        "subject,outcome_a,outcome_b\nIndividual/{NATIONAL_ID}|1,eligible,eligible\nIndividual/{NATIONAL_ID}|2,not_eligible,eligible\n"
    );
    assert_eq!(table.expect_success().stdout, expected);
    let response = eval(app, &["--json", RULE, "--preview", "--compare", WIDER]).expect_success().json();
    assert_eq!((&response["eligible"], &response["comparison"]["cells"][3]["count"]), (&json!(1), &json!(1)));
    assert_eq!(response["comparison"]["cells"].as_array().map(Vec::len), Some(9));
}

#[test]
fn two_rules_are_compared_on_a_running_server() {
    let app = register();
    compares_two_rules(&app);
    let wrong = eval(&app, &[RULE, "--preview", "--compare", "age_years(me.birth_dat) >= 30"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (1, ""), "{wrong:?}");
    assert!(wrong.stderr.starts_with("error[unknown_field]: "), "{}", wrong.stderr);
    assert!(wrong.stderr.contains(" 1 | age_years(me.birth_dat) >= 30\n"), "{}", wrong.stderr);
    for (arguments, reported) in
        [(&[RULE, "--compare", WIDER][..], "--preview"), (&["-", "--preview", "--compare", "-"], "standard input")]
    {
        let refused = eval(&app, arguments);
        assert!(refused.code == 2 && refused.stderr.contains(reported), "{refused:?}");
    }
}

#[test]
fn two_rules_are_compared_on_the_folder_of_a_stopped_server() {
    let mut app = register();
    app.stop();
    compares_two_rules(&app);
}

#[test]
fn a_rule_is_tried_on_a_running_server() {
    let app = register();
    lists_eligible_subjects(&app);
    let lines = app.admin().get("/audit?action=evaluate").expect(200).json();
    let line = &lines["data"][0];
    assert_eq!((&line["actor"], &line["outcome"]), (&json!("administrator"), &json!("allowed")), "{line}");
    assert!(line["records"].as_array().is_some_and(|records| !records.is_empty()), "{line}");
}

#[test]
fn a_rule_is_tried_on_the_folder_of_a_stopped_server() {
    let mut app = register();
    app.stop();
    lists_eligible_subjects(&app);
}

#[test]
fn an_answer_is_explained_as_a_tree() {
    let app = register();
    let reported = eval(&app, &[RULE, "--explain", &id("1"), "--as-of", "2026-03-01"]).expect_success().stdout;
    assert!(!reported.contains('\u{1b}'), "no colours where no terminal is: {reported:?}");
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines[0], "Individual/urn:svc:vocab:id-type#national_id|1  eligible", "{reported}");
    assert_eq!(lines[2], format!("yes  {RULE}"), "{reported}");
    assert!(reported.contains("  yes  is_female(me)") && reported.contains("me.gender = Female (2)"), "{reported}");
    assert!(reported.contains("    65   age_years(me.birth_date)   me.birth_date = 1961-01-01"), "{reported}");
    let unknown = eval(&app, &[RULE, "--explain", &id("3")]).expect_success().stdout;
    assert!(unknown.contains("missing or wrong: me.birth_date, me.gender"), "{unknown}");
    assert!(unknown.contains("me.birth_date = not recorded"), "{unknown}");
    let missing = eval(&app, &[RULE, "--explain", &id("9")]);
    assert!(missing.code == 1 && missing.stderr.contains("no such Individual"), "{missing:?}");
}

#[test]
fn faults_are_marked_under_the_expression() {
    let app = TestApp::start();
    let reported = eval(&app, &["'日本' == me.nam.text &&\n\tage_years(me.birth_dat) >= 60"]);
    assert_eq!((reported.code, reported.stdout.as_str()), (1, ""), "{reported:?}");
    assert!(reported.stderr.starts_with("error[unknown_field]: `me` has no field `nam`"), "{}", reported.stderr);
    assert!(reported.stderr.ends_with("error: the expression is not valid\n"), "{}", reported.stderr);
    let drawn = [
        " 1 | '日本' == me.nam.text &&\n   |              ^^^",
        " 2 |     age_years(me.birth_dat) >= 60\n   |                  ^^^^^^^^^ write `birth_date`\n",
    ];
    for part in drawn {
        assert!(reported.stderr.contains(part), "{part}\nis not in\n{}", reported.stderr);
    }
    let reported = eval(&app, &["--json", "me.birth_dat > as_of"]);
    assert_eq!((reported.code, &reported.json()["valid"]), (1, &json!(false)));
    assert_eq!(reported.json()["diagnostics"][0]["suggestion"], "birth_date");
}

#[test]
fn a_rule_is_checked_without_being_tried() {
    let app = TestApp::start();
    let reported = eval(&app, &["--check", "is_pregnant(me) || members.exists(m, is_head(m))"]).expect_success();
    assert!(reported.stdout.starts_with("valid   a rule of type `bool`\n"), "{}", reported.stdout);
    assert!(reported.stdout.contains("reads   me.pregnancy_status, members.role\n"), "{}", reported.stdout);
    assert!(
        reported.stdout.contains("cost    ") && reported.stdout.contains(" steps a subject"),
        "{}",
        reported.stdout
    );
    assert!(reported.stderr.starts_with("warning[unset_concept_group]: "), "{}", reported.stderr);
}

#[test]
fn expressions_and_records_come_from_files_and_from_standard_input() {
    let app = TestApp::start();
    let folder = tempfile::tempdir().unwrap();
    let rule = folder.path().join("rule.cel");
    std::fs::write(&rule, format!("{RULE}\n")).unwrap();
    let records = folder.path().join("records.json");
    std::fs::write(&records, json!([{"gender": FEMALE, "birth_date": "1950-01-01"}, {"gender": MALE}]).to_string())
        .unwrap();
    let (at, records) = (format!("@{}", rule.display()), records.display().to_string());
    let reported = eval(&app, &[&at, "--records", &records, "--json"]).expect_success().json();
    let outcomes: Vec<&Value> =
        reported["results"].as_array().unwrap().iter().map(|result| &result["outcome"]).collect();
    assert_eq!(outcomes, ["eligible", "not_eligible"]);
    let reported = eval(&app, &[&at, "--records", &records, "--explain", "2"]).expect_success().stdout;
    assert!(reported.starts_with("subjects[0]  not eligible\n"), "{reported}");
    let mut reading = command(app.data_dir(), &["eval", "-", "--records", &records]);
    let mut child = reading.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(RULE.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 eligible, 1 not eligible"));
    for (arguments, what, code) in [
        (vec!["@/nowhere/rule.cel"], "cannot read `/nowhere/rule.cel`", 66),
        (vec![RULE, "--records", rule.to_str().unwrap()], "is not JSON", 66),
        (vec![RULE, "--records", &records, "--explain", "3"], "1 to 2, not `3`", 2),
        (vec![RULE], "no records of type `individual`", 1),
        (vec!["--program", "urn:x:y|1"], "unknown identifier system `urn:x:y`", 1),
    ] {
        let refused = eval(&app, &arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
    assert_eq!(eval(&app, &[]).code, 2, "nothing to try");
}

#[test]
fn a_programs_rule_is_tried() {
    let app = register();
    drop(program::create(&app, "PENSION", json!({"eligibility": RULE})));
    let reported = eval(&app, &["--program", &id("PENSION")]).expect_success().stdout;
    assert!(reported.ends_with("1 eligible, 1 not eligible, 1 undetermined\n"), "{reported}");
    let reported = eval(&app, &["--program", &id("PENSION"), "--explain", &id("1")]).expect_success().stdout;
    assert!(reported.contains(&format!("yes  {RULE}")), "{reported}");
}

#[test]
fn the_administrators_endpoints_reject_the_same_requests_as_those_of_clients() {
    let app = register();
    let ask = |path: &str, body: &Value| app.admin().request("POST", path).json(body).send();
    let both = json!({"expression": RULE, "sample": 3, "subjects": [{}]});
    for (path, body, field) in [
        ("/eligibility/validate", json!({}), "expression"),
        ("/eligibility/evaluate", json!({"expression": RULE}), "subjects"),
        ("/eligibility/evaluate", both, "sample"),
        ("/eligibility/evaluate", json!({"expression": RULE, "sample": 0}), "sample"),
        ("/eligibility/evaluate", json!({"expression": RULE, "sample": 1_001}), "sample"),
    ] {
        let refused = ask(path, &body).expect(422);
        assert_eq!(refused.json()["errors"][0]["field"], field, "{body}: {}", refused.text());
    }
    let anonymous = app.admin_listener().request("POST", "/admin/v1/eligibility/evaluate").json(&json!({})).send();
    assert_eq!(anonymous.status, 401);
}
