//! `GET /Group`, and the same parameters on programs and memberships.

use daftar_tests::records::{FEMALE, HOUSEHOLD, household, person, with};
use daftar_tests::{ApiClient, TestApp};
use serde_json::{Value, json};

fn three_groups() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let client = app.client(&["individual:all", "group:all"]);
    for (id, given) in [("1", "Amina"), ("2", "Moussa"), ("3", "Grace")] {
        drop(client.create_individual(&person(id, json!({"gender": FEMALE, "name": {"given": given}}))));
    }
    let housing = "urn:un:unsd:pop-census:housing-type";
    for body in [
        with(
            household("G-1", &[("1", "head"), ("2", "spouse")]),
            json!({"name": "Famille Diallo", "registration_date": "2026-03-01", "address": [{"region": "Thiès", "line": ["Rue 12"]}], "housing_type": format!("{housing}#1.1")}),
        ),
        with(
            household("G-2", &[("3", "head")]),
            json!({"name": "Abeba", "active": false, "registration_date": "2026-02-01", "housing_type": format!("{housing}#2")}),
        ),
        json!({"identifier": [{"system": daftar_tests::records::NATIONAL_ID, "value": "G-3"}]}),
    ] {
        drop(client.create_group(&body));
    }
    (app, client)
}

fn values(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|record| record["identifier"][0]["value"].as_str().unwrap()).collect()
}

#[test]
fn groups_are_found_by_their_fields() {
    let (_app, client) = three_groups();
    let id = "urn:svc:vocab:id-type%23national_id";
    let household = HOUSEHOLD.replace('#', "%23");
    let cases: &[(String, &[&str])] = &[
        (String::new(), &["G-1", "G-2", "G-3"]),
        (format!("identifier={id}|G-2"), &["G-2"]),
        ("name=diallo+fam".to_owned(), &["G-1"]),
        (format!("group_type={household}"), &["G-1", "G-2"]),
        (format!("group_type={household}&active=true"), &["G-1"]),
        ("active=false".to_owned(), &["G-2"]),
        ("region=thies&address=12+rue".to_owned(), &["G-1"]),
        ("district=thies".to_owned(), &[]),
        ("housing_type:below=urn:un:unsd:pop-census:housing-type%231".to_owned(), &["G-1"]),
        ("housing_type=urn:un:unsd:pop-census:housing-type%231".to_owned(), &[]),
        (format!("member={id}|2"), &["G-1"]),
        (format!("member=Individual/{id}|3"), &["G-2"]),
        (format!("member={id}|1&member={id}|2"), &["G-1"]),
        (format!("member={id}|1&member={id}|3"), &[]),
        (format!("member={id}|9"), &[]),
        ("_sort=name".to_owned(), &["G-2", "G-1", "G-3"]),
        ("_sort=registration_date".to_owned(), &["G-2", "G-1", "G-3"]),
        ("registration_date=ge2026-02-15".to_owned(), &["G-1"]),
        ("_sort=-housing_type".to_owned(), &["G-2", "G-1", "G-3"]),
        ("_last_updated=ge2000-01-01".to_owned(), &["G-1", "G-2", "G-3"]),
        ("_last_updated=lt2000-01-01".to_owned(), &[]),
    ];
    for (query, expected) in cases {
        let page = client.get(&format!("/Group?{query}")).expect(200).json();
        assert_eq!(values(&page), *expected, "{query}");
        assert_eq!(page["total"], expected.len(), "{query}");
    }
    let page = client.get("/groups?_count=1&_elements=name").expect(200).json();
    assert_eq!(page["data"][0]["name"], "Famille Diallo");
    assert!(page["data"][0].get("member").is_none() && page["data"][0].get("group_type").is_none(), "{page}");
    let next = client.get(page["links"]["next"].as_str().unwrap()).expect(200).json();
    assert_eq!((values(&next), &next["meta"]["offset"]), (vec!["G-2"], &json!(1)));
}

