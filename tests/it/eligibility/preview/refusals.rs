//! Rejections of a preview, and subjects left out for a client.

use daftar_tests::records::{FEMALE, person, reference};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

use super::{preview, register};

const ORGANIZATION: &str = "Ministry of Health";

#[test]
fn an_invalid_body_is_reported_by_its_fields() {
    let (_app, client) = register();
    for (body, status, reported) in [
        (json!({}), 422, "expression"),
        (json!({"expression": "true", "sample": 101}), 422, "sample"),
        (json!({"expression": "true", "sample": -1}), 422, "sample"),
        (json!({"expression": "true", "sample": 1.5}), 422, "sample"),
        (json!({"expression": "true", "filter": []}), 422, "filter"),
        (json!({"expression": "true", "filter": {"name": {"a": 1}}}), 422, "filter"),
        (json!({"expression": "true", "filter": {"active": vec![true; 501]}}), 422, "at most 500 values"),
        (json!({"expression": "true", "filter": {"a".repeat(500_000): vec![0; 500]}}), 400, "`aaaa"),
        (json!({"expression": "true", "subject": "household"}), 422, "subject"),
        (json!({"expression": "true", "as_of": "yesterday"}), 422, "as_of"),
        (json!({"expression": "true", "programm": "x"}), 422, "programm"),
        (json!({"expression": "true", "filter": {"gendr": "x"}}), 400, "did you mean `gender`?"),
        (json!({"expression": "true", "filter": {"_sort": "name"}}), 400, "_sort"),
        (json!({"expression": "true", "filter": {"active": "perhaps"}}), 400, "active"),
        (json!({"expression": "me.birthdate == today()"}), 422, "did you mean `birth_date`?"),
        (json!({"expression": "1 + 1"}), 422, "column"),
    ] {
        let response = client.post("/Eligibility/$preview", &body);
        assert_eq!(response.status, status, "{body}: {}", response.text());
        assert!(response.text().contains(reported), "{body}: {}", response.text());
    }
    for sample in [0, 100] {
        assert_eq!(preview(&client, &json!({"expression": "true", "sample": sample}))["total"], 12);
    }
}

#[test]
fn a_rule_that_exhausts_a_budget_is_rejected_by_name_and_disturbs_no_other_client() {
    let (_app, client) = register();
    let nested = |levels: usize| {
        let list = "[1,2,3,4,5,6,7,8,9,10]";
        (0..levels).fold("true".to_owned(), |inner, level| format!("{list}.all(x{level}, {inner})"))
    };
    let body = json!({"expression": nested(9)});
    let refused = client.post("/Eligibility/$preview", &body).expect(422);
    assert!(refused.detail().contains("budget of "), "{}", refused.detail());
    assert_eq!(preview(&client, &json!({"expression": "true"}))["eligible"], 12);
    let again = client.post("/Eligibility/$preview", &body).expect(422);
    assert!(again.detail().contains("tried again in"), "{}", again.detail());
}

#[test]
fn a_preview_requires_the_scopes_of_the_records_it_reads() {
    let (app, _) = register();
    let ask = |scopes: &[&str], body: Value| {
        let response = app.client(scopes).post("/Eligibility/$preview", &body);
        (response.status, response.text())
    };
    let plain = json!({"expression": "is_female(me)"});
    for (scopes, body, lacking) in [
        (vec!["eligibility:read"], plain.clone(), Some("individual:read")),
        (vec!["eligibility:read", "individual:search"], plain.clone(), Some("individual:read")),
        (vec!["individual:read"], plain.clone(), Some("eligibility:read")),
        (vec!["eligibility:read", "individual:read"], plain.clone(), None),
        (vec!["eligibility:read", "individual:read"], json!({"expression": "is_head(me)"}), Some("group:read")),
        (
            vec!["eligibility:read", "individual:read"],
            json!({"expression": "programs.size() == 0"}),
            Some("program_membership:read"),
        ),
        (
            vec!["eligibility:read", "individual:read"],
            json!({"expression": "true", "subject": "group"}),
            Some("group:read"),
        ),
        (
            vec!["eligibility:read", "individual:read"],
            json!({"expression": "true", "filter": {"group": "none"}}),
            Some("group:read"),
        ),
    ] {
        let (status, text) = ask(&scopes, body.clone());
        match lacking {
            None => assert_eq!(status, 200, "{scopes:?} {body}: {text}"),
            Some(scope) => {
                assert_eq!(status, 403, "{scopes:?} {body}: {text}");
                assert!(text.contains(&format!("Missing required scope {scope}")), "{scopes:?} {body}: {text}");
            }
        }
    }
}

