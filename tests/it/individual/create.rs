//! Registering people.

use daftar_tests::records::{FEMALE, NATIONAL_ID, path, person};
use daftar_tests::{TestApp, redacted};
use serde_json::{Value, json};

/// Everything that a person can have with the default packs.
fn everything() -> Value {
    json!({
        "type": "Individual",
        "identifier": [
            {"system": NATIONAL_ID, "value": "A|1/é"},
            {"system": "urn:svc:vocab:id-type#passport", "value": "P 77", "period": {"start": "2020-01-01", "end": "2024-12-31"}},
        ],
        "active": true,
        "name": {"family": "Álvarez", "given": "Lucía", "middle": "Inês", "prefix": "Dra.", "suffix": "II", "text": "Dra. Lucía Álvarez"},
        "birth_date": "1961-03-08",
        "birth_date_estimated": false,
        "deceased_date": "2025-12-31",
        "gender": FEMALE,
        "marital_status": "urn:un:unsd:pop-census:marital-status#M",
        "country": "urn:iso:std:iso:3166-1#CO",
        "languages": [],
        "telecom": [{"system": "phone", "value": "+57 1 555 0100", "use": "home", "rank": 1}],
        "address": [{
            "type": "physical", "text": "by the river", "line": ["Calle 1", "Casa 2"], "city": "Leticia", "district": "North",
            "region": "Amazonas", "postal_code": "910001", "country": "urn:iso:std:iso:3166-1#CO",
        }],
        "income": {"amount": 1250.5, "period": "month"},
    })
}

#[test]
fn a_person_is_returned_as_it_was_sent() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let created = client.post("/Individual", &everything()).expect(201);
    assert_eq!(created.header("etag"), Some("\"1\""));
    insta::assert_json_snapshot!(redacted(&created.json()), @r#"
    {
      "active": true,
      "address": [
        {
          "city": "Leticia",
          "country": {
            "code": "CO",
            "display": "Colombia",
            "namespace": "urn:iso:std:iso:3166-1",
            "uri": "urn:iso:std:iso:3166-1#CO"
          },
          "district": "North",
          "line": [
            "Calle 1",
            "Casa 2"
          ],
          "postal_code": "910001",
          "region": "Amazonas",
          "text": "by the river",
          "type": "physical"
        }
      ],
      "birth_date": "1961-03-08",
      "birth_date_estimated": false,
      "country": {
        "code": "CO",
        "display": "Colombia",
        "namespace": "urn:iso:std:iso:3166-1",
        "uri": "urn:iso:std:iso:3166-1#CO"
      },
      "deceased_date": "2025-12-31",
      "gender": {
        "code": "2",
        "display": "Female",
        "namespace": "urn:iso:std:iso:5218",
        "uri": "urn:iso:std:iso:5218#2"
      },
      "identifier": [
        {
          "system": "urn:svc:vocab:id-type#national_id",
          "value": "A|1/é"
        },
        {
          "period": {
            "end": "2024-12-31",
            "start": "2020-01-01"
          },
          "system": "urn:svc:vocab:id-type#passport",
          "value": "P 77"
        }
      ],
      "income": {
        "amount": 1250.5,
        "period": "month"
      },
      "languages": [],
      "marital_status": {
        "code": "M",
        "display": "Married",
        "namespace": "urn:un:unsd:pop-census:marital-status",
        "uri": "urn:un:unsd:pop-census:marital-status#M"
      },
      "meta": {
        "last_updated": "2026-03-01T12:00:00.000Z",
        "source": "[source]",
        "version_id": "1"
      },
      "name": {
        "family": "Álvarez",
        "given": "Lucía",
        "middle": "Inês",
        "prefix": "Dra.",
        "suffix": "II",
        "text": "Dra. Lucía Álvarez"
      },
      "telecom": [
        {
          "rank": 1,
          "system": "phone",
          "use": "home",
          "value": "+57 1 555 0100"
        }
      ],
      "type": "Individual"
    }
    "#);
    assert_eq!(created.json()["meta"]["source"], client.id());

    let location = created.header("location").unwrap();
    assert!(location.starts_with(&client.connection().url()), "{location}");
    let followed = client.get(location).expect(200);
    assert_eq!(followed.json(), created.json());
    assert_eq!(followed.header("etag"), Some("\"1\""));

    let passport = client.get("/Individual/urn:svc:vocab:id-type%23passport|P%2077").expect(200);
    assert_eq!(passport.json(), created.json(), "an identifier that has ended still leads to its record");
}

#[test]
fn a_body_that_was_read_can_be_sent_back() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let mut body = client.create_individual(&person("A-1", json!({"gender": FEMALE, "name": {"given": "Rosa"}})));
    body["identifier"][0]["value"] = "A-2".into();
    let again = client.create_individual(&body);
    assert_eq!(again["gender"], body["gender"]);
    assert_eq!(again["name"], body["name"]);
}

