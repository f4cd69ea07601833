//! Access tokens and token requests.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use secrecy::ExposeSecret;
use sha2::Sha256;

use daftar_auth::keys::TokenKeys;
use daftar_auth::token::{self, VerifiedToken};
use daftar_auth::{KeyRing, TokenRequest, TokenRequestParts};
use daftar_domain::config::TokenConfig;

/// The time at which tokens are verified.
const NOW: &str = "2026-03-01T12:00:00Z";
const NOW_S: i64 = 1_772_366_400;

/// The signing key of this process, with its secret.
struct Keys {
    keys: Arc<TokenKeys>,
    secret: Vec<u8>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let ring = KeyRing::load_or_create(folder.path(), TokenConfig::default().lifetime_s, now()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("keys/token.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let secret = URL_SAFE_NO_PAD.decode(file["keys"][0]["secret"].as_str().unwrap()).unwrap();
    Keys { keys: Arc::clone(&ring.load()), secret }
});

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Verifies a token of that payload, with a valid signature.
fn verify(payload: &[u8]) -> Option<VerifiedToken> {
    let Keys { keys, secret } = &*KEYS;
    let header = format!(r#"{{"typ":"at+jwt","alg":"HS256","kid":"{}"}}"#, keys.current().id());
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(message.as_bytes());
    let text = format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
    token::verify(&text, keys, &TokenConfig::default(), now()).ok()
}

/// The input as a token, which no key has signed, and as the payload of a token that the key has signed.
pub fn check(input: &[u8]) {
    let (Keys { keys, .. }, config) = (&*KEYS, TokenConfig::default());
    if let Ok(text) = str::from_utf8(input) {
        let found = token::verify(text, keys, &config, now());
        assert!(found.is_err(), "an unsigned token is valid: {found:?}");
    }
    let Some(found) = verify(input) else { return };
    assert!(found.issued_at <= now() && found.expires_at.as_second() > NOW_S, "{found:?}");
    let VerifiedToken { id, client_id, scopes, issued_at, .. } = found.clone();
    let again = token::issue(keys, &config, &client_id, &scopes, id, issued_at).expect("it can be issued");
    let text = again.text.expose_secret();
    match token::verify(text, keys, &config, issued_at) {
        Ok(verified) => {
            let expected = VerifiedToken { expires_at: verified.expires_at, ..found };
            assert_eq!(verified, expected, "an issued token has the same claims");
        }
        Err(fault) => assert!(text.len() > token::TOKEN_BYTES_MAX, "an issued token is invalid: {fault:?}"),
    }
}

/// The first byte chooses the form: a form, JSON, or credentials in the header.
pub fn check_request(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    const FORM: &[u8] = b"application/x-www-form-urlencoded";
    let grant = b"grant_type=client_credentials".as_slice();
    let parts = match choice % 3 {
        0 => TokenRequestParts { content_type: &[FORM], body: rest, ..TokenRequestParts::default() },
        1 => TokenRequestParts { content_type: &[b"application/json"], body: rest, ..TokenRequestParts::default() },
        _ => TokenRequestParts {
            content_type: &[FORM],
            body: grant,
            authorization: &[rest],
            ..TokenRequestParts::default()
        },
    };
    let Ok(TokenRequest { client_id, client_secret, scope }) = TokenRequest::parse(&parts) else { return };
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials").append_pair("client_id", &client_id);
    form.append_pair("client_secret", client_secret.expose_secret());
    if let Some(scope) = &scope {
        form.append_pair("scope", scope);
    }
    let body = form.finish();
    let parts = TokenRequestParts { content_type: &[FORM], body: body.as_bytes(), ..TokenRequestParts::default() };
    let again = TokenRequest::parse(&parts).expect("a request that was read can be written as a form");
    assert_eq!((again.client_id, again.scope), (client_id, scope));
    assert_eq!(again.client_secret.expose_secret(), client_secret.expose_secret());
}
