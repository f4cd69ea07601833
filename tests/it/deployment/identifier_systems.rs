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
    assert!(
        unknown["errors"][0]["message"].as_str().unwrap().contains(FARMERS),
        "the known ones are listed: {unknown}"
    );

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
fn an_unknown_system_is_reported_alike_wherever_an_identifier_is_given() {
    const MISSPELT: &str = "urn:svc:vocab:id-type#nationl_id";
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all", "program:read", "program_membership:all"]);
    let admin = app.admin();
    drop(admin.request("POST", "/identifier-systems").json(&json!({"uri": FARMERS})).send().expect(201));
    drop(client.create_individual(&person("1", json!({}))));
    drop(client.post("/Group", &person("G", json!({}))).expect(201));
    let key = format!("{}%7C1", MISSPELT.replace('#', "%23"));
    let of = |kind: &str| format!("{kind}/{MISSPELT}|1");
    let (known, subject) = (path("Individual", "1"), of("Individual"));
    let own = json!([{"system": MISSPELT, "value": "1"}]);
    let other = |field: &str, value: Value| person("2", json!({field: value}));
    let members = json!([{"entity": {"reference": subject}}]);
    let groups = json!([{"target": {"reference": of("Group")}, "type": "urn:svc:vocab:relationship#subsidiary"}]);
    let membership = json!({"program": of("Program"), "beneficiary": subject});
    let consent = json!({
        "subject": subject, "grantee": "clinic", "scopes": ["individual"], "effective_date": "2026-01-01",
    });
    let get = |target: String| client.get(&target);
    let member_path = |member: &str| format!("{}/member/{member}", path("Group", "G"));
    let responses = [
        (client.post("/Individual", &json!({"identifier": own})), 422, "identifier[0].system"),
        (client.post("/Group", &json!({"identifier": own})), 422, "identifier[0].system"),
        (client.post("/Group", &other("member", members)), 422, "member[0].entity.reference"),
        (client.post("/Group", &other("relationship", groups)), 422, "relationship[0].target.reference"),
        (client.post("/ProgramMembership", &membership), 422, "program"),
        (admin.request("POST", "/consents").json(&consent).send(), 422, "subject"),
        (get(format!("/Individual/{key}")), 404, "identifier"),
        (get(format!("/Individual/{key}/groups")), 404, "identifier"),
        (get(format!("/Group/{key}")), 404, "identifier"),
        (get(format!("/Program/{key}")), 404, "identifier"),
        (get(format!("/ProgramMembership/{key}")), 404, "identifier"),
        (client.request("PATCH", &format!("/Individual/{key}")).json(&json!({})).send(), 404, "identifier"),
        (client.request("PATCH", &member_path(&key)).json(&json!({"inactive": true})).send(), 404, "identifier"),
        (get(format!("/Individual?identifier={key}")), 422, "identifier"),
        (get(format!("/Individual?group={key}")), 422, "group"),
        (get(format!("/Group?identifier={key}")), 422, "identifier"),
        (get(format!("/Group?member={key}")), 422, "member"),
        (get(format!("/Program?identifier={key}")), 422, "identifier"),
        (get(format!("/ProgramMembership?beneficiary={key}")), 422, "beneficiary"),
        (get(format!("/ProgramMembership?program={key}")), 422, "program"),
        (admin.get(&format!("/consents?subject={key}")), 422, "subject"),
        (admin.get(&format!("/programs/{key}")), 404, "identifier"),
    ];
    for (at, (response, status, field)) in responses.iter().enumerate() {
        assert_eq!(response.status, *status, "{at}: {}", response.text());
        let body = response.json();
        assert_eq!(errors(&body)[0], ((*field).to_owned(), "unknown_system".to_owned()), "{at}: {body}");
        let message = body["errors"][0]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("unknown identifier system `{MISSPELT}`")), "{at}: {message}");
        assert!(message.contains("did you mean `urn:svc:vocab:id-type#national_id`?"), "{at}: {message}");
        assert!(message.contains(&format!("`{FARMERS}`")), "{at}: {message}");
    }
    assert_eq!(client.get(&known).status, 200);

    // Records of a removed system are found as before, and broken references to it are reported like any other.
    drop(client.create_individual(&farmer("1")));
    let farmers = FARMERS.replace('#', "%23").replace('/', "%2F");
    drop(admin.request("DELETE", &format!("/identifier-systems/{farmers}")).send().expect(204));
    drop(client.get(&format!("/Individual/{farmers}%7C1")).expect(200));
    assert_eq!(client.get(&format!("/Individual?identifier={farmers}%7C1")).expect(200).json()["total"], 1);
    let absent = client.get(&format!("/Individual?identifier={farmers}%7C2")).expect(422).json();
    assert_eq!(errors(&absent), [("identifier".to_owned(), "unknown_system".to_owned())]);
    let consenting = app.client_of(&app.admin().create_client(&json!({
        "name": "consenting", "legal_basis": "consent", "organization": "clinic", "scopes": ["individual:read"],
    })));
    for value in ["1", "2"] {
        let hidden = consenting.get(&format!("/Individual?identifier={farmers}%7C{value}")).expect(422).json();
        assert_eq!(errors(&hidden), [("identifier".to_owned(), "unknown_system".to_owned())], "{value}");
        drop(consenting.get(&format!("/Individual/{farmers}%7C{value}")).expect(404));
    }
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
    assert_eq!(again.code(), "already_exists");
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
