//! Entity tags, 304, and further headers.

use super::{COUNTRIES, OCCUPATIONS, reader, with_occupations};
use daftar::config::Config;
use daftar_tests::{ApiClient, Response, TestApp, artifacts};
use serde_json::{Value, json};

/// Every way to read codes.
fn requests() -> Vec<(&'static str, String, Option<Value>)> {
    let batch = || Some(json!({"codes": [format!("{COUNTRIES}#FR"), format!("{COUNTRIES}#XX")]}));
    vec![
        ("GET", "/Vocabulary".to_owned(), None),
        ("GET", format!("/Vocabulary/{COUNTRIES}"), None),
        ("GET", format!("/Vocabulary/{COUNTRIES}/codes?_count=5"), None),
        ("GET", format!("/Vocabulary/{COUNTRIES}/codes/FRA"), None),
        ("GET", format!("/Vocabulary/{COUNTRIES}/search?q=fra"), None),
        ("GET", "/Vocabulary/$search?q=fra".to_owned(), None),
        ("GET", format!("/Vocabulary/{OCCUPATIONS}/$subsumes?a=6&b=61"), None),
        ("POST", "/Vocabulary/$validate".to_owned(), batch()),
        ("POST", "/Vocabulary/$lookup".to_owned(), batch()),
        ("GET", "/ConceptGroup".to_owned(), None),
        ("GET", "/ConceptGroup/feminine_gender".to_owned(), None),
    ]
}

fn send(client: &ApiClient, request: &(&str, String, Option<Value>), headers: &[(&str, &str)]) -> Response {
    let (method, path, body) = request;
    let request = client.request(method, path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    body.iter().fold(request, |request, body| request.json(body)).send()
}

fn tag(response: &Response) -> String {
    response.header("etag").unwrap_or_else(|| panic!("no tag: {response:?}")).to_owned()
}

#[test]
fn every_answer_has_a_strong_tag_and_304_saves_its_body() {
    let app = with_occupations();
    let client = reader(&app);
    for request in requests() {
        let first = send(&client, &request, &[]).expect(200);
        let tag = tag(&first);
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() == 34, "{request:?}: {tag}");
        assert_eq!(first.header("cache-control"), Some("private, no-cache"), "{request:?}");
        assert_eq!(first.header("vary"), Some("Authorization, Accept-Language"), "{request:?}");
        assert_eq!(send(&client, &request, &[]).text(), first.text(), "{request:?}");
        let weak = format!("W/{tag}");
        let list = format!("\"other\", {weak} , \"a,b\"");
        for value in [tag.as_str(), &weak, &list, "*"] {
            let stored = send(&client, &request, &[("If-None-Match", value)]).expect(304);
            assert_eq!(stored.text(), "", "{request:?}");
            assert_eq!(stored.header("etag"), Some(tag.as_str()), "{request:?}");
            assert_eq!(stored.header("vary"), Some("Authorization, Accept-Language"), "{request:?}");
            assert_eq!(stored.header("cache-control"), Some("private, no-cache"), "{request:?}");
        }
        let several = [("If-None-Match", "\"other\""), ("If-None-Match", tag.as_str())];
        drop(send(&client, &request, &several).expect(304));
        for value in ["\"other\"", "nonsense", "\"", ""] {
            drop(send(&client, &request, &[("If-None-Match", value)]).expect(200));
        }
    }
}

#[test]
fn another_language_and_another_query_have_another_tag() {
    let app = with_occupations();
    let client = reader(&app);
    for request in requests() {
        let plain = tag(&send(&client, &request, &[]));
        let french = tag(&send(&client, &request, &[("Accept-Language", "fr")]));
        assert_ne!(plain, french, "{request:?}");
        drop(send(&client, &request, &[("Accept-Language", "fr"), ("If-None-Match", &plain)]).expect(200));
    }
    let tags: std::collections::BTreeSet<String> =
        requests().iter().map(|request| tag(&send(&client, request, &[]))).collect();
    assert_eq!(tags.len(), requests().len(), "no two share one");
}

#[test]
fn a_missing_resource_is_never_304() {
    let app = TestApp::start();
    let client = reader(&app);
    for path in ["/Vocabulary/urn:x", "/Vocabulary/urn:x/search?q=a", "/ConceptGroup/absent"] {
        drop(client.request("GET", path).header("If-None-Match", "*").send().expect(404));
    }
    drop(client.request("GET", "/Vocabulary?x=1").header("If-None-Match", "*").send().expect(400));
}

#[test]
fn a_pack_that_comes_changes_the_tags_and_they_outlive_a_restart() {
    // Responses contain the server's address, which is another free port at each start.
    let address = |config: &mut Config| config.server.public_url = Some("https://registry.example".to_owned());
    let mut app = TestApp::builder().config(address).start();
    let client = reader(&app);
    let path = ("GET", format!("/Vocabulary/{COUNTRIES}"), None);
    let before = tag(&send(&client, &path, &[]));
    // Removes the pack if it is loaded by default, and installs it otherwise.
    let is_default = client.get(&format!("/Vocabulary/{OCCUPATIONS}")).status == 200;
    if is_default {
        drop(app.admin().request("DELETE", "/plugins/isco-08").send().expect(204));
    } else {
        let package = std::fs::read(artifacts::module("isco-08")).unwrap();
        drop(app.admin().install(&package).expect(201));
    }
    let after = tag(&send(&client, &path, &[]));
    assert_ne!(before, after);
    app.restart();
    assert_eq!(tag(&send(&client, &path, &[])), after);
    drop(send(&client, &path, &[("If-None-Match", &after)]).expect(304));
}

#[test]
fn a_head_request_is_answered_with_the_same_headers() {
    let app = TestApp::start();
    let client = reader(&app);
    let read = client.get(&format!("/Vocabulary/{COUNTRIES}")).expect(200);
    let head = client.connection().exchange(
        format!(
            "HEAD /api/v2/Vocabulary/{COUNTRIES} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
            client.token()
        )
        .as_bytes(),
    );
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_ascii_lowercase().contains(&format!("etag: {}", tag(&read))), "{head}");
}
