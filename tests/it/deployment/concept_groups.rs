use daftar_tests::TestApp;
use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, person, reference};
use serde_json::{Value, json};

const OTHER: &str = "urn:iso:std:iso:5218#9";

#[test]
fn the_deployments_definition_wins_until_it_is_taken_back() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(client.create_individual(&person("1", json!({"gender": OTHER}))));
    let is_female = |app: &TestApp| {
        let rule = json!({"expression": "is_female(me)", "subjects": [reference("1")]});
        app.client_of(client.credentials()).evaluate(&rule)["results"][0]["outcome"].take()
    };
    assert_eq!(is_female(&app), "not_eligible");
    let set = ["concept-group", "set", "feminine_gender", "--code", FEMALE, "--code", OTHER, "--json"];
    let response = run(app.data_dir(), &set).expect_success().json();
    assert_eq!((&response["defined_by"], &response["members"]), (&json!("deployment"), &json!(2)));
    assert_eq!(is_female(&app), "eligible", "at once");
    app.restart();
    assert_eq!(is_female(&app), "eligible", "and after a restart");
    let reported = run(app.data_dir(), &["concept-group", "set", "feminine_gender", "--reset"]).expect_success().stdout;
    assert_eq!(reported, "reset feminine_gender; it is now defined by `gender`\n");
    assert_eq!(is_female(&app), "not_eligible");
    app.stop();
    let refused = run(app.data_dir(), &["concept-group", "set", "feminine_gender", "--reset"]);
    assert!(refused.code == 1 && refused.stderr.contains("defines no concept group"), "{refused:?}");
    let shown = run(app.data_dir(), &["concept-group", "show", "feminine_gender", "--json"]).expect_success().json();
    assert_eq!((&shown["name"], &shown["plugin"]), (&json!("feminine_gender"), &json!("gender")));
    let text = run(app.data_dir(), &["concept-group", "show", "feminine_gender"]).expect_success().stdout;
    assert!(text.contains("feminine_gender") && text.contains("members"), "{text}");
    let refused = run(app.data_dir(), &["concept-group", "show", "absent"]);
    assert!(refused.code == 1 && refused.stderr.contains("no such concept group"), "{refused:?}");
    let table = run(app.data_dir(), &["concept-group", "list"]).expect_success().stdout;
    assert!(table.contains("pregnant_eligible") && table.contains("not set"), "{table}");
}

