//! The members of a group, one at a time, and a person's places in groups.

use daftar_tests::records::{NATIONAL_ID, ROLE, household, path, person, reference, with};
use daftar_tests::{ApiClient, Response, TestApp, errors, redacted};
use serde_json::{Value, json};

/// A register with three people, the first of them head of a household, and a client that may do anything with them.
fn household_of_one() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    for (id, given) in [("1", "Amina"), ("2", "Moussa"), ("3", "Grace")] {
        drop(client.create_individual(&person(id, json!({"name": {"given": given}}))));
    }
    drop(client.create_group(&household("H-1", &[("1", "head")])));
    (app, client)
}

fn member(id: &str, more: Value) -> Value {
    with(json!({"entity": {"reference": reference(id)}}), more)
}

fn post(client: &ApiClient, operation: &str, body: &Value) -> Response {
    client.post(&format!("{}/{operation}", path("Group", "H-1")), body)
}

fn patch(client: &ApiClient, id: &str, body: &Value) -> Response {
    let target = path("Group", "H-1") + &path("/member", id).replace("//", "/");
    client.request("PATCH", &target).json(body).send()
}

fn refused(response: &Response) -> Vec<(String, String)> {
    assert_eq!(response.status, 422, "{}", response.text());
    errors(&response.json())
}

fn pair(field: &str, code: &str) -> Vec<(String, String)> {
    vec![(field.to_owned(), code.to_owned())]
}

