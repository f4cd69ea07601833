//! Searching people by address and membership, by codes below a code, and by the time of their last write.

use daftar_tests::records::{FEMALE, MALE, ROLE, household, path, person};
use daftar_tests::{ApiClient, TestApp};
use serde_json::json;

const ISCO: &str = "urn:ilo:isco-08";

/// Four people, two of them in a household, two who farm in one way or another.
fn four_people() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    let occupation = |code: &str| format!("{ISCO}#{code}");
    for (id, more) in [
        (
            "1",
            json!({"gender": FEMALE, "occupation": occupation("6111"), "address": [
            {"line": ["12 Rue de l'Église"], "city": "Thiès", "district": "Thiès Nord", "region": "Région de Thiès"},
            {"text": "c/o Awa, Dakar"}], "income": {"amount": 10, "currency": "urn:iso:std:iso:4217#XOF"}}),
        ),
        ("2", json!({"gender": MALE, "occupation": occupation("6112"), "address": [{"district": "Thies  nord"}]})),
        (
            "3",
            json!({"gender": FEMALE, "occupation": occupation("7"), "address": [{"region": "Kandy", "postal_code": "20000"}]}),
        ),
        ("4", json!({})),
    ] {
        drop(client.create_individual(&person(id, more)));
    }
    drop(client.create_group(&household("H", &[("1", "head"), ("2", "spouse")])));
    (app, client)
}

#[test]
fn each_filter_finds_only_matching_people() {
    let (_app, client) = four_people();
    let cases: &[(&str, &[&str])] = &[
        ("address=eglise", &["1"]),
        ("address=THIES", &["1", "2"]),
        ("address=dakar+rue", &["1"]),
        ("address=rue&address=thies", &["1"]),
        ("address=200", &["3"]),
        ("address=awa+kandy", &[]),
        ("district=thi%C3%A8s+nord", &["1", "2"]),
        ("district=thies", &[]),
        ("region=KANDY", &["3"]),
        ("region=kandy&district=thies+nord", &[]),
        ("occupation=urn:ilo:isco-08%23611", &[]),
        ("occupation:below=urn:ilo:isco-08%23611", &["1", "2"]),
        ("occupation:below=urn:ilo:isco-08%7C6", &["1", "2"]),
        ("occupation:below=urn:ilo:isco-08|6111", &["1"]),
        ("occupation%3Abelow=urn%3Ailo%3Aisco-08%237", &["3"]),
        ("gender:below=urn:iso:std:iso:5218%232", &["1", "3"]),
        ("income.currency=urn:iso:std:iso:4217%23XOF", &["1"]),
        ("group=urn:svc:vocab:id-type%23national_id|H", &["1", "2"]),
        ("group=Group/urn:svc:vocab:id-type%23national_id%7CH", &["1", "2"]),
        ("group=urn:svc:vocab:id-type%23national_id|X", &[]),
        ("group=none", &["3", "4"]),
        ("membership_role=urn:svc:vocab:relationship%23head", &["1"]),
        ("membership_role=urn:svc:vocab:relationship%23child", &[]),
        ("group=urn:svc:vocab:id-type%23national_id|H&membership_role=urn:svc:vocab:relationship%23spouse", &["2"]),
        ("group=none&membership_role=urn:svc:vocab:relationship%23head", &[]),
        ("group=none&gender=urn:iso:std:iso:5218%232", &["3"]),
    ];
    for (query, expected) in cases {
        assert_eq!(client.found(query), *expected, "{query}");
    }
}

#[test]
fn an_individual_with_an_ended_membership_is_no_member() {
    let (app, client) = four_people();
    let gone = json!({"entity": {"reference": daftar_tests::records::reference("2")}});
    drop(client.post(&format!("{}/$remove-member", path("Group", "H")), &gone).expect(200));
    assert_eq!(client.found("group=none"), ["2", "3", "4"]);
    assert_eq!(client.found("group=urn:svc:vocab:id-type%23national_id|H"), ["1"]);
    let coming = json!({"entity": {"reference": daftar_tests::records::reference("3")}, "role": format!("{ROLE}#child"),
        "period": {"start": "2000-01-01", "end": "2999-12-31"}});
    drop(client.post(&format!("{}/$add-member", path("Group", "H")), &coming).expect(201));
    assert_eq!(client.found("membership_role=urn:svc:vocab:relationship%23child"), ["3"]);
    drop(app);
}

#[test]
fn group_filters_require_the_scope_to_read_groups() {
    let (app, _) = four_people();
    let client = app.client(&["individual:read"]);
    for query in [
        "group=none",
        "group=malformed",
        "membership_role=urn:svc:vocab:relationship%23head",
        "membership_role:below=x",
    ] {
        let refused = client.get(&format!("/Individual?{query}")).expect(403);
        assert_eq!(refused.detail(), "Missing required scope group:read. Granted: individual:read", "{query}");
    }
    let both = app.client(&["individual:read", "group:read"]);
    assert_eq!(both.found("group=none"), ["3", "4"]);
}

