//! Content of the log, which never contains personal data or secrets.

use daftar_tests::collector::Collector;
use daftar_tests::process::{command, run};
use daftar_tests::records::{FEMALE, NATIONAL_ID, household, person};
use daftar_tests::token::{FORM, PATH, basic};
use daftar_tests::{Connection, Credentials, Server, token};
use serde_json::{Value, json};

/// Prefix of every marked value: if the log contains it, there is a leak.
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
            "income": {"amount": 48_611_907.25, "period": "month"},
        }),
    )
}

fn call(connection: &Connection, token: &str, method: &str, path: &str, body: Option<&Value>) -> u16 {
    let connection = connection.from(daftar_tests::fresh_address());
    let request = connection.request(method, &format!("/api/v2{path}")).bearer(token);
    body.into_iter().fold(request, |request, body| request.json(body)).send().status
}

/// Every kind of request, valid and invalid, with marked values in every client-controlled position. Returns their
/// number.
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

/// Requests with invalid, marked credentials. Returns their number.
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

/// Bytes that are not a valid request, with marked values in every part of them. Their responses are not checked; the
/// server must still serve.
fn harass(connection: &Connection, token: &str) {
    let connection = connection.from(daftar_tests::fresh_address());
    let long = MARK.repeat(2_000);
    for bytes in [
        format!("GET /{MARK} HTTP/9.9\r\n\r\n"),
        format!("{MARK} / HTTP/1.1\r\nHost: {MARK}\r\nConnection: close\r\n\r\n"),
        format!("GET /api/v2/Individual/{long} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        format!(
            "GET /api/v2/Individual HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {long}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET / HTTP/1.1\r\nHost: x\r\ntraceparent: {MARK}\r\ntracestate: {MARK}\r\nX-Forwarded-For: {MARK}\r\nForwarded: for={MARK}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: {MARK}\r\nUser-Agent: {MARK}\r\nReferer: {MARK}\r\nAccept-Language: {MARK}\r\nConnection: close\r\n\r\n"
        ),
        format!(
            "POST /api/v2/Individual HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {MARK}\r\nContent-Type: {MARK}\r\nContent-Length: 6\r\nConnection: close\r\n\r\n{MARK}"
        ),
        format!(
            "POST /api/v2/$batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 8\r\nConnection: close\r\n\r\n\"{MARK}\""
        ),
        format!(
            "PUT /api/v2/Individual/urn:svc:vocab:id-type%23national_id%7C{MARK}1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIf-Match: {MARK}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ),
    ] {
        let _answer = connection.exchange(bytes.as_bytes());
    }
}

/// Results of the load for each format of the log.
struct Left {
    log: String,
    metrics: String,
    collector: Collector,
    /// Names of secrets and marks, with texts that must not occur.
    secrets: Vec<(&'static str, String)>,
    /// Number of checked responses.
    requests: usize,
}

/// Runs a server that logs in that format and sends to a collector, under valid, invalid and hostile requests at the
/// same time.
fn load(format: &str) -> Left {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, config) = (folder.path().join("data"), folder.path().join("daftar.toml"));
    let collector = Collector::start();
    let settings = format!(
        "[log]\nlevel = 'debug'\nformat = '{format}'\n[otlp]\nenabled = true\nendpoint = '{}'\ntimeout_ms = 60000\nshutdown_timeout_ms = 60000\n",
        collector.url
    );
    std::fs::write(&config, settings).unwrap();
    let server = Server::serve(&data_dir, &["--config", config.to_str().unwrap()]);
    let scopes = ["--scope", "individual:all", "group:all", "eligibility:all"];
    let create = [&["client", "create", "--name", "ZQMARKclient"], &scopes[..], &["--json"]].concat();
    let credentials = Credentials::read(&run(&data_dir, &create).expect_success().json());
    // A client without effective limits, for concurrent callers.
    let unlimited = ["--rate-limit-per-minute", "1000000", "--rate-limit-per-day", "1000000"];
    let create = [&create[..], &unlimited[..]].concat();
    let busy = Credentials::read(&run(&data_dir, &create).expect_success().json());
    let refused = run(&data_dir, &["client", "show", "ZQMARKclient"]);
    assert_eq!(refused.code, 1);
    let connection = server.connection();
    let (token, busy_token) = (token::fetch(&connection, &credentials), token::fetch(&connection, &busy));
    let requests = std::thread::scope(|scope| {
        let hostile: Vec<_> = (0..2).map(|_| scope.spawn(|| harass(&connection, &busy_token))).collect();
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let (connection, token) = (&connection, &busy_token);
                scope.spawn(move || {
                    for number in 0..20 {
                        let path =
                            format!("/Individual/urn:svc:vocab:id-type%23national_id%7C{MARK}-{reader}-{number}");
                        assert_eq!(call(connection, token, "GET", &path, None), 404);
                        let person = marked_person(&format!("load-{reader}-{number}"));
                        assert_eq!(call(connection, token, "POST", "/Individual", Some(&person)), 201);
                    }
                })
            })
            .collect();
        let requests = 5 + exercise(&connection, &token) + knock(&connection, &credentials);
        hostile.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
        requests + 3 * 40
    });
    let admin = Server::admin(&data_dir);
    let metrics = admin.metrics();
    let admin_token = admin.token().to_owned();
    let log = server.stop().expect_success().stderr;
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let secrets = vec![
        ("a marked value", MARK.to_owned()),
        ("a day of birth", "1903-07-19".to_owned()),
        ("an income", "48611907".to_owned()),
        ("a client's secret", credentials.secret.clone()),
        ("another client's secret", busy.secret.clone()),
        ("an access token's signature", signature(&token)),
        ("another access token's signature", signature(&busy_token)),
        ("the admin token", admin_token),
        ("an encoded identifier", "national_id%7C".to_owned()),
        ("an address of a caller", "127.1.0.".to_owned()),
    ];
    Left { log, metrics, collector, secrets, requests }
}

