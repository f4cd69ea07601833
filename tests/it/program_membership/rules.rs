//! Rules of programs: checked when they are stored, evaluated at enrolment.

use daftar_tests::process::run;
use daftar_tests::records::{path, reference, with};
use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

use super::{ENROLLED, place, program_reference, put, register};
use crate::program;

#[test]
fn an_enforced_expression_lets_in_whom_it_holds_for_and_overrides() {
    let (app, client) = register();
    let rule = json!({"eligibility": "age_years(me.birth_date) >= 60", "enforce_eligibility": true});
    program::create(&app, "P", rule);
    let enrol =
        |id: &str, more| client.post("/ProgramMembership", &place("P", id, with(json!({"status": ENROLLED}), more)));
    drop(enrol("1", json!({})).expect(201));
    let refused = enrol("3", json!({})).expect(409).json();
    assert_eq!((&refused["outcome"], &refused["missing"]), (&json!("not_eligible"), &json!([])), "{refused}");
    assert_eq!(refused["code"], "not_eligible", "{refused}");
    let refused = enrol("2", json!({})).expect(409).json();
    assert_eq!(
        (&refused["outcome"], &refused["missing"]),
        (&json!("undetermined"), &json!(["me.birth_date"])),
        "{refused}"
    );
    let overridden = enrol("3", json!({"override": {"reason": "a widow with five children"}})).expect(201).json();
    assert_eq!(overridden["override"]["reason"], "a widow with five children");
    drop(client.post("/ProgramMembership", &place("P", "2", json!({}))).expect(201));
    let enrolled = place("P", "2", json!({"status": ENROLLED}));
    assert_eq!(put(&client, &path("ProgramMembership", "2"), &enrolled).status, 409, "entering later is entering");
    let empty = enrol("2", json!({"override": {}})).expect(422);
    assert_eq!(errors(&empty.json())[0].0, "override.reason");
}

#[test]
fn a_rule_that_a_later_change_breaks_is_reported_on_enrolment_and_to_the_administrator() {
    let (app, client) = register();
    let admin = |method: &str, path: &str, body: &Value| app.admin().request(method, path).json(body).send();
    let sons = json!({"includes": [{"code": "urn:iso:std:iso:5218#1"}]});
    drop(admin("PUT", "/concept-groups/sons", &sons).expect(200));
    program::create(&app, "P", json!({"eligibility": "not in_group(me.gender, 'sons')", "enforce_eligibility": true}));
    assert_eq!(app.admin().get("/program-rules").expect(200).json(), json!({"data": []}));
    drop(app.admin().request("DELETE", "/concept-groups/sons").send().expect(200));
    let broken = app.admin().get("/program-rules").expect(200).json();
    assert_eq!(broken["data"].as_array().unwrap().len(), 1, "{broken}");
    let rule = &broken["data"][0];
    assert_eq!(rule["program"], program_reference("P"));
    assert_eq!(rule["diagnostics"][0]["code"], "unknown_concept_group", "{broken}");
    let reported = run(app.data_dir(), &["program", "check"]);
    assert_eq!(reported.code, 1, "{reported:?}");
    assert!(
        reported.stderr.contains("not in_group(me.gender, 'sons')") && reported.stderr.contains("^^^^^^"),
        "{}",
        reported.stderr
    );
    let enrol = |more| client.post("/ProgramMembership", &place("P", "1", with(json!({"status": ENROLLED}), more)));
    let refused = enrol(json!({})).expect(409);
    let detail = refused.detail();
    assert!(detail.contains("cannot be evaluated any more") && detail.contains("`sons`"), "{detail}");
    assert_eq!(refused.code(), "program_rule_failed");
    drop(enrol(json!({"override": {"reason": "decided by hand"}})).expect(201));
    let all = app.client(&["eligibility:read", "program:read", "individual:read"]);
    let body = json!({"program": program_reference("P"), "subjects": [{}]});
    let refused = all.post("/Eligibility/$evaluate", &body).expect(422).json();
    assert_eq!(refused["diagnostics"][0]["code"], "unknown_concept_group", "{refused}");
    drop(admin("PUT", "/concept-groups/sons", &sons).expect(200));
    assert_eq!(
        run(app.data_dir(), &["program", "check"]).expect_success().stdout,
        "the rules of all programs are valid\n"
    );
}

