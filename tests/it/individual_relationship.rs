//! Relationships of people to other people, independent of groups.

use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, NATIONAL_ID, ROLE, path, person, reference, with};
use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

fn relationship(target: &str, kind: &str) -> Value {
    json!({"target": {"reference": reference(target)}, "type": format!("{ROLE}#{kind}")})
}

fn related(relationships: &Value) -> Value {
    json!({"relationship": relationships})
}

/// A register with two people, the second of whom has a name.
fn two_people() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "eligibility:read"]);
    drop(client.create_individual(&person("A", json!({}))));
    drop(client.create_individual(&person("B", json!({"name": {"given": "Berta"}}))));
    (app, client)
}

#[test]
fn a_person_is_read_back_with_relationships() {
    let (mut app, client) = two_people();
    let mut parent = relationship("B", "parent");
    parent["period"] = json!({"start": "2020-01-01"});
    let created = client.create_individual(&person("C", related(&json!([parent, relationship("A", "sibling")]))));
    let target = json!({"reference": reference("B"), "display": "Berta"});
    let kind = json!({"uri": format!("{ROLE}#parent"), "code": "parent", "display": "Parent", "namespace": ROLE});
    let expected = json!({"target": target, "type": kind, "period": {"start": "2020-01-01"}});
    assert_eq!(created["relationship"][0], expected);
    assert_eq!(created["relationship"][1]["target"], json!({"reference": reference("A")}));
    let of_target = client.get(&path("Individual", "B")).expect(200).json();
    assert_eq!(of_target.get("relationship"), None, "nothing is written there");
    app.restart();
    let client = app.client_of(client.credentials());
    let read = || client.get(&path("Individual", "C")).expect(200).json();
    assert_eq!(read(), created);
    let some = client.get(&format!("{}?_elements=relationship.target", path("Individual", "C"))).expect(200).json();
    assert_eq!(some["relationship"][0], json!({"target": target}));
    let found = client.get(&format!("/Individual?identifier={}|C", NATIONAL_ID.replace('#', "%23"))).expect(200);
    assert_eq!(found.json()["data"][0]["relationship"], created["relationship"], "a search shows them too");
    // A received record may be sent back: only the version changes.
    let mut replaced = client.request("PUT", &path("Individual", "C")).json(&created).send().expect(200).json();
    assert_eq!(replaced["meta"]["version_id"], "2");
    replaced["meta"] = created["meta"].clone();
    assert_eq!(replaced, created);
    // A cached body is updated with the name of the other person.
    assert_eq!(read()["relationship"][0]["target"]["display"], "Berta");
    let name = json!({"name": {"given": "Bertha"}});
    drop(client.request("PATCH", &path("Individual", "B")).json(&name).send().expect(200));
    assert_eq!(read()["relationship"][0]["target"]["display"], "Bertha");
    let taken_out = client.request("PATCH", &path("Individual", "C")).json(&related(&json!(null))).send();
    assert_eq!(taken_out.expect(200).json().get("relationship"), None);
    let none = client.request("PATCH", &path("Individual", "C")).json(&related(&json!([]))).send();
    assert_eq!(none.expect(200).json()["relationship"], json!([]), "known to be none");
}

