//! The clients of `examples/clients`, with tokens that expire: the server's clock and theirs are moved by the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use daftar_tests::process::run;
use daftar_tests::{Server, TestApp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::sources;

/// Drives the Python client: reads a word per line, performs it, and returns a line.
const PYTHON: &str = r#"
import json, os, sys
sys.path.insert(0, os.environ["CLIENTS"])
from daftar_client import Daftar
now, slept = [0.0], []
given = json.loads(os.environ["GIVEN"])
client = Daftar(given["url"], given["id"], given["secret"], given.get("token_file"), given.get("ca"), clock=lambda: now[0], sleep=slept.append)
for line in sys.stdin:
    word, *more = line.split()
    if word == "wait":
        now[0] += float(more[0])
        print("waited", flush=True)
    elif word == "call":
        response = client.call("GET", "/Individual?_count=1")
        print(json.dumps([response.status, client.cached["access_token"], client.cached["renew_at"], slept]), flush=True)
    elif word == "create":
        body = {"identifier": [{"system": "urn:svc:vocab:id-type#national_id", "value": more[0]}]}
        print(json.dumps([client.call("POST", "/Individual", body).status]), flush=True)
"#;

/// The same of the JavaScript client.
const NODE: &str = r#"
import readline from 'node:readline'
const { Daftar } = await import(`${process.env.CLIENTS}/daftar-client.mjs`)
let now = 0
const slept = []
const { url, id, secret } = JSON.parse(process.env.GIVEN)
const options = { clock: () => now, sleep: async (seconds) => { slept.push(seconds) } }
const client = new Daftar({ url, clientId: id, clientSecret: secret, ...options })
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [word, more] = line.split(' ')
  if (word === 'wait') { now += Number(more); console.log('waited') }
  if (word === 'call') {
    const { status } = await client.call('GET', '/Individual?_count=1')
    console.log(JSON.stringify([status, client.cached.token, client.cached.renewAt, slept]))
  }
  if (word === 'create') {
    const identifier = [{ system: 'urn:svc:vocab:id-type#national_id', value: more }]
    console.log(JSON.stringify([(await client.call('POST', '/Individual', { identifier })).status]))
  }
}
"#;

