//! Searching people: each filter, several together, pages and links.

use daftar_tests::records::{FEMALE, MALE, NATIONAL_ID, person};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

/// Five people who differ in every searchable field.
fn five_people() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let country = |code: &str| format!("urn:iso:std:iso:3166-1#{code}");
    let marital = |code: &str| format!("urn:un:unsd:pop-census:marital-status#{code}");
    for (id, more) in [
        (
            "1",
            json!({"name": {"given": "María José", "family": "Álvarez"}, "gender": FEMALE, "birth_date": "1950-01-01",
            "marital_status": marital("W"), "country": country("CO"), "active": true}),
        ),
        (
            "2",
            json!({"name": {"given": "José", "family": "N'Diaye"}, "gender": MALE, "birth_date": "1980-06-15",
            "marital_status": marital("M"), "country": country("SN"), "address": [{"country": country("CO")}]}),
        ),
        (
            "3",
            json!({"name": {"text": "فاطمة الحسن"}, "gender": FEMALE, "birth_date": "1980-06-16", "country": country("EG")}),
        ),
        (
            "4",
            json!({"name": {"given": "Thị Lan", "family": "Nguyễn"}, "birth_date": "2010-12-31", "active": false,
            "address": [{"city": "Huế"}, {"country": country("VN")}]}),
        ),
        ("5", json!({})),
    ] {
        drop(client.create_individual(&person(id, more)));
    }
    (app, client)
}

