//! Malicious bodies and paths, to every endpoint that accepts a body.

use daftar_tests::records::{NATIONAL_ID, ROLE, household, path, person, reference};
use daftar_tests::{ApiClient, Response, TestApp, errors};
use serde_json::{Value, json};

use crate::program;

const JSON: &str = "application/json";
const MIB: usize = 1 << 20;

/// Every endpoint that accepts a JSON body: method, path, the maximum size of a body in bytes.
fn endpoints() -> Vec<(&'static str, String, usize)> {
    let (one, household) = (path("Individual", "1"), path("Group", "H"));
    let member = format!("{household}/member/{}", path("", "1").trim_start_matches('/'));
    vec![
        ("POST", "/Individual".to_owned(), 8 * MIB),
        ("PUT", one.clone(), 8 * MIB),
        ("PATCH", one, 8 * MIB),
        ("POST", "/Group".to_owned(), MIB),
        ("PUT", household.clone(), MIB),
        ("PATCH", household.clone(), MIB),
        ("POST", format!("{household}/$add-member"), MIB),
        ("POST", format!("{household}/$remove-member"), MIB),
        ("PATCH", member, MIB),
        ("POST", "/ProgramMembership".to_owned(), MIB),
        ("PUT", path("ProgramMembership", "M"), MIB),
        ("POST", "/Eligibility/$evaluate".to_owned(), 8 * MIB),
        ("POST", "/Vocabulary/$validate".to_owned(), MIB),
        ("POST", "/Vocabulary/$lookup".to_owned(), MIB),
    ]
}

/// A register with a person in a household, and a client with all scopes.
fn register() -> (TestApp, ApiClient) {
    let app = TestApp::start();
    let scopes = [
        "individual:all",
        "group:all",
        "program_membership:all",
        "eligibility:read",
        "vocabulary:read",
        "program:read",
    ];
    let client = app.client(&scopes);
    drop(client.create_individual(&person("1", json!({"name": {"given": "A"}}))));
    drop(client.create_group(&household("H", &[("1", "head")])));
    program::create(&app, "P", json!({}));
    let place = json!({"program": format!("Program/{NATIONAL_ID}|P"), "beneficiary": reference("1"), "status": "draft",
        "identifier": [{"system": NATIONAL_ID, "value": "M"}]});
    drop(client.post("/ProgramMembership", &place).expect(201));
    (app, client)
}

fn send(client: &ApiClient, (method, path): (&str, &str), content_type: &str, body: &[u8]) -> Response {
    client.request(method, path).body(content_type, body).send()
}

/// Tests that rejected requests changed nothing, and that the server still serves.
fn is_unharmed(client: &ApiClient) {
    let person = client.get(&path("Individual", "1")).expect(200).json();
    assert_eq!((&person["meta"]["version_id"], &person["name"]), (&json!("1"), &json!({"given": "A"})));
    for other in [path("Group", "H"), path("ProgramMembership", "M")] {
        assert_eq!(client.get(&other).expect(200).json()["meta"]["version_id"], "1");
    }
}