/// A client's program, driven line by line.
struct Led {
    child: std::process::Child,
    input: std::process::ChildStdin,
    output: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Led {
    /// Tests whether the language's program is installed; without it a test is not run.
    fn can_start(language: &str) -> bool {
        daftar_test_needs::programs(&[if language == "python" { "python3" } else { "node" }])
    }

    fn start(language: &str, given: &Value) -> Self {
        let mut command = match language {
            "python" => Command::new("python3"),
            _ => Command::new("node"),
        };
        match language {
            "python" => command.args(["-c", PYTHON]),
            _ => command.args(["--input-type=module", "-e", NODE]),
        };
        command.env("CLIENTS", sources().join("examples/clients")).env("GIVEN", given.to_string());
        if let Some(ca) = given["ca"].as_str() {
            command.env("NODE_EXTRA_CA_CERTS", ca);
        }
        for name in ["http_proxy", "HTTP_PROXY", "NODE_OPTIONS", "PYTHONPATH"] {
            command.env_remove(name);
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{language} cannot be run, install it: {error}"));
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    fn ask(&mut self, what: &str) -> Value {
        writeln!(self.input, "{what}").unwrap();
        let line = self.output.next().unwrap_or_else(|| panic!("the client ended at `{what}`")).unwrap();
        if line == "waited" { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }
}

impl Drop for Led {
    fn drop(&mut self) {
        let _is_ended = self.child.kill().and_then(|()| self.child.wait()).is_ok();
    }
}

fn renews(language: &str, lifetime_s: u64, renewed_at_s: f64) {
    if !Led::can_start(language) {
        return;
    }
    let app = TestApp::builder().config(|config| config.token.lifetime_s = lifetime_s).start();
    let credentials = app.admin().create_client(&json!({"name": "office", "scopes": ["individual:all"]}));
    let given = json!({"url": app.anonymous().url(), "id": credentials.id, "secret": credentials.secret});
    let mut client = Led::start(language, &given);

    let first = client.ask("call");
    assert_eq!((first[0].as_u64(), first[2].as_f64()), (Some(200), Some(renewed_at_s)), "{first}");
    // Just before the expiry, and after it: no call ever fails for it.
    drop(client.ask(&format!("wait {}", renewed_at_s - 0.5)));
    assert_eq!(client.ask("call")[1], first[1], "the token is kept until then");
    drop(client.ask("wait 0.5"));
    app.advance_seconds(1);
    let second = client.ask("call");
    assert_eq!(second[0], 200);
    assert_ne!(second[1], first[1], "a new token is had before the old one ends");

    // The server's clock is ahead of the client's: the token has expired, and the client does not know.
    app.advance_seconds(i64::try_from(lifetime_s).unwrap());
    assert_eq!(client.ask("create 1"), json!([201]), "once more with a new token, a write too");
    let third = client.ask("call");
    assert_ne!(third[1], second[1]);
    assert_eq!(third[3], json!([]), "it never waited");

    // A disabled client gets an error, and requests only one new token.
    app.admin().disable(&credentials.id);
    writeln!(client.input, "call").unwrap();
    assert!(client.output.next().is_none(), "without a token it ends");
    let mut reason = String::new();
    client.child.stderr.take().unwrap().read_to_string(&mut reason).unwrap();
    assert!(reason.contains("no token: 401") && reason.contains("invalid_client"), "{reason}");
    assert!(!reason.contains(&credentials.secret), "a secret is never told");
}

#[test]
fn the_python_client_renews_a_token_of_a_day_five_minutes_early() {
    renews("python", 86_400, 86_100.0);
}

#[test]
fn the_python_client_renews_a_token_of_a_minute_in_time() {
    renews("python", 60, 48.0);
}

#[test]
fn the_javascript_client_renews_a_token_of_a_day_five_minutes_early() {
    renews("node", 86_400, 86_100.0);
}

#[test]
fn the_javascript_client_renews_a_token_of_a_minute_in_time() {
    renews("node", 60, 48.0);
}

/// The clients, curl and `daftar token` with a server whose certificate a private authority signed.
#[test]
fn clients_trust_a_private_certificate_authority() {
    if !(Led::can_start("python") && Led::can_start("node") && daftar_test_needs::programs(&["curl"])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let authority_key = KeyPair::generate().unwrap();
    let ca = write("ca.pem", authority.self_signed(&authority_key).unwrap().pem());
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let cert = write("cert.pem", params.signed_by(&key, &issuer).unwrap().pem());
    let key = write("key.pem", key.serialize_pem());
    let config = write("daftar.toml", format!("[server.tls]\ncert = '{cert}'\nkey = '{key}'\n"));
    let data_dir = folder.path().join("data");
    let server = Server::serve(&data_dir, &["--config", &config]);
    let create = ["client", "create", "--json", "--name", "office", "--scope", "individual:read"];
    let created = run(&data_dir, &create).expect_success().json();
    let (id, secret) = (created["client_id"].as_str().unwrap(), created["client_secret"].as_str().unwrap());

    let given = |ca: Option<&str>| json!({"url": server.url, "id": id, "secret": secret, "ca": ca});
    for language in ["python", "node"] {
        assert_eq!(Led::start(language, &given(Some(&ca))).ask("call")[0], 200, "{language}");
        let mut distrustful = Led::start(language, &given(None));
        writeln!(distrustful.input, "call").unwrap();
        assert!(distrustful.output.next().is_none(), "{language}: without the authority there is no connection");
    }
    let curl = |more: &[&str]| {
        let url = format!("{}/health/live", server.url);
        Command::new("curl").args(["-sS", "-o", "/dev/null", &url]).args(more).status().unwrap().success()
    };
    assert!(curl(&["--cacert", &ca]) && !curl(&[]));

    let secret = write("secret.txt", format!("{secret}\n"));
    let token = |more: &[&str]| run(&data_dir, &[&["token", id, "--secret-file", &secret], more].concat());
    assert!(token(&["--ca", &ca]).expect_success().stdout.starts_with("ey"));
    let distrusted = token(&[]);
    assert!(distrusted.code == 69 && distrusted.stderr.contains("certificate"), "{distrusted:?}");
    drop(server.stop().expect_success());
}

/// Each with the wait in the response.
fn waits(language: &str) {
    if !Led::can_start(language) {
        return;
    }
    let app = TestApp::start();
    let credentials =
        app.admin().create_client(&json!({"name": "office", "scopes": ["individual:all"], "rate_limit_per_minute": 2}));
    let given = json!({"url": app.anonymous().url(), "id": credentials.id, "secret": credentials.secret});
    let mut client = Led::start(language, &given);
    let responses: Vec<Value> = (0..3).map(|_| client.ask("call")).collect();
    let statuses: Vec<&Value> = responses.iter().map(|response| &response[0]).collect();
    // The test's clock does not advance, so that waiting has no effect: it gives up after five attempts.
    assert_eq!(statuses, [&json!(200), &json!(200), &json!(429)]);
    assert_eq!(responses[2][3].as_array().unwrap().len(), 4, "{responses:?}");
    assert!(
        responses[2][3].as_array().unwrap().iter().all(|wait| (1..=30).contains(&wait.as_u64().unwrap())),
        "{responses:?}"
    );
}

#[test]
fn the_python_client_honours_retry_after() {
    waits("python");
}

#[test]
fn the_javascript_client_honours_retry_after() {
    waits("node");
}

#[test]
fn programs_of_one_machine_share_a_token_by_its_file() {
    if !Led::can_start("python") {
        return;
    }
    let app = TestApp::start();
    let credentials = app.admin().create_client(&json!({"name": "office", "scopes": ["individual:read"]}));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token.json");
    let given = json!({
        "url": app.anonymous().url(), "id": credentials.id, "secret": credentials.secret, "token_file": file,
    });
    // Ten programs sequentially, where one address gets five tokens a minute.
    let tokens: Vec<Value> = (0..10).map(|_| Led::start("python", &given).ask("call")).collect();
    assert!(tokens.iter().all(|token| token[0] == 200 && token[1] == tokens[0][1]), "{tokens:?}");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}
