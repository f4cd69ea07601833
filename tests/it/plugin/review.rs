//! A plugin's file beside the active plugins: which outcomes of programs' rules change.

use std::fs;

use daftar_tests::process::run;
use daftar_tests::records::person;
use daftar_tests::{TestApp, packs};
use serde_json::{Value, json};

const SETTINGS: &str = "[[extension_field]]\npath = \"test.kind\"\ntype = \"coded\"\nvocabulary = \"urn:test:small\"\n\
    [[concept_group]]\nname = \"firsts\"\ndescription = \"The first.\"\ninclude = [{ code = \"urn:test:small#A\" }]\n";

#[test]
fn a_review_counts_the_outcomes_that_change_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let installed = fs::read(packs::build_with(folder.path(), "1.0.0", None, SETTINGS)).unwrap();
    let newer = SETTINGS.replace("urn:test:small#A", "urn:test:small#B");
    let newer = packs::build_with(folder.path(), "1.1.0", None, &newer);
    let app = TestApp::start();
    assert_eq!(app.admin().install(&installed).status, 201);
    let client = app.client(&["individual:all"]);
    for (id, code) in [("1", "A"), ("2", "A"), ("3", "B")] {
        let kind = json!({"extension": {"test": {"kind": format!("urn:test:small#{code}")}}});
        drop(client.create_individual(&person(id, kind)));
    }
    drop(client.create_individual(&person("4", json!({}))));
    let rule = "in_group(me.extension.test.kind, 'firsts')";
    let identifier = "urn:svc:vocab:id-type#tax_id|FIRSTS";
    let create = ["program", "create", "--identifier", identifier, "--name", "Firsts", "--target-type", "individual"];
    drop(run(app.data_dir(), &[&create[..], &["--eligibility", rule]].concat()).expect_success());

    let review = |more: &[&str]| run(app.data_dir(), &[&["plugin", "review", newer.to_str().unwrap()], more].concat());
    let body = review(&["--json"]).expect_success().json();
    assert_eq!((&body["from"], &body["to"]), (&json!("1.0.0"), &json!("1.1.0")));
    let program = &body["programs"][0];
    assert_eq!((&program["program"], &program["compared"]), (&json!(format!("Program/{identifier}")), &json!(4)));
    let changes: Vec<(&str, &str, u64)> = program["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let of = |name: &str| change[name].as_str().unwrap();
            (of("before"), of("after"), change["subjects"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(changes, [("eligible", "not_eligible", 2), ("not_eligible", "eligible", 1)]);
    assert_eq!(program["changes"][1]["examples"], json!(["Individual/urn:svc:vocab:id-type#national_id|3"]));
    let text = review(&[]).expect_success().stdout;
    assert!(text.contains("4 subjects compared, 3 changed") && text.contains("eligible to not_eligible: 2"), "{text}");
    let fewer = review(&["--decisions", "2", "--json"]).expect_success().json();
    assert_eq!(fewer["programs"][0]["compared"], 2);
    let shown = app.admin().get("/plugins/small").expect(200).json();
    assert_eq!(shown["version"], "1.0.0", "nothing is installed");

    let same = app.admin().request("POST", "/plugin-reviews").body("application/wasm", installed).send().expect(200);
    assert_eq!(same.json()["programs"][0]["changes"], json!([]));
    let lacking_file = packs::build(folder.path(), "1.2.0", None);
    let lacking = fs::read(&lacking_file).unwrap();
    let broken = app.admin().request("POST", "/plugin-reviews").body("application/wasm", lacking.clone()).send();
    let broken = broken.expect(200);
    let problem = broken.json()["programs"][0]["problem"].clone();
    assert!(problem.as_str().is_some_and(|problem| problem.contains("extension")), "{problem}");
    let reported = run(app.data_dir(), &["plugin", "report", lacking_file.to_str().unwrap()]).expect_success().stdout;
    assert!(reported.contains(&format!("the rule of Program/{identifier} would be invalid")), "{reported}");
    for (path, status) in [("/plugin-reviews?decisions=0", 400), ("/plugin-reviews?decisions=all", 400)] {
        let refused = app.admin().request("POST", path).body("application/wasm", Vec::new()).send();
        assert_eq!(refused.status, status, "{}", refused.text());
    }
    let garbage = app.admin().request("POST", "/plugin-reviews").body("application/wasm", b"x").send();
    assert_eq!(garbage.expect(422).json()["code"], Value::from("plugin_rejected"));

    let healthy = run(app.data_dir(), &["doctor", "--all"]).stdout;
    assert!(healthy.contains("the rules of all programs are valid"), "{healthy}");
    let accepted = app.admin().request("POST", "/plugins?accept_loss=true").body("application/wasm", lacking).send();
    assert_eq!(accepted.status, 201, "{}", accepted.text());
    let doctor = run(app.data_dir(), &["doctor"]).stdout;
    assert!(doctor.contains(&format!("1 programs have rules that are not valid: `Program/{identifier}`")), "{doctor}");
}
