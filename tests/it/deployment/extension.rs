use daftar_tests::records::{household, path, person, reference};
use daftar_tests::{TestApp, artifacts};
use serde_json::json;

use super::{build, install};

const MAIZE: &str = "urn:fao:agrovoc#c_12332";

fn farmer() -> Vec<u8> {
    std::fs::read(artifacts::module("farmer-registry")).unwrap()
}

#[test]
fn a_module_adds_a_field_to_records_and_rules_and_records_keep_it_while_it_is_gone() {
    let mut app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all", "group:all", "eligibility:read"]);
    let crops = |codes: serde_json::Value| json!({"extension": {"farmer": {"crops": codes}}});
    let refused = client.post("/Individual", &person("1", crops(json!([MAIZE])))).expect(422).json();
    assert_eq!(refused["errors"][0]["code"], "unknown_field");
    install(&admin, &farmer());

    let stored = client.create_individual(&person("1", crops(json!([MAIZE]))));
    assert_eq!(stored["extension"]["farmer"]["crops"][0]["uri"], MAIZE);
    drop(client.create_individual(&person("2", json!({}))));
    drop(client.create_group(&household("h", &[("1", "head"), ("2", "spouse")])));
    let refused = |body| client.post("/Individual", &person("9", body)).expect(422).json()["errors"][0].take();
    let error = refused(crops(json!(["urn:fao:agrovoc#c_12333"])));
    assert_eq!(error["field"], "extension.farmer.crops[0]");
    assert!(error["message"].as_str().unwrap().contains("c_123"), "the nearest codes are named: {error}");
    assert_eq!(refused(crops(json!(["urn:iso:std:iso:5218#2"])))["code"], "wrong_vocabulary");
    let error = refused(json!({"extension": {"farmer": {"crop": []}}}));
    assert!(error["message"].as_str().unwrap().contains("`extension.farmer.crops`"), "{error}");

    let outcome = |expression: String, subject: &str, of: String| {
        client.evaluate(&json!({"expression": expression, "subject": subject, "subjects": [of]}))["results"][0].take()
    };
    let grows = |who: &str| format!("{who}.extension.farmer.crops.exists(c, c == code('{MAIZE}'))");
    assert_eq!(outcome(grows("me"), "individual", reference("1"))["outcome"], "eligible");
    let unknown = outcome(grows("me"), "individual", reference("2"));
    assert_eq!(unknown["outcome"], "undetermined");
    assert_eq!(unknown["missing"], json!(["me.extension.farmer.crops"]));
    let any = format!("members.exists(m, {})", grows("m"));
    let group = reference("h").replace("Individual/", "Group/");
    assert_eq!(outcome(any, "group", group)["outcome"], "eligible");

    let removed = admin.request("DELETE", "/plugins/farmer-registry").send().expect(409);
    assert!(removed.detail().contains("1 records use codes"), "{}", removed.detail());
    drop(admin.request("DELETE", "/plugins/farmer-registry?force=true").send().expect(204));
    assert!(client.get(&path("Individual", "1")).expect(200).json().get("extension").is_none());
    app.restart();
    install(&app.admin(), &farmer());
    let client = app.client_of(client.credentials());
    let mut again = client.get(&path("Individual", "1")).expect(200).json();
    // The person has joined a group in the meantime.
    again["group_membership"] = stored["group_membership"].clone();
    assert_eq!(again, stored);
}

#[test]
fn two_modules_cannot_declare_one_field() {
    let app = TestApp::start();
    install(&app.admin(), &farmer());
    let settings = |path: &str| {
        format!(
            r#"
name = "other"
version = "1.0.0"
description = "Another module."
licence = "CC0-1.0"

[[extension_field]]
path = "{path}"
type = "text"

[[vocabulary]]
namespace = "urn:test:other"
name = "Other"
domain = "Core"
version = "1"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "o.tsv"
count = 1
"#
        )
    };
    let other = |path: &str| build(&settings(path), &[("o.tsv", "code\na\n", "code\tlabel\na\tA\n")]);
    for clashing in ["farmer.crops", "farmer.crops.kind"] {
        let refused = app.admin().install(&other(clashing)).expect(422);
        assert!(refused.detail().contains("conflicts with `farmer.crops`"), "{}", refused.detail());
    }
    install(&app.admin(), &other("farmer.note"));
    let client = app.client(&["individual:all"]);
    let body = json!({"extension": {"farmer": {"note": "rain-fed", "crops": []}}});
    let stored = client.create_individual(&person("1", body.clone()));
    assert_eq!(stored["extension"], body["extension"]);
}

#[test]
fn a_module_version_with_other_fields_applies_to_the_next_read() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let module = |version: &str, field: &str| {
        let settings = format!(
            r#"
name = "notes"
version = "{version}"
description = "A note on a person."
licence = "CC0-1.0"
{field}
[[vocabulary]]
namespace = "urn:test:notes"
name = "Notes"
domain = "Core"
version = "1"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "n.tsv"
count = 1
"#
        );
        build(&settings, &[("n.tsv", "code\na\n", "code\tlabel\na\tA\n")])
    };
    let field = "[[extension_field]]\npath = \"notes.text\"\ntype = \"text\"\n";
    install(&app.admin(), &module("1.0.0", field));
    let extension = json!({"notes": {"text": "rain-fed"}});
    drop(client.create_individual(&person("1", json!({"extension": extension}))));
    let read = || client.get(&path("Individual", "1")).expect(200).json()["extension"].take();
    // Twice: the second one comes from the response cache.
    assert_eq!([read(), read()], [extension.clone(), extension.clone()]);
    let (admin, without) = (app.admin(), module("1.1.0", ""));
    let report =
        admin.request("POST", "/plugin-reports").body("application/wasm", &without[..]).send().expect(200).json();
    assert_eq!((&report["removed_fields"], report.get("removed_concept_groups")), (&json!(["notes.text"]), None));
    let refused = admin.install(&without).expect(422);
    let reported = "it lacks what version 1.0.0 has: the extension field `notes.text`";
    assert!(refused.detail().contains(reported) && refused.detail().contains("--accept-loss"), "{}", refused.detail());
    assert_eq!([read(), read()], [extension.clone(), extension.clone()], "what was installed is as before");
    drop(admin.request("POST", "/plugins?accept_loss=true").body("application/wasm", &without[..]).send().expect(201));
    assert_eq!([read(), read()], [json!(null), json!(null)], "no installed module declares the field");
    install(&app.admin(), &module("1.2.0", field));
    assert_eq!([read(), read()], [extension.clone(), extension]);
}
