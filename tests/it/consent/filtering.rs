//! Data visible to a client whose legal basis is consent.

use daftar_tests::records::{FEMALE, NATIONAL_ID, ROLE, path, person, reference, with};
use daftar_tests::{ApiClient, TestApp, errors, redacted};
use serde_json::{Value, json};

use super::world::{Extent, MINISTRY, SCOPES, World, consent_client, give, group_reference};

/// One woman whose sex and day of birth are known, and the client that registers people.
fn one_person() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let writer = app.client(SCOPES);
    let amina = json!({"name": {"given": "Amina"}, "gender": FEMALE, "birth_date": "1950-01-01"});
    drop(writer.create_individual(&person("1", amina)));
    (app, writer)
}

fn names(client: &ApiClient, target: &str) -> Vec<String> {
    let body = client.get(target).expect(200).json();
    body.as_object().unwrap().keys().cloned().collect()
}

fn total(client: &ApiClient, target: &str) -> u64 {
    client.get(target).expect(200).json()["total"].as_u64().unwrap()
}

fn encoded(id: &str) -> String {
    format!("{}%7C{id}", NATIONAL_ID.replace('#', "%23"))
}

#[test]
fn a_client_of_another_legal_basis_sees_everything() {
    let (app, _) = one_person();
    for more in [json!({"legal_basis": "public_task"}), json!({"legal_basis": null})] {
        let client = consent_client(&app, more);
        assert_eq!(total(&client, "/Individual"), 1);
        drop(client.get(&path("Individual", "1")).expect(200));
    }
}

#[test]
fn a_consent_opens_its_fields_from_its_first_to_its_last_day() {
    let (app, _) = one_person();
    let client = consent_client(&app, json!({}));
    let hidden = client.get(&path("Individual", "1")).expect(404);
    let absent = client.get(&path("Individual", "absent")).expect(404);
    let described = |response: &daftar_tests::Response| redacted(&response.json());
    assert_eq!(described(&hidden), described(&absent));
    let fields = json!({
        "scopes": ["individual"], "fields": ["birth_date"], "effective_date": "2026-03-02", "expiry_date": "2026-03-02",
    });
    drop(give(&app, &reference("1"), fields));
    let at = |seconds: i64| {
        app.advance_seconds(seconds);
        app.client_of(client.credentials())
    };
    let client = at(12 * 3_600 - 1);
    assert_eq!(
        (client.get(&path("Individual", "1")).status, total(&client, "/Individual")),
        (404, 0),
        "the day before"
    );
    let client = at(1);
    assert_eq!(names(&client, &path("Individual", "1")), ["birth_date", "identifier", "meta", "type"]);
    assert_eq!(total(&client, "/Individual"), 1);
    let client = at(86_399);
    assert_eq!(
        (client.get(&path("Individual", "1")).status, total(&client, "/Individual")),
        (200, 1),
        "its last second"
    );
    let client = at(1);
    assert_eq!((client.get(&path("Individual", "1")).status, total(&client, "/Individual")), (404, 0), "the day after");
}

#[test]
fn withdrawal_by_any_client_acts_on_the_next_call() {
    let (app, _) = one_person();
    let client = consent_client(&app, json!({}));
    let by_client = give(&app, &reference("1"), json!({}));
    assert_eq!(total(&client, "/Individual"), 1);
    assert_eq!(client.request("DELETE", &format!("/Consent/{by_client}")).send().status, 204);
    assert_eq!((client.get(&path("Individual", "1")).status, total(&client, "/Individual")), (404, 0));
    let by_administrator = give(&app, &reference("1"), json!({}));
    assert_eq!((client.get(&path("Individual", "1")).status, total(&client, "/Individual")), (200, 1));
    drop(app.admin().request("POST", &format!("/consents/{by_administrator}/withdraw")).send().expect(200));
    assert_eq!((client.get(&path("Individual", "1")).status, total(&client, "/Individual")), (404, 0));
}

#[test]
fn several_consents_permit_the_union_of_their_fields() {
    let (app, _) = one_person();
    let client = consent_client(&app, json!({}));
    let birth_date = give(&app, &reference("1"), json!({"fields": ["birth_date"]}));
    drop(give(&app, &reference("1"), json!({"fields": ["gender"]})));
    assert_eq!(names(&client, &path("Individual", "1")), ["birth_date", "gender", "identifier", "meta", "type"]);
    drop(client.request("DELETE", &format!("/Consent/{birth_date}")).send().expect(204));
    assert_eq!(names(&client, &path("Individual", "1")), ["gender", "identifier", "meta", "type"]);
}

