//! Tests that signed tokens are accepted until `exp` and that forged ones are rejected.

use hmac::{Hmac, KeyInit, Mac};
use jiff::SignedDuration;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sha2::Sha256;

use super::*;
use crate::fixtures::{Fixture, at, scopes};

/// The signature of a forged token.
enum Signature<'a> {
    Key(&'a [u8]),
    Text(&'a str),
}

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// Builds a token with any header and claims, signed by any key or not at all.
fn forge(header: &str, claims: &str, signature: Signature<'_>) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = match signature {
        Signature::Text(text) => text.to_owned(),
        Signature::Key(key) => {
            let mut keyed = Hmac::<Sha256>::new_from_slice(key).unwrap();
            keyed.update(message.as_bytes());
            URL_SAFE_NO_PAD.encode(keyed.finalize().into_bytes())
        }
    };
    format!("{message}.{signature}")
}

fn good_header(fixture: &Fixture) -> Value {
    json!({"alg": "HS256", "typ": "at+jwt", "kid": fixture.keys.current().id()})
}

fn good_claims() -> Value {
    let iat = at(0).as_second();
    json!({
        "iss": "svc-api-v2", "sub": "c", "client_id": "c", "aud": "svc", "exp": iat + 86_400, "iat": iat, "jti": "j",
        "scopes": ["individual:read"]
    })
}

/// Returns valid claims with one of them changed, or removed if the value is null.
fn claims_with(name: &str, value: Value) -> String {
    let mut claims = good_claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        other => claims[name] = other,
    }
    claims.to_string()
}

fn defect(fixture: &Fixture, token: &str, now: Timestamp) -> TokenDefect {
    match verify(token, &fixture.keys, &fixture.config, now).unwrap_err() {
        TokenFault::Malformed(defect) => defect,
        TokenFault::Expired => panic!("expired"),
    }
}

#[test]
fn a_signed_token_has_the_claims_of_the_contract() {
    let fixture = Fixture::new();
    let now = at(0) + SignedDuration::from_micros(250_000);
    let client_id = ClientId::parse("c").unwrap();
    let granted = scopes("individual:read group:all");
    let issued = issue(&fixture.keys, &fixture.config, &client_id, &granted, "j1".to_owned(), now).unwrap();
    assert_eq!(issued.expires_in_s, 86_400);
    let text = issued.text.expose_secret();
    let parts: Vec<Value> = text
        .split('.')
        .take(2)
        .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
        .collect();
    assert_eq!(parts[0], good_header(&fixture));
    let iat = at(0).as_second();
    let expected = json!({
        "iss": "svc-api-v2", "sub": "c", "client_id": "c", "aud": "svc", "exp": iat + 86_400, "iat": iat,
        "iat_us": iat * 1_000_000 + 250_000, "jti": "j1", "scopes": ["individual:read", "group:all"]
    });
    assert_eq!(parts[1], expected);
    let expected = VerifiedToken {
        id: "j1".to_owned(),
        client_id,
        scopes: granted,
        issued_at: now,
        expires_at: at(86_400),
        key_id: fixture.keys.current().id().into(),
    };
    assert_eq!(verify(text, &fixture.keys, &fixture.config, now), Ok(expected));
}

#[test]
fn a_token_expires_exactly_at_exp() {
    let fixture = Fixture::new();
    let token = fixture.token("c", "", at(0));
    let last = at(86_400) - SignedDuration::from_micros(1);
    assert!(verify(&token, &fixture.keys, &fixture.config, last).is_ok());
    for now in [at(86_400), at(86_401), at(1_000_000)] {
        assert_eq!(verify(&token, &fixture.keys, &fixture.config, now), Err(TokenFault::Expired));
    }
}