#[test]
fn a_group_is_all_below_a_code_except_some() {
    let app = TestApp::start();
    let client = app.client(&["vocabulary:read"]);
    let list = client.get("/ConceptGroup").expect(200);
    let below = |code: &str| format!("urn:un:unsd:pop-census:housing-type#{code}");
    let body = json!({
        "description": "Informal housing.",
        "includes": [{"descendants_of": below("1.2")}],
        "excludes": [{"code": below("1.2.2")}],
    });
    let set = app.admin().request("PUT", "/concept-groups/informal").json(&body).send().expect(200).json();
    assert_eq!(set["members"], 5, "1.2 and four of its five: {set}");
    assert_eq!(app.admin().get("/concept-groups/informal").expect(200).json(), set);
    let tag = list.header("etag").unwrap().to_owned();
    drop(client.request("GET", "/ConceptGroup").header("If-None-Match", &tag).send().expect(200));
    let shown = client.get("/ConceptGroup/informal").expect(200).json();
    assert_eq!((&shown["defined_by"], &shown["unset"]), (&json!("deployment"), &json!(false)));
    assert_eq!(
        shown["definition"]["text"],
        format!("descendants of {} and itself except {}", below("1.2"), below("1.2.2"))
    );
    let codes: Vec<&str> =
        shown["expansion"]["data"].as_array().unwrap().iter().map(|code| code["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["1.2", "1.2.1", "1.2.3", "1.2.4", "1.2.5"]);
    drop(app.admin().request("DELETE", "/concept-groups/informal").send().expect(200));
    drop(client.get("/ConceptGroup/informal").expect(404));
    drop(client.request("GET", "/ConceptGroup").header("If-None-Match", &tag).send().expect(304));
}

#[test]
fn faults_of_a_concept_group_are_named() {
    let app = TestApp::start();
    let refused = |name: &str, body: Value| {
        let response = app.admin().request("PUT", &format!("/concept-groups/{name}")).json(&body).send().expect(422);
        let error = response.json()["errors"][0].take();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("field"), text("code"), text("message"))
    };
    let (field, code, message) =
        refused("a", json!({"includes": [{"code": FEMALE}, {"code": "urn:iso:std:iso:5218#3"}]}));
    assert_eq!((field.as_str(), code.as_str()), ("includes[1]", "unknown_code"), "{message}");
    let (field, code, _) = refused("a", json!({"includes": [{"code": "urn:nowhere#3"}]}));
    assert_eq!((field.as_str(), code.as_str()), ("includes[0]", "vocabulary_not_installed"));
    let (field, code, _) = refused("a", json!({"includes": []}));
    assert_eq!((field.as_str(), code.as_str()), ("includes", "required"));
    let (field, code, _) = refused("a", json!({"includes": [{"code": FEMALE, "descendants_of": FEMALE}]}));
    assert_eq!((field.as_str(), code.as_str()), ("includes[0]", "invalid_selection"));
    assert_eq!(refused("A%20b", json!({"includes": [{"code": FEMALE}]})).1, "invalid");
    assert_eq!(app.admin().request("DELETE", "/concept-groups/a").send().status, 404);
    assert_eq!(app.admin().get("/concept-groups/a").status, 404);
}

#[test]
fn a_pack_whose_codes_a_group_of_the_deployment_selects_is_removed_only_by_force() {
    const BUDDHISM: &str = "urn:un:unsd:pop-census:religion#buddhism";
    let app = TestApp::start();
    let admin = app.admin();
    let (includes, excludes) = (
        json!({"includes": [{"code": BUDDHISM}]}),
        json!({"includes": [{"code": FEMALE}], "excludes": [{"code": BUDDHISM}]}),
    );
    for (name, body) in [("chosen", includes), ("others", excludes)] {
        drop(admin.request("PUT", &format!("/concept-groups/{name}")).json(&body).send().expect(200));
    }
    let remove = |query: &str| admin.request("DELETE", &format!("/plugins/religion{query}")).send();
    let refused = remove("").expect(409);
    let why = "concept groups of the deployment select codes of `religion`: `chosen`, `others`; ";
    assert!(refused.detail().starts_with(why), "{}", refused.detail());
    drop(admin.request("DELETE", "/concept-groups/others").send().expect(200));
    assert!(remove("").expect(409).detail().contains("`religion`: `chosen`; "));
    drop(remove("?force=true").expect(204));
    assert_eq!(app.client(&["vocabulary:read"]).get("/Vocabulary/urn:un:unsd:pop-census:religion").status, 404);
}

#[test]
fn only_the_first_of_many_unknown_codes_get_suggestions() {
    let app = TestApp::start();
    let letters = ('a'..='z').chain('A'..='Z').filter(|letter| *letter != 's');
    let includes: Vec<Value> =
        letters.map(|letter| json!({"code": format!("urn:un:unsd:pop-census:religion#buddhism{letter}")})).collect();
    let body = json!({"includes": includes});
    let response = app.admin().request("PUT", "/concept-groups/many").json(&body).send().expect(422).json();
    let reported = response["errors"].as_array().unwrap();
    let is_suggested =
        |at: usize| reported[at]["message"].as_str().unwrap().contains("urn:un:unsd:pop-census:religion#buddhism`");
    assert!(reported.iter().all(|error| error["code"] == "unknown_code"), "{response}");
    assert_eq!(reported.len(), 50, "{response}");
    assert!(is_suggested(0) && is_suggested(49), "{response}");
    assert!(response["detail"].as_str().unwrap().ends_with("(and 50 more)"), "{response}");
}
