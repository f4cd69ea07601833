//! The body of a key that signs tokens: its name and times, never the key.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::dto::reader::{ObjectReader, Problems};
use crate::domain::calendar::format_instant;
use crate::service::signing_key::SigningKey;

/// Reads `{overlap_s?}`: for how many seconds tokens of the replaced key are accepted.
pub fn read_overlap(members: Map<String, Value>, problems: &mut Problems) -> Option<u32> {
    let mut reader = ObjectReader::root(members);
    let overlap_s = reader.count("overlap_s", problems);
    reader.finish(problems);
    overlap_s
}

/// A key on the wire.
#[derive(Debug, Serialize)]
pub struct SigningKeyBody {
    kid: String,
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
            status: if key.accepted_until.is_none() { "signs" } else { "accepted" },
            created_at: format_instant(key.created_at),
            age_days: now.duration_since(key.created_at).as_hours().max(0) / 24,
            accepted_until: key.accepted_until.map(format_instant),
        }
    }
}
