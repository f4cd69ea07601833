use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, person, with};
use daftar_tests::{TestApp, errors};
use serde_json::{Value, json};

use super::part;

const FARMER_ID: &str = "urn:svc:vocab:id-type#farmer_id";
const NATIONAL: &str = "urn:svc:vocab:id-type#national_id";

fn farmer_id() -> Value {
    json!({
        "code": FARMER_ID,
        "specialises": NATIONAL,
        "labels": {"en": "Farmer ID", "fr": "Carte d'agriculteur"},
        "value_pattern": "F-[0-9]{4}",
        "value_pattern_description": "F, a hyphen and four digits",
        "target_type": "individual",
    })
}

fn identified(system: &str, value: &str) -> Value {
    json!({"identifier": [{"system": system, "value": value}]})
}

#[test]
fn an_id_type_is_added_and_its_identifiers_are_checked_at_once_and_after_a_restart() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:all", "group:all", "vocabulary:read"]);
    let refused = client.post("/Individual", &identified(FARMER_ID, "F-0001")).expect(422).json();
    assert_eq!(errors(&refused)[0].1, "unknown_system");
    let added = app.admin().request("POST", "/local-codes").json(&farmer_id()).send().expect(201).json();
    assert_eq!((&added["local"], &added["status"], &added["active"]), (&json!(true), &json!("active"), &json!(true)));
    for _ in 0..2 {
        let client = app.client_of(client.credentials());
        let refused = client.post("/Individual", &identified(FARMER_ID, "secret-1")).expect(422);
        assert!(!refused.text().contains("secret-1"), "the value is not repeated");
        let refused = refused.json();
        assert_eq!(refused["errors"][0]["field"], "identifier[0].value");
        assert_eq!(refused["errors"][0]["code"], "pattern_mismatch");
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("F, a hyphen and four digits is expected"), "{message}");
        let refused = client.post("/Group", &identified(FARMER_ID, "F-0001")).expect(422).json();
        assert_eq!(refused["errors"][0]["code"], "wrong_target_type");
        let shown = client.get("/Vocabulary/urn:svc:vocab:id-type/codes/farmer_id").expect(200).json();
        assert_eq!(shown["local"], true, "{shown}");
        assert_eq!(shown["parents"][0]["code"], "national_id", "{shown}");
        app.restart();
    }
    let client = app.client_of(client.credentials());
    drop(client.create_individual(&identified(FARMER_ID, "F-0001")));
    let below = client.get("/Vocabulary/urn:svc:vocab:id-type/$subsumes?a=national_id&b=farmer_id").expect(200).json();
    assert_eq!(below["outcome"], "subsumes");
}

