//! A client's new secret.

use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ClientBody;
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::domain::calendar::format_instant;
use crate::service::client::secret::{OVERLAP_S_MAX, RotatedSecret};

/// Reads `{overlap_s?}`: for how many seconds older secrets stay good.
pub fn read_overlap(members: Map<String, Value>, problems: &mut Problems) -> u32 {
    let mut members = members;
    if members.get("overlap_s").and_then(Value::as_u64) == Some(0) {
        // Said in so many words: as if it were not given.
        members.remove("overlap_s");
    }
    let mut reader = ObjectReader::root(members);
    let overlap_s = reader.count("overlap_s", problems).unwrap_or_default();
    reader.finish(problems);
    if overlap_s > OVERLAP_S_MAX {
        problems.add("overlap_s", "invalid", format!("it is a number of seconds from 0 to {OVERLAP_S_MAX}, 30 days"));
    }
    overlap_s
}

/// A client with its new secret, which is told this once.
#[derive(Debug, Serialize)]
pub struct RotatedBody {
    client_secret: String,
    older_secrets_expire_at: Option<String>,
    #[serde(flatten)]
    client: ClientBody,
}

impl From<&RotatedSecret> for RotatedBody {
    fn from(rotated: &RotatedSecret) -> Self {
        Self {
            client_secret: rotated.secret.expose_secret().to_owned(),
            older_secrets_expire_at: rotated.older_expire_at.map(format_instant),
            client: ClientBody::from(&*rotated.client),
        }
    }
}