#[test]
fn an_expression_is_checked_when_it_is_stored_and_its_diagnostics_are_in_the_answer() {
    let app = TestApp::start();
    for (target, expression, code) in [
        ("individual", "age_years(me.birth_dat) >= 60", "unknown_field"),
        ("individual", "me.gender", "not_boolean"),
        ("group", "is_female(me)", "unknown_field"),
        ("individual", "in_group(me.gender, 'nobodys')", "unknown_concept_group"),
    ] {
        let body = program::program("W", json!({"target_type": target, "eligibility": expression}));
        let refused = app.admin().request("POST", "/programs").json(&body).send().expect(422).json();
        let diagnostic = &refused["diagnostics"][0];
        assert_eq!((&diagnostic["severity"], diagnostic["line"].as_u64()), (&json!("error"), Some(1)), "{refused}");
        if code != "unknown_field" || target == "individual" {
            assert_eq!(diagnostic["code"], code, "{refused}");
        }
    }
    let created = program::create(&app, "W", json!({"eligibility": "is_pregnant(me)"}));
    assert_eq!(created["warnings"][0]["code"], "unset_concept_group", "{created}");
    let patch = json!({"eligibility": "me.gendr == 1"});
    let refused = app.admin().request("PATCH", &program::admin_path("W")).json(&patch).send().expect(422).json();
    assert_eq!(refused["diagnostics"][0]["suggestion"], "gender", "{refused}");
}

#[test]
fn a_program_that_ended_accepts_no_enrolment() {
    let (app, client) = register();
    program::create(&app, "P", json!({"period": {"end": "2026-02-28"}}));
    program::create(&app, "Q", json!({"active": false}));
    for id in ["P", "Q"] {
        let refused = client.post("/ProgramMembership", &place(id, "1", json!({"status": ENROLLED}))).expect(409);
        assert!(refused.detail().contains("has ended or is not active"), "{}", refused.detail());
        assert_eq!(refused.code(), "program_closed");
    }
    let past = json!({"status": "exited", "enrollment_date": "2025-01-01", "exit_date": "2025-12-31"});
    drop(client.post("/ProgramMembership", &place("P", "1", past)).expect(201));
}

#[test]
fn rules_see_the_programs_of_stored_and_of_given_subjects() {
    let (app, client) = register();
    program::create(&app, "P", json!({"eligibility": "!programs.exists(p, p.status == 'enrolled')"}));
    drop(client.post("/ProgramMembership", &place("P", "1", json!({"status": ENROLLED}))).expect(201));
    let outcomes = |client: &ApiClient, body: Value| -> Vec<Value> {
        let response = client.evaluate(&body);
        response["results"].as_array().unwrap().iter().map(|result| result["outcome"].clone()).collect()
    };
    let rule = format!("programs.exists(p, p.program == '{}' && p.enrollment_date <= as_of)", program_reference("P"));
    let given = json!({"programs": [{"program": program_reference("P"), "enrollment_date": "2026-01-01"}]});
    let body = json!({"expression": rule, "subjects": [reference("1"), reference("2"), given, {}]});
    assert_eq!(outcomes(&client, body.clone()), ["eligible", "not_eligible", "eligible", "undetermined"]);
    let without = app.client(&["individual:read", "eligibility:read"]);
    let refused = without.post("/Eligibility/$evaluate", &body).expect(403);
    assert!(refused.detail().contains("program_membership:read"), "{}", refused.detail());

    let by_program = json!({"program": program_reference("P"), "subjects": [reference("1"), reference("2")]});
    assert_eq!(outcomes(&client, by_program.clone()), ["not_eligible", "eligible"]);
    let versions = client.evaluate(&by_program)["decision"]["versions"].clone();
    assert!(
        versions.as_array().unwrap().contains(&json!({"reference": program_reference("P"), "version_id": "1"})),
        "{versions}"
    );
    assert_eq!(without.post("/Eligibility/$evaluate", &by_program).status, 403, "program:read");
    for (wrong, field) in [
        (with(by_program.clone(), json!({"expression": "true"})), "expression"),
        (with(by_program.clone(), json!({"subject": "group"})), "subject"),
        (with(by_program.clone(), json!({"program": program_reference("X")})), "program"),
        (with(by_program, json!({"program": "P"})), "program"),
    ] {
        let refused = client.post("/Eligibility/$evaluate", &wrong).expect(422);
        assert_eq!(errors(&refused.json())[0].0, field, "{}", refused.text());
    }
}