#[test]
fn a_local_code_is_usable_immediately_and_caches_are_invalidated() {
    const ID_TYPES: &str = "/Vocabulary/urn:svc:vocab:id-type";
    let app = TestApp::start();
    let client = app.client(&["vocabulary:read"]);
    let ways = || {
        let requested = json!({"codes": [FARMER_ID]});
        let send = |path: &str| client.request("POST", path).json(&requested);
        let get = |path: &str| client.request("GET", &format!("{ID_TYPES}{path}"));
        [
            get(""),
            get("/codes"),
            get("/codes?below=national_id"),
            get("/search?q=farmer"),
            client.request("GET", "/Vocabulary/$search?q=agriculteur"),
            send("/Vocabulary/$validate"),
            send("/Vocabulary/$lookup"),
        ]
    };
    let before: Vec<_> = ways().into_iter().map(|request| request.send().expect(200)).collect();
    assert_eq!(before[0].json()["code_count"], 4);
    assert_eq!(before[2].json()["total"], 0);
    assert_eq!(before[5].json()["results"][0]["reason"], "unknown_code");
    drop(app.admin().request("POST", "/local-codes").json(&farmer_id()).send().expect(201));
    let after: Vec<Value> = ways()
        .into_iter()
        .zip(&before)
        .map(|(request, before)| {
            let tag = before.header("etag").unwrap();
            request.header("If-None-Match", tag).send().expect(200).json()
        })
        .collect();
    assert_eq!(after[0]["code_count"], 5);
    assert_eq!(after[1]["total"], 5);
    let local: Vec<&str> = after[1]["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|code| code["local"] == true)
        .map(|code| code["code"].as_str().unwrap())
        .collect();
    assert_eq!(local, ["farmer_id"]);
    for found in [&after[2]["data"], &after[3]["data"], &after[4]["data"]] {
        assert_eq!((&found[0]["uri"], &found[0]["local"]), (&json!(FARMER_ID), &json!(true)), "{found}");
    }
    assert_eq!(after[5]["results"][0]["valid"], true);
    let looked_up = &after[6]["results"][0];
    assert_eq!((&looked_up["local"], &looked_up["parents"][0]["code"]), (&json!(true), &json!("national_id")));
    assert_eq!(looked_up["properties"]["value_pattern"], "F-[0-9]{4}");
    assert_eq!(looked_up["properties"]["target_type"], "individual");
    let pages: Vec<Value> = (0..5)
        .map(|offset| client.get(&format!("{ID_TYPES}/codes?_count=1&_offset={offset}")).expect(200).json())
        .map(|mut page| page["data"][0]["code"].take())
        .collect();
    assert_eq!(pages, ["birth_certificate", "farmer_id", "national_id", "passport", "tax_id"]);

    let path = format!("/local-codes/{}/deprecate", part(FARMER_ID));
    drop(app.admin().request("POST", &path).json(&json!({})).send().expect(200));
    let total = |query: &str| client.get(&format!("{ID_TYPES}/codes{query}")).expect(200).json()["total"].take();
    assert_eq!((total(""), total("?include_deprecated=true")), (json!(4), json!(5)));
    assert_eq!(client.get(&format!("{ID_TYPES}/search?q=farmer")).expect(200).json()["total"], 0);
    let requested = json!({"codes": [FARMER_ID]});
    let judged = client.post("/Vocabulary/$validate", &requested).expect(200).json();
    assert_eq!(judged["results"][0]["reason"], "deprecated");
}

#[test]
fn a_code_that_specialises_another_counts_wherever_that_one_does() {
    const INDIGENOUS: &str = "urn:svc:vocab:ethnocultural#indigenous";
    const SAMI: &str = "urn:svc:vocab:ethnocultural#sami";
    let app = TestApp::start();
    let admin = app.admin();
    let client = app.client(&["individual:all", "eligibility:read", "vocabulary:read"]);
    for (code, above) in [(SAMI, INDIGENOUS), ("urn:svc:vocab:ethnocultural#sami_north", SAMI)] {
        let body = json!({"code": code, "specialises": above, "labels": {"en": "Sámi"}});
        drop(admin.request("POST", "/local-codes").json(&body).send().expect(201));
    }
    let person = person("1", json!({"ethnocultural_status": "urn:svc:vocab:ethnocultural#sami_north"}));
    drop(client.create_individual(&person));
    let set = json!({"includes": [{"code": INDIGENOUS}]});
    drop(admin.request("PUT", "/concept-groups/first_peoples").json(&set).send().expect(200));
    let group = client.get("/ConceptGroup/first_peoples").expect(200).json();
    let members: Vec<&str> =
        group["expansion"]["data"].as_array().unwrap().iter().map(|code| code["code"].as_str().unwrap()).collect();
    assert_eq!(members, ["indigenous", "sami", "sami_north"], "{group}");
    let outcome = |expression: &str| {
        let rule = json!({"expression": expression, "subjects": [daftar_tests::records::reference("1")]});
        client.evaluate(&rule)["results"][0]["outcome"].take()
    };
    assert_eq!(outcome("in_group(me.ethnocultural_status, 'first_peoples')"), "eligible");
    assert_eq!(outcome(&format!("descends_from(me.ethnocultural_status, '{INDIGENOUS}')")), "eligible");
    assert_eq!(outcome(&format!("me.ethnocultural_status == code('{INDIGENOUS}')")), "not_eligible", "it is another");
    let except = json!({"includes": [{"code": INDIGENOUS}], "excludes": [{"code": SAMI}]});
    drop(admin.request("PUT", "/concept-groups/first_peoples").json(&except).send().expect(200));
    assert_eq!(outcome("in_group(me.ethnocultural_status, 'first_peoples')"), "not_eligible");
}

#[test]
fn a_deprecated_code_is_rejected_in_new_records_with_its_successor_and_retained_in_old_ones() {
    let app = TestApp::start();
    let (admin, client) = (app.admin(), app.client(&["individual:all"]));
    drop(admin.request("POST", "/local-codes").json(&farmer_id()).send().expect(201));
    drop(client.create_individual(&with(
        person("1", json!({})),
        json!({"identifier": [
            {"system": FARMER_ID, "value": "F-0001"}, {"system": NATIONAL, "value": "1"}
        ]}),
    )));
    let path = format!("/local-codes/{}", part(FARMER_ID));
    let deprecate = |body: Value| admin.request("POST", &format!("{path}/deprecate")).json(&body).send();
    let refused = deprecate(json!({"replaced_by": "urn:svc:vocab:id-type#pasport"})).expect(422);
    assert!(refused.detail().contains("passport"), "{}", refused.detail());
    assert_eq!(deprecate(json!({"replaced_by": FARMER_ID})).status, 422);
    let body = deprecate(json!({"replaced_by": NATIONAL})).expect(200).json();
    assert_eq!((&body["status"], &body["replaced_by"]), (&json!("deprecated"), &json!(NATIONAL)));
    const PASSPORT: &str = "urn:svc:vocab:id-type#passport";
    for (body, successor) in [
        (json!({}), NATIONAL),
        (json!({"replaced_by": PASSPORT}), PASSPORT),
        (json!({}), PASSPORT),
        (json!({"replaced_by": NATIONAL}), NATIONAL),
    ] {
        let again = deprecate(body).expect(200).json();
        assert_eq!((&again["status"], &again["replaced_by"]), (&json!("deprecated"), &json!(successor)));
    }
    let refused = client.post("/Individual", &identified(FARMER_ID, "F-0002")).expect(422).json();
    assert_eq!(refused["errors"][0]["code"], "inactive_code");
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains(NATIONAL), "{refused}");
    drop(client.get("/Individual/urn:svc:vocab:id-type%23farmer_id|F-0001").expect(200));
    let again = admin.request("POST", "/local-codes").json(&farmer_id()).send().expect(409);
    assert!(again.detail().contains("never used again"), "{}", again.detail());
}

