//! Registered API clients: systems that call the registry, never beneficiaries.

use jiff::{SignedDuration, Timestamp};

use super::consent_filter::{ConsentFilter, Purpose};
use super::grant::Grants;
use super::organization::{LegalBasis, Organization};

/// The longest client id, in bytes.
pub const CLIENT_ID_BYTES_MAX: usize = 64;
/// The longest client name, in characters.
pub const CLIENT_NAME_CHARACTERS_MAX: usize = 200;
/// The most requests a minute or a day that a client can be granted.
pub const RATE_LIMIT_MAX: u32 = 10_000_000;

/// Why a client cannot be made as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not a client id.
    #[error("a client id has 1 to {CLIENT_ID_BYTES_MAX} letters, digits, hyphens or underscores")]
    Id,
    /// Not a name.
    #[error("a client's name has 1 to {CLIENT_NAME_CHARACTERS_MAX} characters and no control characters")]
    Name,
    /// A limit of zero or beyond the greatest.
    #[error("a rate limit lies between 1 and {RATE_LIMIT_MAX} requests")]
    RateLimit,
}

/// The public name of a client: the `client_id` of OAuth.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(String);

texts!(ClientId, ClientName);

impl ClientId {
    /// Reads a client id.
    ///
    /// # Errors
    /// [`ClientError::Id`] when it is empty, too long or holds anything but letters, digits, hyphens and underscores.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let is_valid = !text.is_empty()
            && text.len() <= CLIENT_ID_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(ClientError::Id) }
    }
}

/// What people call a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName(String);

impl ClientName {
    /// Reads a name.
    ///
    /// # Errors
    /// [`ClientError::Name`] when it is empty, too long or holds control characters.
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
    /// Reads a limit.
    ///
    /// # Errors
    /// [`ClientError::RateLimit`] when it is 0 or beyond [`RATE_LIMIT_MAX`].
    pub fn parse(requests: u32) -> Result<Self, ClientError> {
        if (1..=RATE_LIMIT_MAX).contains(&requests) { Ok(Self(requests)) } else { Err(ClientError::RateLimit) }
    }

    /// The number of requests.
    #[must_use]
    pub fn requests(self) -> u32 {
        self.0
    }
}

/// Whether a client may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientStatus {
    /// It may.
    Active,
    /// It is refused on its next call.
    Disabled,
}

/// A secret as it is kept: a keyed hash that cannot be turned back.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash(pub [u8; 32]);

opaque_debug!(SecretHash);

/// One of a client's secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSecret {
    /// The hash.
    pub hash: SecretHash,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when it is refused; never, where absent.
    pub expires_at: Option<Timestamp>,
}

impl ClientSecret {
    /// Whether it opens anything still.
    #[must_use]
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// How old it is, in whole days.
    #[must_use]
    pub fn age_days(&self, now: Timestamp) -> u32 {
        let days = now.duration_since(self.created_at).as_hours() / 24;
        u32::try_from(days.max(0)).unwrap_or(u32::MAX)
    }

    /// Whether it is older than so many days and goes on being good: it should be replaced. One that is replaced already, and good for
    /// a while beside the new one, is not told of.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp, days: u32) -> bool {
        let allowed = SignedDuration::from_hours(24 * i64::from(days));
        self.expires_at.is_none() && now.duration_since(self.created_at) > allowed
    }
}

/// A registered client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its public name.
    pub id: ClientId,
    /// What people call it.
    pub name: ClientName,
    /// Whether it may call.
    pub status: ClientStatus,
    /// Whose it is: it sees the consents that are given to that organization.
    pub organization: Option<Organization>,
    /// On what ground it looks at personal data; where that is consent, it sees what is consented to alone.
    pub legal_basis: Option<LegalBasis>,
    /// What for, where its legal basis is consent; for whatever purpose or none, where absent.
    pub purpose: Option<Purpose>,
    /// What it may do, and on which fields.
    pub grants: Grants,
    /// Its secrets, newest last; at least one.
    pub secrets: Vec<ClientSecret>,
    /// Tokens issued at or before this instant are refused.
    pub not_before: Option<Timestamp>,
    /// Its own limit a minute; the default, where absent.
    pub rate_limit_per_minute: Option<RateLimit>,
    /// Its own limit a day; the default, where absent.
    pub rate_limit_per_day: Option<RateLimit>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Client {
    /// Whether it may call at all.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.status == ClientStatus::Active
    }

    /// Whether it may call with a secret that is older than so many days.
    #[must_use]
    pub fn has_overdue_secret(&self, now: Timestamp, days: u32) -> bool {
        self.is_active() && self.secrets.iter().any(|secret| secret.is_overdue(now, days))
    }

    /// Which consents open the register to it; absent where it needs none.
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
        assert!(!replaced.is_overdue(at(199 * day), 90), "it goes by itself");
        assert!(replaced.is_good(at(200 * day - 1)) && !replaced.is_good(at(200 * day)));
    }
}
