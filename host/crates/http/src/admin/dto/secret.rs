//! A client's secrets: a new one, and how old the present ones are.

use jiff::Timestamp;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ClientBody;
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::state::StateParts;
use daftar_domain::calendar::format_instant;
use daftar_domain::client::{Client, ClientSecret};
use daftar_service::client::secret::{OVERLAP_S_MAX, RotatedSecret};

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

/// By what it is told how old secrets are.
#[derive(Debug, Clone, Copy)]
pub struct SecretAges {
    now: Timestamp,
    warning_days: Option<u32>,
}

impl SecretAges {
    /// As the settings have it, now.
    #[must_use]
    pub fn now(app: &StateParts) -> Self {
        Self { now: app.clock.now(), warning_days: app.config.token.secret_age_warning() }
    }
}

/// When a secret was made, never what it is.
#[derive(Debug, Serialize)]
pub(super) struct SecretBody {
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    age_days: u32,
    /// What to do about a secret that is too old.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl SecretBody {
    pub(super) fn new(client: &Client, secret: &ClientSecret, ages: SecretAges) -> Self {
        let overdue = ages.warning_days.filter(|days| client.is_active() && secret.is_overdue(ages.now, *days));
        let warn = |days| {
            format!("older than {days} days: `daftar client rotate-secret {} --overlap 24h` gives another", client.id)
        };
        Self {
            created_at: format_instant(secret.created_at),
            expires_at: secret.expires_at.map(format_instant),
            age_days: secret.age_days(ages.now),
            warning: overdue.map(warn),
        }
    }
}

/// A client with its new secret, which is told this once.
#[derive(Debug, Serialize)]
pub struct RotatedBody {
    client_secret: String,
    older_secrets_expire_at: Option<String>,
    #[serde(flatten)]
    client: ClientBody,
}

impl RotatedBody {
    /// The client and its new secret.
    #[must_use]
    pub fn new(rotated: &RotatedSecret, ages: SecretAges) -> Self {
        Self {
            client_secret: rotated.secret.expose_secret().to_owned(),
            older_secrets_expire_at: rotated.older_expire_at.map(format_instant),
            client: ClientBody::new(&rotated.client, ages),
        }
    }
}
