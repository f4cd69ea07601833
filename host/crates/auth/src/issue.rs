//! Issuing of tokens for parsed token requests.
//!
//! The caller counts the request in the token bucket of its address first. The brute-force throttling
//! (`failed_sign_ins`) comes after it and delays only rejections.
//!
//! **Invariant:** an unknown id, a wrong secret and a disabled client get the same response after the same work.

use std::sync::Arc;

use jiff::Timestamp;
use secrecy::SecretString;

use super::directory::{Claimed, ClientDirectory};
use super::key_ring::KeyRing;
use super::oauth_error::{OAuthError, OAuthErrorCode};
use super::secret::SecretHasher;
use super::token;
use super::token_request::TokenRequest;
use daftar_domain::client::{Client, ClientId};
use daftar_domain::config::TokenConfig;
use daftar_domain::context::{Clock, IdSource};
use daftar_domain::scope::{Scope, ScopeSet};

/// The most scopes in a request: more than exist.
const SCOPES_ASKED_MAX: usize = 64;

/// The dependencies of issuing a token.
pub struct TokenIssuer<'a> {
    /// The clients.
    pub directory: &'a ClientDirectory,
    /// The hasher of the client secrets.
    pub hasher: &'a SecretHasher,
    /// The signing keys, of which the active ones at the time of issue are used.
    pub keys: &'a KeyRing,
    /// Issuer, audience and lifetime.
    pub config: &'a TokenConfig,
    /// The source of token ids.
    pub ids: &'a dyn IdSource,
}

/// A successful token response.
#[derive(Debug)]
pub struct IssuedResponse {
    /// The token, to be sent once.
    pub access_token: SecretString,
    /// The lifetime of the token in seconds.
    pub expires_in_s: u64,
    /// The granted scopes; an `:all` is not expanded.
    pub scope: ScopeSet,
    /// The token id, for the audit log.
    pub token_id: String,
    /// The client of the token.
    pub client: Arc<Client>,
}

impl TokenIssuer<'_> {
    /// Issues a token as [`Self::issue`], after `refresh` has read changes of clients by other servers. The token is
    /// dated before that, so that a change that was not read rejects it. If a change that was read rejects it too, for
    /// example because the client was enabled again during the request, the token is issued once more.
    ///
    /// # Errors
    /// The error of `refresh`; within the result, the errors of [`Self::issue`].
    pub async fn issue_refreshed<E, F: Future<Output = Result<(), E>>>(
        &self,
        request: &TokenRequest,
        clock: &dyn Clock,
        refresh: impl Fn() -> F,
    ) -> Result<Result<IssuedResponse, OAuthError>, E> {
        let now = clock.now();
        refresh().await?;
        let issued = self.issue(request, now);
        let not_before = issued.as_ref().ok().and_then(|issued| issued.client.not_before);
        if not_before.is_none_or(|not_before| not_before < now) {
            return Ok(issued);
        }
        let now = clock.now();
        refresh().await?;
        Ok(self.issue(request, now))
    }

    /// Checks the client and its secret and issues a token.
    ///
    /// # Errors
    /// `invalid_client` if the client is unknown or disabled or the secret wrong; `invalid_scope` if it requests more
    /// than it was granted.
    pub fn issue(&self, request: &TokenRequest, now: Timestamp) -> Result<IssuedResponse, OAuthError> {
        let client = self.authenticate(request, now)?;
        let scope = granted(request.scope.as_deref(), &client.grants.scopes())?;
        let token = token::issue(&self.keys.load(), self.config, &client.id, &scope, self.ids.next_id(), now)
            .map_err(|error| OAuthError::new(OAuthErrorCode::ServerError, &error.to_string()))?;
        Ok(IssuedResponse {
            access_token: token.text,
            expires_in_s: token.expires_in_s,
            scope,
            token_id: token.id,
            client,
        })
    }

    fn authenticate(&self, request: &TokenRequest, now: Timestamp) -> Result<Arc<Client>, OAuthError> {
        let claimed = ClientId::parse(&request.client_id).ok().and_then(|id| self.directory.find_claimed(&id));
        let client = claimed.as_ref().map(|claimed| &*claimed.client);
        let is_right = self.hasher.verify(&request.client_id, client, &request.client_secret, now);
        match claimed {
            Some(Claimed { client, is_known }) if is_known && is_right && client.is_active() => Ok(client),
            _ => Err(OAuthError::invalid_client()),
        }
    }
}