#[test]
fn every_endpoint_rejects_bodies_other_than_json_objects_with_a_reason() {
    let (_app, client) = register();
    let deep = format!("{}1{}", "{\"a\":".repeat(33), "}".repeat(33));
    let deep_list = format!("{{\"a\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let cases: Vec<(&[u8], &str)> = vec![
        (b"", "the body is empty"),
        (b" \r\n\t ", "the body is empty"),
        (b"{", "not valid JSON"),
        (b"{\"a\": 1,}", "not valid JSON"),
        (b"{\"a\": 1} trailing", "trailing characters"),
        (b"{\"a\": 1}{\"a\": 1}", "trailing characters"),
        (b"{\"a\": 1}\x00", "trailing characters"),
        (b"{\"a\": 01}", "not valid JSON"),
        (b"{\"a\": 1e999}", "out of range"),
        (b"{\"a\": -1e999}", "out of range"),
        (b"{\"a\": Infinity}", "not valid JSON"),
        (b"[]", "a JSON object is required"),
        (b"[{}]", "a JSON object is required"),
        (b"\"text\"", "a JSON object is required"),
        (b"1", "a JSON object is required"),
        (b"true", "a JSON object is required"),
        (b"null", "a JSON object is required"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"{\"a\": \"\xc3\x28\"}", "not UTF-8"),
        (b"{\"a\": \"\xed\xa0\x80\"}", "not UTF-8"),
        (b"{\"a\": \"\\ud800\"}", "not valid JSON"),
        (b"{\"a\": \"\\udc00\\ud800\"}", "not valid JSON"),
        (b"{\"a\": \"\x01\"}", "control character"),
        (b"{\"a\": \"x\\u0000y\"}", "NUL"),
        (b"{\"a\\u0000\": 1}", "NUL"),
        (b"{\"a\": 1, \"a\": 1}", "`a` appears twice"),
        (b"{\"a\": {\"b\": [{\"c\": 1, \"\\u0063\": 2}]}}", "`c` appears twice"),
        (deep.as_bytes(), "more than 32 deep"),
        (deep_list.as_bytes(), "more than 32 deep"),
    ];
    for (method, path, _) in endpoints() {
        for (body, what) in &cases {
            let shown = String::from_utf8_lossy(body.get(..60).unwrap_or(body));
            let refused = send(&client, (method, &path), JSON, body);
            assert_eq!(refused.status, 400, "{method} {path} {shown}: {}", refused.text());
            assert!(refused.detail().contains(what), "{method} {path} {shown}: {}", refused.detail());
        }
    }
    is_unharmed(&client);
}

#[test]
fn every_endpoint_takes_json_in_utf8_as_it_is_and_nothing_else() {
    let (_app, client) = register();
    for (method, path, _) in endpoints() {
        for wrong in [
            "text/plain",
            "text/json",
            "application/xml",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/json; charset=iso-8859-1",
            "application/json;charset=\"UTF-16\"",
            "",
        ] {
            let refused = send(&client, (method, &path), wrong, b"{}");
            assert_eq!(refused.status, 415, "{method} {path} {wrong}: {}", refused.text());
            let says = if wrong.contains("charset") { "UTF-8" } else { "application/json" };
            assert!(refused.detail().contains(says), "{method} {path} {wrong}: {}", refused.detail());
        }
        let request = client.request(method, &path).header("Content-Encoding", "gzip").body(JSON, "{}");
        assert!(request.send().expect(415).detail().contains("`Content-Encoding`"), "{method} {path}");
        let twice = client.request(method, &path).header("Content-Type", "text/plain").body(JSON, "{}");
        assert_eq!(twice.send().status, 415, "{method} {path}");
        let without = client.request(method, &path).declare_length(0).send();
        assert_eq!(without.status, 415, "{method} {path}");
    }
    is_unharmed(&client);
}

#[test]
fn every_endpoint_has_a_largest_body() {
    let (_app, client) = register();
    for (method, path, limit) in endpoints() {
        let declared = client.request(method, &path).header("Content-Type", JSON).declare_length(limit + 1).send();
        assert_eq!(declared.status, 413, "{method} {path}: {}", declared.text());
        assert_eq!(declared.detail(), format!("the body exceeds the limit of {limit} bytes"));
        for length in [limit - 1, limit] {
            let filled = format!("{{\"unheard_of\": \"{}\"}}", "x".repeat(length - 18));
            assert_eq!(filled.len(), length);
            let read = send(&client, (method, &path), JSON, filled.as_bytes());
            assert_eq!(
                read.status,
                422,
                "{method} {path}: it is read, and found wrong for what it says: {}",
                read.text()
            );
            assert!(read.text().len() < 4_000, "what was sent is not sent back");
        }
    }
    is_unharmed(&client);
}

