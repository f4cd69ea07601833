use daftar_tests::process::run;
use daftar_tests::records::{path, person};
use daftar_tests::{TestApp, errors};
use serde_json::{Value, json};

const FARMERS: &str = "https://example.org/farmer-id#2026";

fn farmer(value: &str) -> Value {
    json!({"identifier": [{"system": FARMERS, "value": value}]})
}

#[test]
fn identifiers_are_of_the_systems_that_the_administrator_registered() {
    let mut app = TestApp::start();
    let (admin, client) = (app.admin(), app.client(&["individual:all", "group:all"]));
    let refused = client.post("/Individual", &farmer("1")).expect(422).json();
    assert_eq!(errors(&refused), [("identifier[0].system".to_owned(), "unknown_system".to_owned())]);
    assert!(
        refused["errors"][0]["message"].as_str().unwrap().contains("`urn:svc:vocab:id-type#national_id`"),
        "{refused}"
    );
    let added = admin.request("POST", "/identifier-systems").json(&json!({"uri": FARMERS})).send().expect(201).json();
    assert_eq!((&added["uri"], &added["origin"]), (&json!(FARMERS), &json!("registered")));
    let address = format!("{}|1", FARMERS.replace('#', "%23").replace('/', "%2F"));
    let created = client.create_individual(&farmer("1"));
    assert_eq!(client.get(&format!("/Individual/{address}")).expect(200).json(), created);
    drop(client.post("/Group", &farmer("1")).expect(201));
    assert_eq!(client.post("/Individual", &farmer("1")).expect(409).status, 409, "unique in it");
    app.restart();
    let client = app.client_of(client.credentials());
    drop(client.post("/Individual", &farmer("2")).expect(201));
    let unknown =
        client.post("/Individual", &json!({"identifier": [{"system": "urn:x:y", "value": "1"}]})).expect(422).json();
    assert!(unknown["errors"][0]["message"].as_str().unwrap().contains(FARMERS), "the known ones are told: {unknown}");

    let part = FARMERS.replace('%', "%25").replace('#', "%23").replace('/', "%2F");
    drop(app.admin().request("DELETE", &format!("/identifier-systems/{part}")).send().expect(204));
    assert_eq!(errors(&client.post("/Individual", &farmer("3")).expect(422).json())[0].1, "unknown_system");
    let patched = client.request("PATCH", &format!("/Individual/{address}")).json(&json!({"active": true})).send();
    assert_eq!(patched.expect(200).json()["identifier"], created["identifier"], "what is carried stays right");
    let gone = app.admin().request("DELETE", &format!("/identifier-systems/{part}")).send().expect(404);
    assert!(gone.detail().contains("is registered"), "{}", gone.detail());
    drop(client.create_individual(&person("1", json!({}))));
    assert_eq!(client.get(&path("Individual", "1")).status, 200, "codes of the ID types need no registration");
}

#[test]
fn wrong_systems_are_refused_and_known_ones_listed() {
    let app = TestApp::start();
    let add = |body: Value| app.admin().request("POST", "/identifier-systems").json(&body).send();
    for (body, field, code) in [
        (json!({}), "uri", "required"),
        (json!({"uri": "no scheme"}), "uri", "invalid_identifier"),
        (json!({"uri": "urn:a|b"}), "uri", "invalid_identifier"),
        (json!({"uri": format!("urn:x:{}", "y".repeat(295))}), "uri", "too_long"),
        (json!({"uri": "urn:svc:vocab:id-type#fayda"}), "uri", "id_type"),
        (json!({"uri": "urn:x:y", "name": "x"}), "name", "unknown_field"),
    ] {
        let refused = add(body.clone());
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{body}");
    }
    drop(add(json!({"uri": format!("urn:x:{}", "y".repeat(294))})).expect(201));
    drop(add(json!({"uri": "urn:x:y"})).expect(201));
    let again = add(json!({"uri": "urn:x:y"})).expect(409);
    assert_eq!(again.detail(), "the identifier system `urn:x:y` is registered already");
    let listed = app.admin().get("/identifier-systems").expect(200).json();
    let origin = |uri: &str| {
        let all = listed["data"].as_array().unwrap();
        all.iter().find(|system| system["uri"] == uri).map(|system| system["origin"].clone())
    };
    assert_eq!(origin("urn:x:y"), Some(json!("registered")));
    assert_eq!(origin("urn:svc:vocab:id-type#national_id"), Some(json!("id_type")));
    let audit = app.admin().request("DELETE", "/identifier-systems/nonsense").send();
    assert_eq!(audit.status, 400);
}

#[test]
fn the_command_line_registers_lists_and_takes_out() {
    let app = TestApp::start();
    let daftar = |arguments: &[&str]| run(app.data_dir(), arguments);
    assert_eq!(daftar(&["identifier-system", "add", FARMERS]).expect_success().stdout, format!("added {FARMERS}\n"));
    let again = daftar(&["identifier-system", "add", FARMERS]);
    assert!(again.code == 1 && again.stderr.contains("is registered already"), "{again:?}");
    let table = daftar(&["identifier-system", "list"]).expect_success().stdout;
    assert!(table.lines().any(|line| line.contains(FARMERS) && line.contains("registered")), "{table}");
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&farmer("1")));
    drop(daftar(&["identifier-system", "remove", FARMERS]).expect_success());
    assert_eq!(client.post("/Individual", &farmer("2")).status, 422);
    let list = daftar(&["identifier-system", "list", "--json"]).expect_success().json();
    assert!(!list.to_string().contains(FARMERS), "{list}");
}
