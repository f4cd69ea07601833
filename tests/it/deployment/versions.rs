//! Two versions of a small pack: what the newer one does not have any more stays readable.

use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::person;
use serde_json::{Value, json};

use super::{build, install};

const RELIGION: &str = "urn:un:unsd:pop-census:religion";

fn pack(version: &str, codes: &str, labels: &str) -> Vec<u8> {
    let count = codes.lines().count() - 1;
    let settings = format!(
        r#"
name = "religion"
version = "{version}"
description = "Religions, for tests."
licence = "CC0-1.0"

[[vocabulary]]
namespace = "{RELIGION}"
name = "Religion"
domain = "Core"
version = "{version}"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "religion.tsv"
count = {count}
"#
    );
    build(&settings, &[("religion.tsv", codes, labels)])
}

fn newer() -> Vec<u8> {
    pack(
        "9.0.0",
        "code\tstatus\treplaced_by\nislam\t\t\nhinduism\tinactive\tislam\nfolk\t\t\n",
        "code\tlabel\nislam\tIslam (all schools)\nhinduism\tHinduism\nfolk\tFolk religion\n",
    )
}

fn religion(app: &TestApp, id: &str) -> Value {
    let client = app.client(&["individual:read"]);
    client.get(&daftar_tests::records::path("Individual", id)).expect(200).json()["religion"].take()
}

#[test]
fn a_report_says_which_records_an_upgrade_touches_and_the_upgrade_keeps_their_codes() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:create", "vocabulary:read"]);
    for (id, code) in [("1", "buddhism"), ("2", "buddhism"), ("3", "hinduism"), ("4", "islam")] {
        drop(client.post("/Individual", &person(id, json!({"religion": format!("{RELIGION}#{code}")}))).expect(201));
    }
    let newer = newer();
    let file = app.data_dir().join("newer.wasm");
    std::fs::write(&file, &newer).unwrap();
    let report = run(app.data_dir(), &["plugin", "report", file.to_str().unwrap(), "--json"]).expect_success().json();
    assert_eq!((report["to"].as_str(), report.get("refused")), (Some("9.0.0"), None), "{report}");
    let change = &report["vocabularies"][0];
    assert_eq!((&change["codes_added"], &change["records_touched"]), (&json!(1), &json!(3)), "{change}");
    let touched: Vec<(&str, &str, u64)> = change["codes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| {
            (code["uri"].as_str().unwrap(), code["change"].as_str().unwrap(), code["records"].as_u64().unwrap())
        })
        .collect();
    let uri = |code: &str| format!("{RELIGION}#{code}");
    assert_eq!(
        touched,
        [(&*uri("buddhism"), "gone", 2), (&*uri("hinduism"), "retired", 1), (&*uri("islam"), "relabelled", 1)]
    );
    assert_eq!(change["codes"][1]["successor"]["uri"], uri("islam"));
    assert_eq!(religion(&app, "4")["display"], "Islam", "nothing was changed");

    install(&app.admin(), &newer);
    for _ in 0..2 {
        assert_eq!(religion(&app, "1")["display"], "Buddhism", "kept of the version before");
        assert_eq!(religion(&app, "4")["display"], "Islam (all schools)");
        let client = app.client(&["individual:create", "vocabulary:read"]);
        let refused = client.post("/Individual", &person("5", json!({"religion": uri("buddhism")}))).expect(422).json();
        assert_eq!(refused["errors"][0]["code"], "inactive_code");
        let kept = client.get(&format!("/Vocabulary/{RELIGION}/codes/buddhism")).expect(200).json();
        assert_eq!(kept["status"], "inactive", "{kept}");
        app.restart();
    }
    let again = run(app.data_dir(), &["plugin", "report", file.to_str().unwrap()]).expect_success().stdout;
    assert!(again.contains("0 gone, 0 retired, 0 relabelled"), "{again}");
}

#[test]
fn a_pack_that_brings_a_local_code_is_refused_until_that_is_deprecated() {
    const ETHNOCULTURAL: &str = "urn:svc:vocab:ethnocultural";
    let app = TestApp::start();
    let admin = app.admin();
    let uri = format!("{ETHNOCULTURAL}#roma");
    let body = json!({"code": uri, "labels": {"en": "Roma people"}});
    drop(admin.request("POST", "/local-codes").json(&body).send().expect(201));
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"ethnocultural_status": uri}))));
    let settings = format!(
        r#"
name = "ethnocultural"
version = "9.0.0"
description = "Ethnocultural status, for tests."
licence = "CC0-1.0"

[[vocabulary]]
namespace = "{ETHNOCULTURAL}"
name = "Ethnocultural status"
domain = "Core"
version = "9.0.0"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "e.tsv"
count = 1
extensible = true
"#
    );
    let package = build(&settings, &[("e.tsv", "code\nroma\n", "code\tlabel\nroma\tRoma\n")]);
    let refused = admin.install(&package).expect(422);
    assert!(refused.detail().contains("daftar code deprecate"), "{}", refused.detail());
    let path = format!("/local-codes/{}/deprecate", super::part(&uri));
    drop(admin.request("POST", &path).json(&json!({})).send().expect(200));
    install(&admin, &package);
    let shown = client.get(&daftar_tests::records::path("Individual", "1")).expect(200).json();
    assert_eq!(shown["ethnocultural_status"]["display"], "Roma", "the pack's code took its place, and its number");
    drop(client.create_individual(&person("2", json!({"ethnocultural_status": uri}))));
}