#[test]
fn an_empty_pregnancy_status_group_makes_rules_undetermined() {
    const PREGNANT: &str = "urn:svc:vocab:pregnancy-status#pregnant";
    let app = TestApp::start();
    let (admin, client) = (app.admin(), app.client(&["individual:all", "vocabulary:read", "eligibility:read"]));
    let vocabulary = || client.get("/Vocabulary/urn:svc:vocab:pregnancy-status").expect(200).json();
    assert_eq!(vocabulary()["completeness"], "empty");
    let mother =
        |id: &str| client.post("/Individual", &person(id, json!({"gender": FEMALE, "pregnancy_status": PREGNANT})));
    assert_eq!(mother("1").expect(422).json()["errors"][0]["code"], "vocabulary_empty");
    let body = json!({"code": PREGNANT, "labels": {"en": "Pregnant"}});
    drop(admin.request("POST", "/local-codes").json(&body).send().expect(201));
    assert_eq!(vocabulary()["completeness"], "full");
    assert_eq!(mother("1").expect(201).json()["pregnancy_status"]["display"], "Pregnant");
    let requested = || {
        let rule = json!({"expression": "is_pregnant(me)", "subjects": [daftar_tests::records::reference("1")]});
        client.evaluate(&rule)
    };
    let before = requested();
    assert_eq!(before["results"][0]["outcome"], "undetermined");
    assert_eq!(before["results"][0]["missing"], json!(["concept_group.pregnant_eligible"]));
    let set = json!({"includes": [{"code": PREGNANT}]});
    drop(admin.request("PUT", "/concept-groups/pregnant_eligible").json(&set).send().expect(200));
    let after = requested();
    assert_eq!(after["results"][0]["outcome"], "eligible");
    assert_ne!(before["decision"]["concept_groups"], after["decision"]["concept_groups"]);
}

#[test]
fn a_starter_code_can_be_deprecated_and_a_code_of_a_publisher_cannot() {
    const MAJORITY: &str = "urn:svc:vocab:ethnocultural#majority";
    let app = TestApp::start();
    let (admin, client) = (app.admin(), app.client(&["individual:create"]));
    let deprecate =
        |uri: &str| admin.request("POST", &format!("/local-codes/{}/deprecate", part(uri))).json(&json!({})).send();
    drop(deprecate(MAJORITY).expect(200));
    let refused =
        client.post("/Individual", &person("1", json!({"ethnocultural_status": MAJORITY}))).expect(422).json();
    assert_eq!(refused["errors"][0]["code"], "inactive_code");
    assert!(deprecate(NATIONAL).expect(409).detail().contains("read-only"));
    assert_eq!(deprecate("urn:svc:vocab:ethnocultural#absent").status, 404);
}

