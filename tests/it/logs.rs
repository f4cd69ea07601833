//! What the log says, and that it never holds personal data or secrets.

use daftar_tests::process::run;
use daftar_tests::records::{FEMALE, NATIONAL_ID, household, person};
use daftar_tests::token::{FORM, PATH, basic};
use daftar_tests::{Connection, Credentials, Server, token};
use serde_json::{Value, json};

/// Begins every marked value: if the log holds it anywhere, something leaked.
const MARK: &str = "ZQMARK";

/// A person whose every text is marked, and whose dates and numbers occur nowhere else.
fn marked_person(id: &str) -> Value {
    let text = |what: &str| format!("{MARK}{what}");
    person(
        &format!("{MARK}{id}"),
        json!({
            "name": {"family": text("family"), "given": text("given"), "middle": text("middle"), "text": text("text")},
            "birth_date": "1903-07-19",
            "gender": FEMALE,
            "telecom": [{"system": "phone", "value": text("phone")}],
            "address": [{"text": text("address"), "line": [text("line")], "city": text("city"), "district": text("district")}],
            "income": {"amount": 48_611.25, "period": "month"},
        }),
    )
}

fn call(connection: &Connection, token: &str, method: &str, path: &str, body: Option<&Value>) -> u16 {
    let connection = connection.from(daftar_tests::fresh_address());
    let request = connection.request(method, &format!("/api/v2{path}")).bearer(token);
    body.into_iter().fold(request, |request, body| request.json(body)).send().status
}

/// Every kind of request, right and wrong, with marked values wherever a client can put one. Returns how many.
fn exercise(connection: &Connection, token: &str) -> usize {
    let id = format!("urn:svc:vocab:id-type%23national_id|{MARK}");
    let rule = |expression: &str| {
        json!({"expression": expression, "subjects": [
            format!("Individual/{NATIONAL_ID}|{MARK}1"), format!("Individual/{NATIONAL_ID}|{MARK}unknown"), marked_person("inline"),
        ]})
    };
    let with = |more: Value| daftar_tests::records::with(marked_person("2"), more);
    let mark = |prefix: &str| format!("{prefix}{MARK}");
    let deep = rule(&format!("{}true{}", "(".repeat(400), ")".repeat(400)));
    let requests: Vec<(&str, String, Option<Value>, u16)> = vec![
        ("POST", "/Individual".to_owned(), Some(marked_person("1")), 201),
        ("POST", "/Individual".to_owned(), Some(marked_person("1")), 409),
        ("POST", "/Individual".to_owned(), Some(with(json!({mark("field"): 1}))), 422),
        ("POST", "/Individual".to_owned(), Some(with(json!({"birth_date": mark("1903")}))), 422),
        ("POST", "/Individual".to_owned(), Some(with(json!({"gender": mark("urn:iso:std:iso:5218#")}))), 422),
        ("POST", "/Individual".to_owned(), Some(with(json!({"gender": mark("urn:x")}))), 422),
        ("POST", "/Individual".to_owned(), Some(json!([mark("list")])), 400),
        ("GET", format!("/Individual/{id}1"), None, 200),
        ("GET", format!("/individuals/{id}unknown"), None, 404),
        ("GET", format!("/Individual/{MARK}"), None, 400),
        ("GET", format!("/{MARK}"), None, 404),
        ("DELETE", format!("/Individual/{id}1"), None, 405),
        ("GET", format!("/Individual?name={MARK}family&birth_date=1903-07-19"), None, 200),
        ("GET", format!("/Individual?identifier={id}1"), None, 200),
        ("GET", format!("/Individual?{MARK}=1"), None, 400),
        ("GET", format!("/Individual?birth_date={MARK}"), None, 400),
        ("POST", "/Group".to_owned(), Some(household(&mark("H"), &[(&mark("")[..], "head")])), 422),
        ("POST", "/Group".to_owned(), Some(household(&mark("H"), &[(&format!("{MARK}1"), "head")])), 201),
        ("GET", format!("/Group/urn:svc:vocab:id-type%23national_id|H{MARK}"), None, 200),
        (
            "POST",
            "/Eligibility/$evaluate".to_owned(),
            Some(rule(&format!("is_female(me) && me.name.family == '{MARK}family'"))),
            200,
        ),
        ("POST", "/Eligibility/$evaluate".to_owned(), Some(rule(&format!("me.{MARK} == '{MARK}'"))), 422),
        ("POST", "/Eligibility/$evaluate".to_owned(), Some(deep), 422),
        (
            "POST",
            "/Eligibility/$evaluate".to_owned(),
            Some(json!({"expression": "members.exists(m, 1 / 0 > int(m.income.amount))",
            "subjects": [format!("Individual/{NATIONAL_ID}|{MARK}1")]})),
            200,
        ),
    ];
    for (method, path, body, status) in &requests {
        assert_eq!(call(connection, token, method, path, body.as_ref()), *status, "{method} {path}");
    }
    requests.len()
}