/// Returns the requested scopes, or all grants if none are requested.
fn granted(requested: Option<&str>, grants: &ScopeSet) -> Result<ScopeSet, OAuthError> {
    let Some(requested) = requested else { return Ok(grants.clone()) };
    let invalid = |description: &str| OAuthError::new(OAuthErrorCode::InvalidScope, description);
    let mut scopes = ScopeSet::default();
    for (index, text) in requested.split(' ').filter(|text| !text.is_empty()).enumerate() {
        if index >= SCOPES_ASKED_MAX {
            return Err(invalid("more scopes are requested than exist"));
        }
        let scope = Scope::parse(text).map_err(|error| invalid(&error.to_string()))?;
        if !grants.covers(scope) {
            return Err(invalid(&format!("the client was not granted {scope}")));
        }
        scopes.insert(scope);
    }
    // Only spaces name no scope: the same as no parameter.
    if scopes.is_empty() { Ok(grants.clone()) } else { Ok(scopes) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use futures_util::FutureExt as _;
    use jiff::SignedDuration;
    use secrecy::ExposeSecret;

    use super::*;
    use crate::authenticate::authenticate;
    use crate::fixtures::{Fixture, at, scopes};
    use crate::secret::{CLIENT_SECRET_BYTES_MAX, work};
    use daftar_domain::client::ClientStatus;
    use daftar_domain::context::{FakeClock, RandomIds};

    fn issuer(fixture: &Fixture) -> TokenIssuer<'_> {
        TokenIssuer {
            directory: &fixture.directory,
            hasher: &fixture.hasher,
            keys: &fixture.ring,
            config: &fixture.config,
            ids: &RandomIds,
        }
    }

    fn request(id: &str, secret: &str, scope: Option<&str>) -> TokenRequest {
        TokenRequest {
            client_id: id.to_owned(),
            client_secret: SecretString::from(secret),
            scope: scope.map(str::to_owned),
        }
    }

    fn issue(fixture: &Fixture, id: &str, secret: &str, scope: Option<&str>) -> Result<IssuedResponse, OAuthError> {
        issuer(fixture).issue(&request(id, secret, scope), at(5))
    }

    fn fixture(grants: &str) -> Fixture {
        let fixture = Fixture::new();
        fixture.put_client("c", |client| client.grants = scopes(grants).iter().collect());
        fixture
    }

    #[test]
    fn issues_a_token_for_all_grants_unless_fewer_are_requested() {
        let fixture = fixture("individual:all group:read");
        for (requested, expected) in [
            (None, "individual:all group:read"),
            (Some("  "), "individual:all group:read"),
            (Some("group:read"), "group:read"),
            (Some("individual:read"), "individual:read"),
            (Some("individual:all"), "individual:all"),
            (Some("individual:read  individual:create individual:read"), "individual:read individual:create"),
        ] {
            let response = issue(&fixture, "c", "c-secret", requested).unwrap();
            assert_eq!(response.scope, scopes(expected), "{requested:?}");
            assert_eq!(response.expires_in_s, 86_400);
            let text = response.access_token.expose_secret();
            let token = token::verify(text, &fixture.keys, &fixture.config, at(5)).unwrap();
            assert_eq!((token.client_id, token.scopes), (response.client.id.clone(), response.scope));
            assert_eq!(token.id, response.token_id);
        }
    }

    #[test]
    fn a_client_that_is_enabled_during_the_request_gets_a_valid_token() {
        let fixture = fixture("");
        fixture.put_client("c", |client| client.status = ClientStatus::Disabled);
        let (clock, refreshes) = (FakeClock::new(at(5)), Cell::new(0));
        // Another server enables the client after the request has begun.
        let refresh = async || {
            clock.advance(SignedDuration::from_secs(1));
            if refreshes.replace(refreshes.get() + 1) == 0 {
                fixture.put_client("c", |client| client.not_before = Some(clock.now()));
            }
            clock.advance(SignedDuration::from_secs(1));
            Ok::<_, Infallible>(())
        };
        let (issuer, request) = (issuer(&fixture), request("c", "c-secret", None));
        let issued = issuer.issue_refreshed(&request, &clock, refresh).now_or_never();
        let issued = issued.unwrap().unwrap().unwrap();
        let text = format!("Bearer {}", issued.access_token.expose_secret());
        authenticate([text.as_bytes()], fixture.authenticator(), clock.now()).unwrap();
        assert_eq!(refreshes.get(), 2);
    }

    #[test]
    fn a_key_that_is_rotated_during_the_request_signs_the_token() {
        let fixture = fixture("");
        let refresh = async || {
            let rotation = fixture.ring.prepare(None, at(5)).unwrap();
            fixture.ring.carry_out(rotation, at(5)).unwrap();
            Ok::<_, Infallible>(())
        };
        let (issuer, request) = (issuer(&fixture), request("c", "c-secret", None));
        let issued = issuer.issue_refreshed(&request, &FakeClock::new(at(5)), refresh).now_or_never();
        let text = issued.unwrap().unwrap().unwrap().access_token;
        let verify = |keys: &crate::TokenKeys| token::verify(text.expose_secret(), keys, &fixture.config, at(5));
        assert!(verify(&fixture.ring.load()).is_ok() && verify(&fixture.keys).is_err());
    }

    #[test]
    fn a_client_without_grants_gets_a_token_without_scopes() {
        let fixture = fixture("");
        assert_eq!(issue(&fixture, "c", "c-secret", None).unwrap().scope.to_string(), "");
    }

    #[test]
    fn rejects_scopes_beyond_the_grants() {
        let fixture = fixture("individual:read");
        let many = "individual:read ".repeat(SCOPES_ASKED_MAX + 1);
        for (requested, what) in [
            ("individual:all", "not granted individual:all"),
            ("individual:read group:read", "not granted group:read"),
            ("individual", "is not a scope"),
            ("individual:read\tgroup:read", "is not a scope"),
            ("*", "is not a scope"),
            (many.as_str(), "more scopes"),
        ] {
            let error = issue(&fixture, "c", "c-secret", Some(requested)).unwrap_err();
            assert_eq!(error.code, OAuthErrorCode::InvalidScope, "{requested}");
            assert!(error.description().contains(what), "{error:?}");
        }
    }

    #[test]
    fn unknown_id_wrong_secret_and_disabled_client_get_the_same_response() {
        let fixture = fixture("individual:read");
        fixture.put_client("off", |client| client.status = ClientStatus::Disabled);
        fixture.put_client("late", |client| client.secrets[0].expires_at = Some(at(5)));
        for (id, secret) in [
            ("c", "wrong"),
            ("c", "C-secret"),
            ("c", "off-secret"),
            ("off", "off-secret"),
            ("late", "late-secret"),
            ("unknown", "c-secret"),
            ("no client id", "c-secret"),
            ("", "c-secret"),
        ] {
            for scope in [None, Some("individual:read"), Some("nonsense")] {
                assert_eq!(issue(&fixture, id, secret, scope).unwrap_err(), OAuthError::invalid_client(), "{id}");
            }
        }
    }

    /// Counts the hashes computed and compared; `cargo xtask bench sign-in` measures the same with a clock.
    #[test]
    fn every_rejection_does_the_same_work_as_success() {
        let fixture = fixture("individual:read");
        fixture.put_client("off", |client| client.status = ClientStatus::Disabled);
        fixture.put_client("late", |client| client.secrets[0].expires_at = Some(at(5)));
        fixture.put_client("none", |client| client.secrets.clear());
        fixture.put_client("four", |client| {
            let one = client.secrets[0].clone();
            client.secrets = vec![one; crate::secret::COMPARED_MIN];
        });
        let work_of = |id: &str, secret: &str| {
            let _ = work::take();
            let is_issued = issue(&fixture, id, secret, None).is_ok();
            (is_issued, work::take())
        };
        let long = "x".repeat(CLIENT_SECRET_BYTES_MAX);
        for (id, secret, is_issued) in [
            ("c", "c-secret", true),
            ("four", "four-secret", true),
            ("c", "wrong", false),
            ("c", long.as_str(), false),
            ("off", "off-secret", false),
            ("off", "wrong", false),
            ("late", "late-secret", false),
            ("none", "none-secret", false),
            ("four", "wrong", false),
            ("unknown", "c-secret", false),
            ("no client id", "c-secret", false),
            ("", "c-secret", false),
        ] {
            assert_eq!(work_of(id, secret), (is_issued, (1, 4)), "{id}");
        }
        for id in ["c", "off", "unknown"] {
            assert_eq!(work_of(id, &format!("{long}x")), (false, (0, 0)), "{id}: longer than any secret");
        }
    }

    #[test]
    fn every_token_has_a_unique_id() {
        let fixture = fixture("");
        let one = issue(&fixture, "c", "c-secret", None).unwrap();
        let two = issue(&fixture, "c", "c-secret", None).unwrap();
        assert_ne!(one.token_id, two.token_id);
    }
}
