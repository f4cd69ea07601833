//! Authentication of API calls: from the `Authorization` header to the client and its current scopes.
//!
//! The verified token may come from the token cache. Everything that can change during the lifetime of a token (the
//! client, its grants and its `not_before`) is looked up on every call, after the cache.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::directory::ClientDirectory;
use super::keys::TokenKeys;
use super::token::{TokenDefect, TokenFault, VerifiedToken};
use super::token_cache::TokenCache;
use daftar_domain::client::Client;
use daftar_domain::config::TokenConfig;
use daftar_domain::scope::ScopeSet;

/// Authenticates API calls by their bearer token.
#[derive(Debug, Clone, Copy)]
pub struct Authenticator<'a> {
    /// The clients.
    pub directory: &'a ClientDirectory,
    /// The active keys.
    pub keys: &'a TokenKeys,
    /// Tokens that were verified before.
    pub cache: &'a TokenCache,
    /// Issuer and audience.
    pub config: &'a TokenConfig,
}

/// A caller with a valid token and an active client.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The current version of the client.
    pub client: Arc<Client>,
    /// The effective scopes: the token's scopes within the client's current grants.
    pub scopes: ScopeSet,
    /// The verified token.
    pub token: Arc<VerifiedToken>,
}

/// The reason why a caller is not authenticated.
#[derive(Debug, Clone)]
pub struct AuthFault {
    /// The kind of fault.
    pub kind: AuthFaultKind,
    /// The client of the token, for the audit log, if the token is valid and the client exists. `None` if the fault
    /// came before the client was known: a claim of an invalid token is never used.
    pub client: Option<Arc<Client>>,
}

/// The kinds of authentication faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFaultKind {
    /// No `Authorization` header, or one of another scheme than `Bearer`.
    Missing,
    /// The request has more than one `Authorization` header.
    SeveralHeaders,
    /// The `Bearer` header has no token.
    HeaderText,
    /// The token was not issued by this registry or has another audience.
    Token(TokenDefect),
    /// The token is past its `exp`.
    Expired,
    /// The client's tokens up to some timestamp were revoked, this one included.
    Revoked,
    /// The client was deleted.
    UnknownClient,
    /// The client is disabled.
    Disabled,
}

/// The rate-limit bucket that a rejected call is counted in.
#[derive(Debug, Clone, Copy)]
pub enum ChargedTo<'a> {
    /// The unauthenticated bucket of the caller's address.
    Address,
    /// The bucket of this client.
    Client(&'a Arc<Client>),
}

impl AuthFault {
    fn before_client(kind: AuthFaultKind) -> Self {
        Self { kind, client: None }
    }

    fn of(kind: AuthFaultKind, client: Arc<Client>) -> Self {
        Self { kind, client: Some(client) }
    }

    /// Returns the bucket that the call is counted in: the address's, unless the client is known and the token is not
    /// revoked.
    ///
    /// A revoked token is charged to the address although its client is known: otherwise a stolen token could use up
    /// the quota of the client that revoked it.
    #[must_use]
    pub fn charged_to(&self) -> ChargedTo<'_> {
        match (self.kind, &self.client) {
            (AuthFaultKind::Disabled, Some(client)) => ChargedTo::Client(client),
            _ => ChargedTo::Address,
        }
    }

    /// Returns true if the token was signed by a key that is not known here.
    #[must_use]
    pub fn is_of_unknown_key(&self) -> bool {
        self.kind == AuthFaultKind::Token(TokenDefect::UnknownKey)
    }

    /// Returns true if the token is valid and the fault is the state of its client.
    #[must_use]
    pub fn is_of_client(&self) -> bool {
        match self.kind {
            AuthFaultKind::UnknownClient | AuthFaultKind::Disabled | AuthFaultKind::Revoked => true,
            AuthFaultKind::Missing
            | AuthFaultKind::SeveralHeaders
            | AuthFaultKind::HeaderText
            | AuthFaultKind::Token(_)
            | AuthFaultKind::Expired => false,
        }
    }

    /// Returns true if the token is valid and its client is not known here.
    #[must_use]
    pub fn is_of_unknown_client(&self) -> bool {
        self.kind == AuthFaultKind::UnknownClient
    }

    /// Returns true if the call had no credentials: the challenge then names no error (RFC 6750 §3.1).
    #[must_use]
    pub fn is_without_credentials(&self) -> bool {
        self.kind == AuthFaultKind::Missing
    }
}

