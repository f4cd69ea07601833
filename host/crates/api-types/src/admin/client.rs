//! Clients, their secrets and grants, and the keys that sign tokens and decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change;

/// Registers a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewClient {
    /// Its name.
    pub name: String,
    /// Its grants.
    #[serde(default)]
    pub scopes: Vec<NewGrant>,
    /// The organization that it belongs to, as consents name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// On which ground it reads personal data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legal_basis: Option<String>,
    /// With the legal basis `consent`: the purpose of the consents that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Requests a minute, in place of the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_minute: Option<u32>,
    /// Requests a day, in place of the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_day: Option<u32>,
}

/// A grant of a new client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NewGrant {
    /// A scope on all fields.
    Scope(String),
    /// A scope, perhaps on some fields only.
    Grant(Grant),
}

/// Grants a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The scope.
    pub scope: String,
    /// The only fields that it grants access to; all of them, where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
}

/// Changes a client: an absent member stays, `null` removes the value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientChange {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The organization that it belongs to.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub organization: Option<Option<String>>,
    /// On which ground it reads personal data.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub legal_basis: Option<Option<String>>,
    /// The purpose of the consents that count.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Option<String>>,
    /// Requests a minute; the default, where `null`.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_minute: Option<Option<u32>>,
    /// Requests a day; the default, where `null`.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_day: Option<Option<u32>>,
}

/// A client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientBody {
    /// Its id.
    pub client_id: String,
    /// Its name.
    pub name: String,
    /// The organization that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// On which ground it reads personal data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legal_basis: Option<String>,
    /// The purpose of the consents that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// `active` or `disabled`.
    pub status: String,
    /// The scopes that it is granted.
    pub scopes: Vec<String>,
    /// By scope, the only fields that a grant gives access to; a scope on all fields is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Vec<String>>,
    /// Requests a minute, where it has a limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_minute: Option<u32>,
    /// Requests a day, where it has a limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_day: Option<u32>,
    /// Requests a minute that count: its own limit, or the default.
    pub effective_rate_limit_per_minute: u32,
    /// Requests a day that count: its own limit, or the default.
    pub effective_rate_limit_per_day: u32,
    /// Time at which it was registered.
    pub created_at: String,
    /// Time at which it was last changed.
    pub updated_at: String,
    /// Its valid secrets, by age.
    pub secrets: Vec<SecretBody>,
}

/// When a secret was created and how long it is valid, never the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretBody {
    /// Time at which it was created.
    pub created_at: String,
    /// Expiry, if another one replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Its age, in days.
    pub age_days: u32,
    /// Command that replaces it, if it is too old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A client that was registered, with its secret, which is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewClientBody {
    /// The secret.
    pub client_secret: String,
    /// The client.
    #[serde(flatten)]
    pub client: ClientBody,
}

/// Gives a client another secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRotation {
    /// For how many seconds older secrets stay valid; 0, where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_s: Option<u32>,
}

/// A client with its new secret, which is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotatedSecretBody {
    /// The secret.
    pub client_secret: String,
    /// Until when older secrets are valid; `null` where they are invalid already.
    pub older_secrets_expire_at: Option<String>,
    /// The client.
    #[serde(flatten)]
    pub client: ClientBody,
}

/// Replaces a key that signs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeyRotation {
    /// Purpose of the new key: `tokens` (the default) or `decisions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#use: Option<String>,
    /// For how many seconds tokens of the replaced key are accepted; as long as a token is valid, where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_s: Option<u32>,
}

/// A key that signs: its name, use and times, never the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeyBody {
    /// Its id, as tokens and decisions name it.
    pub kid: String,
    /// `tokens` or `decisions`.
    pub r#use: String,
    /// `signs` or `accepted`.
    pub status: String,
    /// Time at which it was created.
    pub created_at: String,
    /// Its age, in days.
    pub age_days: i64,
    /// Until when it is accepted, where it was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_until: Option<String>,
    /// The Ed25519 public key of a key of decisions, as URL-safe base64 without padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}