#[test]
fn a_token_of_a_retained_older_key_is_accepted() {
    let fixture = Fixture::new();
    let token = fixture.token("c", "", at(0));
    let path = fixture.folder.path().join("keys/token.json");
    let mut form: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let newer = json!({
        "kid": "newer", "created_at": "2026-03-01T12:00:00Z", "secret": "pYAHQwvYLWXCIdlGWcm_TJmEaGfCTmheT_vR2Ozd5Dc"
    });
    form["keys"].as_array_mut().unwrap().insert(0, newer);
    std::fs::write(&path, form.to_string()).unwrap();
    let keys = fixture.keys_on_disk(at(1));
    assert!(verify(&token, &keys, &fixture.config, at(1)).is_ok());
    form["keys"].as_array_mut().unwrap().pop();
    std::fs::write(&path, form.to_string()).unwrap();
    let keys = fixture.keys_on_disk(at(1));
    assert_eq!(verify(&token, &keys, &fixture.config, at(1)), Err(TokenFault::Malformed(TokenDefect::UnknownKey)));
}

#[test]
fn rejects_a_forged_header_even_with_a_valid_signature() {
    let fixture = Fixture::new();
    let key = fixture.signing_key();
    let kid = fixture.keys.current().id();
    let claims = good_claims().to_string();
    let baseline = forge(&good_header(&fixture).to_string(), &claims, Signature::Key(&key));
    assert!(verify(&baseline, &fixture.keys, &fixture.config, at(1)).is_ok(), "forging works");
    let cases = [
        (json!({"alg": "none", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "None", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "hs256", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "RS256", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "ES256", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "HS384", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": "HS512", "typ": "at+jwt", "kid": kid}), TokenDefect::Algorithm),
        (json!({"alg": ["HS256"], "typ": "at+jwt", "kid": kid}), TokenDefect::Header),
        (json!({"typ": "at+jwt", "kid": kid}), TokenDefect::Header),
        (json!({"alg": "HS256", "kid": kid}), TokenDefect::Type),
        (json!({"alg": "HS256", "typ": "JWT", "kid": kid}), TokenDefect::Type),
        (json!({"alg": "HS256", "typ": "at+jwt"}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": ""}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": "other"}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": format!("{kid}\u{0}")}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": kid.to_uppercase() + "A"}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": "../../../../dev/null"}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": "' OR 1=1 --"}), TokenDefect::UnknownKey),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": [kid]}), TokenDefect::Header),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": 0}), TokenDefect::Header),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": kid, "jwk": {"kty": "oct", "k": "AAAA"}}), TokenDefect::Header),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": kid, "jku": "https://evil.example/"}), TokenDefect::Header),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": kid, "x5u": "https://evil.example/"}), TokenDefect::Header),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": kid, "crit": ["b64"], "b64": false}), TokenDefect::Header),
        (json!({"alg": "HS256", "typ": "at+jwt", "kid": kid, "zip": "DEF"}), TokenDefect::Header),
        (json!([]), TokenDefect::Header),
        (json!("HS256"), TokenDefect::Header),
    ];
    for (header, expected) in cases {
        let token = forge(&header.to_string(), &claims, Signature::Key(&key));
        assert_eq!(defect(&fixture, &token, at(1)), expected, "{header}");
    }
    let twice = format!("{{\"alg\":\"none\",\"alg\":\"HS256\",\"typ\":\"at+jwt\",\"kid\":\"{kid}\"}}");
    assert_eq!(defect(&fixture, &forge(&twice, &claims, Signature::Key(&key)), at(1)), TokenDefect::Header);
}