impl fmt::Display for AuthFault {
    /// Formats the reason that the client may read: missing, malformed, expired or disabled, without details. A valid
    /// token with an `iat` in the future has a separate text, so that the operator detects the clock skew between
    /// servers.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            AuthFaultKind::Missing => "the access token is missing: send it as `Authorization: Bearer <token>`",
            AuthFaultKind::Token(TokenDefect::IssuedInFuture) => {
                "the access token is malformed: it was issued in the future, so the clock of the server that issued it and the clock of this one differ"
            }
            AuthFaultKind::SeveralHeaders | AuthFaultKind::HeaderText | AuthFaultKind::Token(_) => {
                "the access token is malformed"
            }
            AuthFaultKind::Expired | AuthFaultKind::Revoked => "the access token has expired: get a new one",
            AuthFaultKind::UnknownClient | AuthFaultKind::Disabled => "the client is disabled",
        })
    }
}

/// Authenticates a request from the values of all its `Authorization` headers.
///
/// # Errors
/// The first fault in this order: header, signature, `iss`, `aud`, `exp`, `iat`, client, `not_before`.
pub fn authenticate<'a>(
    authorization: impl IntoIterator<Item = &'a [u8]>,
    door: Authenticator<'_>,
    now: Timestamp,
) -> Result<Authenticated, AuthFault> {
    let Authenticator { directory, keys, cache, config } = door;
    let text = bearer_token(authorization).map_err(AuthFault::before_client)?;
    let token = cache.verify(text, keys, config, now).map_err(|fault| {
        AuthFault::before_client(match fault {
            TokenFault::Malformed(defect) => AuthFaultKind::Token(defect),
            TokenFault::Expired => AuthFaultKind::Expired,
        })
    })?;
    let Some(client) = directory.find(&token.client_id) else {
        return Err(AuthFault::before_client(AuthFaultKind::UnknownClient));
    };
    if !client.is_active() {
        return Err(AuthFault::of(AuthFaultKind::Disabled, client));
    }
    if client.not_before.is_some_and(|not_before| token.issued_at <= not_before) {
        return Err(AuthFault::of(AuthFaultKind::Revoked, client));
    }
    let scopes = token.scopes.intersection(&client.grants.scopes());
    Ok(Authenticated { client, scopes, token })
}