#[test]
fn absent_and_empty_values_stay_different() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    drop(client.create_individual(&person("A-1", json!({"languages": [], "telecom": [], "address": []}))));
    drop(client.create_individual(&person("A-2", json!({"languages": null}))));
    let none = client.get(&path("Individual", "A-1")).expect(200).json();
    assert_eq!((&none["languages"], &none["telecom"], &none["address"]), (&json!([]), &json!([]), &json!([])));
    let unknown = client.get(&path("Individual", "A-2")).expect(200).json();
    for field in ["languages", "telecom", "address", "active", "name", "gender"] {
        assert!(unknown.get(field).is_none(), "{field}: {unknown}");
    }
}

#[test]
fn an_identifier_belongs_to_one_person_at_a_time() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    drop(client.create_individual(&person("A-1", json!({"name": {"given": "first"}}))));
    let refused = client.post("/Individual", &person("A-1", json!({}))).expect(409);
    insta::assert_json_snapshot!(redacted(&refused.json()), @r#"
    {
      "code": "identifier_in_use",
      "detail": "an identifier of system `urn:svc:vocab:id-type#national_id` is already in use by another record",
      "instance": "/api/v2/Individual",
      "request_id": "[request_id]",
      "status": 409,
      "title": "Conflict",
      "type": "[public_url]/docs/errors/identifier_in_use"
    }
    "#);
    assert_eq!(client.found(""), ["A-1"]);
    // The same value under another system is another identifier, and so is one that has ended.
    let passport = json!({"identifier": [{"system": "urn:svc:vocab:id-type#passport", "value": "A-1"}]});
    drop(client.create_individual(&passport));
    let ended = json!([
        {"system": NATIONAL_ID, "value": "A-3"},
        {"system": NATIONAL_ID, "value": "A-1", "period": {"end": "2020-01-01"}},
    ]);
    drop(client.create_individual(&json!({"identifier": ended})));
    let holder = client.get(&path("Individual", "A-1")).expect(200).json();
    assert_eq!(holder["name"]["given"], "first", "the present holder counts");
}

#[test]
fn one_of_many_concurrent_claims_of_an_identifier_succeeds() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    for round in 0..5 {
        let id = format!("R-{round}");
        let claim = || client.post("/Individual", &person(&id, json!({}))).status;
        let mut statuses: Vec<u16> = std::thread::scope(|scope| {
            let claims: Vec<_> = (0..8).map(|_| scope.spawn(claim)).collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    }
    assert_eq!(client.get("/Individual").expect(200).json()["total"], 5);
}

#[test]
fn an_ended_identifier_of_several_is_ambiguous() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    for number in ["1", "2"] {
        let ended = json!({"system": NATIONAL_ID, "value": "SHARED", "period": {"end": "2020-01-01"}});
        let own = json!({"system": NATIONAL_ID, "value": number});
        drop(client.create_individual(&json!({"identifier": [own, ended]})));
    }
    let refused = client.get(&path("Individual", "SHARED")).expect(409);
    assert!(refused.detail().contains("several records"), "{}", refused.detail());
    assert_eq!(refused.code(), "ambiguous_identifier");
}

#[test]
fn a_record_outlives_a_restart() {
    let mut app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let created = client.create_individual(&everything());
    drop(client.create_individual(&person("A-2", json!({"gender": FEMALE, "birth_date": "1990-01-01"}))));
    app.restart();
    let read = client.get("/Individual/urn:svc:vocab:id-type%23passport|P%2077").expect(200).json();
    assert_eq!(read, created, "also the token is good after the restart");
    let found = client.found("gender=urn:iso:std:iso:5218%232&birth_date=ge1990-01-01");
    assert_eq!(found, ["A-2"], "the indexes are built again");
    let refused = client.post("/Individual", &person("A-2", json!({})));
    assert_eq!(refused.status, 409, "what is taken stays taken");
}

#[test]
fn both_spellings_of_the_path_are_one_resource() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let created = client.post("/individuals", &person("A-1", json!({}))).expect(201);
    for path in ["/Individual", "/individuals"] {
        let read = client.get(&format!("{path}/urn:svc:vocab:id-type%23national_id|A-1")).expect(200);
        assert_eq!(read.json(), created.json());
        assert_eq!(client.get(path).expect(200).json()["total"], 1);
    }
}

#[test]
fn the_location_is_an_identifier_that_leads_to_the_record() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    let identifier = |value: &str, end: Option<&str>| json!({"system": NATIONAL_ID, "value": value, "period": end.map(|end| json!({"end": end}))});
    // The first identifier has ended, and another person has it now.
    drop(client.create_individual(&json!({"identifier": [identifier("A", None)], "name": {"given": "Other"}})));
    for identifiers in [
        json!([identifier("A", Some("2020-01-01")), identifier("B", None)]),
        json!([identifier("A", Some("2020-01-01")), identifier("C", Some("2021-01-01"))]),
    ] {
        let created =
            client.post("/Individual", &json!({"identifier": identifiers, "name": {"given": "Own"}})).expect(201);
        let followed = client.get(created.header("location").unwrap()).expect(200).json();
        assert_eq!(followed, created.json());
    }
}