#[test]
fn a_client_sees_fields_consented_to_for_its_purpose() {
    let (app, _) = one_person();
    drop(give(&app, &reference("1"), json!({"fields": ["birth_date"], "purpose": "vaccination"})));
    drop(give(&app, &reference("1"), json!({"fields": ["gender"]})));
    let for_vaccination = consent_client(&app, json!({"purpose": " vaccination "}));
    assert_eq!(names(&for_vaccination, &path("Individual", "1")), ["birth_date", "identifier", "meta", "type"]);
    for purpose in ["Vaccination", "school meals"] {
        let other = consent_client(&app, json!({"purpose": purpose}));
        assert_eq!((other.get(&path("Individual", "1")).status, total(&other, "/Individual")), (404, 0), "{purpose}");
    }
    let for_anything = consent_client(&app, json!({}));
    assert_eq!(names(&for_anything, &path("Individual", "1")), ["birth_date", "gender", "identifier", "meta", "type"]);
}

#[test]
fn a_grant_and_a_consent_permit_only_their_intersection() {
    let (app, _) = one_person();
    drop(give(&app, &reference("1"), json!({"fields": ["birth_date", "gender"]})));
    let client = consent_client(&app, json!({"scopes": []}));
    let grant = json!({"scope": "individual:read", "fields": ["gender", "name"]});
    let target = format!("/clients/{}/grants", client.id());
    drop(app.admin().request("POST", &target).json(&grant).send().expect(200));
    let client = app.client_of(client.credentials());
    assert_eq!(names(&client, &path("Individual", "1")), ["gender", "identifier", "meta", "type"]);
}

#[test]
fn a_condition_or_an_order_sees_only_the_fields_that_are_consented_to() {
    let world = World::new(Extent::Whole);
    let client = &world.client;
    assert_eq!(client.found(""), ["1", "2", "3", "4"]);
    assert_eq!(client.found(&format!("gender={}", FEMALE.replace('#', "%23"))), ["1", "4"]);
    assert_eq!(client.found("birth_date=gt1900-01-01"), ["1", "2", "3"], "of the fourth it is not consented to");
    assert_eq!(client.found("active=false"), Vec::<String>::new(), "nor of the second whether it is in use");
    let page = client.get("/Individual?_count=1&_offset=1").expect(200).json();
    assert_eq!((&page["total"], &page["data"][0]["identifier"][0]["value"]), (&json!(4), &json!("2")));
}