/// A client that may read only these fields of people.
fn restricted(app: &TestApp, fields: &[&str]) -> ApiClient {
    let credentials = app.admin().create_client(&json!({"name": "restricted", "scopes": ["eligibility:read"]}));
    app.admin().grant_fields(&credentials.id, "individual:read", fields);
    app.client_of(&credentials)
}

#[test]
fn hidden_fields_are_neither_read_nor_filtered_by_nor_broken_down() {
    let (app, _) = register();
    let client = restricted(&app, &["gender"]);
    for (body, field) in [
        (json!({"expression": "age_years(me.birth_date) >= 60"}), "birth_date"),
        (json!({"expression": "true", "filter": {"birth_date": "le2000-01-01"}}), "birth_date"),
        (json!({"expression": "true", "filter": {"region": "Nord-Est"}}), "address"),
    ] {
        let refused = client.post("/Eligibility/$preview", &body).expect(403);
        assert!(refused.detail().contains(&format!("`{field}`")), "{body}: {}", refused.detail());
    }
    let response = preview(&client, &json!({"expression": "is_female(me)", "sample": 1}));
    assert_eq!(response["withheld"], json!(["by_age_band", "by_region"]));
    assert!(response.get("by_age_band").is_none() && response.get("by_region").is_none(), "{response}");
    assert!(response["by_gender"].is_array());
}

/// The response without the seal of its decision: each register has keys of its own.
fn without_seal(mut response: Value) -> Value {
    assert!(response["decision"].as_object_mut().unwrap().remove("seal").is_some(), "{response}");
    response
}

#[test]
fn fields_hidden_by_a_grant_change_no_byte() {
    let responses =
        [json!({}), json!({"birth_date": "1950-01-01", "address": [{"region": "Nord-Est"}], "income": {"amount": 5}})];
    let [one, other] = responses.map(|hidden| {
        let app = TestApp::start();
        let clerk = app.client(&["individual:all"]);
        for number in 0..3 {
            let mut body = person(&number.to_string(), json!({"gender": FEMALE}));
            body.as_object_mut().unwrap().extend(hidden.as_object().unwrap().clone());
            drop(clerk.create_individual(&body));
        }
        let client = restricted(&app, &["gender", "name"]);
        let body = json!({"expression": "is_female(me) && has(me.name)", "sample": 3, "as_of": "2026-01-01"});
        without_seal(preview(&client, &body))
    });
    assert_eq!(one, other);
}

#[test]
fn a_client_with_consent_access_previews_only_consented_subjects_and_is_informed() {
    let world = |others: &[Value]| {
        let app = TestApp::start();
        let clerk = app.client(&["individual:all"]);
        let seen = json!({"gender": FEMALE, "birth_date": "1950-01-01", "address": [{"region": "Nord-Est"}]});
        drop(clerk.create_individual(&person("1", seen)));
        for (number, other) in others.iter().enumerate() {
            drop(clerk.create_individual(&person(&format!("H{number}"), other.clone())));
        }
        let consent = json!({
            "subject": reference("1"), "grantee": ORGANIZATION, "scopes": ["individual"], "fields": ["gender", "address"],
            "effective_date": "2026-01-01",
        });
        drop(app.admin().request("POST", "/consents").json(&consent).send().expect(201));
        let client = app.client_of(&app.admin().create_client(&json!({
            "name": "by consent", "organization": ORGANIZATION, "legal_basis": "consent",
            "scopes": ["individual:read", "group:read", "eligibility:read"],
        })));
        let rules = ["is_female(me)", "age_years(me.birth_date) >= 60", "members.size() > 0", "has(me.name)"];
        rules.map(|rule| {
            without_seal(preview(&client, &json!({"expression": rule, "sample": 10, "as_of": "2026-03-01"})))
        })
    };
    let few = world(&[]);
    let many =
        world(&[json!({"gender": FEMALE, "address": [{"region": "nord  est"}]}), json!({"birth_date": "1940-01-01"})]);
    assert_eq!(few, many);
    let [female, old, ..] = few;
    assert_eq!(female["decision"]["visibility"], "consent");
    assert_eq!((&female["total"], &female["eligible"]), (&json!(1), &json!(1)));
    assert_eq!(female["by_region"][0]["region"], "Nord-Est");
    assert_eq!(
        female["by_age_band"],
        json!([{"from": null, "to": null, "total": 1, "eligible": 1, "not_eligible": 0, "undetermined": 0, "errors": 0}])
    );
    assert_eq!((&old["undetermined"], &old["missing"]), (&json!(1), &json!([{"field": "me.birth_date", "count": 1}])));
}
