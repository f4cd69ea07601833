//! Forged, changed or stolen tokens: each is rejected, and a valid one is not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use daftar_tests::{ApiClient, Response, TestApp};
use hmac::{Hmac, KeyInit, Mac};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use serde_json::{Value, json};
use sha2::Sha256;

const LIFETIME_S: i64 = 86_400;

/// A register with a client whose token an attacker has seen.
struct Scene {
    app: TestApp,
    client: ApiClient,
    header: Value,
    claims: Value,
    key: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let app = TestApp::start();
        let client = app.client(&["individual:read"]);
        let mut parts = client.token().split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
        let header = serde_json::from_slice(&parts.next().unwrap()).unwrap();
        let claims = serde_json::from_slice(&parts.next().unwrap()).unwrap();
        let file = std::fs::read_to_string(app.data_dir().join("keys/token.json")).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        let key = URL_SAFE_NO_PAD.decode(file["keys"][0]["secret"].as_str().unwrap()).unwrap();
        Self { app, client, header, claims, key }
    }

    /// The claims, changed and signed with the server's own key: only the change can cause the rejection.
    fn signed_with_claims(&self, change: &Value) -> String {
        sign(&self.header, &merged(&self.claims, change), &self.key)
    }

    fn call(&self, token: &str) -> Response {
        self.app.anonymous().request("GET", "/api/v2/Individual").bearer(token).send()
    }

    #[track_caller]
    fn assert_refused(&self, name: &str, token: &str, detail: &str) {
        let response = self.call(token);
        assert_eq!(response.status, 401, "{name}: {}", response.text());
        assert!(response.detail().contains(detail), "{name}: {}", response.detail());
        let challenge = response.header("www-authenticate").unwrap_or_default();
        assert!(challenge.starts_with("Bearer ") && challenge.contains("invalid_token"), "{name}: {challenge}");
    }
}

fn merged(object: &Value, change: &Value) -> Value {
    let mut merged = object.clone();
    for (name, value) in change.as_object().unwrap() {
        if value.is_null() {
            merged.as_object_mut().unwrap().remove(name);
        } else {
            merged[name] = value.clone();
        }
    }
    merged
}

