//! Tests of all valid and invalid forms of a token request.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use secrecy::ExposeSecret;

use super::*;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const GRANT: &str = "grant_type=client_credentials";

fn basic(text: &str) -> String {
    format!("Basic {}", STANDARD.encode(text))
}

fn parse(content_type: &[&str], authorization: &[&str], body: &[u8]) -> Result<TokenRequest, OAuthError> {
    let content_type: Vec<&[u8]> = content_type.iter().map(|value| value.as_bytes()).collect();
    let authorization: Vec<&[u8]> = authorization.iter().map(|value| value.as_bytes()).collect();
    let parts = TokenRequestParts { content_type: &content_type, authorization: &authorization, body, ..EMPTY };
    TokenRequest::parse(&parts)
}

const EMPTY: TokenRequestParts<'_> =
    TokenRequestParts { query: None, content_type: &[], content_encoding: &[], authorization: &[], body: &[] };

fn understood(content_type: &str, authorization: &[&str], body: &str) -> (String, String, Option<String>) {
    let request = parse(&[content_type], authorization, body.as_bytes()).unwrap();
    (request.client_id, request.client_secret.expose_secret().to_owned(), request.scope)
}

fn plain(id: &str, secret: &str) -> (String, String, Option<String>) {
    (id.to_owned(), secret.to_owned(), None)
}

#[test]
fn reads_all_three_forms() {
    assert_eq!(understood(FORM, &[&basic("a:b")], GRANT), plain("a", "b"));
    let body = "client_secret=b&grant_type=client_credentials&client_id=a&scope=individual%3Aread+group:all&x=1&x=2";
    let (_, _, scope) = understood(FORM, &[], body);
    assert_eq!(scope.as_deref(), Some("individual:read group:all"));
    let body = r#"{"grant_type": "client_credentials", "client_id": "a", "client_secret": "b", "more": [1, {"x": null}], "more": 2}"#;
    assert_eq!(understood(JSON, &[], body), plain("a", "b"));
    assert_eq!(understood(JSON, &[], &body.replace("client_id", "client\\u005fid")), plain("a", "b"));
}

#[test]
fn accepts_equivalent_notations() {
    let body = format!("&{GRANT}&&client_id=a&client_secret=b&scope=&lone&=x");
    for content_type in [
        FORM,
        "APPLICATION/X-WWW-Form-Urlencoded",
        "application/x-www-form-urlencoded; charset=utf-8",
        "application/x-www-form-urlencoded;charset=\"UTF-8\" ; x=y",
        " application/x-www-form-urlencoded ;",
    ] {
        assert_eq!(understood(content_type, &[], &body), plain("a", "b"), "{content_type}");
    }
    let encoded = "gr%61nt_type=client%5fcredentials&client%5Fid=a&client_secret=b";
    assert_eq!(understood(FORM, &[], encoded), plain("a", "b"));
    let unpadded = format!("bAsIc   {}", STANDARD_NO_PAD.encode("a:bc"));
    assert_eq!(understood(FORM, &[&unpadded], GRANT), plain("a", "bc"));
}

#[test]
fn form_decodes_the_two_halves_of_basic() {
    for (sent, id, secret) in
        [("a:b:c", "a", "b:c"), ("a%3Ab:c%3ad", "a:b", "c:d"), ("a+b:c%2Bd", "a b", "c+d"), ("a:%C3%A9%25", "a", "é%")]
    {
        assert_eq!(understood(FORM, &[&basic(sent)], GRANT), plain(id, secret), "{sent}");
    }
}

/// Content types, authorizations, body; the expected error and a part of its description.
type Case<'a> = (&'a [&'a str], Vec<&'a str>, &'a str, OAuthErrorCode, &'a str);

