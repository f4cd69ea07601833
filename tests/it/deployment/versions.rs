//! Two versions of a small pack: codes removed in the newer one stay readable.

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
fn the_previous_version_can_be_read_next_to_the_active_one() {
    let mut app = TestApp::start();
    let client = app.client(&["vocabulary:read", "individual:create"]);
    let path = format!("/Vocabulary/{RELIGION}");
    let before = client.get(&path).expect(200);
    let tag = before.header("etag").unwrap().to_owned();
    let before = before.json();
    let version = before["version"].as_str().unwrap();
    assert_eq!((before.get("earlier_version"), before.get("superseded_by")), (None, None));
    drop(client.get(&format!("{path}?version={version}")).expect(200));
    let refused = client.get(&format!("{path}?version=9.0.0")).expect(404).json();
    assert_eq!(
        (&refused["errors"][0]["field"], &refused["errors"][0]["code"]),
        (&json!("version"), &json!("unknown_version"))
    );
    let before_of = |rest: &str| client.get(&format!("{path}{rest}")).expect(200).json();
    let codes = before_of("/codes?_count=100&include_deprecated=true")["data"].take();

    install(&app.admin(), &newer());
    for _ in 0..2 {
        let now = client.request("GET", &path).header("If-None-Match", &tag).send().expect(200).json();
        assert_eq!((&now["version"], &now["earlier_version"]), (&json!("9.0.0"), &json!(version)));
        let of = |rest: &str| client.get(&format!("{path}{rest}")).expect(200).json();
        let then = of(&format!("?version={version}"));
        assert_eq!((&then["version"], &then["superseded_by"]), (&json!(version), &json!("9.0.0")));
        assert_eq!((&then["code_count"], &then["digest"]), (&before["code_count"], &before["digest"]));
        let page = of(&format!("/codes?_count=100&include_deprecated=true&version={version}"));
        assert_eq!(page["data"], codes, "every code as it was");
        let display = |rest: &str| of(rest)["display"].take();
        assert_eq!(display("/codes/islam"), "Islam (all schools)");
        assert_eq!(display(&format!("/codes/islam?version={version}")), "Islam");
        assert_eq!(of(&format!("/codes/buddhism?version={version}"))["status"], "active");
        assert_eq!(of("/codes/buddhism")["status"], "deprecated");
        assert_eq!(of("/codes/buddhism")["properties"]["last_version"], version);
        assert_eq!(of(&format!("/search?q=folk&version={version}"))["total"], 0);
        assert_eq!(of("/search?q=folk")["total"], 1);
        assert_eq!(of(&format!("/$subsumes?a=islam&b=islam&version={version}"))["outcome"], "equivalent");
        let refused = client.get(&format!("{path}/codes/folk?version={version}")).expect(404).json();
        assert_eq!(refused["errors"][0]["code"], "unknown_code");
        let refused = client.get(&format!("{path}/codes?below=folk&version={version}")).expect(422).json();
        assert_eq!(refused["errors"][0]["field"], "below");
        let refused = client.get(&format!("{path}/codes/islam?version=1999")).expect(404);
        assert!(refused.detail().contains(&format!("in `9.0.0` and, before it, `{version}`")), "{}", refused.detail());
        drop(client.get(&format!("{path}?version=")).expect(400));
        let folk = json!({"religion": format!("{RELIGION}#folk")});
        drop(client.post("/Individual", &person("1", folk.clone())));
        let refused = json!({"religion": format!("{RELIGION}#buddhism")});
        assert_eq!(client.post("/Individual", &person("2", refused)).status, 422, "nothing new is coded with it");
        app.restart();
    }
}

#[test]
fn a_report_counts_affected_records_and_the_upgrade_retains_their_codes() {
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
    assert_eq!(report.get("records"), None, "people are named only on request");
    let named = ["plugin", "report", file.to_str().unwrap(), "--records", "2", "--json"];
    let named = run(app.data_dir(), &named).expect_success().json();
    let record = |id: &str, code: &str| json!({"reference": daftar_tests::records::reference(id), "codes": [{"field": "religion", "uri": uri(code)}]});
    assert_eq!(named["records"], json!([record("1", "buddhism"), record("2", "buddhism")]));
    let table = run(app.data_dir(), &["plugin", "report", file.to_str().unwrap(), "--records", "10000"]);
    let table = table.expect_success().stdout;
    assert!(table.contains(&daftar_tests::records::reference("3")), "{table}");
    assert!(!table.contains(&daftar_tests::records::reference("4")), "only another name: {table}");
    for wrong in ["10001", "-1", "many"] {
        assert_ne!(run(app.data_dir(), &["plugin", "report", file.to_str().unwrap(), "--records", wrong]).code, 0);
    }
    assert_eq!(religion(&app, "4")["display"], "Islam", "nothing was changed");

    install(&app.admin(), &newer);
    for _ in 0..2 {
        assert_eq!(religion(&app, "1")["display"], "Buddhism", "kept of the version before");
        assert_eq!(religion(&app, "4")["display"], "Islam (all schools)");
        let client = app.client(&["individual:create", "vocabulary:read"]);
        let refused = client.post("/Individual", &person("5", json!({"religion": uri("buddhism")}))).expect(422).json();
        assert_eq!(refused["errors"][0]["code"], "inactive_code");
        let stored = client.get(&format!("/Vocabulary/{RELIGION}/codes/buddhism")).expect(200).json();
        assert_eq!(stored["status"], "deprecated", "{stored}");
        app.restart();
    }
    let again = run(app.data_dir(), &["plugin", "report", file.to_str().unwrap()]).expect_success().stdout;
    assert!(again.contains("0 gone, 0 retired, 0 relabelled"), "{again}");
}

