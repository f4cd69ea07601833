//! Stored form of a client.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::client::{Client, ClientSecret, ClientStatus};
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::grant::Grants;
use daftar_domain::scope::Scope;

use super::form::{FormOf as _, converted, stored};
use super::instant::as_stored;
use super::{Unreadable, decode_as};

/// A client, and its restricted grants.
struct Restricted {
    client: Client,
    restrictions: Vec<(Scope, FieldSet)>,
}

stored! {
    /// A client, version 1. Scopes are stored as texts: `<resource>:<action>`.
    pub struct StoredClientV1 {
        id: String,
        name: String,
        #[serde(with = "StoredClientStatusV1")]
        status: ClientStatus,
        grants: Vec<String>,
        secrets: Vec<StoredClientSecretV1>,
        not_before_ms: Option<i64>,
        rate_limit_per_minute: Option<u32>,
        rate_limit_per_day: Option<u32>,
        created_at_ms: i64,
        updated_at_ms: i64,
        organization: Option<String>,
        restrictions: Vec<StoredRestrictionV1>,
        legal_basis: Option<String>,
        purpose: Option<String>,
    }
    means Restricted {
        client: Client {
            id,
            name,
            status,
            organization,
            legal_basis,
            purpose,
            grants,
            secrets,
            not_before: not_before_ms,
            rate_limit_per_minute,
            rate_limit_per_day,
            created_at: created_at_ms,
            updated_at: updated_at_ms,
        },
        restrictions,
    }
}

/// The fields of a grant; a grant without a restriction is for all fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredRestrictionV1 {
    scope: String,
    fields: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ClientStatus")]
enum StoredClientStatusV1 {
    Active,
    Disabled,
    Deleted,
}

stored! {
    struct StoredClientSecretV1 {
        hash: [u8; 32],
        created_at_ms: i64,
        expires_at_ms: Option<i64>,
    }
    means ClientSecret { hash, created_at: created_at_ms, expires_at: expires_at_ms }
}

converted! {
    ClientStatus as ClientStatus: Clone::clone, Some;
    Vec<String> as Grants:
        |grants| grants.scopes().iter().map(|scope| scope.to_string()).collect(),
        |scopes| scopes.iter().map(|scope| Scope::parse(scope).ok()).collect();
    StoredRestrictionV1 as (Scope, FieldSet): stored_restriction, restriction;
}

fn stored_restriction((scope, fields): &(Scope, FieldSet)) -> StoredRestrictionV1 {
    let fields = match fields {
        FieldSet::All => Vec::new(),
        FieldSet::Only(names) => names.iter().map(ToString::to_string).collect(),
    };
    StoredRestrictionV1 { scope: scope.to_string(), fields }
}

/// A newer program may have named a field that this one does not know.
fn restriction(stored: StoredRestrictionV1) -> Option<(Scope, FieldSet)> {
    let scope = Scope::parse(&stored.scope).ok()?;
    let known = |name: &String| FieldName::parse(scope.resource, name).ok().or_else(|| FieldName::of_newer(name));
    let names: Vec<FieldName> = stored.fields.iter().map(known).collect::<Option<_>>()?;
    Some((scope, FieldSet::only(names)))
}

/// Encodes a client.
///
/// # Errors
/// [`StoreError::TooLarge`] if the client exceeds the limit.
pub fn encode(client: &Client) -> Result<Vec<u8>, StoreError> {
    let restricted = client.grants.iter().filter(|(_, fields)| **fields != FieldSet::All);
    let restrictions = restricted.map(|(scope, fields)| (scope, fields.clone())).collect();
    super::encode(&StoredClientV1::of(&Restricted { client: client.clone(), restrictions }))
}

/// Decodes a client.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Client, StoreError> {
    decode_as(bytes, |stored: StoredClientV1| {
        let Restricted { mut client, restrictions } = stored.value("client")?;
        for (scope, fields) in restrictions {
            if !client.grants.contains(scope) {
                return Err(Unreadable::field("restrictions"));
            }
            client.grants.insert(scope, fields);
        }
        Ok(client)
    })
}

/// The client as it will be read: with its timestamps in milliseconds.
#[must_use]
pub fn client_as_stored(mut client: Client) -> Client {
    for secret in &mut client.secrets {
        secret.created_at = as_stored(secret.created_at);
        secret.expires_at = secret.expires_at.map(as_stored);
    }
    client.not_before = client.not_before.map(as_stored);
    client.created_at = as_stored(client.created_at);
    client.updated_at = as_stored(client.updated_at);
    client
}