#[test]
fn every_endpoint_names_members_that_it_does_not_know() {
    let (_app, client) = register();
    let long = "n".repeat(100_000);
    for (method, path, _) in endpoints() {
        let body = json!({"unheard_of": 1, long.clone(): 2, "": 3, "a\u{202e}b": 4});
        let refused = send(&client, (method, &path), JSON, body.to_string().as_bytes());
        assert_eq!(refused.status, 422, "{method} {path}: {}", refused.text());
        let found = errors(&refused.json());
        let unknown = |name: &str| found.contains(&(name.to_owned(), "unknown_field".to_owned()));
        assert!(unknown("unheard_of") && unknown("\"\""), "{method} {path}: {found:?}");
        assert!(unknown(&"n".repeat(60)) && refused.text().len() < 4_000, "{method} {path}: a long name is cut short");
    }
    is_unharmed(&client);
}

#[test]
fn wrong_values_are_named_by_their_field() {
    let (_app, client) = register();
    let huge = "é".repeat(50_000);
    let identified = |more: Value| person("9", more);
    for (body, field, code) in [
        (identified(json!({"name": {"given": huge}})), "name.given", "too_long"),
        (identified(json!({"name": {"given": "a\u{7}"}})), "name.given", "control_character"),
        (identified(json!({"name": {"given": "a\u{9f}"}})), "name.given", "control_character"),
        (identified(json!({"name": "Ann"})), "name", "wrong_type"),
        (identified(json!({"name": []})), "name", "wrong_type"),
        (identified(json!({"active": "true"})), "active", "wrong_type"),
        (identified(json!({"active": 1})), "active", "wrong_type"),
        (identified(json!({"birth_date": 20_000_101})), "birth_date", "wrong_type"),
        (identified(json!({"birth_date": "2000-02-30"})), "birth_date", "invalid_date"),
        (identified(json!({"income": {"amount": -0.01}})), "income.amount", "wrong_type"),
        (identified(json!({"income": {"amount": "1"}})), "income.amount", "wrong_type"),
        (
            identified(json!({"telecom": [{"system": "phone", "value": "1", "rank": 0}]})),
            "telecom[0].rank",
            "wrong_type",
        ),
        (
            identified(json!({"telecom": [{"system": "phone", "value": "1", "rank": 1e30}]})),
            "telecom[0].rank",
            "wrong_type",
        ),
        (
            identified(json!({"telecom": [{"system": "phone", "value": "1", "rank": 18_446_744_073_709_551_615_u64}]})),
            "telecom[0].rank",
            "wrong_type",
        ),
        (identified(json!({"telecom": vec![json!({"system": "phone", "value": "1"}); 101]})), "telecom", "too_many"),
        (identified(json!({"address": [{"line": [1]}]})), "address[0].line[0]", "wrong_type"),
        (identified(json!({"address": [null]})), "address[0]", "wrong_type"),
        (identified(json!({"gender": {"coding": [{}]}})), "gender", "wrong_type"),
        (identified(json!({"gender": "x".repeat(100_000)})), "gender", "invalid_code"),
        (
            identified(json!({"gender": {"namespace": "urn:iso:std:iso:5218", "code": "2", "unheard_of": 1}})),
            "gender.unheard_of",
            "unknown_field",
        ),
        (
            identified(
                json!({"gender": {"coding": [{"system": "urn:iso:std:iso:5218", "code": "2", "version": "1"}]}}),
            ),
            "gender.coding[0].version",
            "unknown_field",
        ),
        (json!({"identifier": [{"system": NATIONAL_ID, "value": "x".repeat(201)}]}), "identifier[0].value", "too_long"),
        (json!({"identifier": [{"system": NATIONAL_ID, "value": " 1"}]}), "identifier[0].value", "invalid_identifier"),
        (json!({"identifier": {"system": NATIONAL_ID, "value": "1"}}), "identifier", "wrong_type"),
    ] {
        let refused = client.post("/Individual", &body);
        assert_eq!(refused.status, 422, "{field}: {}", refused.text());
        let found = errors(&refused.json());
        assert!(found.contains(&(field.to_owned(), code.to_owned())), "{field} {code}: {found:?}");
        assert!(refused.text().len() < 4_000, "{field}: what was sent is not sent back");
    }
    let member = |more: Value| json!({"entity": {"reference": reference("1")}, "role": more});
    for body in [member(json!(1)), member(json!(format!("{ROLE}#{}", "x".repeat(10_000)))), json!({"entity": []})] {
        let refused = client.post(&format!("{}/$add-member", path("Group", "H")), &body);
        assert_eq!(refused.status, 422, "{}", refused.text());
    }
    is_unharmed(&client);
}