fn id_types(version: &str, codes: &str, labels: &str) -> Vec<u8> {
    let count = codes.lines().count() - 1;
    let settings = format!(
        r#"
name = "id-type"
version = "{version}"
description = "ID types, for tests."
licence = "CC0-1.0"

[[vocabulary]]
namespace = "urn:svc:vocab:id-type"
name = "ID types"
domain = "Core"
version = "{version}"
source = "Test"
default_language = "en"
languages = ["en"]
codes = "id.tsv"
count = {count}
extensible = true
"#
    );
    build(&settings, &[("id.tsv", codes, labels)])
}

#[test]
fn local_codes_survive_an_upgrade_of_their_pack_and_identifiers_of_a_lost_type_are_reported() {
    const FARMER: &str = "urn:svc:vocab:id-type#farmer_id";
    const TAX: &str = "urn:svc:vocab:id-type#tax_id";
    let mut app = TestApp::start();
    let admin = app.admin();
    let body = json!({
        "code": FARMER, "specialises": "urn:svc:vocab:id-type#passport", "labels": {"en": "Farmer ID"},
        "value_pattern": "F-[0-9]{4}", "value_pattern_description": "F, a hyphen and four digits",
    });
    drop(admin.request("POST", "/local-codes").json(&body).send().expect(201));
    let client = app.client(&["individual:all", "vocabulary:read"]);
    let identified = |system: &str, value: &str| json!({"identifier": [{"system": system, "value": value}]});
    drop(client.create_individual(&identified(TAX, "T-1")));
    drop(client.create_individual(&identified(FARMER, "F-0001")));
    drop(client.create_individual(&person("1", json!({}))));
    let removed = admin.request("DELETE", "/plugins/id-type").send().expect(409);
    assert!(removed.detail().starts_with("3 records use codes of `id-type`"), "{}", removed.detail());
    // Neither tax IDs nor passports, a kind of which are farmer IDs, exist any more.
    let newer = id_types("9.0.0", "code\nnational_id\n", "code\tlabel\nnational_id\tNational ID\n");
    let file = app.data_dir().join("id.wasm");
    std::fs::write(&file, &newer).unwrap();
    let report = ["plugin", "report", file.to_str().unwrap(), "--records", "10", "--json"];
    let report = run(app.data_dir(), &report).expect_success().json();
    let change = &report["vocabularies"][0];
    assert_eq!((&change["removed_codes"], &change["records_touched"]), (&json!(3), &json!(1)), "{change}");
    assert_eq!((&change["codes"][0]["uri"], &change["codes"][0]["records"]), (&json!(TAX), &json!(1)));
    let touched =
        json!([{"reference": format!("Individual/{TAX}|T-1"), "codes": [{"field": "identifier", "uri": TAX}]}]);
    assert_eq!(report["records"], touched);

    install(&admin, &newer);
    for number in 2..4 {
        let client = app.client_of(client.credentials());
        let shown = client.get("/Vocabulary/urn:svc:vocab:id-type/codes/farmer_id").expect(200).json();
        assert_eq!((&shown["local"], &shown["status"]), (&json!(true), &json!("active")));
        assert_eq!(shown["parents"][0]["code"], "passport", "kept, as the type above a local one");
        drop(client.create_individual(&identified(FARMER, &format!("F-000{number}"))));
        let refused = client.post("/Individual", &identified(FARMER, "x")).expect(422).json();
        assert_eq!(refused["errors"][0]["code"], "pattern_mismatch");
        let refused = client.post("/Individual", &identified(TAX, "T-2")).expect(422).json();
        assert_eq!(refused["errors"][0]["code"], "inactive_code", "{refused}");
        drop(client.get("/Individual/urn:svc:vocab:id-type%23tax_id|T-1").expect(200));
        app.restart();
    }
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
    let package = build(&settings, &[("e.tsv", "code\taliases\nromani\troma\n", "code\tlabel\nromani\tRomani\n")]);
    let refused = admin.install(&package).expect(422);
    let taken = format!("brings `{uri}`, as codes or as other names of codes, which the administrator added");
    assert!(refused.detail().contains(&taken), "another name would come to mean something else: {}", refused.detail());
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
