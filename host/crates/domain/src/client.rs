//! Registered API clients: systems that call the registry, never beneficiaries.

use jiff::{SignedDuration, Timestamp};

use super::consent::{ConsentFilter, Purpose};
use super::grant::Grants;
use super::organization::{LegalBasis, Organization};

/// Maximum length of a client id, in bytes.
pub const CLIENT_ID_BYTES_MAX: usize = 64;
/// Maximum length of a client name, in characters.
pub const CLIENT_NAME_CHARACTERS_MAX: usize = 200;
/// Maximum rate limit of a client, in requests a minute or a day.
pub const RATE_LIMIT_MAX: u32 = 10_000_000;

/// Error: a client cannot be created as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Invalid client id.
    #[error("a client id has 1 to {CLIENT_ID_BYTES_MAX} letters, digits, hyphens or underscores")]
    Id,
    /// Invalid name.
    #[error("a client's name has 1 to {CLIENT_NAME_CHARACTERS_MAX} characters and no control characters")]
    Name,
    /// A limit of zero or above the maximum.
    #[error("a rate limit must be between 1 and {RATE_LIMIT_MAX} requests")]
    RateLimit,
}

/// The public name of a client: the `client_id` of OAuth.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(String);

texts!(ClientId, ClientName);

impl ClientId {
    /// Parses a client id.
    ///
    /// # Errors
    /// [`ClientError::Id`] if it is empty, too long or contains anything but letters, digits, hyphens and underscores.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let is_valid = !text.is_empty()
            && text.len() <= CLIENT_ID_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(ClientError::Id) }
    }
}

/// The display name of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName(String);

impl ClientName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`ClientError::Name`] if it is empty, too long or contains control characters.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let trimmed = text.trim();
        let is_valid = !trimmed.is_empty()
            && trimmed.chars().count() <= CLIENT_NAME_CHARACTERS_MAX
            && !trimmed.chars().any(char::is_control);
        if is_valid { Ok(Self(trimmed.to_owned())) } else { Err(ClientError::Name) }
    }
}

/// A number of requests, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit(u32);

impl RateLimit {
    /// Checks a limit.
    ///
    /// # Errors
    /// [`ClientError::RateLimit`] if it is 0 or above [`RATE_LIMIT_MAX`].
    pub fn parse(requests: u32) -> Result<Self, ClientError> {
        if (1..=RATE_LIMIT_MAX).contains(&requests) { Ok(Self(requests)) } else { Err(ClientError::RateLimit) }
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn requests(self) -> u32 {
        self.0
    }
}

/// The status of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientStatus {
    /// The client may send requests.
    Active,
    /// Requests of the client are rejected.
    Disabled,
    /// Only the id is left: it is in the audit log and is never given to another client.
    Deleted,
}

/// The stored form of a secret: an irreversible keyed hash.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash(pub [u8; 32]);

opaque_debug!(SecretHash);

/// A client secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSecret {
    /// The hash.
    pub hash: SecretHash,
    /// Creation time.
    pub created_at: Timestamp,
    /// Expiry time; absent if it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl ClientSecret {
    /// True if the secret has not expired.
    #[must_use]
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// Returns the age in full days.
    #[must_use]
    pub fn age_days(&self, now: Timestamp) -> u32 {
        let days = now.duration_since(self.created_at).as_hours() / 24;
        u32::try_from(days.max(0)).unwrap_or(u32::MAX)
    }

    /// True if the secret is older than `days` and does not expire: it should be replaced. A replaced secret that stays
    /// valid for a while beside the new one is not reported.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp, days: u32) -> bool {
        let allowed = SignedDuration::from_hours(24 * i64::from(days));
        self.expires_at.is_none() && now.duration_since(self.created_at) > allowed
    }
}

/// A registered client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The public name.
    pub id: ClientId,
    /// The display name.
    pub name: ClientName,
    /// The status.
    pub status: ClientStatus,
    /// Its organization: the client sees the records covered by consents given to this organization.
    pub organization: Option<Organization>,
    /// Legal basis for processing personal data. With `consent`, the client sees only records covered by a consent.
    pub legal_basis: Option<LegalBasis>,
    /// Purpose, if the legal basis is consent; consents for any purpose or none count, if absent.
    pub purpose: Option<Purpose>,
    /// Granted actions, and the fields that they apply to.
    pub grants: Grants,
    /// Secrets, newest last; at least one, except of a deleted client.
    pub secrets: Vec<ClientSecret>,
    /// Tokens issued at or before this time are rejected.
    pub not_before: Option<Timestamp>,
    /// Own limit a minute; the default if absent.
    pub rate_limit_per_minute: Option<RateLimit>,
    /// Own limit a day; the default if absent.
    pub rate_limit_per_day: Option<RateLimit>,
    /// Registration time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl Client {
    /// True if the client is active.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.status == ClientStatus::Active
    }

    /// True if the client has a valid secret that is older than `days` and does not expire.
    #[must_use]
    pub fn has_overdue_secret(&self, now: Timestamp, days: u32) -> bool {
        self.is_active() && self.secrets.iter().any(|secret| secret.is_overdue(now, days))
    }

    /// Returns the filter of consents that grant access to the client; absent if it requires none.
    #[must_use]
    pub fn consent_filter(&self) -> Option<ConsentFilter> {
        let filter = || ConsentFilter { organization: self.organization.clone(), purpose: self.purpose.clone() };
        (self.legal_basis == Some(LegalBasis::Consent)).then(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_overdue_past_its_days_and_not_on_the_last() {
        let made: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let at = |seconds| made + SignedDuration::from_secs(seconds);
        let day = 86_400;
        let secret = ClientSecret { hash: SecretHash([0; 32]), created_at: made, expires_at: None };
        for (seconds, age, is_overdue) in [
            (-5 * day, 0, false),
            (0, 0, false),
            (90 * day - 1, 89, false),
            (90 * day, 90, false),
            (90 * day + 1, 90, true),
            (1_000 * day, 1_000, true),
        ] {
            let now = at(seconds);
            assert_eq!((secret.age_days(now), secret.is_overdue(now, 90)), (age, is_overdue), "{seconds}");
        }
        let replaced = ClientSecret { expires_at: Some(at(200 * day)), ..secret };
        assert!(!replaced.is_overdue(at(199 * day), 90), "it expires by itself");
        assert!(replaced.is_good(at(200 * day - 1)) && !replaced.is_good(at(200 * day)));
    }
}