#[test]
fn rejects_a_token_without_a_valid_signature() {
    let fixture = Fixture::new();
    let header = good_header(&fixture).to_string();
    let claims = good_claims().to_string();
    let good = fixture.token("c", "individual:read", at(0));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (signed_header, payload) = message.split_once('.').unwrap();
    let raised = String::from_utf8(URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    let raised = raised.replace("individual:read", "individual:all");
    let rsa_public_key = b"-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK\n-----END PUBLIC KEY-----\n";
    let forged = [
        ("none", forge(&header, &claims, Signature::Text(""))),
        ("wrong key", forge(&header, &claims, Signature::Key(&[7; 32]))),
        ("empty key", forge(&header, &claims, Signature::Key(&[]))),
        ("a public key as the HMAC key", forge(&header, &claims, Signature::Key(rsa_public_key))),
        ("the key id as the key", forge(&header, &claims, Signature::Key(fixture.keys.current().id().as_bytes()))),
        ("added scopes", format!("{signed_header}.{}.{signature}", encode(&raised))),
        ("the signature of another token", forge(&header, &claims, Signature::Text(signature))),
        ("cut signature", good[..good.len() - 1].to_owned()),
        ("half a signature", format!("{message}.{}", &signature[..22])),
        ("padded signature", format!("{good}=")),
        ("standard base64", format!("{message}.{}", signature.replace(['-', '_'], "+"))),
    ];
    for (name, token) in forged {
        if token != good {
            assert_eq!(defect(&fixture, &token, at(1)), TokenDefect::Signature, "{name}");
        }
    }
}

#[test]
fn rejects_texts_without_three_parts() {
    let fixture = Fixture::new();
    let good = fixture.token("c", "", at(0));
    let texts = ["", ".", "..", "a", "a.b", "a.b.c.d", &format!("{good}."), &format!(".{good}"), &format!("{good}.x")];
    for text in texts {
        let found = defect(&fixture, text, at(1));
        assert!(matches!(found, TokenDefect::Shape | TokenDefect::Header), "{text}: {found:?}");
    }
}

#[test]
fn bounds_the_size_before_anything_else() {
    let fixture = Fixture::new();
    let key = fixture.signing_key();
    let header = good_header(&fixture).to_string();
    let claims = |padding: usize| claims_with("padding", json!("x".repeat(padding)));
    let mut padding = 0;
    while forge(&header, &claims(padding + 1), Signature::Key(&key)).len() <= TOKEN_BYTES_MAX {
        padding += 1;
    }
    let biggest = forge(&header, &claims(padding), Signature::Key(&key));
    assert!(verify(&biggest, &fixture.keys, &fixture.config, at(1)).is_ok());
    let too_big = forge(&header, &claims(padding + 4), Signature::Key(&key));
    assert_eq!(defect(&fixture, &too_big, at(1)), TokenDefect::TooLong);
    assert_eq!(defect(&fixture, &"a.".repeat(1 << 20), at(1)), TokenDefect::TooLong);
    assert_eq!(defect(&fixture, &"a".repeat(TOKEN_BYTES_MAX), at(1)), TokenDefect::Shape);
    assert_eq!(defect(&fixture, &"a".repeat(TOKEN_BYTES_MAX + 1), at(1)), TokenDefect::TooLong);
    let long_header = json!({"alg": "HS256", "typ": "at+jwt", "kid": "k".repeat(400)}).to_string();
    assert_eq!(defect(&fixture, &forge(&long_header, "{}", Signature::Key(&key)), at(1)), TokenDefect::Shape);
    // White space is JSON too; four characters of base64 stand for three bytes.
    let padded = |bytes: usize| format!("{header}{}", " ".repeat(bytes - header.len()));
    let of_header = |header: String| forge(&header, &good_claims().to_string(), Signature::Key(&key));
    let longest = of_header(padded(HEADER_BYTES_MAX / 4 * 3));
    assert!(verify(&longest, &fixture.keys, &fixture.config, at(1)).is_ok());
    let longer = of_header(padded(HEADER_BYTES_MAX / 4 * 3 + 1));
    assert_eq!(defect(&fixture, &longer, at(1)), TokenDefect::Shape);
    let nested = format!("{}{}", "[".repeat(180), "]".repeat(180));
    assert_eq!(defect(&fixture, &forge(&nested, "{}", Signature::Key(&key)), at(1)), TokenDefect::Header);
}

#[test]
fn a_token_with_every_scope_that_exists_fits() {
    let fixture = Fixture::new();
    let every = daftar_domain::scope::Resource::ALL
        .into_iter()
        .flat_map(|resource| daftar_domain::scope::Action::ALL.map(|action| Scope::new(resource, action)));
    let every: ScopeSet = every.collect();
    let id = ClientId::parse(&"c".repeat(64)).unwrap();
    let issued = issue(&fixture.keys, &fixture.config, &id, &every, "j".repeat(32), at(0)).unwrap();
    assert_eq!(verify(issued.text.expose_secret(), &fixture.keys, &fixture.config, at(0)).unwrap().scopes, every);
}

#[test]
fn rejects_invalid_claims_even_with_a_valid_signature() {
    let fixture = Fixture::new();
    let key = fixture.signing_key();
    let header = good_header(&fixture).to_string();
    let now = at(1);
    let next = at(2).as_second();
    let cases = [
        ("iss", json!("other"), TokenDefect::Issuer),
        ("iss", json!("svc-api-v2 "), TokenDefect::Issuer),
        ("iss", json!(["svc-api-v2"]), TokenDefect::Claims),
        ("aud", json!("other"), TokenDefect::Audience),
        ("aud", json!(["svc"]), TokenDefect::Claims),
        ("exp", json!("never"), TokenDefect::Claims),
        ("exp", json!(1e300), TokenDefect::Claims),
        ("exp", json!(i64::MAX), TokenDefect::Claims),
        ("iat", json!(next), TokenDefect::IssuedInFuture),
        ("iat", json!(i64::MAX), TokenDefect::Claims),
        ("iat", json!(i64::MIN), TokenDefect::Claims),
        ("iat", json!("2026"), TokenDefect::Claims),
        ("iat_us", json!(at(1).as_microsecond()), TokenDefect::Claims),
        ("nbf", json!(next), TokenDefect::NotYetValid),
        ("nbf", json!(i64::MAX), TokenDefect::NotYetValid),
        ("nbf", json!("now"), TokenDefect::Claims),
        ("sub", json!("other"), TokenDefect::Subject),
        ("client_id", json!("other"), TokenDefect::Subject),
        ("scopes", json!("individual:read"), TokenDefect::Claims),
        ("scopes", json!(["individual:read", "root:all"]), TokenDefect::Scopes),
        ("scopes", json!([["individual:read"]]), TokenDefect::Claims),
    ];
    for (name, value, expected) in cases {
        let token = forge(&header, &claims_with(name, value.clone()), Signature::Key(&key));
        assert_eq!(defect(&fixture, &token, now), expected, "{name} = {value}");
    }
    for name in ["iss", "sub", "client_id", "aud", "exp", "iat", "jti", "scopes"] {
        let token = forge(&header, &claims_with(name, Value::Null), Signature::Key(&key));
        assert_eq!(defect(&fixture, &token, now), TokenDefect::Claims, "without {name}");
    }
    let no_client = good_claims().to_string().replace("\"c\"", "\"c d\"");
    assert_eq!(defect(&fixture, &forge(&header, &no_client, Signature::Key(&key)), now), TokenDefect::Subject);
    let twice = good_claims().to_string().replacen('{', "{\"exp\":9999999999,", 1);
    let not_json = ["", "{", "null", "[]", "\"x\"", twice.as_str(), &"[".repeat(400), &"{\"scopes\":".repeat(200)];
    for claims in not_json {
        let token = forge(&header, claims, Signature::Key(&key));
        assert_eq!(defect(&fixture, &token, now), TokenDefect::Claims, "{claims:.40}");
    }
}

#[test]
fn a_token_is_valid_from_its_nbf_on() {
    let fixture = Fixture::new();
    let (key, header) = (fixture.signing_key(), good_header(&fixture).to_string());
    for second in [0, 1] {
        let token = forge(&header, &claims_with("nbf", json!(at(second).as_second())), Signature::Key(&key));
        verify(&token, &fixture.keys, &fixture.config, at(1)).unwrap();
    }
}

#[test]
fn exp_is_checked_before_iat() {
    let fixture = Fixture::new();
    let key = fixture.signing_key();
    let header = good_header(&fixture).to_string();
    let expired = claims_with("exp", json!(at(9).as_second()));
    let token = forge(&header, &expired, Signature::Key(&key));
    assert_eq!(verify(&token, &fixture.keys, &fixture.config, at(10)), Err(TokenFault::Expired));
    assert!(verify(&token, &fixture.keys, &fixture.config, at(8)).is_ok());
    let negative = forge(&header, &claims_with("exp", json!(i64::MIN)), Signature::Key(&key));
    assert_eq!(verify(&negative, &fixture.keys, &fixture.config, at(10)), Err(TokenFault::Expired));
}