#[test]
fn a_group_shows_only_members_with_their_own_consent() {
    let world = World::new(Extent::Whole);
    let shown = world.client.get(&path("Group", "20")).expect(200).json();
    let references = |group: &Value| -> Vec<String> {
        let members = group["member"].as_array().unwrap();
        members.iter().map(|member| member["entity"]["reference"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((references(&shown), &shown["quantity"]), (vec![reference("1"), reference("2")], &json!(2)));
    let whole = world.writer.get(&path("Group", "20")).expect(200).json();
    assert_eq!(whole["quantity"], 4);
    assert_eq!(total(&world.client, &format!("{}/membership-history", path("Group", "20"))), 2);
    assert_eq!(names(&world.client, &path("Group", "22")), ["identifier", "meta", "name", "type"]);
    let unseen = world.client.get(&path("Group", "23")).expect(200).json();
    let reported = ["member", "quantity", "relationship"].map(|name| unseen.get(name));
    assert_eq!(reported, [None, None, None], "whether there are members or other groups is not known");
    let related: Vec<&Value> = shown["relationship"].as_array().unwrap().iter().map(|one| &one["target"]).collect();
    assert_eq!(related.len(), 1);
    assert_eq!(related[0]["reference"], group_reference("22"));
    let found = world.client.get("/Group?name=diallo").expect(200).json();
    assert_eq!(found["data"], json!([shown]), "a search shows the same");
    let places = world.client.get(&format!("{}/groups", path("Individual", "1"))).expect(200).json();
    assert_eq!(
        (&places["total"], &places["data"][0]["group"]["reference"]),
        (&json!(1), &json!(group_reference("20")))
    );
}

#[test]
fn hidden_members_are_retained_in_changes_by_other_clients() {
    let world = World::new(Extent::Whole);
    let members =
        |ids: &[&str]| -> Vec<Value> { ids.iter().map(|id| json!({"entity": {"reference": reference(id)}})).collect() };
    let body = json!({"identifier": [{"system": NATIONAL_ID, "value": "20"}], "name": "Diallo", "member": members(&["3", "1"])});
    let put = world.client.request("PUT", &path("Group", "20")).json(&body).send().expect(200).json();
    assert_eq!(put["quantity"], 2);
    let references = |group: &Value| -> Vec<String> {
        let members = group["member"].as_array().unwrap();
        let value =
            |member: &Value| member["entity"]["reference"].as_str().unwrap().split('|').nth(1).unwrap().to_owned();
        members.iter().map(value).collect()
    };
    let whole = |id: &str| world.writer.get(&path("Group", id)).expect(200).json();
    assert_eq!(references(&whole("20")), ["H1", "3", "H2", "1"]);
    assert_eq!(whole("20")["member"][0]["role"]["code"], "child", "their places stay as they were");
    let name = |group: &str| json!({"identifier": [{"system": NATIONAL_ID, "value": group}], "name": "Renamed"});
    drop(world.client.request("PUT", &path("Group", "23")).json(&name("23")).send().expect(200));
    assert_eq!(references(&whole("23")), ["H1"]);
}

#[test]
fn a_second_head_is_rejected_without_disclosing_the_first() {
    let world = World::new(Extent::Whole);
    let head = json!({"entity": {"reference": reference("1")}, "role": format!("{ROLE}#head")});
    let refused = world.client.post(&format!("{}/$add-member", path("Group", "23")), &head).expect(422).json();
    assert_eq!(errors(&refused), [("role".to_owned(), "second_head".to_owned())]);
    assert_eq!(refused["errors"][0]["message"], "a group has at most one active head");
}

#[test]
fn hidden_relationships_do_not_count_towards_the_limit() {
    let (app, writer) = one_person();
    for id in ["2", "H"] {
        drop(writer.create_individual(&person(id, json!({}))));
    }
    for id in ["G", "G-2", "G-H"] {
        drop(writer.create_group(&person(id, json!({}))));
    }
    let client = consent_client(&app, json!({}));
    for subject in [reference("1"), reference("2"), group_reference("G"), group_reference("G-2")] {
        drop(give(&app, &subject, json!({})));
    }
    for (target, [visible, hidden], kind) in [
        (path("Individual", "1"), [reference("2"), reference("H")], "sibling"),
        (path("Group", "G"), [group_reference("G-2"), group_reference("G-H")], "affiliated_with"),
    ] {
        // Consecutive relationships to one record are no duplicates.
        let of_years = |other: &str, count: usize| -> Vec<Value> {
            let one = |year: usize| {
                let period = json!({"start": format!("{year}-01-01"), "end": format!("{year}-12-31")});
                json!({"target": {"reference": other}, "type": format!("{ROLE}#{kind}"), "period": period})
            };
            (1900..1900 + count).map(one).collect()
        };
        let patch = |client: &ApiClient, related: Vec<Value>| {
            client.request("PATCH", &target).json(&json!({"relationship": related})).send()
        };
        let shown =
            |client: &ApiClient| client.get(&target).expect(200).json()["relationship"].as_array().unwrap().len();
        drop(patch(&writer, of_years(&hidden, 1)).expect(200));
        drop(patch(&client, of_years(&visible, 100)).expect(200));
        assert_eq!((shown(&client), shown(&writer)), (100, 101), "{target}");
        let refused = patch(&client, of_years(&visible, 101)).expect(422).json();
        assert_eq!(errors(&refused), [("relationship".to_owned(), "too_many".to_owned())], "{target}");
    }
}

#[test]
fn an_identifier_that_a_hidden_record_holds_is_in_use() {
    let (app, _) = one_person();
    let client = consent_client(&app, json!({}));
    let by_hidden = client.post("/Individual", &person("1", json!({}))).expect(409).json();
    drop(give(&app, &reference("1"), json!({})));
    let by_seen = client.post("/Individual", &person("1", json!({}))).expect(409).json();
    assert_eq!(redacted(&by_hidden), redacted(&by_seen), "it learns nothing else");
}

#[test]
fn a_client_that_registers_a_person_sees_only_consented_fields() {
    let (app, writer) = one_person();
    let client = consent_client(&app, json!({}));
    let created = client.create_individual(&person("2", json!({"name": {"given": "Moussa"}})));
    assert_eq!(created.as_object().unwrap().keys().collect::<Vec<_>>(), ["identifier", "meta", "type"]);
    assert_eq!((client.get(&path("Individual", "2")).status, total(&client, "/Individual")), (404, 0));
    assert_eq!(writer.get(&path("Individual", "2")).expect(200).json()["name"]["given"], "Moussa");
}

#[test]
fn a_field_that_is_not_consented_to_is_neither_written_nor_lost() {
    let (app, writer) = one_person();
    let client = consent_client(&app, json!({}));
    drop(give(&app, &reference("1"), json!({"fields": ["birth_date"]})));
    let patch = |body: &Value| client.request("PATCH", &path("Individual", "1")).json(body).send();
    assert_eq!(patch(&json!({"gender": null})).status, 403);
    drop(patch(&json!({"birth_date": "1951-01-01"})).expect(200));
    let put = with(person("1", json!({})), json!({"birth_date": "1952-01-01"}));
    drop(client.request("PUT", &path("Individual", "1")).json(&put).send().expect(200));
    let stored = writer.get(&path("Individual", "1")).expect(200).json();
    assert_eq!((&stored["birth_date"], &stored["gender"]["uri"]), (&json!("1952-01-01"), &json!(FEMALE)));
    assert_eq!(stored["name"]["given"], "Amina");
}

#[test]
fn memberships_are_seen_by_their_beneficiarys_consent() {
    let world = World::new(Extent::Whole);
    let client = &world.client;
    assert_eq!(total(client, "/ProgramMembership"), 3);
    assert_eq!(total(client, &format!("/ProgramMembership?program={}", encoded("P"))), 2);
    for (id, status) in [("M0", 404), ("M1", 200), ("M2", 404), ("M3", 200), ("M4", 200), ("M5", 404)] {
        assert_eq!(client.get(&path("ProgramMembership", id)).status, status, "{id}");
    }
    assert_eq!(total(client, &format!("/ProgramMembership?beneficiary={}", encoded("6"))), 1);
    let other = format!("/ProgramMembership?beneficiary={}", encoded("6-OTHER"));
    assert_eq!(total(client, &other), 0, "what else the beneficiary is called is not consented to");
    assert_eq!(total(&world.writer, &other), 1);
}

#[test]
fn rules_read_consented_fields_and_report_them() {
    let world = World::new(Extent::Whole);
    let ask = |client: &ApiClient, expression: &str, ids: &[&str]| {
        let subjects: Vec<String> = ids.iter().map(|id| reference(id)).collect();
        client.evaluate(&json!({"expression": expression, "subject": "individual", "subjects": subjects}))
    };
    let response = ask(&world.client, "is_female(me)", &["1", "2", "H1", "absent"]);
    assert_eq!(response["decision"]["visibility"], "consent");
    assert_eq!(response["results"][0]["outcome"], "eligible");
    assert_eq!(
        (&response["results"][1]["outcome"], &response["results"][1]["missing"]),
        (&json!("undetermined"), &json!(["me.gender"])),
        "of the second it is not consented to"
    );
    assert_eq!(response["results"][2]["error"], response["results"][3]["error"]);
    assert_eq!(response["results"][2]["error"]["status"], 404);
    let everything = ask(&world.writer, "is_female(me)", &["2", "H1"]);
    assert_eq!(everything["decision"].get("visibility"), None);
    assert_eq!(everything["results"][1]["outcome"], "eligible");
    let count = |client: &ApiClient| {
        let response = ask(client, "members.size() == 2", &["1"]);
        response["results"][0]["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(count(&world.client), "eligible", "the household of which the person consented to be seen in");
}

#[test]
fn the_audit_log_names_the_consents_of_each_access() {
    let (app, _) = one_person();
    let client = consent_client(&app, json!({}));
    let consent = give(&app, &reference("1"), json!({}));
    drop(client.get(&path("Individual", "1")).expect(200));
    let lines = app.admin().get(&format!("/audit?client={}", client.id())).expect(200).json();
    let consents: Vec<&Value> = lines["data"].as_array().unwrap().iter().map(|line| &line["consents"]).collect();
    assert!(consents.contains(&&json!([consent])), "{lines}");
}

#[test]
fn a_client_whose_legal_basis_is_consent_belongs_to_an_organization() {
    let app = TestApp::start();
    let post = |body: Value| app.admin().request("POST", "/clients").json(&body).send();
    let refused = post(json!({"name": "c", "legal_basis": "consent"})).expect(422).json();
    assert_eq!(errors(&refused), [("organization".to_owned(), "required".to_owned())]);
    let refused = post(json!({"name": "c", "purpose": "vaccination"})).expect(422).json();
    assert_eq!(errors(&refused), [("purpose".to_owned(), "contradiction".to_owned())]);
    let refused = post(json!({"name": "c", "legal_basis": "whim", "organization": MINISTRY})).expect(422).json();
    assert_eq!(errors(&refused), [("legal_basis".to_owned(), "unknown_value".to_owned())]);
    let created = post(json!({"name": "c", "legal_basis": "consent", "organization": MINISTRY, "purpose": "meals"}));
    let created = created.expect(201).json();
    assert_eq!((&created["legal_basis"], &created["purpose"]), (&json!("consent"), &json!("meals")));
    let target = format!("/clients/{}", created["client_id"].as_str().unwrap());
    let patch = |body: Value| app.admin().request("PATCH", &target).json(&body).send();
    assert_eq!(patch(json!({"organization": null})).status, 422);
    assert_eq!(patch(json!({"legal_basis": null})).status, 422, "a purpose goes with the legal basis consent");
    let changed =
        patch(json!({"legal_basis": "public_task", "purpose": null, "organization": null})).expect(200).json();
    assert_eq!((&changed["legal_basis"], changed.get("purpose")), (&json!("public_task"), None));
    assert_eq!(app.admin().get(&target).expect(200).json()["legal_basis"], "public_task");
}