#[test]
fn faults_of_a_local_code_are_named() {
    let app = TestApp::start();
    let refused = |change: Value| {
        let response = app.admin().request("POST", "/local-codes").json(&with(farmer_id(), change)).send();
        let body = response.json();
        let error = body["errors"].get(0).cloned().unwrap_or_default();
        (
            response.status,
            error["field"].as_str().unwrap_or_default().to_owned(),
            error["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let is = |field: &str, code: &str| (422, field.to_owned(), code.to_owned());
    assert_eq!(refused(json!({"code": "urn:iso:std:iso:5218#3"})), is("namespace", "not_extensible"));
    assert_eq!(refused(json!({"code": "urn:svc:vocab:id-type#Farmer"})), is("code", "invalid"));
    assert_eq!(refused(json!({"code": "farmer"})), is("code", "invalid_code"));
    assert_eq!(refused(json!({"code": "urn:svc:vocab:id-type#.."})), is("code", "invalid"));
    assert_eq!(refused(json!({"code": "urn:svc:vocab:id-type#a\u{7}b"})), is("code", "control_character"));
    assert_eq!(refused(json!({"code": format!("urn:svc:vocab:id-type#{}", "a".repeat(64))})).0, 201);
    assert_eq!(refused(json!({"code": format!("urn:svc:vocab:id-type#{}", "a".repeat(65))})), is("code", "invalid"));
    assert_eq!(
        refused(json!({"code": format!("urn:svc:vocab:id-type#{}", "a".repeat(10_000))})),
        is("code", "too_long")
    );
    assert_eq!(refused(json!({"code": "urn:unknown:list#a"})), is("namespace", "not_extensible"));
    assert_eq!(refused(json!({"specialises": "urn:svc:vocab:id-type#nationl_id"})), is("specialises", "unknown_code"));
    assert_eq!(refused(json!({"specialises": FEMALE})), is("specialises", "wrong_vocabulary"));
    assert_eq!(refused(json!({"labels": {}})), is("labels", "invalid"));
    for hidden in ["Farmer\u{202e} ID", "Far\u{200b}mer ID", "Farmer\u{2066} ID"] {
        assert_eq!(refused(json!({"labels": {"en": hidden}})), is("labels", "invalid"), "{hidden:?}");
    }
    assert_eq!(refused(json!({"value_pattern": "("})), is("value_pattern", "invalid_pattern"));
    assert_eq!(refused(json!({"value_pattern": "(a{500}){500}"})), is("value_pattern", "invalid_pattern"));
    assert_eq!(refused(json!({"value_pattern_description": null})), is("value_pattern_description", "required"));
    assert_eq!(refused(json!({"target_type": "people"})), is("target_type", "unknown_value"));
    assert_eq!(refused(json!({"colour": "red"})), is("colour", "unknown_field"));
    assert_eq!(refused(json!({"code": NATIONAL})).0, 409);
    let stored = app.admin().get("/local-codes").expect(200).json();
    assert_eq!(stored["data"].as_array().unwrap().len(), 1, "of the long ones the shorter: {stored}");
}

#[test]
fn the_command_does_the_same_on_a_running_and_on_a_stopped_server() {
    let mut app = TestApp::start();
    for code in ["running", "stopped"] {
        let uri = format!("urn:svc:vocab:id-type#{code}_id");
        let arguments = [
            "code",
            "add",
            &uri,
            "--label",
            "en=A card",
            "--pattern",
            "[0-9]+",
            "--pattern-description",
            "digits",
            "--json",
        ];
        let added = run(app.data_dir(), &arguments).expect_success().json();
        assert_eq!(added["value_pattern"], "[0-9]+");
        let changed = run(app.data_dir(), &["code", "set", &uri, "--label", "en=Card", "--no-pattern", "--json"]);
        let changed = changed.expect_success().json();
        assert_eq!((&changed["labels"]["en"], changed.get("value_pattern")), (&json!("Card"), None));
        let reported =
            run(app.data_dir(), &["code", "deprecate", &uri, "--replaced-by", NATIONAL]).expect_success().stdout;
        assert_eq!(reported, format!("deprecated {uri}\n"));
        let shown = run(app.data_dir(), &["code", "show", &uri, "--json"]).expect_success().json();
        assert_eq!((&shown["uri"], &shown["replaced_by"]), (&json!(uri), &json!(NATIONAL)));
        let text = run(app.data_dir(), &["code", "show", &uri]).expect_success().stdout;
        assert!(text.contains("labels.en") && text.contains("Card"), "{text}");
        let table = run(app.data_dir(), &["code", "list"]).expect_success().stdout;
        assert!(table.contains(&uri) && table.contains("deprecated"), "{table}");
        app.stop();
    }
    let refused = run(app.data_dir(), &["code", "deprecate", "urn:svc:vocab:id-type#nobody_id"]);
    assert!(refused.code == 1 && refused.stderr.contains("nobody_id"), "{refused:?}");
}
