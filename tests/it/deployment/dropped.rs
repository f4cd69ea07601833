use daftar_tests::TestApp;
use daftar_tests::artifacts;
use daftar_tests::process::run;
use daftar_tests::records::person;
use serde_json::{Value, json};

use super::{build, install, part};

const RELIGION: &str = "urn:un:unsd:pop-census:religion";
const ETHNOCULTURAL: &str = "urn:svc:vocab:ethnocultural";
const ID_TYPES: &str = "urn:svc:vocab:id-type";

/// A pack with a vocabulary of one code for each namespace.
fn pack(name: &str, version: &str, namespaces: &[(&str, &str)]) -> Vec<u8> {
    let mut settings =
        format!("name = \"{name}\"\nversion = \"{version}\"\ndescription = \"For tests.\"\nlicence = \"CC0-1.0\"\n");
    let rows: Vec<(String, String, String)> = namespaces
        .iter()
        .enumerate()
        .map(|(at, (_, code))| {
            (format!("{at}.tsv"), format!("code\n{code}\n"), format!("code\tlabel\n{code}\t{code}\n"))
        })
        .collect();
    for ((file, _, _), (namespace, _)) in rows.iter().zip(namespaces) {
        let is_extensible = [ETHNOCULTURAL, ID_TYPES].contains(namespace);
        settings += &format!(
            r#"
[[vocabulary]]
namespace = "{namespace}"
name = "A list"
domain = "Core"
version = "{version}"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "{file}"
count = 1
extensible = {is_extensible}
"#
        );
    }
    let tables: Vec<(&str, &str, &str)> =
        rows.iter().map(|(file, codes, labels)| (file.as_str(), codes.as_str(), labels.as_str())).collect();
    build(&settings, &tables)
}

fn report(app: &TestApp, package: &[u8]) -> Value {
    let file = app.data_dir().join("reported.wasm");
    std::fs::write(&file, package).unwrap();
    run(app.data_dir(), &["plugin", "report", file.to_str().unwrap(), "--json"]).expect_success().json()
}

#[test]
fn an_upgrade_without_a_vocabulary_that_records_use_is_refused_until_the_plugin_is_removed_by_force() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:all", "vocabulary:read"]);
    drop(client.create_individual(&person("1", json!({"religion": format!("{RELIGION}#buddhism")}))));
    let newer = pack("religion", "9.0.0", &[("urn:example:other", "a")]);
    let why = format!(
        "it no longer contains `{RELIGION}` (1 records use its codes, 0 active local codes belong to it); if that is intended, remove the plugin first: `daftar plugin remove religion --force`"
    );
    let reported = report(&app, &newer);
    assert!(reported["refused"].as_str().unwrap().ends_with(&why), "{reported}");
    for _ in 0..2 {
        let refused = app.admin().install(&newer).expect(422);
        assert!(refused.detail().contains("content") && refused.detail().ends_with(&why), "{}", refused.detail());
        let client = app.client_of(client.credentials());
        let shown = client.get(&daftar_tests::records::path("Individual", "1")).expect(200).json();
        assert_eq!(shown["religion"]["display"], "Buddhism");
        assert_eq!(client.get("/Vocabulary/urn:example:other").status, 404);
        app.restart();
    }
    drop(app.admin().request("DELETE", "/plugins/religion?force=true").send().expect(204));
    install(&app.admin(), &newer);
    let client = app.client_of(client.credentials());
    drop(client.get("/Vocabulary/urn:example:other").expect(200));
}

#[test]
fn a_vocabulary_that_only_identifiers_or_local_codes_use_is_not_taken_away_either() {
    let app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all"]);
    let identified = json!({"identifier": [{"system": format!("{ID_TYPES}#tax_id"), "value": "T-1"}]});
    drop(client.create_individual(&identified));
    let newer = pack("id-type", "9.0.0", &[("urn:example:other", "a")]);
    let refused = admin.install(&newer).expect(422);
    let counts = format!("`{ID_TYPES}` (1 records use its codes, 0 active local codes belong to it)");
    assert!(refused.detail().contains(&counts), "{}", refused.detail());

    let roma = format!("{ETHNOCULTURAL}#roma");
    let body = json!({"code": roma, "labels": {"en": "Roma people"}});
    drop(admin.request("POST", "/local-codes").json(&body).send().expect(201));
    let newer = pack("ethnocultural", "9.0.0", &[("urn:example:other", "a")]);
    let refused = admin.install(&newer).expect(422);
    let counts = format!("`{ETHNOCULTURAL}` (0 records use its codes, 1 active local codes belong to it)");
    assert!(refused.detail().contains(&counts), "{}", refused.detail());
    let path = format!("/local-codes/{}/deprecate", part(&roma));
    drop(admin.request("POST", &path).json(&json!({})).send().expect(200));
    install(&admin, &newer);
    assert_eq!(app.client(&["vocabulary:read"]).get(&format!("/Vocabulary/{ETHNOCULTURAL}")).status, 404);
}

#[test]
fn a_pack_that_records_use_is_not_replaced_by_a_plugin_of_another_kind() {
    let app = TestApp::start();
    let admin = app.admin();
    let engine = std::fs::read(artifacts::plugin("eligibility-cel")).unwrap();
    drop(admin.request("DELETE", "/plugins/eligibility-cel?force=true").send().expect(204));
    drop(admin.request("DELETE", "/plugins/religion?force=true").send().expect(204));
    install(&admin, &pack("eligibility-cel", "0.0.1", &[(RELIGION, "islam")]));
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"religion": format!("{RELIGION}#islam")}))));
    let refused = admin.install(&engine).expect(422);
    let counts = format!("`{RELIGION}` (1 records use its codes, 0 active local codes belong to it)");
    assert!(refused.detail().contains(&counts), "{}", refused.detail());
    drop(client.get(&daftar_tests::records::path("Individual", "1")).expect(200));
    drop(client.create_individual(&person("2", json!({"religion": format!("{RELIGION}#islam")}))));
}

#[test]
fn a_report_counts_the_local_codes_that_go_with_their_vocabulary() {
    let app = TestApp::start();
    let admin = app.admin();
    let (roma, farmer) = (format!("{ETHNOCULTURAL}#roma"), format!("{ID_TYPES}#farmer_id"));
    for uri in [&roma, &farmer] {
        let body = json!({"code": uri, "labels": {"en": "Local"}});
        drop(admin.request("POST", "/local-codes").json(&body).send().expect(201));
    }
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"ethnocultural_status": roma}))));
    drop(client.create_individual(&json!({"identifier": [{"system": farmer, "value": "F-1"}]})));
    for (name, namespace, uri) in [("ethnocultural", ETHNOCULTURAL, &roma), ("id-type", ID_TYPES, &farmer)] {
        let reported = report(&app, &pack(name, "9.0.0", &[("urn:example:other", "a")]));
        let changes = reported["vocabularies"].as_array().unwrap();
        let change = changes.iter().find(|change| change["namespace"] == namespace).unwrap();
        assert_eq!((&change["to"], &change["local_codes"]), (&Value::Null, &json!([uri])), "{change}");
        let shown_text = change["codes"].as_array().unwrap().iter().find(|code| code["uri"] == **uri).unwrap();
        assert_eq!((&shown_text["change"], &shown_text["records"]), (&json!("gone"), &json!(1)), "{change}");
        let records = change["records_touched"].as_u64().unwrap();
        let refused = reported["refused"].as_str().unwrap();
        let counts = format!("`{namespace}` ({records} records use its codes, 1 active local codes belong to it)");
        assert!(refused.contains(&counts), "{reported}");
    }
}
