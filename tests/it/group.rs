//! `/Group`

use daftar_tests::records::{FEMALE, HOUSEHOLD, NATIONAL_ID, ROLE, household, path, person, reference, with};
use daftar_tests::{ApiClient, TestApp, errors, redacted};
use serde_json::json;

/// A register with three people in it, and a client with all scopes for people and groups.
fn three_people() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    for (id, given) in [("1", "Amina"), ("2", "Moussa"), ("3", "Grace")] {
        drop(client.create_individual(&person(id, json!({"gender": FEMALE, "name": {"given": given}}))));
    }
    (app, client)
}

fn pair(field: &str, code: &str) -> (String, String) {
    (field.to_owned(), code.to_owned())
}

#[test]
fn a_group_is_read_back_with_its_members() {
    let (_app, client) = three_people();
    let mut body = with(household("H-1", &[("1", "head"), ("2", "spouse"), ("3", "child")]), json!({"name": "Diallo"}));
    body["member"][2]["period"] = json!({"start": "2020-01-01", "end": "2024-12-31"});
    let created = client.post("/Group", &body).expect(201);
    insta::assert_json_snapshot!(redacted(&created.json()), @r#"
    {
      "group_type": {
        "code": "household",
        "display": "Household",
        "namespace": "urn:svc:vocab:group-type",
        "uri": "urn:svc:vocab:group-type#household"
      },
      "identifier": [
        {
          "system": "urn:svc:vocab:id-type#national_id",
          "value": "H-1"
        }
      ],
      "member": [
        {
          "entity": {
            "display": "Amina",
            "reference": "Individual/urn:svc:vocab:id-type#national_id|1"
          },
          "inactive": false,
          "role": {
            "code": "head",
            "display": "Head of household",
            "namespace": "urn:svc:vocab:relationship",
            "uri": "urn:svc:vocab:relationship#head"
          }
        },
        {
          "entity": {
            "display": "Moussa",
            "reference": "Individual/urn:svc:vocab:id-type#national_id|2"
          },
          "inactive": false,
          "role": {
            "code": "spouse",
            "display": "Spouse or partner",
            "namespace": "urn:svc:vocab:relationship",
            "uri": "urn:svc:vocab:relationship#spouse"
          }
        },
        {
          "entity": {
            "display": "Grace",
            "reference": "Individual/urn:svc:vocab:id-type#national_id|3"
          },
          "inactive": false,
          "period": {
            "end": "2024-12-31",
            "start": "2020-01-01"
          },
          "role": {
            "code": "child",
            "display": "Child",
            "namespace": "urn:svc:vocab:relationship",
            "uri": "urn:svc:vocab:relationship#child"
          }
        }
      ],
      "meta": {
        "last_updated": "2026-03-01T12:00:00.000Z",
        "source": "[source]",
        "version_id": "1"
      },
      "name": "Diallo",
      "quantity": 2,
      "type": "Group"
    }
    "#);
    assert_eq!(created.header("etag"), Some("\"1\""));
    let followed = client.get(created.header("location").unwrap()).expect(200);
    assert_eq!(followed.json(), created.json());
    let other_spelling = client.get(&path("groups", "H-1")).expect(200);
    assert_eq!(other_spelling.json(), created.json());
}

#[test]
fn a_group_outlives_a_restart() {
    let (mut app, client) = three_people();
    let created = client.create_group(&household("H-1", &[("1", "head"), ("2", "spouse")]));
    app.restart();
    assert_eq!(client.get(&path("Group", "H-1")).expect(200).json(), created);
}

#[test]
fn a_member_that_does_not_resolve_refuses_the_whole_group() {
    let (_app, client) = three_people();
    let refused = client.post("/Group", &household("H-1", &[("1", "head"), ("9", "child")])).expect(422);
    assert_eq!(errors(&refused.json()), [pair("member[1].entity.reference", "unresolved_reference")]);
    assert_eq!(client.get(&path("Group", "H-1")).status, 404);
}

#[test]
fn a_group_has_one_head_at_a_time() {
    let (_app, client) = three_people();
    let two_heads = household("H-1", &[("1", "head"), ("2", "spouse"), ("3", "head")]);
    let refused = client.post("/Group", &two_heads).expect(422);
    assert_eq!(errors(&refused.json()), [pair("member[2].role", "second_head")]);
    for former in [json!({"inactive": true}), json!({"period": {"end": "2024-12-31"}})] {
        let mut body = two_heads.clone();
        body["identifier"][0]["value"] = former.to_string().into();
        body["member"][0] = with(body["member"][0].take(), former);
        let created = client.create_group(&body);
        assert_eq!(created["member"].as_array().unwrap().len(), 3, "a former head may stand beside the present one");
    }
}

#[test]
fn a_group_that_is_right_today_stays_right_by_itself() {
    let (app, client) = three_people();
    let place = |id: &str, role: &str, period: serde_json::Value| json!({"entity": {"reference": reference(id)}, "role": format!("{ROLE}#{role}"), "period": period});
    let of = |value: &str, members: serde_json::Value| with(household(value, &[]), json!({"member": members}));
    let (always, to_come) = (json!({"start": "2020-01-01"}), json!({"start": "2026-03-02"}));
    let until_then = json!({"start": "2020-01-01", "end": "2026-03-01"});
    let second_head = of("H-1", json!([place("1", "head", always.clone()), place("2", "head", to_come.clone())]));
    assert_eq!(
        errors(&client.post("/Group", &second_head).expect(422).json()),
        [pair("member[1].role", "second_head")]
    );
    let twice = of("H-1", json!([place("1", "child", to_come.clone()), place("1", "spouse", always)]));
    assert_eq!(errors(&client.post("/Group", &twice).expect(422).json()), [pair("member[1].entity", "duplicate")]);
    let in_turn = of("H-1", json!([place("1", "head", until_then.clone()), place("2", "head", to_come.clone())]));
    let created = client.create_group(&in_turn);
    assert_eq!(created["quantity"], 1);
    let both =
        json!({"member": [place("1", "head", json!({"end": "2026-03-02"})), place("2", "head", to_come.clone())]});
    for (method, body) in [("PUT", with(household("H-1", &[]), both.clone())), ("PATCH", both)] {
        let refused = client.request(method, &path("Group", "H-1")).json(&body).send().expect(422);
        assert_eq!(errors(&refused.json()), [pair("member[1].role", "second_head")], "{method}");
    }
    // Past memberships are returned unchanged, also with two heads at the same time.
    let past = json!([
        place("1", "head", json!({"end": "2024-12-31"})),
        place("2", "head", json!({"end": "2026-02-28"})),
        place("3", "head", until_then),
        place("3", "head", to_come)
    ]);
    drop(client.create_group(&of("H-2", past)));
    app.advance_seconds(86_400);
    let client = app.client_of(client.credentials());
    for group in ["H-1", "H-2"] {
        let renamed = client.request("PATCH", &path("Group", group)).json(&json!({"name": "Barry"})).send();
        assert_eq!(renamed.expect(200).json()["quantity"], 1, "the next head took over, and the group can be changed");
    }
}

#[test]
fn wrong_groups_are_refused_and_named() {
    let (_app, client) = three_people();
    let one = |more| with(household("H-1", &[("1", "head")]), more);
    let role =
        |code: &str| json!({"member": [{"entity": {"reference": reference("1")}, "role": format!("{ROLE}#{code}")}]});
    let member = |more| json!({"member": [more]});
    for (body, field, code) in [
        (json!({"group_type": HOUSEHOLD}), "identifier", "required"),
        (one(json!({"group_type": "urn:svc:vocab:group-type#clan"})), "group_type", "unknown_code"),
        (one(json!({"group_type": FEMALE})), "group_type", "wrong_vocabulary"),
        (one(json!({"housing_type": "urn:un:unsd:pop-census:housing-type#1.3"})), "housing_type", "unknown_code"),
        (one(role("subsidiary")), "member[0].role", "wrong_kind"),
        (one(role("leader")), "member[0].role", "unknown_code"),
        (one(json!({"members": []})), "members", "unknown_field"),
        (one(json!({"type": "Individual"})), "type", "wrong_type"),
        (one(member(json!({}))), "member[0].entity", "required"),
        (one(member(json!({"entity": {"reference": "1"}}))), "member[0].entity.reference", "invalid_reference"),
        (
            one(member(json!({"entity": {"reference": format!("Group/{NATIONAL_ID}|1")}}))),
            "member[0].entity.reference",
            "invalid_reference",
        ),
        (
            one(member(
                json!({"entity": {"reference": reference("1")}, "period": {"start": "2024-01-02", "end": "2024-01-01"}}),
            )),
            "member[0].period.end",
            "invalid_period",
        ),
        (household("H-1", &[("1", "head"), ("1", "child")]), "member[1].entity", "duplicate"),
    ] {
        let refused = client.post("/Group", &body);
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(errors(&refused.json()), [pair(field, code)], "{body}");
    }
    assert_eq!(client.get(&path("Group", "H-1")).status, 404);
}

#[test]
fn an_identifier_belongs_to_one_group_and_groups_and_people_do_not_mix() {
    let (_app, client) = three_people();
    drop(client.create_group(&household("1", &[])));
    assert_eq!(client.post("/Group", &household("1", &[])).status, 409);
    assert_eq!(client.get(&path("Individual", "1")).expect(200).json()["type"], "Individual");
    assert_eq!(client.get(&path("Group", "1")).expect(200).json()["type"], "Group");
    assert_eq!(client.get(&path("Group", "2")).expect(404).detail(), "no such Group");
}

#[test]
fn names_of_members_require_the_scope_for_individuals() {
    let (app, client) = three_people();
    drop(client.create_group(&household("H-1", &[("1", "head")])));
    let member =
        |client: &ApiClient| client.get(&path("Group", "H-1")).expect(200).json()["member"][0]["entity"].take();
    assert_eq!(member(&client), json!({"reference": reference("1"), "display": "Amina"}));
    assert_eq!(member(&app.client(&["group:read"])), json!({"reference": reference("1")}));
}

#[test]
fn a_group_is_replaced_and_patched() {
    let (mut app, client) = three_people();
    drop(client.create_group(&with(household("H-1", &[("1", "head"), ("2", "spouse")]), json!({"name": "Diallo"}))));
    let send = |method: &str, body: &serde_json::Value| client.request(method, &path("Group", "H-1")).json(body).send();
    let patched = send("PATCH", &json!({"name": "Barry"})).expect(200);
    assert_eq!((patched.header("etag"), &patched.json()["quantity"]), (Some("\"2\""), &json!(2)));
    assert_eq!(patched.json()["member"][0]["role"]["code"], "head", "members stay as they are");
    let second_head = json!({"member": [{"entity": {"reference": reference("1")}, "role": format!("{ROLE}#head")},
        {"entity": {"reference": reference("3")}, "role": format!("{ROLE}#head")}]});
    assert_eq!(errors(&send("PATCH", &second_head).expect(422).json()), [pair("member[1].role", "second_head")]);
    let gone = json!({"member": [{"entity": {"reference": reference("9")}}]});
    assert_eq!(
        errors(&send("PATCH", &gone).expect(422).json()),
        [pair("member[0].entity.reference", "unresolved_reference")]
    );
    assert_eq!(send("PATCH", &json!({"member": []})).expect(200).json()["member"], json!([]));
    assert_eq!(send("PATCH", &json!({"member": null})).expect(200).json().get("member"), None);
    let replaced = send("PUT", &household("H-1", &[("3", "head")])).expect(200).json();
    assert_eq!((replaced.get("name"), &replaced["quantity"]), (None, &json!(1)));
    assert_eq!(send("PUT", &household("H-2", &[])).status, 422, "an identifier is never taken away");
    let stale = client.request("PUT", &path("Group", "H-1")).header("If-Match", "\"1\"");
    assert_eq!(stale.json(&household("H-1", &[])).send().status, 409);
    app.restart();
    assert_eq!(client.get(&path("groups", "H-1")).expect(200).json(), replaced);
    let rule = json!({"expression": "members.exists(m, is_head(m))", "subject": "group",
        "subjects": [format!("Group/{NATIONAL_ID}|H-1")]});
    assert_eq!(
        app.client(&["group:read", "individual:read", "eligibility:read"]).evaluate(&rule)["results"][0]["outcome"],
        "eligible"
    );
}

#[test]
fn a_group_and_its_members_are_not_changed_at_an_excluded_version() {
    let (_app, client) = three_people();
    drop(client.create_group(&household("H-1", &[("1", "head")])));
    let group = path("Group", "H-1");
    let member = |id: &str| json!({"entity": {"reference": reference(id)}});
    for (method, target, body) in [
        ("PUT", group.clone(), household("H-1", &[])),
        ("PATCH", group.clone(), json!({"name": "Barry"})),
        ("POST", format!("{group}/$add-member"), member("2")),
        ("POST", format!("{group}/$remove-member"), member("1")),
        ("PATCH", format!("{group}{}", path("member", "1")), json!({"inactive": true})),
    ] {
        for excluded in ["*", "\"1\""] {
            let request = client.request(method, &target).header("If-None-Match", excluded);
            let refused = request.json(&body).send().expect(412);
            assert_eq!(refused.code(), "precondition_failed", "{method} {target} {excluded}");
        }
    }
    let request = client.request("PATCH", &group).header("If-None-Match", "\"2\"");
    let changed = request.json(&json!({"name": "Barry"})).send().expect(200);
    assert_eq!(changed.header("etag"), Some("\"2\""));
}

#[test]
fn a_group_changed_by_a_client_that_may_not_read_is_answered_with_a_receipt() {
    let (app, client) = three_people();
    drop(client.create_group(&household("H-1", &[("1", "head")])));
    let writer = app.client(&["group:update"]);
    let receipt = writer.request("PATCH", &path("Group", "H-1")).json(&json!({"name": "x"})).send().expect(200).json();
    assert_eq!(receipt.as_object().unwrap().keys().collect::<Vec<_>>(), ["identifier", "meta", "type"]);
    assert_eq!(client.get(&path("Group", "H-1")).expect(200).json()["name"], "x");
}
