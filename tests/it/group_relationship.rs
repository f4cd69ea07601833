//! Relationships of groups to other groups, and their addresses.

use daftar_tests::records::{FEMALE, NATIONAL_ID, ROLE, household, path, with};
use daftar_tests::{ApiClient, TestApp, errors};
use serde_json::{Value, json};

fn group(id: &str) -> String {
    format!("Group/{NATIONAL_ID}|{id}")
}

fn relationship(target: &str, kind: &str) -> Value {
    json!({"target": {"reference": group(target)}, "type": format!("{ROLE}#{kind}")})
}

/// A register with two cooperatives, the second of which has a name.
fn two_groups() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["group:all"]);
    drop(client.create_group(&household("A", &[])));
    drop(client.create_group(&with(household("B", &[]), json!({"name": "Union"}))));
    (app, client)
}

#[test]
fn a_group_is_read_back_with_its_relationships_and_addresses() {
    let (mut app, client) = two_groups();
    let mut related = relationship("B", "parent_organization");
    related["period"] = json!({"start": "2020-01-01"});
    let address = json!({"type": "postal", "text": "Kebele 4", "line": ["House 7"], "city": "Gondar", "district": "Gondar Zuria",
        "region": "Amhara", "postal_code": "196", "country": "urn:iso:std:iso:3166-1#ET"});
    let more = json!({"relationship": [related, relationship("A", "affiliated_with")], "address": [address, {"district": "X"}]});
    let created = client.create_group(&with(household("C", &[]), more));
    let target = json!({"reference": group("B"), "display": "Union"});
    let kind = json!({"uri": format!("{ROLE}#parent_organization"), "code": "parent_organization",
        "display": "Parent organization", "namespace": ROLE});
    let expected = json!({"target": target, "type": kind, "period": {"start": "2020-01-01"}});
    assert_eq!(created["relationship"][0], expected);
    assert_eq!(created["relationship"][1]["target"], json!({"reference": group("A")}));
    assert_eq!(created["address"][0]["country"]["display"], "Ethiopia");
    assert_eq!(
        (&created["address"][0]["line"], &created["address"][1]),
        (&json!(["House 7"]), &json!({"district": "X"}))
    );
    assert_eq!(
        client.get(&path("Group", "B")).expect(200).json().get("relationship"),
        None,
        "nothing is written there"
    );
    app.restart();
    assert_eq!(client.get(&path("Group", "C")).expect(200).json(), created);
    let some =
        client.get(&format!("{}?_elements=relationship.target,address.city", path("Group", "C"))).expect(200).json();
    assert_eq!(some["relationship"][0], json!({"target": target}));
    assert_eq!(some["address"], json!([{"city": "Gondar"}, {}]));
    // A received record may be sent back: only the version changes.
    let mut replaced = client.request("PUT", &path("Group", "C")).json(&created).send().expect(200).json();
    assert_eq!(replaced["meta"]["version_id"], "2");
    replaced["meta"] = created["meta"].clone();
    assert_eq!(replaced, created);
}

#[test]
fn no_list_and_an_empty_list_are_stored_as_different() {
    let (mut app, client) = two_groups();
    let lists = |id: &str| {
        let read = client.get(&path("Group", id)).expect(200).json();
        ["relationship", "address"].map(|name| read.get(name).cloned())
    };
    drop(client.create_group(&with(household("C", &[]), json!({"relationship": [], "address": []}))));
    drop(client.create_group(&with(household("D", &[]), json!({"relationship": null}))));
    app.restart();
    assert_eq!(lists("C"), [Some(json!([])), Some(json!([]))]);
    assert_eq!(lists("D"), [None, None]);
    let patch =
        |id: &str, body: Value| drop(client.request("PATCH", &path("Group", id)).json(&body).send().expect(200));
    patch("C", json!({"relationship": null, "address": [{"city": "Y"}]}));
    patch("D", json!({"relationship": [relationship("A", "subsidiary")]}));
    assert_eq!(lists("C"), [None, Some(json!([{"city": "Y"}]))]);
    assert_eq!(lists("D")[0].as_ref().unwrap().as_array().unwrap().len(), 1);
    patch("D", json!({"name": "D"}));
    assert_eq!(lists("D")[0].as_ref().unwrap()[0]["type"]["code"], "subsidiary", "it stays as it is");
}

#[test]
fn wrong_relationships_are_refused_and_named() {
    let (_app, client) = two_groups();
    let one = |more: Value| with(relationship("B", "subsidiary"), more);
    let ended = |start: &str, end: &str| one(json!({"period": {"start": start, "end": end}}));
    let person = json!({"reference": format!("Individual/{NATIONAL_ID}|1")});
    for (relationships, field, code) in [
        (json!([relationship("Z", "subsidiary")]), "relationship[0].target.reference", "unresolved_reference"),
        (json!([relationship("C", "subsidiary")]), "relationship[0].target.reference", "self_reference"),
        (json!([one(json!({"target": person}))]), "relationship[0].target.reference", "invalid_reference"),
        (json!([one(json!({"target": null}))]), "relationship[0].target", "required"),
        (json!([one(json!({"target": "B"}))]), "relationship[0].target", "wrong_type"),
        (json!([one(json!({"type": null}))]), "relationship[0].type", "required"),
        (json!([relationship("B", "head")]), "relationship[0].type", "wrong_kind"),
        (json!([relationship("B", "sister")]), "relationship[0].type", "unknown_code"),
        (json!([one(json!({"type": FEMALE}))]), "relationship[0].type", "wrong_vocabulary"),
        (json!([one(json!({"role": "x"}))]), "relationship[0].role", "unknown_field"),
        (json!([ended("2024-01-02", "2024-01-01")]), "relationship[0].period.end", "invalid_period"),
        (json!([ended("2020-01-01", "2020-12-31"), ended("2020-12-31", "2021-12-31")]), "relationship[1]", "duplicate"),
        (json!([one(json!({})), one(json!({}))]), "relationship[1]", "duplicate"),
        (json!({}), "relationship", "wrong_type"),
        (json!(vec![one(json!({})); 101]), "relationship", "too_many"),
    ] {
        let refused = client.post("/Group", &with(household("C", &[]), json!({"relationship": relationships})));
        assert_eq!(refused.status, 422, "{relationships}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [(field.to_owned(), code.to_owned())], "{relationships}");
    }
    assert_eq!(client.get(&path("Group", "C")).status, 404);
    let to_itself = json!({"relationship": [relationship("A", "affiliated_with")]});
    let refused = client.request("PATCH", &path("Group", "A")).json(&to_itself).send().expect(422).json();
    assert_eq!(errors(&refused), [("relationship[0].target.reference".to_owned(), "self_reference".to_owned())]);
    let after = json!([
        ended("2020-01-01", "2020-12-31"),
        ended("2021-01-01", "2021-12-31"),
        relationship("B", "affiliated_with")
    ]);
    let created = client.create_group(&with(household("C", &[]), json!({"relationship": after})));
    assert_eq!(created["relationship"].as_array().unwrap().len(), 3, "consecutive ones are no duplicates");
    let country = json!({"address": [{"country": FEMALE}]});
    let refused = client.post("/Group", &with(household("D", &[]), country)).expect(422).json();
    assert_eq!(errors(&refused), [("address[0].country".to_owned(), "wrong_vocabulary".to_owned())]);
}