/// Returns the token of the only `Bearer` header.
fn bearer_token<'a>(authorization: impl IntoIterator<Item = &'a [u8]>) -> Result<&'a str, AuthFaultKind> {
    let mut values = authorization.into_iter();
    let value = values.next().ok_or(AuthFaultKind::Missing)?;
    if values.next().is_some() {
        return Err(AuthFaultKind::SeveralHeaders);
    }
    let value = value.trim_ascii();
    let scheme_end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at(scheme_end);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(AuthFaultKind::Missing);
    }
    let text = std::str::from_utf8(rest).map_err(|_| AuthFaultKind::HeaderText)?.trim_matches(' ');
    let is_token = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if text.is_empty() || !is_token { Err(AuthFaultKind::HeaderText) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fixture, at, scopes};
    use daftar_domain::client::{ClientId, ClientStatus};

    fn call(fixture: &Fixture, values: &[&str], now: Timestamp) -> Result<Authenticated, AuthFaultKind> {
        let values = values.iter().map(|value| value.as_bytes());
        authenticate(values, fixture.authenticator(), now).map_err(|fault| fault.kind)
    }

    #[test]
    fn effective_scopes_are_those_in_both_token_and_grants() {
        let fixture = Fixture::new();
        fixture.put_client("c", |client| client.grants = scopes("individual:read group:all").iter().collect());
        let token = fixture.token("c", "individual:all group:read program:read", at(0));
        for scheme in ["Bearer ", "bearer ", "BEARER ", "bEaReR   "] {
            let caller = call(&fixture, &[&format!("{scheme}{token}")], at(1)).unwrap();
            assert_eq!(caller.client.id.as_str(), "c");
            assert_eq!(caller.scopes, scopes("individual:read group:read"));
            assert_eq!(caller.token.issued_at, at(0));
        }
    }

    #[test]
    fn rejects_every_header_that_is_not_one_bearer_token() {
        let fixture = Fixture::new();
        fixture.put_client("c", |_| {});
        let good = format!("Bearer {}", fixture.token("c", "", at(0)));
        let missing: [&[&str]; 5] = [&[], &[""], &["Basic YTpi"], &["Token x"], &["Bearerx y"]];
        for values in missing {
            assert_eq!(call(&fixture, values, at(1)).unwrap_err(), AuthFaultKind::Missing, "{values:?}");
        }
        for text in ["Bearer", "Bearer ", "bearer a b", "Bearer a,b", "Bearer \"x\"", "Bearer é"] {
            assert_eq!(call(&fixture, &[text], at(1)).unwrap_err(), AuthFaultKind::HeaderText, "{text}");
        }
        for values in [[good.as_str(), good.as_str()], ["Basic YTpi", good.as_str()]] {
            assert_eq!(call(&fixture, &values, at(1)).unwrap_err(), AuthFaultKind::SeveralHeaders);
        }
        let not_text: [&[u8]; 1] = [b"Bearer \xff"];
        let fault = authenticate(not_text, fixture.authenticator(), at(1)).unwrap_err();
        assert_eq!(fault.kind, AuthFaultKind::HeaderText);
    }

    #[test]
    fn a_disabled_client_is_rejected_on_its_next_call_and_old_tokens_stay_rejected() {
        let fixture = Fixture::new();
        fixture.put_client("c", |_| {});
        let before = format!("Bearer {}", fixture.token("c", "", at(0)));
        assert!(call(&fixture, &[&before], at(10)).is_ok());
        fixture.put_client("c", |client| {
            client.status = ClientStatus::Disabled;
            client.not_before = Some(at(10));
        });
        assert_eq!(call(&fixture, &[&before], at(10)).unwrap_err(), AuthFaultKind::Disabled);
        fixture.put_client("c", |client| client.not_before = Some(at(10)));
        assert_eq!(call(&fixture, &[&before], at(11)).unwrap_err(), AuthFaultKind::Revoked);
        let same_instant = format!("Bearer {}", fixture.token("c", "", at(10)));
        assert_eq!(call(&fixture, &[&same_instant], at(11)).unwrap_err(), AuthFaultKind::Revoked);
        let later_that_second = at(10) + jiff::SignedDuration::from_micros(1);
        let after = format!("Bearer {}", fixture.token("c", "", later_that_second));
        assert!(call(&fixture, &[&after], at(11)).is_ok());
    }

    #[test]
    fn a_revoked_grant_applies_to_tokens_issued_before() {
        let fixture = Fixture::new();
        fixture.put_client("c", |client| client.grants = scopes("individual:all").iter().collect());
        let token = format!("Bearer {}", fixture.token("c", "individual:read", at(0)));
        assert_eq!(call(&fixture, &[&token], at(1)).unwrap().scopes, scopes("individual:read"));
        fixture.put_client("c", |client| client.grants = scopes("group:read").iter().collect());
        assert!(call(&fixture, &[&token], at(1)).unwrap().scopes.is_empty());
    }

    #[test]
    fn charges_the_address_unless_a_valid_and_unrevoked_token_identifies_the_client() {
        let fixture = Fixture::new();
        fixture.put_client("off", |client| client.status = ClientStatus::Disabled);
        fixture.put_client("rotated", |client| client.not_before = Some(at(5)));
        let fault = |id: &str| {
            let value = format!("Bearer {}", fixture.token(id, "", at(0)));
            authenticate([value.as_bytes()], fixture.authenticator(), at(6)).unwrap_err()
        };
        let off = fault("off");
        assert!(matches!(off.charged_to(), ChargedTo::Client(client) if client.id == ClientId::parse("off").unwrap()));
        let rotated = fault("rotated");
        assert!(matches!(rotated.charged_to(), ChargedTo::Address));
        assert!(rotated.client.is_some());
        let gone = fault("gone");
        assert_eq!(gone.kind, AuthFaultKind::UnknownClient);
        assert!(matches!(gone.charged_to(), ChargedTo::Address) && gone.client.is_none());
    }

    #[test]
    fn each_question_about_a_fault_is_true_of_its_kinds_alone() {
        let kinds = [
            AuthFaultKind::Missing,
            AuthFaultKind::SeveralHeaders,
            AuthFaultKind::HeaderText,
            AuthFaultKind::Token(TokenDefect::UnknownKey),
            AuthFaultKind::Token(TokenDefect::IssuedInFuture),
            AuthFaultKind::Expired,
            AuthFaultKind::Revoked,
            AuthFaultKind::UnknownClient,
            AuthFaultKind::Disabled,
        ];
        let of = |question: fn(&AuthFault) -> bool| -> Vec<AuthFaultKind> {
            kinds.into_iter().filter(|kind| question(&AuthFault::before_client(*kind))).collect()
        };
        assert_eq!(of(AuthFault::is_of_unknown_key), [AuthFaultKind::Token(TokenDefect::UnknownKey)]);
        let of_client = [AuthFaultKind::Revoked, AuthFaultKind::UnknownClient, AuthFaultKind::Disabled];
        assert_eq!(of(AuthFault::is_of_client), of_client);
        assert_eq!(of(AuthFault::is_of_unknown_client), [AuthFaultKind::UnknownClient]);
        assert_eq!(of(AuthFault::is_without_credentials), [AuthFaultKind::Missing]);
    }

    #[test]
    fn the_client_gets_one_of_four_messages() {
        let kinds = [
            (AuthFaultKind::Missing, "missing"),
            (AuthFaultKind::SeveralHeaders, "malformed"),
            (AuthFaultKind::HeaderText, "malformed"),
            (AuthFaultKind::Token(TokenDefect::UnknownKey), "malformed"),
            (AuthFaultKind::Expired, "expired"),
            (AuthFaultKind::Revoked, "expired"),
            (AuthFaultKind::UnknownClient, "disabled"),
            (AuthFaultKind::Disabled, "disabled"),
        ];
        for (kind, word) in kinds {
            let reported = AuthFault::before_client(kind).to_string();
            assert!(reported.contains(word) && !reported.contains("clock"), "{reported}");
        }
        let future = AuthFault::before_client(AuthFaultKind::Token(TokenDefect::IssuedInFuture)).to_string();
        assert!(future.contains("malformed") && future.contains("clock"), "{future}");
        // The text is used verbatim in a quoted string of a header.
        assert!(future.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')));
    }

    #[test]
    fn a_token_of_a_server_with_a_fast_clock_differs_from_other_malformed_ones() {
        let fixture = Fixture::new();
        fixture.put_client("c", |_| {});
        let ahead = format!("Bearer {}", fixture.token("c", "", at(600)));
        assert_eq!(call(&fixture, &[&ahead], at(1)).unwrap_err(), AuthFaultKind::Token(TokenDefect::IssuedInFuture));
        assert!(call(&fixture, &[&ahead], at(600)).is_ok());
    }
}