#[test]
fn wrong_relationships_are_refused_and_named() {
    let (_app, client) = two_people();
    let one = |more: Value| with(relationship("B", "spouse"), more);
    let ended = |start: &str, end: &str| one(json!({"period": {"start": start, "end": end}}));
    let group = json!({"reference": format!("Group/{NATIONAL_ID}|1")});
    for (relationships, field, code) in [
        (json!([relationship("Z", "child")]), "relationship[0].target.reference", "unresolved_reference"),
        (json!([relationship("C", "child")]), "relationship[0].target.reference", "self_reference"),
        (json!([one(json!({"target": group}))]), "relationship[0].target.reference", "invalid_reference"),
        (json!([one(json!({"target": null}))]), "relationship[0].target", "required"),
        (json!([one(json!({"type": null}))]), "relationship[0].type", "required"),
        (json!([relationship("B", "subsidiary")]), "relationship[0].type", "wrong_kind"),
        (json!([relationship("B", "sister")]), "relationship[0].type", "unknown_code"),
        (json!([one(json!({"type": FEMALE}))]), "relationship[0].type", "wrong_vocabulary"),
        (json!([one(json!({"role": "x"}))]), "relationship[0].role", "unknown_field"),
        (json!([ended("2024-01-02", "2024-01-01")]), "relationship[0].period.end", "invalid_period"),
        (json!([one(json!({})), one(json!({}))]), "relationship[1]", "duplicate"),
        (json!(vec![one(json!({})); 101]), "relationship", "too_many"),
    ] {
        let refused = client.post("/Individual", &person("C", related(&relationships)));
        assert_eq!(refused.status, 422, "{relationships}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{relationships}");
    }
    assert_eq!(client.get(&path("Individual", "C")).status, 404);
    let to_itself = related(&json!([relationship("A", "sibling")]));
    let refused = client.request("PATCH", &path("Individual", "A")).json(&to_itself).send().expect(422).json();
    assert_eq!(errors(&refused), [("relationship[0].target.reference".to_owned(), "self_reference".to_owned())]);
    let after = json!([ended("2020-01-01", "2020-12-31"), ended("2021-01-01", "2021-12-31")]);
    let created = client.create_individual(&person("C", related(&after)));
    assert_eq!(created["relationship"].as_array().unwrap().len(), 2, "consecutive ones are no duplicates");
}

#[test]
fn rules_read_relationships_with_their_periods() {
    let (_app, client) = two_people();
    let ended = with(relationship("B", "spouse"), json!({"period": {"end": "2020-12-31"}}));
    drop(client.create_individual(&person("C", related(&json!([relationship("A", "child"), ended])))));
    let is = |kind: &str| format!("r.type == code('{ROLE}#{kind}')");
    let today = "(not has(r.period.end) || r.period.end >= today())";
    let inline = with(json!({"type": "Individual"}), related(&json!([relationship("absent", "child")])));
    let outcome = |expression: &str, subject: Value| {
        let requested = json!({"expression": expression, "subject": "individual", "subjects": [subject]});
        client.evaluate(&requested)["results"][0]["outcome"].as_str().unwrap().to_owned()
    };
    for (expression, expected) in [
        (format!("me.relationship.exists(r, {})", is("child")), ["eligible", "undetermined", "eligible"]),
        (format!("me.relationship.exists(r, {})", is("spouse")), ["eligible", "undetermined", "not_eligible"]),
        (
            format!("me.relationship.exists(r, {} && {today})", is("spouse")),
            ["not_eligible", "undetermined", "not_eligible"],
        ),
        ("size(me.relationship) == 2".to_owned(), ["eligible", "undetermined", "not_eligible"]),
        ("has(me.relationship)".to_owned(), ["eligible", "not_eligible", "eligible"]),
    ] {
        let subjects = [json!(reference("C")), json!(reference("A")), inline.clone()];
        assert_eq!(subjects.map(|subject| outcome(&expression, subject)), expected, "{expression}");
    }
    let by_child = format!("me.relationship.exists(r, {})", is("child"));
    let preview = json!({"expression": by_child, "subject": "individual"});
    let counted = client.post("/Eligibility/$preview", &preview).expect(200).json();
    assert_eq!([&counted["eligible"], &counted["undetermined"]], [&json!(1), &json!(2)], "{counted}");
    let target = json!({"expression": "me.relationship.exists(r, has(r.target))", "subject": "individual"});
    let refused = client.post("/Eligibility/$validate", &target).expect(200).json();
    assert_eq!(refused["valid"], false, "who the other person is no rule reads: {refused}");
}