#[test]
fn unknown_search_parameters_of_groups_are_rejected_by_name() {
    let (_app, client) = three_groups();
    for (query, what) in [
        ("gender=urn:iso:std:iso:5218%232", "`gender`"),
        ("names=x", "did you mean `name`"),
        ("member=x", "`member`"),
        ("group_type=urn:svc:vocab:group-type", "%23"),
        ("_sort=birth_date", "known: name, group_type, housing_type, registration_date, _last_updated"),
        ("_elements=gender", "`gender`"),
        ("_count=0", "`_count`"),
        ("_count=101", "`_count`"),
    ] {
        let refused = client.get(&format!("/Group?{query}")).expect(400);
        assert!(refused.detail().contains(what), "{query}: {}", refused.detail());
    }
}

#[test]
fn programs_and_memberships_take_the_same_parameters() {
    let app = TestApp::start();
    let id = |value: &str| json!([{"system": "urn:svc:vocab:id-type#tax_id", "value": value}]);
    for (value, name) in [("P-1", "Zakat"), ("P-2", "Ageing"), ("P-3", "Milk")] {
        let body = json!({"identifier": id(value), "name": name, "target_type": "individual"});
        drop(app.admin().request("POST", "/programs").json(&body).send().expect(201));
    }
    let client = app.client(&["individual:all", "program:read", "program_membership:all"]);
    for (person_id, day) in [("1", "2026-03-01"), ("2", "2026-01-01"), ("3", "2026-02-01")] {
        drop(client.create_individual(&person(person_id, json!({}))));
        let body = json!({"identifier": id(&format!("M-{person_id}")), "program": "Program/urn:svc:vocab:id-type#tax_id|P-1",
            "beneficiary": daftar_tests::records::reference(person_id), "status": "enrolled", "enrollment_date": day});
        drop(client.post("/ProgramMembership", &body).expect(201));
    }
    for (path, expected) in [
        ("/Program?_sort=name", ["P-2", "P-3", "P-1"]),
        ("/Program?_sort=-name", ["P-1", "P-3", "P-2"]),
        ("/Program?_last_updated=ge2000-01-01", ["P-1", "P-2", "P-3"]),
        ("/ProgramMembership?_sort=enrollment_date", ["M-2", "M-3", "M-1"]),
        ("/ProgramMembership?_sort=-enrollment_date", ["M-1", "M-3", "M-2"]),
        ("/ProgramMembership?_sort=status&_last_updated=ge2000-01-01", ["M-1", "M-2", "M-3"]),
    ] {
        assert_eq!(values(&client.get(path).expect(200).json()), expected, "{path}");
        let mut link = format!("{path}&_count=1");
        let mut walked = Vec::new();
        loop {
            let page = client.get(&link).expect(200).json();
            walked.extend(values(&page).into_iter().map(str::to_owned));
            let Some(next) = page["links"]["next"].as_str() else { break };
            link = next.to_owned();
        }
        assert_eq!(walked, expected, "{path}");
    }
    let page = client.get("/Program?_elements=name").expect(200).json();
    assert_eq!((&page["data"][0]["name"], page["data"][0].get("target_type")), (&json!("Zakat"), None));
    let page = client.get("/ProgramMembership?_elements=status").expect(200).json();
    assert_eq!((&page["data"][0]["status"], page["data"][0].get("program")), (&json!("enrolled"), None));
    for (path, what) in [
        ("/Program?_sort=status", "known: name, _last_updated"),
        ("/Program?_elements=member", "`member`"),
        ("/ProgramMembership?_sort=name", "known: status, enrollment_date, exit_date, _last_updated"),
        ("/ProgramMembership?_last_updated=x", "`_last_updated`"),
        ("/ProgramMembership?_cursor=x", "`_cursor`"),
    ] {
        let refused = client.get(path).expect(400);
        assert!(refused.detail().contains(what), "{path}: {}", refused.detail());
    }
}