fn message(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

fn sign(header: &Value, claims: &Value, key: &[u8]) -> String {
    let message = message(header, claims);
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

#[test]
fn forged_headers_and_signatures_are_refused() {
    let scene = Scene::new();
    let Scene { header, claims, key, .. } = &scene;
    assert_eq!(scene.call(&sign(header, claims, key)).status, 200, "the forger's tools make tokens that pass");
    let pair = KeyPair::generate().unwrap();
    let public_key = pem(&pair);
    let with_header = |change: Value| merged(header, &change);
    let asymmetric = message(&with_header(json!({"alg": "ES256"})), claims);
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(asymmetric.as_bytes()).unwrap());
    let unsigned = message(&with_header(json!({"alg": "none"})), claims);
    let [first, second, third] = <[&str; 3]>::try_from(scene.client.token().split('.').collect::<Vec<_>>()).unwrap();
    let forged = [
        ("alg none, no signature", format!("{unsigned}.")),
        ("alg none, signed", sign(&with_header(json!({"alg": "none"})), claims, key)),
        ("alg None", format!("{}.", message(&with_header(json!({"alg": "None"})), claims))),
        ("RS256, keyed with a public key", sign(&with_header(json!({"alg": "RS256"})), claims, public_key.as_bytes())),
        ("RS256, keyed with our key", sign(&with_header(json!({"alg": "RS256"})), claims, key)),
        ("HS256, keyed with a public key", sign(header, claims, public_key.as_bytes())),
        ("HS512 in the header", sign(&with_header(json!({"alg": "HS512"})), claims, key)),
        ("hs256 in small letters", sign(&with_header(json!({"alg": "hs256"})), claims, key)),
        ("ES256, signed with another key", format!("{asymmetric}.{signature}")),
        ("another key", sign(header, claims, &[7; 32])),
        ("an empty key", sign(header, claims, b"")),
        ("an unknown kid", sign(&with_header(json!({"kid": "another"})), claims, key)),
        ("a kid that is a path", sign(&with_header(json!({"kid": "../keys/token.json"})), claims, key)),
        ("no kid", sign(&with_header(json!({"kid": null})), claims, key)),
        ("a key of its own", sign(&with_header(json!({"jwk": {"kty": "oct", "k": "BwcH"}})), claims, &[7; 3])),
        ("a type of its own", sign(&with_header(json!({"typ": "JWT"})), claims, key)),
        ("no signature", format!("{first}.{second}.")),
        ("a cut signature", format!("{first}.{second}.{}", &third[..third.len() - 4])),
        (
            "the signature of another token",
            format!("{first}.{second}.{}", sign(header, &json!({}), key).rsplit('.').next().unwrap()),
        ),
        ("two parts", format!("{first}.{second}")),
        ("four parts", format!("{first}.{second}.{third}.{third}")),
        ("a huge token", format!("{first}.{}.{third}", "A".repeat(60_000))),
        ("an odd character", format!("{first}.{second}.{third}!")),
    ];
    for (name, token) in &forged {
        scene.assert_refused(name, token, "malformed");
    }
    assert_eq!(scene.call(scene.client.token()).status, 200, "the real token passes after all of them");
}

fn sign_text(header: &str, claims: &str, key: &[u8]) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// The complete response, without values that always differ.
fn answer_in_bytes(scene: &Scene, token: &str) -> String {
    let request = format!(
        "GET /api/v2/Individual HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let response = String::from_utf8(scene.app.anonymous().exchange(request.as_bytes())).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let is_its_own = |line: &&str| !line.starts_with("x-request-id: ") && !line.starts_with("date: ");
    let head: Vec<&str> = head.split("\r\n").filter(is_its_own).collect();
    let mut body: Value = serde_json::from_str(body).unwrap();
    assert!(body.as_object_mut().unwrap().remove("request_id").is_some());
    format!("{}\n{body}", head.join("\n"))
}

#[test]
fn every_forgery_gets_the_same_answer_to_the_last_byte() {
    let scene = Scene::new();
    let Scene { header, claims, key, .. } = &scene;
    let iat = claims["iat"].as_i64().unwrap();
    let with_header = |change: Value| sign(&merged(header, &change), claims, key);
    let with_kid = |kid: Value| with_header(json!({"kid": kid}));
    let (header_text, claims_text) = (header.to_string(), claims.to_string());
    let own_jwk = json!({"kty": "oct", "k": URL_SAFE_NO_PAD.encode([7; 32]), "alg": "HS256"});
    let injected = |name: &str, value: Value| sign(&merged(header, &json!({name: value})), claims, &[7; 32]);
    let forged = [
        ("kid: a path", with_kid(json!("../../../../dev/null"))),
        ("kid: a path with a NUL", with_kid(json!("keys/token.json\u{0}.png"))),
        ("kid: SQL", with_kid(json!("x' UNION SELECT 'secret' --"))),
        ("kid: a shell", with_kid(json!("| curl evil.example"))),
        ("kid: a URL", with_kid(json!("https://evil.example/key"))),
        ("kid: empty", with_kid(json!(""))),
        ("kid: huge", with_kid(json!("k".repeat(2_000)))),
        ("kid: not ASCII", with_kid(json!("\u{202e}kid\u{0}é"))),
        ("kid: a list", with_kid(json!([header["kid"]]))),
        ("kid: an object", with_kid(json!({"kid": header["kid"]}))),
        ("kid: a number", with_kid(json!(0))),
        ("kid: the name of an object's own", with_kid(json!("__proto__"))),
        ("no kid", with_kid(Value::Null)),
        ("an embedded key", injected("jwk", own_jwk)),
        ("a URL of keys", injected("jku", json!("https://evil.example/keys.json"))),
        ("a URL of a certificate", injected("x5u", json!("http://169.254.169.254/"))),
        ("a certificate", injected("x5c", json!(["MIIB"]))),
        ("a critical extension", with_header(json!({"crit": ["b64"], "b64": false}))),
        ("a token within a token", with_header(json!({"cty": "JWT"}))),
        ("compressed", with_header(json!({"zip": "DEF"}))),
        ("alg none", with_header(json!({"alg": "none"}))),
        ("alg nOnE, unsigned", format!("{}.", message(&merged(header, &json!({"alg": "nOnE"})), claims))),
        ("alg RS256", with_header(json!({"alg": "RS256"}))),
        ("alg HS512", with_header(json!({"alg": "HS512"}))),
        ("alg a list", with_header(json!({"alg": ["HS256"]}))),
        ("alg twice", sign_text(&header_text.replacen('{', "{\"alg\":\"none\",", 1), &claims_text, key)),
        ("a nested header", sign_text(&format!("{}{}", "[".repeat(150), "]".repeat(150)), &claims_text, key)),
        ("a header that is no JSON", sign_text("\u{0}", &claims_text, key)),
        ("exp twice", sign_text(&header_text, &claims_text.replacen('{', "{\"exp\":9999999999,", 1), key)),
        ("sub twice", sign_text(&header_text, &claims_text.replacen('{', "{\"sub\":\"root\",", 1), key)),
        ("nested claims", sign_text(&header_text, &"{\"scopes\":".repeat(300), key)),
        ("claims that are no object", sign_text(&header_text, "[]", key)),
        ("a future nbf", scene.signed_with_claims(&json!({"nbf": iat + 1}))),
        ("an iat at the end of time", scene.signed_with_claims(&json!({"iat": i64::MAX, "iat_us": null}))),
        (
            "an exp beyond numbers",
            sign_text(&header_text, &claims_text.replace("\"exp\":", "\"exp\":1e999,\"old\":"), key),
        ),
        ("another issuer", scene.signed_with_claims(&json!({"iss": "another"}))),
        ("another audience", scene.signed_with_claims(&json!({"aud": "others"}))),
        ("scopes of no kind", scene.signed_with_claims(&json!({"scopes": {"0": "individual:all"}}))),
        ("a huge token", format!("{}.{}.x", "A".repeat(30_000), "A".repeat(30_000))),
        ("just too long", "a".repeat(4_097)),
        ("dots", ".".repeat(4_000)),
        ("another key", sign(header, claims, &[7; 32])),
    ];
    let expected = answer_in_bytes(&scene, "x.y.z");
    assert!(expected.starts_with("HTTP/1.1 401 ") && expected.contains("the access token is malformed"), "{expected}");
    for (name, token) in &forged {
        assert_eq!(&answer_in_bytes(&scene, token), &expected, "{name}");
    }
    // Only a server with a key of the register can have issued this one, so the response names the clocks.
    let ahead = scene.signed_with_claims(&json!({"iat": iat + 1, "iat_us": (iat + 1) * 1_000_000}));
    let ahead = answer_in_bytes(&scene, &ahead);
    assert!(ahead.starts_with("HTTP/1.1 401 ") && ahead.contains("the clock of this one differ"), "{ahead}");
    assert_eq!(scene.call(scene.client.token()).status, 200, "the real token passes after all of them");
}

#[test]
fn forged_claims_are_refused_even_under_our_own_signature() {
    let scene = Scene::new();
    let iat = scene.claims["iat"].as_i64().unwrap();
    assert_eq!(scene.call(&scene.signed_with_claims(&json!({"jti": "another"}))).status, 200);
    for (name, change) in [
        ("another issuer", json!({"iss": "another"})),
        ("no issuer", json!({"iss": null})),
        ("another audience", json!({"aud": "others"})),
        ("several audiences", json!({"aud": ["svc", "others"]})),
        ("no expiry", json!({"exp": null})),
        ("an expiry that is no number", json!({"exp": "never"})),
        ("issued in a second", json!({"iat": iat + 1, "iat_us": (iat + 1) * 1_000_000})),
        ("two instants of issue", json!({"iat": iat - 10})),
        ("no scopes", json!({"scopes": null})),
        ("scopes as a text", json!({"scopes": "individual:read"})),
        ("a scope that does not exist", json!({"scopes": ["individual:everything"]})),
        ("two clients", json!({"client_id": "another"})),
    ] {
        scene.assert_refused(name, &scene.signed_with_claims(&change), "malformed");
    }
    scene.assert_refused(
        "an unknown client",
        &scene.signed_with_claims(&json!({"sub": "absent", "client_id": "absent"})),
        "disabled",
    );
    // Added scopes have no effect: the server uses the current grants.
    let added = scene.signed_with_claims(&json!({"scopes": ["individual:all", "group:all"]}));
    let request = scene.app.anonymous().request("POST", "/api/v2/Individual").bearer(&added).json(&json!({}));
    assert_eq!(
        request.send().expect(403).detail(),
        "Missing required scope individual:create. Granted: individual:read"
    );
}

#[test]
fn added_scopes_without_a_new_signature_are_refused() {
    let scene = Scene::new();
    let claims = merged(&scene.claims, &json!({"scopes": ["individual:all"]}));
    let signature = scene.client.token().rsplit('.').next().unwrap();
    let token = format!("{}.{signature}", message(&scene.header, &claims));
    scene.assert_refused("added scopes", &token, "malformed");
}

#[test]
fn a_token_is_good_until_its_very_last_second() {
    let scene = Scene::new();
    scene.app.advance_seconds(LIFETIME_S - 1);
    assert_eq!(scene.call(scene.client.token()).status, 200);
    scene.app.advance_seconds(1);
    scene.assert_refused("expired by nothing", scene.client.token(), "expired");
    scene.app.advance_seconds(1);
    scene.assert_refused("expired by a second", scene.client.token(), "expired");
}

#[test]
fn a_token_counts_in_one_authorization_header_and_nowhere_else() {
    let scene = Scene::new();
    let token = scene.client.token();
    let anonymous = || scene.app.anonymous();
    let in_query = anonymous().request("GET", &format!("/api/v2/Individual?access_token={token}")).send().expect(401);
    assert_eq!(in_query.header("www-authenticate"), Some("Bearer realm=\"daftar\""), "no error where nothing was sent");
    let in_form = anonymous().request("POST", "/api/v2/Individual");
    let in_form = in_form.body(daftar_tests::token::FORM, format!("access_token={token}")).send();
    assert_eq!(in_form.status, 401);
    let in_json = anonymous().request("POST", "/api/v2/Individual").json(&json!({"access_token": token})).send();
    assert_eq!(in_json.status, 401);
    for header in ["X-Access-Token", "Cookie", "Proxy-Authorization"] {
        let elsewhere = anonymous().request("GET", "/api/v2/Individual").header(header, format!("Bearer {token}"));
        assert_eq!(elsewhere.send().status, 401, "{header}");
    }
    let twice = anonymous().request("GET", "/api/v2/Individual").bearer(token).bearer(token).send().expect(401);
    assert!(twice.detail().contains("malformed"), "{}", twice.detail());
    assert_eq!(twice.code(), "token_invalid");
    for value in [token.to_owned(), format!("Basic {token}"), "Bearer".to_owned(), format!("Bearer {token} {token}")] {
        let request = anonymous().request("GET", "/api/v2/Individual").header("Authorization", value);
        assert_eq!(request.send().status, 401);
    }
}

#[test]
fn a_token_of_another_register_is_refused() {
    let scene = Scene::new();
    let other = Scene::new();
    assert_eq!(other.call(other.client.token()).status, 200);
    scene.assert_refused("another register's token", other.client.token(), "malformed");
}

#[test]
fn a_disabled_clients_tokens_stay_refused_after_it_is_enabled_again() {
    let scene = Scene::new();
    let id = scene.client.id();
    assert_eq!(scene.call(scene.client.token()).status, 200);
    scene.app.admin().disable(id);
    scene.assert_refused("a disabled client", scene.client.token(), "disabled");
    scene.app.admin().enable(id);
    scene.assert_refused("a token from before", scene.client.token(), "expired");
    scene.app.advance_seconds(1);
    let again = scene.app.client_of(scene.client.credentials());
    assert_eq!(scene.call(again.token()).status, 200);
}

fn pem(pair: &KeyPair) -> String {
    let der = base64::engine::general_purpose::STANDARD.encode(pair.subject_public_key_info());
    format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
}
