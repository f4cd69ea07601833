//! Requests without a JSON object, too large, or of another media type.

use daftar_tests::records::{path, person};
use daftar_tests::{ApiClient, Response, TestApp};
use serde_json::json;

const JSON: &str = "application/json";
const MIB: usize = 1 << 20;

fn send(client: &ApiClient, content_type: &str, body: &[u8]) -> Response {
    client.request("POST", "/Individual").body(content_type, body).send()
}

#[test]
fn a_body_that_is_not_a_json_object_is_400_with_the_reason() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "individual:read"]);
    let deep = format!("{}{}", "{\"a\":".repeat(33), "1".to_owned() + &"}".repeat(33));
    let deeper = "[".repeat(100_000);
    let cases: [(&[u8], &str); 16] = [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "not valid JSON"),
        (b"{\"identifier\": [}", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b"{\"a\": NaN}", "not valid JSON"),
        (b"{\"a\": 1e999}", "not valid JSON"),
        (b"[]", "a JSON object is required"),
        (b"\"text\"", "a JSON object is required"),
        (b"null", "a JSON object is required"),
        (b"{\"identifier\": [], \"identifier\": []}", "appears twice"),
        (b"{\"name\": {\"given\": \"a\", \"g\\u0069ven\": \"b\"}}", "appears twice"),
        (b"{\"name\": {\"given\": \"a\\u0000b\"}}", "NUL"),
        (b"{\"name\": \"\xff\xfe\"}", "not UTF-8"),
        (deep.as_bytes(), "deep"),
    ];
    for (body, what) in cases {
        let shown = String::from_utf8_lossy(body);
        let refused = send(&client, JSON, body);
        assert_eq!(refused.status, 400, "{shown}: {}", refused.text());
        assert!(refused.detail().contains(what), "{shown}: {}", refused.detail());
    }
    assert_eq!(send(&client, JSON, deeper.as_bytes()).status, 400);
    assert_eq!(send(&client, JSON, b"{\"name\": \"\\ud800\"}").status, 400, "half a surrogate pair");
    assert_eq!(client.get("/Individual").status, 200, "and the server still serves");
}

#[test]
fn another_media_type_is_415() {
    let app = TestApp::start();
    let client = app.client(&["individual:create"]);
    let body = person("A-1", json!({})).to_string();
    for wrong in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/xml",
        "json",
        "multipart/form-data; boundary=x",
    ] {
        let refused = send(&client, wrong, body.as_bytes()).expect(415);
        assert!(refused.detail().contains("application/json"), "{}", refused.detail());
        assert_eq!(refused.header("accept-patch"), None);
    }
    let without = client.request("POST", "/Individual").declare_length(0).send();
    assert_eq!(without.status, 415);
    for (number, right) in [JSON, "Application/JSON; charset=utf-8", "application/fhir+json"].iter().enumerate() {
        let body = person(&number.to_string(), json!({})).to_string();
        assert_eq!(send(&client, right, body.as_bytes()).status, 201, "{right}");
    }
}

#[test]
fn a_patch_that_is_no_merge_patch_is_415_with_the_accepted_media_types() {
    let app = TestApp::start();
    let client = app.client(&["individual:all"]);
    drop(client.create_individual(&person("1", json!({}))));
    let patch = |content_type: &str| {
        client.request("PATCH", &path("Individual", "1")).body(content_type, "{\"active\": false}").send()
    };
    for wrong in ["application/json-patch+json", "application/fhir+json", "text/plain"] {
        let refused = patch(wrong).expect(415);
        assert_eq!(refused.header("accept-patch"), Some("application/merge-patch+json, application/json"), "{wrong}");
        assert!(refused.detail().contains("`Content-Type: application/merge-patch+json`"), "{}", refused.detail());
    }
    assert_eq!(client.get(&path("Individual", "1")).expect(200).header("etag"), Some("\"1\""));
    for right in ["application/merge-patch+json", "Application/JSON; charset=utf-8"] {
        assert_eq!(patch(right).status, 200, "{right}");
    }
}

#[test]
fn a_body_over_its_limit_is_413() {
    let app = TestApp::start();
    let client = app.client(&["individual:create", "group:create"]);
    let declared = |path: &str, bytes: usize| {
        client.request("POST", path).header("Content-Type", JSON).declare_length(bytes).send()
    };
    let refused = declared("/Individual", 8 * MIB + 1).expect(413);
    assert!(refused.detail().contains(&(8 * MIB).to_string()), "{}", refused.detail());
    let refused = declared("/Group", MIB + 1).expect(413);
    assert!(refused.detail().contains(&MIB.to_string()), "{}", refused.detail());
    // At the limit it is read, and rejected for its content.
    let filled = format!("{{\"a\": \"{}\"}}", "x".repeat(MIB - 9));
    assert_eq!(filled.len(), MIB);
    assert_eq!(client.request("POST", "/Group").body(JSON, &filled).send().status, 422);
    // A body without a length is counted while it is received.
    let head = format!(
        "POST /api/v2/Group HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n",
        client.token()
    );
    let chunk = format!("{:x}\r\n{}\r\n", MIB + 1, " ".repeat(MIB + 1));
    let refused = Response::parse(&client.connection().exchange(format!("{head}{chunk}0\r\n\r\n").as_bytes()));
    assert_eq!(refused.status, 413);
}

#[test]
fn only_an_authorized_client_gets_errors_of_the_body() {
    let app = TestApp::start();
    let anonymous = app.anonymous().request("POST", "/api/v2/Individual").body("text/plain", "{");
    assert_eq!(anonymous.send().status, 401);
    let reader = app.client(&["individual:read"]);
    assert_eq!(send(&reader, "text/plain", b"{").status, 403);
    let huge = reader.request("POST", "/Individual").header("Content-Type", JSON).declare_length(100 * MIB).send();
    assert_eq!(huge.status, 403);
}