#[test]
fn records_are_found_by_when_they_were_last_written() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    for id in ["1", "2", "3"] {
        drop(client.create_individual(&person(id, json!({}))));
        app.advance_seconds(3_600);
    }
    let all = client.get("/Individual").expect(200).json();
    let at = |place: usize| all["data"][place]["meta"]["last_updated"].as_str().unwrap().to_owned();
    let (first, second, third) = (at(0), at(1), at(2));
    let cases: &[(String, &[&str])] = &[
        (format!("_last_updated={second}"), &["2"]),
        (format!("_last_updated=ne{second}"), &["1", "3"]),
        (format!("_last_updated=gt{second}"), &["3"]),
        (format!("_last_updated=ge{second}"), &["2", "3"]),
        (format!("_last_updated=lt{second}"), &["1"]),
        (format!("_last_updated=le{second}"), &["1", "2"]),
        (format!("_last_updated=gt{first}&_last_updated=lt{third}"), &["2"]),
        ("_last_updated=ge2000-01-01".to_owned(), &["1", "2", "3"]),
        ("_last_updated=lt2000-01-01".to_owned(), &[]),
    ];
    for (query, expected) in cases {
        assert_eq!(client.found(query), *expected, "{query}");
    }
    let patched = client.request("PATCH", &path("Individual", "1")).json(&json!({"active": true})).send();
    drop(patched.expect(200));
    assert_eq!(client.found(&format!("_last_updated=gt{third}&_sort=-_last_updated")), ["1"]);
}

#[test]
fn malformed_filters_are_refused_and_named() {
    let (_app, client) = four_people();
    for (query, what) in [
        ("adress=x", "did you mean `address`"),
        ("occupation:above=urn:ilo:isco-08%236", "`occupation:above`"),
        ("extension.farmer.crops=urn:fao:agrovoc%23c_1", "`extension.farmer.crops`"),
        ("address=", "`address`"),
        ("district=--", "`district`"),
        ("region=%20", "`region`"),
        ("occupation:below=urn:ilo:isco-08", "%23"),
        // The remainder of `urn:ilo:isco-08#6` if the client truncated the fragment.
        ("occupation=urn:ilo:isco-08#6", "%23"),
        ("group=urn:svc:vocab:id-type#national_id|H", "%23"),
        ("identifier=urn:svc:vocab:id-type", "%23"),
        ("group=NONE", "`group`"),
        ("_last_updated=yesterday", "`_last_updated`"),
        ("_last_updated=2026-01-01T00:00:00", "`_last_updated`"),
        ("_last_updated=ge2026-13-01", "`_last_updated`"),
        ("_last_updated=2026-01-01T00:00Z", "`_last_updated`"),
        ("_last_updated=lt2026-01-01T00:00:00Z%5BUTC%5D", "`_last_updated`"),
    ] {
        let refused = client.get(&format!("/Individual?{query}"));
        assert_eq!(refused.status, 400, "{query}: {}", refused.text());
        assert!(refused.detail().contains(what), "{query}: {}", refused.detail());
    }
}

#[test]
fn a_code_that_no_person_can_have_finds_no_person() {
    let (_app, client) = four_people();
    for query in [
        "occupation=urn:ilo:isco-08%239999",
        "occupation=urn:iso:std:iso:5218%231",
        "occupation:below=urn:iso:std:iso:5218%231",
        "gender=urn:unknown:list%231",
        "gender:below=urn:unknown:list|1",
        "membership_role=urn:iso:std:iso:5218%231",
        "income.currency=urn:iso:std:iso:5218%231",
    ] {
        let page = client.get(&format!("/Individual?{query}")).expect(200).json();
        assert_eq!((&page["total"], &page["data"]), (&json!(0), &json!([])), "{query}");
    }
}

#[test]
fn a_field_that_is_not_granted_is_nothing_to_search_or_sort_by() {
    let (app, client) = four_people();
    let limited = app.client(&["individual:read", "group:read"]);
    app.admin().grant_fields(limited.id(), "individual:read", &["name", "gender"]);
    for (query, field) in [
        ("address=rue", "address"),
        ("district=thies+nord", "address"),
        ("region=malformed--", "address"),
        ("address.country=urn:iso:std:iso:3166-1%23SN", "address"),
        ("income.currency=urn:iso:std:iso:4217%23XOF", "income"),
        ("occupation:below=urn:ilo:isco-08%236", "occupation"),
        ("birth_date=ge2000-01-01", "birth_date"),
        ("active=true", "active"),
        ("group=none", "group_membership"),
        ("_sort=name,-birth_date", "birth_date"),
        ("_sort=occupation", "occupation"),
    ] {
        let refused = limited.get(&format!("/Individual?{query}")).expect(403);
        assert!(refused.detail().contains(&format!("`{field}`")), "{query}: {}", refused.detail());
    }
    assert_eq!(
        limited.found("gender=urn:iso:std:iso:5218%232&_sort=-gender,name&_last_updated=ge2000-01-01"),
        ["1", "3"]
    );
    // A reduced grant ends a walk that was ordered by it.
    let page = client.get("/Individual?_sort=occupation&_count=1").expect(200).json();
    app.admin().grant_fields(client.id(), "individual:all", &["name"]);
    let refused = client.get(page["links"]["next"].as_str().unwrap()).expect(403);
    assert!(refused.detail().contains("`occupation`"), "{}", refused.detail());
}
