//! Reading people by identifier.

use daftar_tests::records::{NATIONAL_ID, path, person};
use daftar_tests::{TestApp, redacted};
use serde_json::json;

#[test]
fn reserved_characters_may_be_sent_encoded_and_most_of_them_raw() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    for value in ["A|1", "$batch", "a/b", "50%", "sp ace", "ünï", "q?x=1&y", "a+b", "..", "A#1"] {
        let created = client.post("/Individual", &json!({"identifier": [{"system": NATIONAL_ID, "value": value}]}));
        let created = created.expect(201);
        let location = created.header("location").unwrap();
        let followed = client.get(location).expect(200).json();
        assert_eq!(followed["identifier"][0]["value"], value, "{location}");
    }
    for path in [
        "urn:svc:vocab:id-type%23national_id|A|1",
        "urn:svc:vocab:id-type%23national_id%7CA%7C1",
        "urn%3Asvc%3Avocab%3Aid-type%23national_id%7cA|1",
        "urn:svc:vocab:id-type%23national_id|$batch",
        "urn:svc:vocab:id-type%23national_id|%24batch",
        "urn:svc:vocab:id-type%23national_id|a%2Fb",
        "urn:svc:vocab:id-type%23national_id|a%2fb",
        "urn:svc:vocab:id-type%23national_id|A%231",
        "urn:svc:vocab:id-type%23national_id|a+b",
    ] {
        assert_eq!(client.get(&format!("/Individual/{path}")).status, 200, "{path}");
    }
}

#[test]
fn a_path_truncated_by_a_raw_number_sign_gets_a_hint_to_encode_it() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    drop(client.create_individual(&person("A-1", json!({}))));
    let refused = client.get("/Individual/urn:svc:vocab:id-type").expect(400);
    assert!(refused.detail().contains("encode # as %23"), "{}", refused.detail());
    let refused = client.get("/Individual?gender=urn:iso:std:iso:5218").expect(400);
    assert!(refused.detail().contains("encode # as %23"), "{}", refused.detail());
    let refused = client.get("/Individual?identifier=urn:svc:vocab:id-type").expect(400);
    assert!(refused.detail().contains("encode # as %23"), "{}", refused.detail());
}

#[test]
fn wrong_addresses_are_400_and_unknown_ones_404() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    for wrong in ["x", "|", "urn:a|", "|b", "nope|x", "urn:a|%00", "urn:a|%ff", "urn:a|x%0ay", "urn:a|%20x"] {
        let refused = client.get(&format!("/Individual/{wrong}")).expect(400);
        assert_eq!(refused.json()["instance"], "/api/v2/Individual/{identifier}", "{wrong}");
    }
    let long = "x".repeat(201);
    assert_eq!(client.get(&format!("/Individual/urn:a|{long}")).status, 400);
    let unknown = client.get(&path("Individual", "ABSENT")).expect(404);
    insta::assert_json_snapshot!(redacted(&unknown.json()), @r#"
    {
      "code": "not_found",
      "detail": "no such Individual",
      "instance": "/api/v2/Individual/{identifier}",
      "request_id": "[request_id]",
      "status": 404,
      "title": "Not Found",
      "type": "[public_url]/docs/errors/not_found"
    }
    "#);
    assert_eq!(client.get("/Individual/urn:unknown:system|x").status, 404);
    let refused = client.get(&format!("{}?_element=name", path("Individual", "ABSENT"))).expect(400);
    assert!(refused.detail().contains("`_elements`"), "{}", refused.detail());
}

#[test]
fn a_read_that_the_connection_ends_leaves_the_server_serving() {
    let app = TestApp::start();
    let client = app.client(&["individual:read"]);
    let head =
        "POST /api/v2/Individual HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{";
    let stream = std::net::TcpStream::connect(client.connection().url().trim_start_matches("http://")).unwrap();
    std::io::Write::write_all(&mut &stream, head.as_bytes()).unwrap();
    drop(stream);
    assert_eq!(client.get("/Individual").status, 200);
}