#[test]
fn a_member_joins_changes_and_leaves() {
    let (mut app, client) = household_of_one();
    let joined = post(&client, "$add-member", &member("2", json!({"role": format!("{ROLE}#spouse")}))).expect(201);
    assert_eq!(joined.header("etag"), Some("\"2\""));
    assert!(joined.header("location").unwrap().ends_with("Group/urn:svc:vocab:id-type%23national_id%7CH-1"));
    insta::assert_json_snapshot!(redacted(&joined.json()["member"][1]), @r#"
    {
      "entity": {
        "display": "Moussa",
        "reference": "Individual/urn:svc:vocab:id-type#national_id|2"
      },
      "inactive": false,
      "period": {
        "start": "2026-03-01"
      },
      "role": {
        "code": "spouse",
        "display": "Spouse or partner",
        "namespace": "urn:svc:vocab:relationship",
        "uri": "urn:svc:vocab:relationship#spouse"
      }
    }
    "#);
    assert_eq!(joined.json()["quantity"], 2);
    let changed = patch(&client, "2", &json!({"role": null, "inactive": true})).expect(200).json();
    assert_eq!((changed["member"][1].get("role"), &changed["quantity"]), (None, &json!(1)));
    assert_eq!(changed["member"][1]["period"], json!({"start": "2026-03-01"}), "what is not named stays");
    let planned = patch(&client, "2", &json!({"inactive": false, "period": {"end": "2026-12-31"}})).expect(200).json();
    assert_eq!(planned["member"][1]["period"], json!({"start": "2026-03-01", "end": "2026-12-31"}));
    let before_the_start = patch(&client, "2", &json!({"period": {"end": "2026-02-28"}}));
    assert_eq!(refused(&before_the_start), pair("period.end", "invalid_period"));
    let unended = patch(&client, "2", &json!({"period": {"end": null}})).expect(200).json();
    assert_eq!(unended["member"][1]["period"], json!({"start": "2026-03-01"}));
    app.advance_seconds(86_400);
    let client = app.client_of(client.credentials());
    let left = post(&client, "$remove-member", &member("2", json!({}))).expect(200).json();
    assert_eq!(left["member"][1]["period"], json!({"start": "2026-03-01", "end": "2026-03-02"}));
    assert_eq!((&left["member"][1]["inactive"], &left["quantity"]), (&json!(true), &json!(1)));
    assert_eq!(
        refused(&post(&client, "$remove-member", &member("2", json!({})))),
        pair("entity.reference", "not_a_member")
    );
    drop(post(&client, "%24add-member", &member("2", json!({}))).expect(201));
    app.restart();
    let client = app.client_of(client.credentials());
    assert_eq!(client.get(&path("Group", "H-1")).expect(200).json()["quantity"], 2, "who comes back has a new place");
}

#[test]
fn a_member_with_a_future_end_counts_until_then() {
    let (app, client) = household_of_one();
    let later =
        post(&client, "$remove-member", &member("1", json!({"period": {"end": "2026-03-02"}}))).expect(200).json();
    assert_eq!((&later["member"][0]["inactive"], &later["quantity"]), (&json!(false), &json!(1)));
    for (days, quantity) in [(1, 1), (1, 0)] {
        app.advance_seconds(days * 86_400);
        let client = app.client_of(client.credentials());
        assert_eq!(client.get(&path("Group", "H-1")).expect(200).json()["quantity"], quantity);
    }
}

#[test]
fn a_place_that_is_still_to_begin_counts_against_others_and_can_be_given_up() {
    let (app, client) = household_of_one();
    let to_come =
        |id: &str, role: &str| member(id, json!({"role": format!("{ROLE}#{role}"), "period": {"start": "2026-03-11"}}));
    assert_eq!(refused(&post(&client, "$add-member", &to_come("2", "head"))), pair("role", "second_head"));
    assert_eq!(refused(&post(&client, "$add-member", &to_come("1", "child"))), pair("entity", "duplicate"));
    drop(post(&client, "$add-member", &to_come("2", "spouse")).expect(201));
    assert_eq!(refused(&post(&client, "$add-member", &member("2", json!({})))), pair("entity", "duplicate"));
    let too_early = member("2", json!({"period": {"end": "2026-03-10"}}));
    assert_eq!(refused(&post(&client, "$remove-member", &too_early)), pair("period.end", "invalid_date"));
    let role = patch(&client, "2", &json!({"role": null})).expect(200).json();
    assert_eq!((role["member"][1].get("role"), &role["quantity"]), (None, &json!(1)));
    let given_up = post(&client, "$remove-member", &member("2", json!({}))).expect(200).json();
    assert_eq!(given_up["member"][1]["period"], json!({"start": "2026-03-11"}));
    assert_eq!(given_up["member"][1]["inactive"], true);
    assert_eq!(
        refused(&post(&client, "$remove-member", &member("2", json!({})))),
        pair("entity.reference", "not_a_member")
    );
    app.advance_seconds(30 * 86_400);
    let client = app.client_of(client.credentials());
    assert_eq!(client.get(&path("Group", "H-1")).expect(200).json()["quantity"], 1, "it never came to be");
}

#[test]
fn wrong_changes_of_members_are_refused_by_the_names_of_the_request() {
    let (_app, client) = household_of_one();
    let before = client.get(&path("Group", "H-1")).expect(200).json();
    for (operation, body, expected) in [
        ("$add-member", member("9", json!({})), pair("entity.reference", "unresolved_reference")),
        ("$add-member", member("1", json!({})), pair("entity", "duplicate")),
        ("$add-member", member("2", json!({"role": format!("{ROLE}#head")})), pair("role", "second_head")),
        ("$add-member", member("2", json!({"role": format!("{ROLE}#chef")})), pair("role", "unknown_code")),
        ("$add-member", json!({"role": format!("{ROLE}#child")}), pair("entity", "required")),
        ("$add-member", member("2", json!({"rôle": "x"})), pair("rôle", "unknown_field")),
        ("$remove-member", member("9", json!({})), pair("entity.reference", "unresolved_reference")),
        ("$remove-member", member("2", json!({})), pair("entity.reference", "not_a_member")),
        ("$remove-member", member("1", json!({"role": "x"})), pair("role", "unknown_field")),
    ] {
        assert_eq!(refused(&post(&client, operation, &body)), expected, "{operation} {body}");
    }
    drop(post(&client, "$add-member", &member("2", json!({}))).expect(201));
    assert_eq!(refused(&patch(&client, "2", &json!({"role": format!("{ROLE}#head")}))), pair("role", "second_head"));
    assert_eq!(refused(&patch(&client, "2", &json!({"entity": {}}))), pair("entity", "unknown_field"));
    let early = member("2", json!({"period": {"end": "2026-02-28"}}));
    assert_eq!(refused(&post(&client, "$remove-member", &early)), pair("period.end", "invalid_date"));
    for id in ["3", "9"] {
        let absent = patch(&client, id, &json!({"inactive": true})).expect(404);
        assert_eq!(absent.detail(), "no such member of the group", "whether there is such a person is not told");
    }
    assert_eq!(
        client.request("PATCH", &format!("{}/member/x", path("Group", "H-1"))).json(&json!({})).send().status,
        400
    );
    let stale = client.request("POST", &format!("{}/$add-member", path("Group", "H-1"))).header("If-Match", "\"1\"");
    assert_eq!(stale.json(&member("3", json!({}))).send().status, 409);
    let now = client.get(&path("Group", "H-1")).expect(200).json();
    assert_eq!((&now["meta"]["version_id"], &now["member"][0]), (&json!("2"), &before["member"][0]));
}

#[test]
fn a_full_group_rejects_another_member() {
    let (_app, client) = household_of_one();
    let places = |count: usize| -> Value {
        let past = |year: usize| {
            member("2", json!({"inactive": true, "period": {"start": format!("{}-01-01", 1900 + year % 100)}}))
        };
        json!({"member": (0..count).map(past).collect::<Vec<_>>()})
    };
    let fill = |count| drop(client.request("PATCH", &path("Group", "H-1")).json(&places(count)).send().expect(200));
    fill(499);
    drop(post(&client, "$add-member", &member("3", json!({}))).expect(201));
    assert_eq!(refused(&post(&client, "$add-member", &member("1", json!({})))), pair("entity", "too_many"));
}

#[test]
fn the_history_of_a_group_lists_added_and_ended_members() {
    let (app, client) = household_of_one();
    drop(post(&client, "$add-member", &member("2", json!({}))).expect(201));
    drop(client.request("PATCH", &path("Group", "H-1")).json(&json!({"name": "Diallo"})).send().expect(200));
    drop(post(&client, "$remove-member", &member("2", json!({}))).expect(200));
    drop(
        client
            .request("PATCH", &path("Group", "H-1"))
            .json(&json!({"member": [member("3", json!({}))]}))
            .send()
            .expect(200),
    );
    let target = format!("{}/membership-history", path("Group", "H-1"));
    let history = client.get(&target).expect(200).json();
    let reported: Vec<String> = history["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {}",
                text(&entry["meta"]["version_id"]),
                text(&entry["change"]),
                text(&entry["entity"]["display"])
            )
        })
        .collect();
    assert_eq!(
        reported,
        ["1 added Amina", "2 added Moussa", "4 changed Moussa", "5 added Grace", "5 removed Amina", "5 removed Moussa"]
    );
    assert_eq!(history["data"][2]["meta"]["source"], client.id());
    let page = client.get(&format!("{target}?_count=2&_offset=2")).expect(200).json();
    assert_eq!((&page["data"][0], &page["total"]), (&history["data"][2], &json!(6)));
    let next = client.get(page["links"]["next"].as_str().unwrap()).expect(200).json();
    assert_eq!(next["data"][0], history["data"][4]);
    let without_names = app.client(&["group:read"]).get(&target).expect(200).json();
    assert_eq!(without_names["data"][0]["entity"], json!({"reference": reference("1")}));
    for wrong in ["_count=0", "since=2026-01-01"] {
        assert_eq!(client.get(&format!("{target}?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn groups_of_an_individual_require_both_scopes() {
    let (app, client) = household_of_one();
    drop(client.create_group(&with(household("H-2", &[("1", "child"), ("2", "head")]), json!({"name": "Barry"}))));
    let target = format!("{}/groups", path("Individual", "1"));
    let found = client.get(&target).expect(200).json();
    assert_eq!((&found["total"], &found["data"][1]["role"]["code"]), (&json!(2), &json!("child")));
    assert_eq!(
        found["data"][1]["group"],
        json!({"reference": "Group/urn:svc:vocab:id-type#national_id|H-2", "display": "Barry"})
    );
    assert_eq!(client.get(&target.replace("/Individual", "/individuals")).expect(200).json()["data"], found["data"]);
    assert_eq!(client.get(&format!("{target}?_offset=1")).expect(200).json()["data"][0], found["data"][1]);
    assert_eq!(client.get(&format!("{}/groups", path("Individual", "3"))).expect(200).json()["total"], 0);
    assert_eq!(client.get(&format!("{}/groups", path("Individual", "9"))).status, 404);
    let person_only = app.client(&["individual:read"]).get(&target).expect(403);
    assert!(person_only.detail().contains("group:read"), "{}", person_only.detail());
    let group_only = app.client(&["group:read"]).get(&target).expect(403);
    assert!(group_only.detail().contains("individual:read"), "{}", group_only.detail());
}

#[test]
fn a_member_shown_by_an_ended_identifier_is_not_mistaken_for_its_current_holder() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    drop(client.create_individual(&person("1", json!({"name": {"given": "First"}}))));
    drop(client.create_group(&household("H", &[("1", "head")])));
    let ended = json!({"identifier": [{"system": NATIONAL_ID, "value": "1", "period": {"end": "2020-01-01"}}]});
    drop(client.request("PATCH", &path("Individual", "1")).json(&ended).send().expect(200));
    drop(client.create_individual(&person("1", json!({"name": {"given": "Second"}}))));
    let group = || client.get(&path("Group", "H")).expect(200).json();
    let before = group();
    assert_eq!(before["member"][0]["entity"], json!({"reference": reference("1"), "display": "First"}));
    let replaced = client.request("PUT", &path("Group", "H")).json(&before).send().expect(200).json();
    assert_eq!(replaced["member"], before["member"], "what was received may be sent back");
    let entity = json!({"entity": {"reference": reference("1")}});
    let left = client.post(&format!("{}/$remove-member", path("Group", "H")), &entity).expect(200).json();
    assert_eq!(
        (&left["member"][0]["inactive"], &left["member"][0]["entity"]["display"]),
        (&json!(true), &json!("First"))
    );
}

#[test]
fn a_present_member_is_removed_by_its_identifier_by_which_the_group_shows_a_former_one() {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    for id in ["1", "2"] {
        drop(client.create_individual(&person(id, json!({"name": {"given": id}}))));
    }
    drop(client.create_group(&household("H", &[("1", "head"), ("2", "spouse")])));
    let remove = |id: &str| client.post(&format!("{}/$remove-member", path("Group", "H")), &member(id, json!({})));
    drop(remove("1").expect(200));
    let identifier = |value: &str| json!({"system": NATIONAL_ID, "value": value});
    for (id, identifiers) in [
        ("1", json!([{"system": NATIONAL_ID, "value": "1", "period": {"end": "2020-01-01"}}])),
        ("2", json!([identifier("2"), identifier("1")])),
    ] {
        let patch = json!({"identifier": identifiers});
        drop(client.request("PATCH", &path("Individual", id)).json(&patch).send().expect(200));
    }
    let shown = client.get(&path("Group", "H")).expect(200).json();
    let references = [0, 1].map(|at| shown["member"][at]["entity"]["reference"].clone());
    assert_eq!(references, [reference("1"), reference("2")]);
    assert_eq!(remove("1").expect(200).json()["member"][1]["inactive"], true);
    assert_eq!(refused(&remove("1")), pair("entity.reference", "not_a_member"));
}
