//! curl, as an operator uses it.

use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use daftar_tests::records::{FEMALE, NATIONAL_ID, person};
use daftar_tests::{Credentials, Response, fresh_address, token};
use serde_json::json;

use super::register::Register;

/// A client that calls with curl, from an address of its own.
struct Curl {
    register: Arc<Register>,
    client: Credentials,
    source: Ipv4Addr,
    token: String,
}

impl Curl {
    fn new(name: &str) -> Self {
        let register = Register::running();
        let client = register.client(name);
        Self { register, client, source: fresh_address(), token: String::new() }
    }

    fn output(&self, arguments: &[&str], path: &str) -> Output {
        let mut curl = Command::new("curl");
        curl.args(["--no-progress-meter", "--noproxy", "*", "--max-time", "30", "--interface"]);
        curl.arg(self.source.to_string()).args(arguments).arg(format!("{}{path}", self.register.url()));
        let output = curl.env_remove("CURL_HOME").stdin(Stdio::null()).output();
        output.unwrap_or_else(|error| panic!("curl cannot be run, install it: {error}"))
    }

    /// Any response.
    fn send(&self, arguments: &[&str], path: &str) -> Response {
        let output = self.output(&[["--include"].as_slice(), arguments].concat(), path);
        assert!(output.status.success(), "{path}: {output:?}");
        Response::parse(&output.stdout)
    }

    /// A call with the token.
    fn call(&self, arguments: &[&str], path: &str) -> Response {
        let bearer = format!("Authorization: Bearer {}", self.token);
        self.send(&[["--header", &bearer].as_slice(), arguments].concat(), &format!("/api/v2{path}"))
    }

    /// The response to a token request in that form.
    fn ask(&self, form: &str) -> Response {
        let Credentials { id, secret } = &self.client;
        let user = format!("{id}:{secret}");
        let (client_id, client_secret) = (format!("client_id={id}"), format!("client_secret={secret}"));
        let object = json!({"grant_type": "client_credentials", "client_id": id, "client_secret": secret}).to_string();
        let grant = "grant_type=client_credentials";
        let arguments: &[&str] = match form {
            "basic" => &["--user", &user, "--data", grant],
            "form" => &["--data", grant, "--data-urlencode", &client_id, "--data-urlencode", &client_secret],
            "json" => &["--header", "Content-Type: application/json", "--data", &object],
            other => panic!("curl knows no form `{other}`"),
        };
        self.send(arguments, token::PATH)
    }

    fn take_token(&mut self, form: &str) {
        let response = self.ask(form).expect(200).json();
        assert_eq!((&response["token_type"], &response["expires_in"]), (&json!("Bearer"), &json!(86_400)));
        response["access_token"].as_str().unwrap().clone_into(&mut self.token);
    }
}

fn walk(form: &str) {
    if !daftar_test_needs::programs(&["curl"]) {
        return;
    }
    let mut curl = Curl::new(&format!("curl {form}"));
    curl.take_token(form);
    let value = format!("curl/{form}");
    registers_and_finds(&curl, &value);
    // As it is typed: `#` and `/` encoded, `|` and `:` as they are.
    let path = format!("/Individual/urn:svc:vocab:id-type%23national_id|curl%2F{form}");
    assert_eq!(curl.call(&[], &path).expect(200).json()["identifier"][0]["value"], value);

    curl.register.change(&curl.client, "revoke");
    let refused = curl.call(&[], &path).expect(401);
    assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer "), "{refused:?}");
    curl.take_token(form);
    drop(curl.call(&[], &path).expect(200));
    curl.register.change(&curl.client, "disable");
    assert_eq!(curl.call(&[], &path).expect(401).detail(), "the client is disabled");
    let refused = curl.ask(form).expect(401);
    assert_eq!(refused.json()["error"], "invalid_client");
    assert!(refused.header("www-authenticate").unwrap().starts_with("Basic "), "{refused:?}");
    curl.register.change(&curl.client, "enable");
    curl.take_token(form);
    waits_for_itself(&curl, &path);

    let mut responses = std::iter::repeat_with(|| curl.ask(form)).take(10);
    let refused = responses.find(|response| response.status != 200).expect("five tokens a minute").expect(429);
    assert_eq!(refused.json()["error"], "temporarily_unavailable");
    assert!((1..=60).contains(&refused.number("retry-after")), "{refused:?}");
}

fn registers_and_finds(curl: &Curl, value: &str) {
    let body = person(value, json!({"gender": FEMALE, "name": {"family": "Diallo"}})).to_string();
    let json = ["--header", "Content-Type: application/json", "--data", &body];
    let created = curl.call(&json, "/Individual").expect(201);
    let location = created.header("location").unwrap();
    let place = location.strip_prefix(curl.register.url()).unwrap_or(location);
    let read = curl.call(&[], place.strip_prefix("/api/v2").unwrap()).expect(200);
    assert_eq!(read.header("etag"), created.header("etag"));
    let (identifier, gender) = (format!("identifier={NATIONAL_ID}|{value}"), format!("gender={FEMALE}"));
    let query = ["--get", "--data-urlencode", &identifier, "--data-urlencode", &gender];
    assert_eq!(curl.call(&query, "/Individual").expect(200).json()["total"], 1);
    // A raw `#` truncates the rest, before curl sends anything.
    let cut = curl.call(&[], &format!("/Individual/{NATIONAL_ID}|{value}")).expect(400);
    assert!(cut.detail().contains("%23"), "{}", cut.detail());
}

/// Calls until the limit is reached; `--retry` then waits as long as each response says, and succeeds.
fn waits_for_itself(curl: &Curl, path: &str) {
    // In one process, as starting curl is slower than the refill of the minute.
    let bearer = format!("Authorization: Bearer {}", curl.token);
    let url = format!("{}/api/v2{path}", curl.register.url());
    let many: Vec<&str> = std::iter::repeat_n(["--output", "/dev/null", url.as_str()], 100).flatten().collect();
    let codes = ["--globoff", "--write-out", "%{http_code}\n", "--header", &bearer];
    let output =
        curl.output(&[codes.as_slice(), &many, &["--output", "/dev/null"]].concat(), &format!("/api/v2{path}"));
    let reported = String::from_utf8(output.stdout).unwrap();
    assert!(reported.lines().all(|code| code == "200" || code == "429"), "{reported}");
    assert_eq!(reported.lines().last(), Some("429"), "a hundred calls are more than a minute has: {reported}");

    let retry = ["--fail", "--retry", "3", "--write-out", "%{http_code}", "--header", &bearer];
    // Three in one process: on a machine that takes a second to start curl the first succeeds immediately.
    let two = ["--output", "/dev/null", url.as_str()].repeat(2);
    let three = [retry.as_slice(), &two, &["--output", "/dev/null"]].concat();
    let has_waited = (0..5).any(|_| {
        let output = curl.output(&three, &format!("/api/v2{path}"));
        let (reported, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && reported == "200200200", "{reported} {warned}");
        warned.contains("Will retry in 1 second")
    });
    assert!(has_waited, "it honours Retry-After");
}

#[test]
fn curl_with_basic() {
    walk("basic");
}

#[test]
fn curl_with_a_form() {
    walk("form");
}

#[test]
fn curl_with_json() {
    walk("json");
}
