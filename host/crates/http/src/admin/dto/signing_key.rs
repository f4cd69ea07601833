//! The body of a key that signs: its name, use and times, never the key.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems};
use daftar_domain::calendar::format_instant;
use daftar_service::signing_key::{KeyUse, SigningKey};

/// The uses of keys as bodies name them.
const USES: &[(&str, KeyUse)] = &[("tokens", KeyUse::Tokens), ("decisions", KeyUse::Decisions)];

/// Reads `{use?, overlap_s?}`: what the new key signs, and for how many seconds tokens of the replaced key are accepted.
pub fn read_rotation(members: Map<String, Value>, problems: &mut Problems) -> (KeyUse, Option<u32>) {
    let mut reader = ObjectReader::root(members);
    let usage = reader.word("use", USES, problems).unwrap_or_default();
    let overlap_s = reader.count("overlap_s", problems);
    reader.finish(problems);
    (usage, overlap_s)
}

/// A key on the wire.
#[derive(Debug, Serialize)]
pub struct SigningKeyBody {
    kid: String,
    /// `tokens` or `decisions`.
    r#use: &'static str,
    /// `signs` or `accepted`.
    status: &'static str,
    created_at: String,
    age_days: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_until: Option<String>,
}

impl SigningKeyBody {
    /// That key at that time.
    #[must_use]
    pub fn new(key: &SigningKey, now: Timestamp) -> Self {
        Self {
            kid: key.id.clone(),
            r#use: key.usage.name(),
            status: if key.is_current { "signs" } else { "accepted" },
            created_at: format_instant(key.created_at),
            age_days: now.duration_since(key.created_at).as_hours().max(0) / 24,
            accepted_until: key.accepted_until.map(format_instant),
        }
    }
}
