//! Idempotent requests: keys of clients, and the stored results.
//!
//! The header is `Idempotency-Key` of draft-ietf-httpapi-idempotency-key-header.

use jiff::{SignedDuration, Timestamp};

use super::client::ClientId;
use super::record::{RecordId, RecordKind, VersionId};

/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 255;
/// Default maximum number of stored requests of one client: more than one a second for a day.
pub const REMEMBERED_PER_CLIENT_DEFAULT: u64 = 100_000;
/// Ceiling of the configured maximum number of stored requests of one client.
pub const REMEMBERED_PER_CLIENT_CEILING: u64 = 10_000_000;
/// Retention period of a stored request.
pub const REMEMBERED_FOR: SignedDuration = SignedDuration::from_hours(24);

/// The idempotency key of a request: 1 to [`KEY_BYTES_MAX`] visible ASCII characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

/// Error: a text is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`Idempotency-Key` must be 1 to {KEY_BYTES_MAX} visible ASCII characters without spaces, in quotation marks or without, such as \"8e03978e-40d5-43e8-bc93-6894a57f9324\""
)]
pub struct KeyError;

impl IdempotencyKey {
    /// Parses a header: a text in quotation marks as in the draft, or the bare text as sent by many clients. Both are
    /// the same key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(header: &str) -> Result<Self, KeyError> {
        let bare = header.strip_prefix('"').map_or(Some(header), |rest| rest.strip_suffix('"')).ok_or(KeyError)?;
        let is_plain = bare.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
        if bare.is_empty() || bare.len() > KEY_BYTES_MAX || !is_plain {
            return Err(KeyError);
        }
        Ok(Self(bare.to_owned()))
    }

    /// Returns the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Not displayed: some clients put identifiers into it.
opaque_debug!(IdempotencyKey);

/// The name of a stored request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestName {
    /// The client.
    pub client: ClientId,
    /// The key sent by the client.
    pub key: IdempotencyKey,
    /// Index of an entry of a batch whose entries are processed independently, counted from 1; 0 for a full request.
    pub part: u16,
}

/// A completed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The name.
    pub name: RequestName,
    /// SHA-256 of the content of the request.
    pub digest: [u8; 32],
    /// Completion time.
    pub at: Timestamp,
    /// Its responses: one, or one for each entry of a transaction.
    pub responses: Vec<StoredResponse>,
}

/// The response to a request. Its content is not stored: it is read again, limited to the current access of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status.
    pub status: u16,
    /// The record that it wrote, with the new version.
    pub record: Option<(RecordKind, RecordId, VersionId)>,
}

impl IdempotentRequest {
    /// True if the request is within its retention period.
    #[must_use]
    pub fn is_stored_at(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < REMEMBERED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_and_bounded_and_the_same_with_and_without_quotation_marks() {
        let longest = "k".repeat(KEY_BYTES_MAX);
        for text in ["a", "8e03978e-40d5-43e8-bc93-6894a57f9324", "~!#$%&'()*+,-./:;<=>?@[]^_`{|}", longest.as_str()] {
            assert_eq!(IdempotencyKey::parse(text).unwrap().as_str(), text);
            assert_eq!(IdempotencyKey::parse(&format!("\"{text}\"")).unwrap().as_str(), text);
        }
        let too_long = "k".repeat(KEY_BYTES_MAX + 1);
        for text in ["", "\"\"", "\"", "\"a", "a\"", "a b", "a\\b", "\u{e9}", "a\u{7f}", "\ta", too_long.as_str()] {
            assert_eq!(IdempotencyKey::parse(text), Err(KeyError), "{text}");
        }
        assert_eq!(format!("{:?}", IdempotencyKey::parse("secret").unwrap()), "IdempotencyKey(..)");
    }

    #[test]
    fn a_request_is_stored_for_a_day() {
        let name = RequestName { client: ClientId::parse("c").unwrap(), key: IdempotencyKey("k".to_owned()), part: 0 };
        let at: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let request = IdempotentRequest { name, digest: [0; 32], at, responses: Vec::new() };
        for (later_s, is_stored) in [(0, true), (86_399, true), (86_400, false), (90_000, false), (-5, true)] {
            assert_eq!(request.is_stored_at(at + SignedDuration::from_secs(later_s)), is_stored, "{later_s}");
        }
    }
}
