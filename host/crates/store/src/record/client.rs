//! Stored form of a client.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit, SecretHash};
use daftar_domain::consent::Purpose;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::grant::Grants;
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::scope::Scope;

use super::instant::{as_stored, instant, milliseconds};
use super::{Unreadable, decode_as};

/// A client, version 1. Scopes are stored as texts: `<resource>:<action>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredClientSecretV1 {
    hash: [u8; 32],
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
}

/// Encodes a client.
///
/// # Errors
/// [`StoreError::TooLarge`] if the client exceeds the limit.
pub fn encode(client: &Client) -> Result<Vec<u8>, StoreError> {
    super::encode(&StoredClientV1::from(client))
}

/// Decodes a client.
///
/// # Errors
/// [`StoreError::Corrupt`] if the bytes cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Client, StoreError> {
    decode_as(bytes, |stored: StoredClientV1| Client::try_from(stored))
}

fn restrictions(grants: &Grants) -> Vec<StoredRestrictionV1> {
    let restricted = grants.iter().filter_map(|(scope, fields)| match fields {
        FieldSet::All => None,
        FieldSet::Only(names) => Some((scope, names)),
    });
    restricted
        .map(|(scope, names)| StoredRestrictionV1 {
            scope: scope.to_string(),
            fields: names.iter().map(ToString::to_string).collect(),
        })
        .collect()
}

/// Restricts an existing grant. A newer program may have named a field that this one does not know.
fn restrict(grants: &mut Grants, stored: &StoredRestrictionV1) -> Result<(), Unreadable> {
    let unreadable = || Unreadable::field("restrictions");
    let scope = Scope::parse(&stored.scope).map_err(|_| unreadable())?;
    let known = |name: &String| FieldName::parse(scope.resource, name).ok().or_else(|| FieldName::of_newer(name));
    let names: Vec<FieldName> = stored.fields.iter().map(known).collect::<Option<_>>().ok_or_else(unreadable)?;
    if !grants.contains(scope) {
        return Err(unreadable());
    }
    grants.insert(scope, FieldSet::only(names));
    Ok(())
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

impl From<&Client> for StoredClientV1 {
    fn from(client: &Client) -> Self {
        Self {
            id: client.id.as_str().to_owned(),
            name: client.name.as_str().to_owned(),
            status: client.status,
            grants: client.grants.scopes().iter().map(|scope| scope.to_string()).collect(),
            secrets: client.secrets.iter().map(StoredClientSecretV1::from).collect(),
            not_before_ms: client.not_before.map(milliseconds),
            rate_limit_per_minute: client.rate_limit_per_minute.map(RateLimit::requests),
            rate_limit_per_day: client.rate_limit_per_day.map(RateLimit::requests),
            created_at_ms: milliseconds(client.created_at),
            updated_at_ms: milliseconds(client.updated_at),
            organization: client.organization.as_ref().map(|organization| organization.as_str().to_owned()),
            restrictions: restrictions(&client.grants),
            legal_basis: client.legal_basis.map(|basis| basis.name().to_owned()),
            purpose: client.purpose.as_ref().map(ToString::to_string),
        }
    }
}

impl TryFrom<StoredClientV1> for Client {
    type Error = Unreadable;

    fn try_from(stored: StoredClientV1) -> Result<Self, Unreadable> {
        let grants: Result<Grants, _> = stored.grants.iter().map(|scope| Scope::parse(scope)).collect();
        let mut grants = grants.map_err(|_| Unreadable::field("grants"))?;
        for restriction in &stored.restrictions {
            restrict(&mut grants, restriction)?;
        }
        let secrets: Result<Vec<ClientSecret>, _> = stored.secrets.into_iter().map(ClientSecret::try_from).collect();
        Ok(Self {
            id: ClientId::parse(&stored.id).map_err(|_| Unreadable::field("id"))?,
            name: ClientName::parse(&stored.name).map_err(|_| Unreadable::field("name"))?,
            organization: optional(stored.organization, "organization", |text| Organization::parse(text).ok())?,
            legal_basis: optional(stored.legal_basis, "legal_basis", LegalBasis::parse)?,
            purpose: optional(stored.purpose, "purpose", |text| Purpose::parse(text).ok())?,
            status: stored.status,
            grants,
            secrets: secrets?,
            not_before: stored.not_before_ms.map(instant).transpose()?,
            rate_limit_per_minute: rate_limit(stored.rate_limit_per_minute, "rate_limit_per_minute")?,
            rate_limit_per_day: rate_limit(stored.rate_limit_per_day, "rate_limit_per_day")?,
            created_at: instant(stored.created_at_ms)?,
            updated_at: instant(stored.updated_at_ms)?,
        })
    }
}

fn optional<T>(
    stored: Option<String>,
    field: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Unreadable> {
    stored.map(|text| parse(&text).ok_or_else(|| Unreadable::field(field))).transpose()
}

fn rate_limit(stored: Option<u32>, field: &str) -> Result<Option<RateLimit>, Unreadable> {
    stored.map(RateLimit::parse).transpose().map_err(|_| Unreadable::field(field))
}

impl From<&ClientSecret> for StoredClientSecretV1 {
    fn from(secret: &ClientSecret) -> Self {
        Self {
            hash: secret.hash.0,
            created_at_ms: milliseconds(secret.created_at),
            expires_at_ms: secret.expires_at.map(milliseconds),
        }
    }
}

impl TryFrom<StoredClientSecretV1> for ClientSecret {
    type Error = Unreadable;

    fn try_from(stored: StoredClientSecretV1) -> Result<Self, Unreadable> {
        Ok(Self {
            hash: SecretHash(stored.hash),
            created_at: instant(stored.created_at_ms)?,
            expires_at: stored.expires_at_ms.map(instant).transpose()?,
        })
    }
}