impl Left {
    fn is_silent(&self) {
        for (name, secret) in &self.secrets {
            for (place, text) in [("log", &self.log), ("metrics page", &self.metrics)] {
                let leak = text.lines().find(|line| line.contains(secret.as_str()));
                assert_eq!(leak, None, "{name} is in the {place}");
            }
            self.collector.look(|received| assert!(!received.holds(secret), "{name} was sent to the collector"));
        }
        // Confirms that there was data to search.
        let routes = |text: &str| text.matches("/api/v2/Individual/{identifier}").count();
        assert!(routes(&self.log) >= 60 && routes(&self.metrics) >= 3, "{}", self.log);
        self.collector.look(|received| {
            assert!(received.named("GET /api/v2/Individual/{identifier}").len() >= 60 && received.pages > 0);
        });
    }
}

#[test]
fn the_json_log_has_every_request_and_no_personal_data() {
    let left = load("json");
    let lines: Vec<Value> =
        left.log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let answered = lines.iter().filter(|line| line["fields"]["message"] == "request completed").count();
    // Hostile requests may be rejected below HTTP, and are not counted here.
    assert!(answered >= left.requests, "{answered} of {} are logged: {}", left.requests, left.log);
    assert!(lines.iter().all(|line| line.get("span").is_none()), "spans are for the collector");
    left.is_silent();
}

#[test]
fn the_text_log_has_every_request_and_no_personal_data() {
    let left = load("text");
    let answered = left.log.lines().filter(|line| line.contains("request completed")).count();
    assert!(answered >= left.requests, "{answered} of {} are logged: {}", left.requests, left.log);
    assert!(left.log.lines().all(|line| serde_json::from_str::<Value>(line).is_err()));
    left.is_silent();
}

#[test]
fn a_log_that_is_not_read_holds_up_no_request_and_loses_no_line_that_has_room() {
    const CONNECTIONS: usize = 8;
    const REQUESTS: usize = 250;
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let empty = tempfile::tempdir().unwrap();
    let mut command = command(&data_dir, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command.arg("--plugins").arg(empty.path());
    let mut server = Server::begin_unread(command).wait_until_ready();
    // Each leaves a line. The pipe has capacity for some hundred of them.
    let mut requests = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(REQUESTS - 1);
    requests.push_str("GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    for _ in 0..CONNECTIONS {
        let responses = String::from_utf8(server.connection().exchange(requests.as_bytes())).unwrap();
        assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), REQUESTS);
    }
    server.read_log();
    let log = server.stop().stderr;
    assert_eq!(
        log.matches("http.route=\"/health/live\"").count(),
        CONNECTIONS * REQUESTS,
        "{}",
        &log[..log.len().min(2_000)]
    );
    let duration = log.lines().find_map(|line| line.split("duration_ms=").nth(1)?.split(' ').next()).unwrap();
    let decimals = duration.split('.').nth(1).map_or(0, str::len);
    assert!(duration.parse::<f64>().is_ok() && decimals <= 3, "{duration}");
}