/// Requests that prove nothing, with marked proofs. Returns how many.
fn knock(connection: &Connection, credentials: &Credentials) -> usize {
    let ask = |authorization: String, body: String, status: u16| {
        let request = connection.from(daftar_tests::fresh_address()).request("POST", PATH);
        let request = if authorization.is_empty() { request } else { request.header("Authorization", authorization) };
        assert_eq!(request.body(FORM, body).send().status, status);
    };
    let grant = "grant_type=client_credentials";
    ask(basic(&credentials.id, &format!("{MARK}secret")), grant.to_owned(), 401);
    ask(basic(&format!("{MARK}client"), &format!("{MARK}secret")), grant.to_owned(), 401);
    ask(String::new(), format!("{grant}&client_id={MARK}&client_secret={MARK}&scope={MARK}"), 401);
    ask(basic(&credentials.id, &credentials.secret), format!("{grant}&scope={MARK}"), 400);
    ask(String::new(), format!("grant_type={MARK}"), 400);
    assert_eq!(call(connection, &format!("{MARK}.token.x"), "GET", "/Individual", None), 401);
    assert_eq!(call(connection, &format!("{MARK} {MARK}"), "GET", "/Individual", None), 401);
    7
}

#[test]
fn the_log_tells_every_request_and_never_about_whom() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, config) = (folder.path().join("data"), folder.path().join("daftar.toml"));
    std::fs::write(&config, "[log]\nlevel = 'debug'\nformat = 'json'\n").unwrap();
    let server = Server::serve(&data_dir, &["--config", config.to_str().unwrap()]);
    let create = [
        "client",
        "create",
        "--name",
        "ZQMARKclient",
        "--scope",
        "individual:all",
        "group:all",
        "eligibility:all",
        "--json",
    ];
    let credentials = Credentials::read(&run(&data_dir, &create).expect_success().json());
    let refused = run(&data_dir, &["client", "show", "ZQMARKclient"]);
    assert_eq!(refused.code, 1);
    let connection = server.connection();
    let token = token::fetch(&connection, &credentials);
    let requests = 3 + exercise(&connection, &token) + knock(&connection, &credentials);
    let admin_token = std::fs::read_to_string(data_dir.join("admin.token")).unwrap();
    let log = server.stop().expect_success().stderr;

    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let answered = lines.iter().filter(|line| line["fields"]["message"] == "request answered").count();
    assert_eq!(answered, requests, "every request is told, so that there was something to search: {log}");
    let routes = log.matches("/api/v2/Individual/{identifier}").count();
    assert!(routes >= 3, "routes are told by their pattern: {log}");
    let signature = token.rsplit('.').next().unwrap();
    let id = credentials.id.as_str();
    for (name, secret) in [
        ("a marked value", MARK),
        ("a day of birth", "1903-07-19"),
        ("an income", "48611"),
        ("the client's secret", &credentials.secret),
        ("the access token", &token),
        ("the token's signature", signature),
        ("the admin token", admin_token.trim()),
        ("an encoded identifier", "national_id%7C"),
    ] {
        let leak = log.lines().find(|line| line.contains(secret));
        assert_eq!(leak, None, "{name} is in the log of client {id}");
    }
}
