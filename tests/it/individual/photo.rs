use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use daftar_tests::records::{household, path, person, with};
use daftar_tests::{TestApp, errors};
use serde_json::{Value, json};

/// The largest photo, in bytes.
const BYTES_MAX: usize = 5_000_000;

fn base64(length: usize, seed: u8) -> String {
    BASE64.encode((0..length).map(|at| (at as u8).wrapping_add(seed)).collect::<Vec<u8>>())
}

#[test]
fn a_photo_is_read_back_and_stays_until_it_is_taken_out() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let photo = base64(300_000, 0);
    let created = client.create_individual(&person("1", json!({"photo": photo, "active": true})));
    assert_eq!(created["photo"], json!(photo));
    app.restart();
    let client = app.client_of(client.credentials());
    let read = || client.get(&path("Individual", "1")).expect(200).json();
    assert_eq!(read(), created);
    let send = |method: &str, body: &Value| {
        client.request(method, &path("Individual", "1")).json(body).send().expect(200).json()
    };
    assert_eq!(send("PATCH", &json!({"active": false}))["photo"], json!(photo), "a patch of something else leaves it");
    assert_eq!(send("PATCH", &json!({"photo": base64(3, 7)}))["photo"], json!("BwgJ"));
    assert_eq!(send("PUT", &read())["photo"], json!("BwgJ"), "what was read may be sent back");
    assert_eq!(send("PATCH", &json!({"photo": null})).get("photo"), None);
    assert_eq!(
        send("PATCH", &json!({"photo": photo}))["photo"],
        json!(photo),
        "one that was there before is kept again"
    );
    assert_eq!(
        send("PUT", &person("1", json!({}))).get("photo"),
        None,
        "what a replacement leaves out is no longer said"
    );
    assert_eq!(read().get("photo"), None);
}

#[test]
fn a_photo_is_given_where_one_person_is_read_and_not_in_searches() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"photo": "AAAA", "name": {"given": "A"}}))));
    let read = |query: &str| client.get(&format!("{}{query}", path("Individual", "1"))).expect(200).json();
    assert_eq!(read("")["photo"], "AAAA");
    assert_eq!(read("?_elements=photo")["photo"], "AAAA");
    assert_eq!(read("?_elements=name").get("photo"), None);
    let found = client.get("/Individual").expect(200).json();
    assert_eq!(found["data"][0].get("photo"), None);
    let refused = client.get("/Individual?_elements=photo").expect(400);
    assert!(refused.detail().contains("reading one individual"), "{}", refused.detail());
}

#[test]
fn a_photo_has_a_largest_size_and_is_strict_base64() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    for (id, length) in [("1", 1), ("2", BYTES_MAX - 1), ("3", BYTES_MAX)] {
        let photo = base64(length, 1);
        let created = client.create_individual(&person(id, json!({"photo": photo})));
        assert!(created["photo"].as_str() == Some(&photo), "{length} bytes are read back");
        let read = client.get(&path("Individual", id)).expect(200).json();
        assert!(read["photo"].as_str() == Some(&photo), "{length} bytes are kept");
    }
    for (photo, code) in [
        (json!(base64(BYTES_MAX + 1, 1)), "too_long"),
        (json!(""), "empty"),
        (json!(1), "wrong_type"),
        (json!([]), "wrong_type"),
        (json!("AAA"), "invalid_base64"),
        (json!("AAAA\n"), "invalid_base64"),
        (json!("AA AA"), "invalid_base64"),
        (json!("_-_-"), "invalid_base64"),
        (json!("AAB="), "invalid_base64"),
        (json!("data:image/png;base64,AAAA"), "invalid_base64"),
        (json!("é"), "invalid_base64"),
    ] {
        let refused = client.post("/Individual", &person("9", json!({"photo": photo})));
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert_eq!(errors(&refused.json()), [("photo".to_owned(), code.to_owned())]);
        assert!(refused.text().len() < 1_000, "what was sent is not sent back");
    }
    assert_eq!(client.get(&path("Individual", "9")).status, 404);
}

#[test]
fn a_photo_that_is_not_granted_is_not_shown() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({"photo": "AAAA", "birth_date": "1990-01-01"}))));
    let reader = app.client(&[]);
    let grant = json!({"scope": "individual:read", "fields": ["birth_date"]});
    drop(app.admin().request("POST", &format!("/clients/{}/grants", reader.id())).json(&grant).send().expect(200));
    let reader = app.client_of(reader.credentials());
    let shown = reader.get(&path("Individual", "1")).expect(200).json();
    assert_eq!((shown.get("photo"), &shown["birth_date"]), (None, &json!("1990-01-01")));
}

#[test]
fn memberships_are_in_the_body_for_clients_with_the_group_scope() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    let created = client.create_individual(&person("1", json!({})));
    assert_eq!(created["group_membership"], json!([]), "a new individual is in no group");
    let alone = client.get(&path("Individual", "1")).expect(200).json();
    assert_eq!(alone["group_membership"], json!([]));
    drop(client.create_group(&with(household("H-1", &[("1", "head")]), json!({"name": "Diallo"}))));
    drop(client.create_group(&household("H-2", &[("1", "child")])));
    let read = client.get(&path("Individual", "1")).expect(200).json();
    let places = client.get(&format!("{}/groups", path("Individual", "1"))).expect(200).json();
    assert_eq!(read["group_membership"], places["data"], "the same as its groups");
    assert_eq!(read["group_membership"][0]["group"]["display"], "Diallo");
    assert_eq!(read["group_membership"][1]["role"]["code"], "child");
    assert_eq!(read["meta"]["version_id"], "1", "a group's change is none of its members'");
    let some = client.get(&format!("{}?_elements=group_membership.group", path("Individual", "1"))).expect(200).json();
    assert_eq!(some["group_membership"][1].as_object().unwrap().keys().collect::<Vec<_>>(), ["group"]);
    let patched = client.request("PATCH", &path("Individual", "1")).json(&json!({"group_membership": [1]})).send();
    assert_eq!(patched.expect(200).json()["group_membership"], places["data"], "it is not written");
    let other = app.client(&["individual:all"]);
    assert_eq!(other.get(&path("Individual", "1")).expect(200).json().get("group_membership"), None);
    assert_eq!(other.create_individual(&person("2", json!({}))).get("group_membership"), None);
}
