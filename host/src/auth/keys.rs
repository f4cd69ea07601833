//! The keys that sign access tokens: one current, and older ones whose tokens may still be about.
//!
//! [`KeyRing`](super::key_ring::KeyRing) reads them, rotates them, and has the ones in force.
//!
//! **Invariant:** there is always a current key of at least 256 bits; without one the server does not start.
//!
//! **Invariant:** an older key is found until the last token that it signed has expired, and not after that.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{DecodingKey, EncodingKey};
use secrecy::ExposeSecret;

use super::key_file::StoredKey;
use super::token_crypto;
use crate::config::TOKEN_LIFETIME_S_MAX;

pub use super::key_file::KeyError;

/// The folder of keys within the data folder.
pub const KEY_FOLDER: &str = "keys";
/// The file of signing keys within the folder of keys.
pub(super) const TOKEN_KEY_FILE: &str = "token.json";
/// A key that is replaced may sign a few tokens more, until the new one is on disk and in force.
const MARGIN_S: u64 = 60;

/// One signing key.
pub struct TokenKey {
    id: Arc<str>,
    created_at: Timestamp,
    lifetime_s: Option<u64>,
    accepted_until: Option<Timestamp>,
    encoding: EncodingKey,
    decoding: DecodingKey,
}

impl TokenKey {
    fn new(stored: &StoredKey, accepted_until: Option<Timestamp>) -> Self {
        let (encoding, decoding) = token_crypto::keys_of(stored.secret.expose_secret());
        Self {
            id: stored.id.as_str().into(),
            created_at: stored.created_at,
            lifetime_s: stored.lifetime_s,
            accepted_until,
            encoding,
            decoding,
        }
    }

    /// Its name, the `kid` of the tokens that it signs.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// When it was made.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Until when tokens that it signed are accepted; absent for the key that signs.
    #[must_use]
    pub fn accepted_until(&self) -> Option<Timestamp> {
        self.accepted_until
    }

    /// How long the longest-lived tokens are good that it signed, in seconds: the most that any setting allows, where nobody wrote it
    /// down.
    #[must_use]
    pub fn lifetime_s(&self) -> u64 {
        self.lifetime_s.unwrap_or(TOKEN_LIFETIME_S_MAX)
    }

    /// Its name, to be kept.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.id
    }

    /// Whether tokens that it signed are accepted.
    pub(super) fn is_accepted(&self, now: Timestamp) -> bool {
        self.accepted_until.is_none_or(|until| now < until)
    }

    pub(super) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }
}

impl fmt::Debug for TokenKey {
    /// Shows its name, never the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenKey")
            .field("id", &self.id)
            .field("created_at", &self.created_at)
            .field("accepted_until", &self.accepted_until)
            .finish_non_exhaustive()
    }
}

/// The signing keys of one data folder, as they are at one time.
#[derive(Debug)]
pub struct TokenKeys {
    current: TokenKey,
    previous: Vec<TokenKey>,
}

impl TokenKeys {
    /// Those keys, newest first; none where there is none.
    pub(super) fn new(stored: &[StoredKey]) -> Option<Self> {
        let (newest, _) = stored.split_first()?;
        let older = stored.iter().zip(stored.iter().skip(1));
        let previous = older.map(|(newer, key)| TokenKey::new(key, Some(accepted_until(key, newer)))).collect();
        Some(Self { current: TokenKey::new(newest, None), previous })
    }

    /// The key that signs new tokens.
    #[must_use]
    pub fn current(&self) -> &TokenKey {
        &self.current
    }

    /// All keys, newest first.
    pub fn all(&self) -> impl Iterator<Item = &TokenKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// The key of that name, if tokens signed by it are still accepted.
    #[must_use]
    pub fn find(&self, id: &str, now: Timestamp) -> Option<&TokenKey> {
        self.all().find(|key| &*key.id == id).filter(|key| key.is_accepted(now))
    }
}

/// Until when tokens of a key may be about that another one replaced.
fn accepted_until(key: &StoredKey, newer: &StoredKey) -> Timestamp {
    let lifetime_s = key.lifetime_s.unwrap_or(TOKEN_LIFETIME_S_MAX);
    key.accepted_until.unwrap_or_else(|| after(newer.created_at, lifetime_s))
}

/// So many seconds, and a margin, after an instant.
pub(super) fn after(instant: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds.saturating_add(MARGIN_S)).unwrap_or(i64::MAX);
    instant.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::fixtures::at;
    use crate::auth::key_file::new_key;

    #[test]
    fn the_first_key_signs_and_the_others_verify_until_their_tokens_are_over() {
        let first = StoredKey { accepted_until: Some(at(500)), ..new_key(Some(100), at(0)).unwrap() };
        let second = new_key(Some(100), at(200)).unwrap();
        let unknown = new_key(None, at(300)).unwrap();
        let newest = new_key(Some(100), at(400)).unwrap();
        let names = [&newest, &unknown, &second, &first].map(|key| key.id.clone());
        let keys = TokenKeys::new(&[newest, unknown, second, first]).unwrap();
        assert_eq!(keys.current().id(), names[0]);
        let accepted_until = |name: &str| keys.all().find(|key| key.id() == name).unwrap().accepted_until();
        let month_s = i64::try_from(TOKEN_LIFETIME_S_MAX).unwrap();
        assert_eq!(accepted_until(&names[0]), None);
        assert_eq!(accepted_until(&names[1]), Some(at(400 + month_s + 60)), "a lifetime that nobody wrote down");
        assert_eq!(accepted_until(&names[2]), Some(at(300 + 100 + 60)), "from when it was replaced");
        assert_eq!(accepted_until(&names[3]), Some(at(500)), "as it was written down");
        for (name, last) in [(&names[2], 459), (&names[3], 499)] {
            assert!(keys.find(name, at(last)).is_some());
            assert!(keys.find(name, at(last + 1)).is_none());
        }
        assert!(keys.find(&names[0], Timestamp::MAX).is_some());
        assert!(keys.find("other", at(400)).is_none());
        assert!(TokenKeys::new(&[]).is_none());
    }

    #[test]
    fn debug_output_holds_no_key() {
        let keys = TokenKeys::new(&[new_key(None, at(0)).unwrap()]).unwrap();
        let shown = format!("{keys:?}");
        assert!(shown.contains(keys.current().id()) && !shown.contains("encoding"), "{shown}");
    }
}