#[test]
fn each_filter_finds_only_matching_people() {
    let (_app, client) = five_people();
    let cases: &[(&str, &[&str])] = &[
        ("", &["1", "2", "3", "4", "5"]),
        ("identifier=urn:svc:vocab:id-type%23national_id|3", &["3"]),
        ("identifier=urn:svc:vocab:id-type%23national_id%7C9", &[]),
        ("name=jose", &["1", "2"]),
        ("name=JOS%C3%89", &["1", "2"]),
        ("name=alvarez+maria", &["1"]),
        ("name=maria&name=alvarez", &["1"]),
        ("name=ndiaye", &["2"]),
        ("name=nguyen", &["4"]),
        ("name=%D9%81%D8%A7%D8%B7%D9%85%D8%A9", &["3"]),
        ("name=absent", &[]),
        ("birth_date=1980-06-15", &["2"]),
        ("birth_date=eq1980-06-15", &["2"]),
        ("birth_date=ne1980-06-15", &["1", "3", "4"]),
        ("birth_date=gt1980-06-15", &["3", "4"]),
        ("birth_date=ge1980-06-15", &["2", "3", "4"]),
        ("birth_date=lt1980-06-15", &["1"]),
        ("birth_date=le1980-06-15", &["1", "2"]),
        ("birth_date=ge1980-01-01&birth_date=le1980-12-31", &["2", "3"]),
        ("gender=urn:iso:std:iso:5218%232", &["1", "3"]),
        ("gender=urn:iso:std:iso:5218|2", &["1", "3"]),
        ("gender=urn:iso:std:iso:5218%239", &[]),
        ("marital_status=urn:un:unsd:pop-census:marital-status%23W", &["1"]),
        ("country=urn:iso:std:iso:3166-1%23CO", &["1"]),
        ("address.country=urn:iso:std:iso:3166-1%23CO", &["2"]),
        ("address.country=urn:iso:std:iso:3166-1%23VN", &["4"]),
        ("active=false", &["4"]),
        ("gender=urn:iso:std:iso:5218%232&birth_date=lt1960-01-01", &["1"]),
        ("gender=urn:iso:std:iso:5218%232&gender=urn:iso:std:iso:5218%231", &[]),
        (
            "name=jose&gender=urn:iso:std:iso:5218%231&birth_date=ge1980-01-01&country=urn:iso:std:iso:3166-1%23SN",
            &["2"],
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(client.found(query), *expected, "{query}");
    }
}

#[test]
fn parts_that_are_wrong_are_refused_and_named() {
    let (_app, client) = five_people();
    for (query, what) in [
        ("gendr=x", "did you mean `gender`"),
        ("something=1", "`something`"),
        ("name=", "`name`"),
        ("name=--", "`name`"),
        ("birth_date=1980", "`birth_date`"),
        ("birth_date=ge", "`birth_date`"),
        ("birth_date=2023-02-29", "`birth_date`"),
        ("active=yes", "`active`"),
        ("active=true&active=false", "`active`"),
        ("identifier=x", "`identifier`"),
        ("gender=urn:iso:std:iso:5218", "%23"),
        ("_count=0", "`_count`"),
        ("_count=-1", "`_count`"),
        ("_count=101", "`_count`"),
        ("_count=abc", "`_count`"),
        ("_count=1.5", "`_count`"),
        ("_count=", "`_count`"),
        ("_count=10&_count=10", "`_count`"),
        ("_offset=-1", "`_offset`"),
        ("_offset=99999999999999999999", "`_offset`"),
        ("name=%ff", "UTF-8"),
        ("name=%zz", "hexadecimal"),
        ("name=%00", "NUL"),
    ] {
        let refused = client.get(&format!("/Individual?{query}"));
        assert_eq!(refused.status, 400, "{query}: {}", refused.text());
        assert!(refused.detail().contains(what), "{query}: {}", refused.detail());
    }
}

#[test]
fn an_unknown_code_is_not_an_empty_result() {
    let (_app, client) = five_people();
    let refused = client.get("/Individual?gender=urn:iso:std:iso:5218%237");
    // Well-formed and without a match: the contract requires an empty result.
    let page = refused.expect(200).json();
    assert_eq!((page["total"].clone(), page["data"].clone()), (json!(0), json!([])));
}

#[test]
fn pages_cover_all_people_once_and_their_links_lead_forward_and_back() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    for number in 0..23 {
        let more = json!({"gender": if number % 2 == 0 { FEMALE } else { MALE }, "name": {"given": "José"}});
        drop(client.create_individual(&person(&number.to_string(), more)));
    }
    let first = "/Individual?gender=urn:iso:std:iso:5218%232&name=Jos%C3%A9&_count=5";
    let mut seen: Vec<String> = Vec::new();
    let mut next = Some(first.to_owned());
    let mut last = Value::Null;
    while let Some(link) = next {
        last = client.get(&link).expect(200).json();
        assert_eq!((&last["total"], &last["meta"]["total"]), (&json!(12), &json!(12)));
        assert_eq!(last["meta"]["offset"], seen.len());
        assert_eq!(last["meta"]["count"], last["data"].as_array().unwrap().len());
        let this = client.get(last["links"]["self"].as_str().unwrap()).expect(200).json();
        assert_eq!(this["data"], last["data"]);
        seen.extend(ids(&last));
        next = last["links"]["next"].as_str().map(str::to_owned);
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((seen.len(), once.len()), (12, 12), "{seen:?}");
    let mut back = Vec::new();
    let mut previous = last["links"]["prev"].as_str().map(str::to_owned);
    while let Some(link) = previous {
        let page = client.get(&link).expect(200).json();
        back.splice(0..0, ids(&page));
        previous = page["links"]["prev"].as_str().map(str::to_owned);
    }
    assert_eq!(back, seen[..10]);
    let beyond = client.get("/Individual?_offset=100").expect(200).json();
    assert_eq!((&beyond["total"], &beyond["data"], &beyond["links"]["next"]), (&json!(23), &json!([]), &Value::Null));
    assert_eq!(client.get("/Individual?_count=100").expect(200).json()["data"].as_array().unwrap().len(), 23);
    assert_eq!(client.get("/Individual").expect(200).json()["data"].as_array().unwrap().len(), 20, "20 unless asked");
}

fn ids(page: &Value) -> Vec<String> {
    let people = page["data"].as_array().unwrap();
    people.iter().map(|person| person["identifier"][0]["value"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_empty_register_answers_with_an_empty_page() {
    let app =
        TestApp::builder().config(|config| config.server.public_url = Some("https://registry.example".to_owned()));
    let app = app.start();
    let page = app.client(&["individual:read"]).get("/Individual").expect(200).json();
    insta::assert_json_snapshot!(page, @r#"
    {
      "data": [],
      "links": {
        "next": null,
        "prev": null,
        "self": "https://registry.example/api/v2/Individual?_count=20&_offset=0"
      },
      "meta": {
        "count": 0,
        "offset": 0,
        "total": 0
      },
      "total": 0
    }
    "#);
}

#[test]
fn a_person_is_found_as_soon_as_it_is_registered() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    for number in 1..=30 {
        let id = number.to_string();
        drop(client.create_individual(&json!({"identifier": [{"system": NATIONAL_ID, "value": id}]})));
        assert_eq!(client.get("/Individual?_count=1").expect(200).json()["total"], number);
        assert_eq!(client.found(&format!("identifier=urn:svc:vocab:id-type%23national_id|{id}")), [id]);
    }
}