#[test]
fn numbers_are_stored_as_they_were_sent() {
    let (_app, client) = register();
    for (id, amount) in [("a", 0.1), ("b", 9_007_199_254_740_993.0), ("c", 1.0e-300), ("d", 1.797e308), ("e", 0.0)] {
        let created = client.create_individual(&person(id, json!({"income": {"amount": amount}})));
        assert_eq!(created["income"]["amount"].as_f64(), Some(amount), "{amount}");
    }
}

#[test]
fn a_path_is_the_same_however_it_is_encoded() {
    let (_app, client) = register();
    let expected = client.get(&path("Individual", "1")).expect(200).json();
    for same in [
        "/Individual/urn:svc:vocab:id-type%23national_id|1",
        "/Individual/urn:svc:vocab:id-type%23national_id%7C1",
        "/Individual/urn:svc:vocab:id-type%23national_id%7c1",
        "/Individual/urn%3Asvc%3Avocab%3Aid-type%23national_id%7C1",
        "/Individual/%75rn:svc:vocab:id%2Dtype%23national%5Fid|%31",
        "/individuals/urn:svc:vocab:id-type%23national_id|1",
    ] {
        assert_eq!(client.get(same).expect(200).json(), expected, "{same}");
    }
    let add = |spelling: &str| {
        let path = format!("{}/{spelling}", path("Group", "H"));
        errors(&client.post(&path, &json!({})).expect(422).json())
    };
    assert_eq!(add("$add-member"), add("%24add-member"));
    for (cut_short, says) in [
        ("/Individual/urn:svc:vocab:id-type", "encode # as %23"),
        ("/Individual/urn:svc:vocab:id-type#national_id|1", "encode # as %23"),
        ("/Group/urn:svc:vocab:id-type", "encode # as %23"),
        ("/Group/urn:svc:vocab:id-type/membership-history", "encode # as %23"),
        ("/Individual/urn:svc:vocab:id-type/groups", "encode # as %23"),
        ("/Program/urn:svc:vocab:id-type", "encode # as %23"),
        ("/ProgramMembership/urn:svc:vocab:id-type", "encode # as %23"),
        ("/Individual?identifier=urn:svc:vocab:id-type", "encode # as %23"),
        ("/Individual?gender=urn:iso:std:iso:5218", "encode # as %23"),
        ("/Individual?gender=urn:iso:std:iso:5218#2", "encode # as %23"),
        ("/ProgramMembership?beneficiary=urn:svc:vocab:id-type", "encode # as %23"),
        ("/Individual/%ff|1", "UTF-8"),
        ("/Individual/urn:x%00y|1", "visible ASCII"),
        ("/Individual/urn:x:y|1%00", "control character"),
        ("/Individual/urn:x:y|1%0a", "white space"),
        ("/Individual/urn:x:y|", "1 to 200 bytes"),
        ("/Individual/|1", "URI"),
        ("/Individual/x|1", "URI"),
        ("/Individual/%2e%2e%2fx|1", "URI"),
    ] {
        let refused = client.get(cut_short);
        assert_eq!(refused.status, 400, "{cut_short}: {}", refused.text());
        assert!(refused.detail().contains(says), "{cut_short}: {}", refused.detail());
    }
    let slashes = client.get("/Individual/https://example.org/id|1").expect(404);
    assert!(slashes.detail().contains("encode / as %2F"), "{}", slashes.detail());
    let encoded = client.get("/Individual/https:%2F%2Fexample.org%2Fid|1").expect(404);
    assert!(encoded.detail().starts_with("unknown identifier system `https://example.org/id`"), "{}", encoded.detail());
}