#[test]
fn rejects_every_malformed_request_with_the_reason() {
    use OAuthErrorCode::{InvalidClient, InvalidRequest, UnsupportedGrantType};
    let whole = format!("{GRANT}&client_id=a&client_secret=b");
    let whole = whole.as_str();
    let long = format!("{whole}&x={}", "x".repeat(TOKEN_REQUEST_BYTES_MAX));
    let deep = format!("{{\"x\": {}", "[".repeat(4000));
    let (good, other) = (basic("a:b"), basic("c:d"));
    let (no_colon, no_id, no_secret) = (basic("ab"), basic(":b"), basic("a:"));
    let (bad_percent, cut_percent, bad_bytes) = (basic("a:b%zz"), basic("a:b%4"), basic("a:%ff"));
    let cases: Vec<Case<'_>> = vec![
        (&[], vec![], whole, InvalidRequest, "Content-Type header is missing"),
        (&[FORM, FORM], vec![], whole, InvalidRequest, "more than one Content-Type"),
        (&["text/plain"], vec![], whole, InvalidRequest, "Content-Type must be"),
        (&[""], vec![], whole, InvalidRequest, "Content-Type must be"),
        (&["application/jsonx"], vec![], "{}", InvalidRequest, "Content-Type must be"),
        (&["multipart/form-data; boundary=x"], vec![], whole, InvalidRequest, "Content-Type must be"),
        (&["application/json; charset=utf-16"], vec![], "{}", InvalidRequest, "charset"),
        (&["application/x-www-form-urlencoded; charset=iso-8859-1"], vec![], whole, InvalidRequest, "charset"),
        (&[FORM], vec![], &long, InvalidRequest, "longer than"),
        (&[FORM], vec![], "\u{feff}grant_type=client_credentials", InvalidRequest, "byte order mark"),
        (&[JSON], vec![], "\u{feff}{}", InvalidRequest, "byte order mark"),
        (&[FORM], vec![], "grant_type=%ff", InvalidRequest, "form-encoded"),
        (&[FORM], vec![], "grant_type=%zz", InvalidRequest, "form-encoded"),
        (&[FORM], vec![], "grant_type=%4", InvalidRequest, "form-encoded"),
        (&[FORM], vec![], "%=client_credentials", InvalidRequest, "form-encoded"),
        (&[FORM], vec![], "", InvalidRequest, "grant_type is missing"),
        (&[FORM], vec![], "grant_type=&client_id=a&client_secret=b", InvalidRequest, "grant_type is missing"),
        (&[FORM], vec![], "client_id=a&client_secret=b", InvalidRequest, "grant_type is missing"),
        (&[FORM], vec![], "grant_type=password&client_id=a", UnsupportedGrantType, "not supported"),
        (&[FORM], vec![], "grant_type=Client_Credentials", UnsupportedGrantType, "not supported"),
        (&[FORM], vec![], "grant_type=client_credentials%20", UnsupportedGrantType, "not supported"),
        (&[FORM], vec![&good], "grant_type=refresh_token", UnsupportedGrantType, "not supported"),
        (&[JSON], vec![], r#"{"grant_type": "authorization_code"}"#, UnsupportedGrantType, "not supported"),
        (&[FORM], vec![], GRANT, InvalidRequest, "client_id is missing"),
        (&[FORM], vec![], "grant_type=client_credentials&client_secret=b", InvalidRequest, "client_id is missing"),
        (&[FORM], vec![], "grant_type=client_credentials&client_id=a", InvalidRequest, "client_secret is missing"),
        (
            &[FORM],
            vec![],
            "grant_type=client_credentials&client_id=a&client_secret=",
            InvalidRequest,
            "client_secret is missing",
        ),
        (
            &[FORM],
            vec![],
            "grant_type=client_credentials&grant_type=client_credentials",
            InvalidRequest,
            "grant_type is given more than once",
        ),
        (
            &[FORM],
            vec![],
            "grant_type=client_credentials&client_id=a&client_secret=b&client_id=a",
            InvalidRequest,
            "client_id is given more than once",
        ),
        (&[FORM], vec![], "client_secret=b&client%5Fsecret=c", InvalidRequest, "client_secret is given more than once"),
        (&[FORM], vec![], "scope=&scope=individual:read", InvalidRequest, "scope is given more than once"),
        (&[FORM], vec![&good], whole, InvalidRequest, "in two ways"),
        (&[FORM], vec![&good], "grant_type=client_credentials&client_id=a", InvalidRequest, "in two ways"),
        (&[FORM], vec![&good], "grant_type=client_credentials&client_secret=b", InvalidRequest, "in two ways"),
        (&[FORM], vec![&good, &other], GRANT, InvalidRequest, "more than one Authorization"),
        (&[FORM], vec![&good, &good], GRANT, InvalidRequest, "more than one Authorization"),
        (&[JSON], vec![&good], r#"{"grant_type": "client_credentials"}"#, InvalidRequest, "form body"),
        (&[FORM], vec!["Bearer abc"], GRANT, InvalidClient, "no other scheme is"),
        (&[FORM], vec!["Bearer abc"], whole, InvalidClient, "no other scheme is"),
        (&[FORM], vec![""], whole, InvalidClient, "no other scheme is"),
        (&[FORM], vec!["Basic"], GRANT, InvalidRequest, "no colon"),
        (&[FORM], vec!["Basic !!!"], GRANT, InvalidRequest, "not base64"),
        (&[FORM], vec!["Basic YTpi YTpi"], GRANT, InvalidRequest, "not base64"),
        (&[FORM], vec!["Basic /////w=="], GRANT, InvalidRequest, "not UTF-8"),
        (&[FORM], vec![&no_colon], GRANT, InvalidRequest, "no colon"),
        (&[FORM], vec![&no_id], GRANT, InvalidRequest, "client_id in the HTTP Basic"),
        (&[FORM], vec![&no_secret], GRANT, InvalidRequest, "client_secret in the HTTP Basic"),
        (&[FORM], vec![&bad_percent], GRANT, InvalidRequest, "client_secret in the HTTP Basic credentials is not form"),
        (&[FORM], vec![&cut_percent], GRANT, InvalidRequest, "not form-encoded"),
        (&[FORM], vec![&bad_bytes], GRANT, InvalidRequest, "not form-encoded"),
        (&[JSON], vec![], "", InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], whole, InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], "null", InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], "[]", InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], "\"x\"", InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], "{", InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], "{} {}", InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], &deep, InvalidRequest, "not a JSON object"),
        (&[JSON], vec![], "{}", InvalidRequest, "grant_type is missing"),
        (&[JSON], vec![], r#"{"grant_type": 1}"#, InvalidRequest, "grant_type must be a string"),
        (
            &[JSON],
            vec![],
            r#"{"grant_type": "client_credentials", "client_id": null}"#,
            InvalidRequest,
            "client_id must be",
        ),
        (&[JSON], vec![], r#"{"client_secret": ["b"]}"#, InvalidRequest, "client_secret must be a string"),
        (&[JSON], vec![], r#"{"scope": ["individual:read"]}"#, InvalidRequest, "scope must be a string"),
        (
            &[JSON],
            vec![],
            r#"{"client_id": "a", "client_id": "a"}"#,
            InvalidRequest,
            "client_id is given more than once",
        ),
        (
            &[JSON],
            vec![],
            r#"{"client_id": "a", "client\u005fid": "b"}"#,
            InvalidRequest,
            "client_id is given more than once",
        ),
    ];
    for (content_type, authorization, body, code, what) in cases {
        let error = parse(content_type, &authorization, body.as_bytes()).unwrap_err();
        let shown = &body[..body.len().min(80)];
        assert_eq!(error.code, code, "{content_type:?} {authorization:?} {shown}: {error:?}");
        assert!(error.description().contains(what), "{authorization:?} {shown}: {error:?} should contain {what}");
    }
}

#[test]
fn rejects_bytes_that_are_not_text() {
    let error = parse(&[FORM], &[], b"grant_type=client_credentials&client_id=\xff").unwrap_err();
    assert!(error.description().contains("not UTF-8"), "{error:?}");
    let parts = TokenRequestParts { content_type: &[b"application/\xff"], ..EMPTY };
    assert_eq!(TokenRequest::parse(&parts).unwrap_err().code, OAuthErrorCode::InvalidRequest);
    let parts = TokenRequestParts {
        content_type: &[FORM.as_bytes()],
        authorization: &[b"\xff"],
        body: GRANT.as_bytes(),
        ..EMPTY
    };
    assert_eq!(TokenRequest::parse(&parts).unwrap_err().code, OAuthErrorCode::InvalidClient);
}

#[test]
fn rejects_body_fields_in_the_url() {
    let body = format!("{GRANT}&client_id=a&client_secret=b");
    let parts = TokenRequestParts { content_type: &[FORM.as_bytes()], body: body.as_bytes(), ..EMPTY };
    let ask = |query| TokenRequest::parse(&TokenRequestParts { query: Some(query), ..parts });
    for (query, name) in [
        ("client_secret=hidden", "client_secret"),
        ("client_id=a", "client_id"),
        ("x=1&grant_type=client_credentials", "grant_type"),
        ("scope", "scope"),
        ("client%5Fsecret=hidden", "client_secret"),
        ("&&scope=", "scope"),
    ] {
        let error = ask(query).unwrap_err();
        assert_eq!(error.code, OAuthErrorCode::InvalidRequest, "{query}");
        assert!(error.description().contains(&format!("the field {name} is in the URL")), "{query}: {error:?}");
        assert!(!error.description().contains("hidden"), "{error:?}");
    }
    for query in ["", "x=1", "x=client_secret", "Client_Id=a", "%zz=1", "client_secret%zz=1", "a=b&a=b"] {
        assert!(ask(query).is_ok(), "{query}");
    }
}

#[test]
fn rejects_an_encoded_body_and_accepts_a_plain_one() {
    let body = format!("{GRANT}&client_id=a&client_secret=b");
    let ask = |content_encoding: &[&[u8]]| {
        let content_type: &[&[u8]] = &[FORM.as_bytes()];
        TokenRequest::parse(&TokenRequestParts { content_type, content_encoding, body: body.as_bytes(), ..EMPTY })
    };
    for wrong in [&[&b"gzip"[..]][..], &[b"identity", b"br"], &[b"identity, gzip"], &[b""], &[b"\xff"]] {
        let error = ask(wrong).unwrap_err();
        assert!(error.description().contains("without Content-Encoding"), "{error:?}");
    }
    assert!(ask(&[]).is_ok() && ask(&[b" Identity"]).is_ok());
}

#[test]
fn the_body_may_be_exactly_as_long_as_the_limit() {
    let whole = format!("{GRANT}&client_id=a&client_secret=b&x=");
    let body = format!("{whole}{}", "x".repeat(TOKEN_REQUEST_BYTES_MAX - whole.len()));
    assert!(parse(&[FORM], &[], body.as_bytes()).is_ok());
    assert!(parse(&[FORM], &[], format!("{body}x").as_bytes()).is_err());
}

#[test]
fn no_message_and_no_debug_output_repeats_a_secret() {
    let request = parse(&[FORM], &[], format!("{GRANT}&client_id=a&client_secret=hidden").as_bytes()).unwrap();
    assert!(!format!("{request:?}").contains("hidden"));
    let hidden = basic("a:hidden%zz");
    for (authorization, body) in [
        (vec![hidden.as_str()], GRANT.to_owned()),
        (vec![], "grant_type=x&client_secret=hidden".to_owned()),
        (vec![], "client_secret=hidden&client_secret=hidden".to_owned()),
    ] {
        let error = parse(&[FORM], &authorization, body.as_bytes()).unwrap_err();
        assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
    }
}
