//! An optional pack: removed while unused, installed, used in a record and in a rule, removed, installed again.

use daftar_tests::records::{path, person, reference};
use daftar_tests::{ApiClient, TestApp, artifacts, errors, packs, redacted};
use serde_json::{Value, json};

const FARMER: &str = "urn:ilo:isco-08#6111";

fn pack() -> Vec<u8> {
    std::fs::read(artifacts::plugin("isco-08")).unwrap()
}

fn occupation(client: &ApiClient, id: &str) -> Value {
    client.get(&path("Individual", id)).expect(200).json()["occupation"].take()
}

fn is_farmer(client: &ApiClient, id: &str) -> daftar_tests::Response {
    let rule = "in_group(me.occupation, 'agricultural_workers') && me.occupation == code('urn:ilo:isco-08#6111')";
    client.post("/Eligibility/$evaluate", &json!({"expression": rule, "subjects": [reference(id)]}))
}

#[test]
fn a_pack_comes_and_goes_and_records_stay() {
    let mut app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all", "eligibility:read"]);
    assert_eq!(admin.request("DELETE", "/plugins/isco-08").send().status, 204, "it is unused");
    let farmer = |id: &str| client.post("/Individual", &person(id, json!({"occupation": FARMER})));
    let refused = farmer("1").expect(422).json();
    assert_eq!(errors(&refused)[0].1, "vocabulary_not_installed");
    let remedy = "the module `isco-08` provides it: the administrator installs it with `daftar plugin install`";
    assert!(refused["errors"][0]["message"].as_str().unwrap().ends_with(remedy), "{refused}");
    assert_eq!(is_farmer(&client, "1").status, 422, "a rule cannot speak of it either");

    let mut installed = admin.install(&pack()).expect(201).json();
    for measured in
        ["size_bytes", "compiled_bytes", "limits", "calls", "peak_memory_bytes", "peak_fuel", "peak_time_ms", "use"]
    {
        installed.as_object_mut().unwrap().remove(measured).unwrap();
    }
    insta::assert_json_snapshot!(redacted(&installed), @r#"
    {
      "attribution": "International Labour Organization, International Standard Classification of Occupations 2008 (ISCO-08)",
      "breaker": {
        "state": "closed",
        "suspensions": 0
      },
      "digest": "[digest]",
      "faults": 0,
      "faults_by_kind": [],
      "installed_at": "2026-03-01T12:00:00.000Z",
      "interface": "0.1.0",
      "kind": "vocabulary-pack",
      "last_fault": null,
      "licence": "Titles © ILO, reproduced with acknowledgement; compilation MIT",
      "log_lines": {
        "suppressed": 0,
        "written": 0
      },
      "name": "isco-08",
      "rejected": 0,
      "signer": "unsigned",
      "version": "1.1.0"
    }
    "#);
    let shown = farmer("1").expect(201).json()["occupation"].take();
    insta::assert_json_snapshot!(shown, @r#"
    {
      "code": "6111",
      "display": "Field Crop and Vegetable Growers",
      "namespace": "urn:ilo:isco-08",
      "uri": "urn:ilo:isco-08#6111"
    }
    "#);
    assert_eq!(client.found("occupation=urn:ilo:isco-08%236111"), ["1"]);
    assert_eq!(is_farmer(&client, "1").expect(200).json()["results"][0]["outcome"], "eligible");

    let refused = admin.request("DELETE", "/plugins/isco-08").send().expect(409);
    assert!(refused.detail().starts_with("1 records use codes of `isco-08`"), "{}", refused.detail());
    assert_eq!(refused.code(), "plugin_in_use");
    let named = ["Individual/urn:svc:vocab:id-type#national_id|1`", "`daftar plugin remove isco-08 --force`"];
    assert!(named.iter().all(|name| refused.detail().contains(name)), "{}", refused.detail());
    assert_eq!(occupation(&client, "1"), shown, "a refused removal changes nothing");
    drop(farmer("2").expect(201));
    let refused = admin.request("DELETE", "/plugins/isco-08?force=false").send().expect(409);
    assert!(refused.detail().starts_with("2 records"), "{}", refused.detail());

    assert_eq!(admin.request("DELETE", "/plugins/isco-08?force=true").send().status, 204);
    assert_eq!(errors(&farmer("3").expect(422).json())[0].1, "vocabulary_not_installed");
    let stored = occupation(&client, "1");
    assert_eq!(
        (&stored["uri"], &stored["code"], &stored["namespace"]),
        (&shown["uri"], &shown["code"], &shown["namespace"])
    );
    assert_eq!(admin.request("DELETE", "/plugins/isco-08").send().status, 404);

    app.restart();
    assert_eq!(occupation(&client, "1"), stored, "also after a restart");
    assert_eq!(app.admin().install(&pack()).expect(201).json()["name"], "isco-08");
    assert_eq!(occupation(&client, "1"), shown, "the codes are the same ones again");
    assert_eq!(farmer("3").status, 201);
    assert_eq!(is_farmer(&client, "3").expect(200).json()["results"][0]["outcome"], "eligible");
    app.restart();
    assert_eq!(occupation(&client, "3"), shown);
}

#[test]
fn a_default_pack_that_was_removed_stays_removed() {
    let mut app = TestApp::start();
    let names = app.admin().plugin_names();
    assert_eq!(app.admin().request("DELETE", "/plugins/marital-status").send().status, 204);
    app.restart();
    let left: Vec<String> = names.into_iter().filter(|name| name != "marital-status").collect();
    assert_eq!(app.admin().plugin_names(), left);
}

#[test]
fn an_error_names_the_module_that_provides_the_missing_part() {
    let folder = tempfile::tempdir().unwrap();
    let field = "[[extension_field]]\npath = \"trial.kind\"\ntype = \"coded\"\nvocabulary = \"urn:test:small\"\n";
    drop(packs::build_with(folder.path(), "1.0.0", None, field));
    assert!(std::fs::copy(artifacts::plugin("id-type"), folder.path().join("id-type.wasm")).unwrap() > 0);
    let mut app = TestApp::builder().plugins(folder.path()).start();
    assert_eq!(app.admin().plugin_names(), ["id-type", "small"]);
    let names = |app: &TestApp, module: &str, namespace: &str, extension: Value| {
        let client = app.client(&["individual:all", "vocabulary:read"]);
        let refused = client.post("/Individual", &person("1", json!({"extension": extension}))).expect(422).json();
        assert_eq!(errors(&refused)[0].1, "unknown_field");
        let code = format!("{namespace}#A");
        let wrong = client.post("/Individual", &person("1", json!({"gender": code}))).expect(422).json();
        assert_eq!(errors(&wrong)[0].1, "unknown_vocabulary");
        let validated = client.post("/Vocabulary/$validate", &json!({"codes": [code]})).expect(200).json();
        assert_eq!(validated["results"][0]["reason"], "unknown_namespace");
        let absent = client.get(&format!("/Vocabulary/{namespace}")).expect(404).detail();
        let remedy =
            format!("the module `{module}` provides it: the administrator installs it with `daftar plugin install`");
        for reported in [
            refused["errors"][0]["message"].as_str().unwrap(),
            wrong["errors"][0]["message"].as_str().unwrap(),
            validated["results"][0]["message"].as_str().unwrap(),
            &absent,
        ] {
            assert!(reported.contains(&remedy), "{reported}");
        }
    };
    // A module of the project is known by its name alone; another one once it was active, or by its file in the folder
    // of plugins.
    names(&app, "farmer-registry", "urn:fao:agrovoc", json!({"farmer": {"crops": []}}));
    assert_eq!(app.admin().request("DELETE", "/plugins/small").send().status, 204);
    names(&app, "small", "urn:test:small", json!({"trial": {"kind": "urn:test:small#A"}}));
    app.restart();
    names(&app, "small", "urn:test:small", json!({"trial": {"kind": "urn:test:small#A"}}));
}

#[test]
fn wrong_calls_are_refused() {
    let app = TestApp::start();
    let admin = app.admin();
    for (bytes, step) in [
        (&b""[..], "unreadable"),
        (b"not wasm", "unreadable"),
        (b"\0asm\x01\0\0\0", "not_a_component"),
        (b"\0asm\x0d\0\x01\0", "manifest"),
    ] {
        let refused = admin.install(bytes).expect(422);
        assert!(refused.detail().contains(&format!("step `{step}`")), "{}", refused.detail());
    }
    let mut cut = pack();
    cut.truncate(cut.len() / 2);
    assert_eq!(admin.install(&cut).status, 422);
    assert_eq!(admin.request("DELETE", "/plugins/absent").send().status, 404);
    assert_eq!(admin.request("DELETE", "/plugins/Not%20A%20Name").send().status, 400);
    assert_eq!(admin.request("DELETE", "/plugins/gender?force=maybe").send().status, 400);
    assert_eq!(admin.request("DELETE", "/plugins/gender?forced=true").send().status, 400);
}
