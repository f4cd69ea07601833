//! Requests that may be sent twice and are done once: what a client calls them, and what is remembered of them.
//!
//! The header is `Idempotency-Key` of draft-ietf-httpapi-idempotency-key-header.

use jiff::{SignedDuration, Timestamp};

use super::client::ClientId;
use super::record::{RecordId, RecordKind, VersionId};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 255;
/// The most requests that are remembered of one client, where the settings say nothing: more than one a second all day.
pub const REMEMBERED_PER_CLIENT_DEFAULT: u64 = 100_000;
/// The most requests that settings may ask to be remembered of one client.
pub const REMEMBERED_PER_CLIENT_CEILING: u64 = 10_000_000;
/// How long a request is remembered.
pub const REMEMBERED_FOR: SignedDuration = SignedDuration::from_hours(24);

/// What a client calls a request: 1 to [`KEY_BYTES_MAX`] visible ASCII characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`Idempotency-Key` is 1 to {KEY_BYTES_MAX} visible ASCII characters without spaces, in quotation marks or without, such as \"8e03978e-40d5-43e8-bc93-6894a57f9324\""
)]
pub struct KeyError;

impl IdempotencyKey {
    /// Reads a header: a text in quotation marks as the draft writes it, or the bare text as many clients do. Both are the same
    /// key.
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

    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Not shown: some clients put identifiers into it.
opaque_debug!(IdempotencyKey);

/// Which request is remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestName {
    /// Whose.
    pub client: ClientId,
    /// What the client called it.
    pub key: IdempotencyKey,
    /// Which entry of a batch whose entries are done each by itself, counted from 1; 0 for a request as a whole.
    pub part: u16,
}

/// A request that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedRequest {
    /// Which one.
    pub name: RequestName,
    /// SHA-256 of what it asked for.
    pub digest: [u8; 32],
    /// When it was done.
    pub at: Timestamp,
    /// How it was answered: once, or once for each entry of a transaction.
    pub answers: Vec<RememberedAnswer>,
}

/// How a request was answered. What it showed is not kept: it is shown again, as far as the client may see it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedAnswer {
    /// The status.
    pub status: u16,
    /// The record that it wrote, at the version that it made.
    pub record: Option<(RecordKind, RecordId, VersionId)>,
}

impl RememberedRequest {
    /// Whether it is to be remembered still.
    #[must_use]
    pub fn is_kept_at(&self, now: Timestamp) -> bool {
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
    fn a_request_is_remembered_for_a_day() {
        let name = RequestName { client: ClientId::parse("c").unwrap(), key: IdempotencyKey("k".to_owned()), part: 0 };
        let at: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let request = RememberedRequest { name, digest: [0; 32], at, answers: Vec::new() };
        for (later_s, is_kept) in [(0, true), (86_399, true), (86_400, false), (90_000, false), (-5, true)] {
            assert_eq!(request.is_kept_at(at + SignedDuration::from_secs(later_s)), is_kept, "{later_s}");
        }
    }
}