#[test]
fn a_client_with_consent_access_sees_no_relationship_to_hidden_people() {
    let (app, client) = two_people();
    let both = related(&json!([relationship("A", "sibling"), relationship("B", "parent")]));
    drop(client.create_individual(&person("C", both)));
    drop(client.create_individual(&person("D", related(&json!([relationship("A", "sibling")])))));
    let scopes = json!(["individual:all", "eligibility:read"]);
    let consenting = app.client_of(&app.admin().create_client(&json!({
        "name": "consenting", "legal_basis": "consent", "organization": "clinic", "scopes": scopes,
    })));
    for subject in ["B", "C", "D"] {
        let consent = json!({
            "subject": reference(subject), "grantee": "clinic", "scopes": ["individual"], "effective_date": "2026-01-01",
        });
        drop(app.admin().request("POST", "/consents").json(&consent).send().expect(201));
    }
    let read = |id: &str| consenting.get(&path("Individual", id)).expect(200).json();
    let shown = read("C");
    assert_eq!(shown["relationship"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["relationship"][0]["target"]["reference"], json!(reference("B")));
    assert_eq!(read("D").get("relationship"), None, "nor whether there is any");
    let found = consenting.get("/Individual").expect(200).json();
    let listed: Vec<usize> = found["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|person| person["relationship"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(listed.iter().sum::<usize>(), 1, "{found}");
    let rule =
        json!({"expression": "size(me.relationship) > 0", "subject": "individual", "subjects": [reference("C")]});
    assert_eq!(consenting.evaluate(&rule)["results"][0]["outcome"], "undetermined");
    // Hidden relationships stay unchanged.
    let replaced = related(&json!([relationship("B", "other_relative")]));
    drop(consenting.request("PATCH", &path("Individual", "C")).json(&replaced).send().expect(200));
    let all = client.get(&path("Individual", "C")).expect(200).json();
    let kinds: Vec<&str> =
        all["relationship"].as_array().unwrap().iter().map(|one| one["type"]["code"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["sibling", "other_relative"]);
}

#[test]
fn relationships_go_through_batches_exports_and_imports() {
    let (app, client) = two_people();
    let name = "urn:uuid:00000000-0000-4000-8000-000000000001";
    let child = json!({"target": {"reference": name}, "type": format!("{ROLE}#child")});
    let entry = |full_url: Option<&str>, resource: Value| json!({"full_url": full_url, "request": {"method": "POST", "url": "Individual"}, "resource": resource});
    let entries = [entry(None, person("P", related(&json!([child])))), entry(Some(name), person("K", json!({})))];
    let response = client.post("/$batch", &json!({"type": "transaction", "entry": entries})).expect(200).json();
    let made = &response["entry"][0]["resource"]["relationship"][0]["target"]["reference"];
    assert_eq!(made, &json!(reference("K")), "{response}");

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (exported, to_import) = (file("exported.ndjson"), file("people.ndjson"));
    drop(run(app.data_dir(), &["export", &exported]).expect_success());
    let lines = std::fs::read_to_string(&exported).unwrap();
    let mut people = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let parent = people.find(|line| line["identifier"][0]["value"] == "P").unwrap_or_else(|| panic!("{lines}"));
    let stored = json!([{"target": {"reference": reference("K")}, "type": format!("{ROLE}#child")}]);
    assert_eq!(parent["relationship"], stored, "{parent}");
    let line = with(json!({"type": "Individual"}), person("Q", related(&stored)));
    std::fs::write(&to_import, format!("{line}\n")).unwrap();
    drop(run(app.data_dir(), &["import", &to_import]).expect_success());
    let imported = client.get(&path("Individual", "Q")).expect(200).json();
    assert_eq!(imported["relationship"][0]["target"], json!({"reference": reference("K")}));
    drop(run(app.data_dir(), &["verify"]).expect_success());
}
