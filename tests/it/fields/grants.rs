//! Access by grants with fields.

use daftar_tests::records::{FEMALE, path, person};
use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

fn keys(body: &Value) -> Vec<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

fn shown(client: &ApiClient) -> Vec<String> {
    let body = client.get(&path("Individual", "1")).expect(200).json();
    keys(&body).into_iter().filter(|key| !["type", "identifier", "meta"].contains(key)).map(str::to_owned).collect()
}

fn register() -> TestApp {
    let app = TestApp::start();
    let more = json!({"name": {"given": "Amina"}, "gender": FEMALE, "birth_date": "1950-01-01"});
    drop(app.client(&["individual:create"]).create_individual(&person("1", more)));
    app
}

#[test]
fn fields_are_united_by_action_and_replaced_by_a_new_grant_at_once() {
    let app = register();
    let (admin, client) = (app.admin(), app.client(&["individual:read"]));
    let id = client.id().to_owned();
    assert_eq!(shown(&client), ["name", "birth_date", "gender"].map(str::to_owned).to_vec().sorted());
    admin.grant_fields(&id, "individual:read", &["name"]);
    assert_eq!(shown(&client), ["name"], "the token is the old one");
    admin.grant_fields(&id, "individual:all", &["gender"]);
    assert_eq!(shown(&client), ["gender", "name"], "both cover reading");
    admin.grant_fields(&id, "individual:read", &[]);
    assert_eq!(shown(&client), ["gender"], "the grant is replaced, not added to");
    admin.grant_fields(&id, "individual:create", &["birth_date"]);
    assert_eq!(shown(&client), ["gender"], "another action");
    admin.revoke(&id, "individual:all");
    assert_eq!(shown(&client), Vec::<String>::new());
    admin.grant(&id, "individual:all");
    assert_eq!(shown(&client).len(), 3, "one unrestricted grant opens all");
    admin.revoke(&id, "individual:all");
    admin.revoke(&id, "individual:read");
    assert_eq!(client.get(&path("Individual", "1")).status, 403);
}

#[test]
fn a_page_holds_no_more_than_a_read() {
    let app = register();
    let client = app.client(&["individual:read"]);
    app.admin().grant_fields(client.id(), "individual:read", &["gender"]);
    let page = client.get("/Individual?gender=urn:iso:std:iso:5218%232").expect(200).json();
    assert_eq!(keys(&page["data"][0]), ["gender", "identifier", "meta", "type"]);
    assert_eq!(
        client.get("/Individual?identifier=urn:svc:vocab:id-type%23national_id%7C1").expect(200).json()["total"],
        1
    );
    let refused = client.get("/Individual?name=amina").expect(403);
    assert_eq!(errors(&refused.json()), [("name".to_owned(), "field_not_granted".to_owned())]);
    assert_eq!(refused.code(), "field_not_granted");
    assert!(refused.detail().contains("`name` of `individual`"), "{}", refused.detail());
}

#[test]
fn the_scope_to_search_opens_fields_only_where_it_is_enough_to_search() {
    let app = register();
    let client = app.client(&["individual:search", "group:search", "program:search"]);
    app.admin().grant_fields(client.id(), "individual:read", &["name"]);
    let client = app.client_of(client.credentials());
    assert_eq!(client.get("/Individual?gender=urn:iso:std:iso:5218%232").status, 403);
    let page = client.get("/Individual?name=amina").expect(200).json();
    assert_eq!(keys(&page["data"][0]), ["identifier", "meta", "name", "type"]);
    drop(crate::program::create(&app, "P", json!({"description": "A pension"})));
    app.admin().grant_fields(client.id(), "program:read", &["name"]);
    let client = app.client_of(client.credentials());
    let page = client.get("/Program").expect(200).json();
    assert_eq!(page["data"][0]["description"], "A pension", "searching is granted whole");
    let one = client.get(&path("Program", "P")).expect(200).json();
    assert_eq!((&one["name"], one.get("description")), (&json!("Program P"), None));
    app.admin().grant_fields(client.id(), "program:search", &["target_type"]);
    assert_eq!(client.get("/Program?active=true").status, 403);
    assert_eq!(client.get("/Program?name=program&target_type=individual").expect(200).json()["total"], 1);
}

#[test]
fn the_administrator_sees_restrictions_and_invalid_ones_are_reported() {
    let mut app = register();
    let body =
        json!({"name": "clinic", "scopes": ["group:read", {"scope": "individual:read", "fields": ["name", "gender"]}]});
    let created = app.admin().request("POST", "/clients").json(&body).send().expect(201).json();
    assert_eq!(created["scopes"], json!(["individual:read", "group:read"]));
    assert_eq!(created["fields"], json!({"individual:read": ["gender", "name"]}));
    let client = format!("/clients/{}", created["client_id"].as_str().unwrap());
    app.restart();
    assert_eq!(app.admin().get(&client).expect(200).json()["fields"], created["fields"], "they outlive a restart");
    let grant = |body: Value| app.admin().request("POST", &format!("{client}/grants")).json(&body).send();
    let shown = grant(json!({"scope": "individual:read"})).expect(200).json();
    assert_eq!(shown.get("fields"), None, "all of them again");
    for (body, field, code) in [
        (json!({"scope": "individual:read", "fields": ["birthdate"]}), "fields[0]", "unknown_field"),
        (json!({"scope": "individual:read", "fields": ["extension.framer"]}), "fields[0]", "unknown_field"),
        (json!({"scope": "individual:read", "fields": "name"}), "fields", "wrong_type"),
        (json!({"scope": "vocabulary:read", "fields": ["name"]}), "fields", "contradiction"),
        (json!({"scope": "individual:read", "field": ["name"]}), "field", "unknown_field"),
    ] {
        let refused = grant(body.clone()).expect(422).json();
        assert_eq!(errors(&refused), [(field.to_owned(), code.to_owned())], "{body}");
    }
    let refused = grant(json!({"scope": "individual:read", "fields": ["birthdate"]})).expect(422);
    assert!(refused.detail().contains("did you mean `birth_date`?"), "{}", refused.detail());
}

/// Sorts a list that a test writes in another order.
trait Sorted {
    fn sorted(self) -> Self;
}

impl Sorted for Vec<String> {
    fn sorted(mut self) -> Self {
        self.sort();
        self
    }
}
