//! How a client is stored.

use serde::{Deserialize, Serialize};

use crate::domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit, SecretHash};
use crate::domain::consent_filter::Purpose;
use crate::domain::field::{FieldName, FieldSet};
use crate::domain::grant::Grants;
use crate::domain::organization::{LegalBasis, Organization};
use crate::domain::scope::Scope;
use crate::store::StoreError;

use super::instant::{as_stored, instant, milliseconds};
use super::{StoredForm, Unreadable, decode_as, version_of};

/// A client, version 1. Scopes are kept as they are written: `<resource>:<action>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClientV1 {
    id: String,
    name: String,
    status: StoredClientStatusV1,
    grants: Vec<String>,
    secrets: Vec<StoredClientSecretV1>,
    not_before_ms: Option<i64>,
    rate_limit_per_minute: Option<u32>,
    rate_limit_per_day: Option<u32>,
    created_at_ms: i64,
    updated_at_ms: i64,
}

impl StoredForm for StoredClientV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "client";
}

/// A client, version 2: one that belongs to an organization. Written only where version 1 has no word for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClientV2 {
    client: StoredClientV1,
    organization: String,
}

impl StoredForm for StoredClientV2 {
    const VERSION: u8 = 2;
    const WHAT: &'static str = "client";
}

/// A client, version 3: one whose grants are restricted to fields. Written only where versions 1 and 2 have no word for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClientV3 {
    client: StoredClientV1,
    organization: Option<String>,
    restrictions: Vec<StoredRestrictionV3>,
}

impl StoredForm for StoredClientV3 {
    const VERSION: u8 = 3;
    const WHAT: &'static str = "client";
}

/// The fields of one of the grants; a grant without a restriction is on all fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredRestrictionV3 {
    scope: String,
    fields: Vec<String>,
}

/// A client, version 4: one with a legal basis, kept as it is written. Written only where versions 1 to 3 have no word for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClientV4 {
    client: StoredClientV1,
    organization: Option<String>,
    restrictions: Vec<StoredRestrictionV3>,
    legal_basis: Option<String>,
    purpose: Option<String>,
}

impl StoredForm for StoredClientV4 {
    const VERSION: u8 = 4;
    const WHAT: &'static str = "client";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum StoredClientStatusV1 {
    Active,
    Disabled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredClientSecretV1 {
    hash: [u8; 32],
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
}

/// The bytes of a client.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(client: &Client) -> Result<Vec<u8>, StoreError> {
    let stored = StoredClientV1::from(client);
    let organization = client.organization.as_ref().map(|organization| organization.as_str().to_owned());
    let restrictions = restrictions(&client.grants);
    if client.legal_basis.is_some() || client.purpose.is_some() {
        let legal_basis = client.legal_basis.map(|basis| basis.name().to_owned());
        let purpose = client.purpose.as_ref().map(ToString::to_string);
        return super::encode(&StoredClientV4 { client: stored, organization, restrictions, legal_basis, purpose });
    }
    if !restrictions.is_empty() {
        return super::encode(&StoredClientV3 { client: stored, organization, restrictions });
    }
    match organization {
        None => super::encode(&stored),
        Some(organization) => super::encode(&StoredClientV2 { client: stored, organization }),
    }
}

/// The client that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<Client, StoreError> {
    match version_of(bytes) {
        Some(StoredClientV4::VERSION) => decode_as(bytes, |stored: StoredClientV4| {
            let client = with_restrictions(stored.client, stored.organization.as_deref(), &stored.restrictions)?;
            let legal_basis = |name: String| LegalBasis::parse(&name).ok_or_else(|| Unreadable::field("legal_basis"));
            let purpose = |text: String| Purpose::parse(&text).map_err(|_| Unreadable::field("purpose"));
            Ok(Client {
                legal_basis: stored.legal_basis.map(legal_basis).transpose()?,
                purpose: stored.purpose.map(purpose).transpose()?,
                ..client
            })
        }),
        Some(StoredClientV3::VERSION) => decode_as(bytes, |stored: StoredClientV3| {
            with_restrictions(stored.client, stored.organization.as_deref(), &stored.restrictions)
        }),
        Some(StoredClientV2::VERSION) => decode_as(bytes, |stored: StoredClientV2| {
            Ok(Client { organization: Some(organization(&stored.organization)?), ..Client::try_from(stored.client)? })
        }),
        _ => decode_as(bytes, |stored: StoredClientV1| Client::try_from(stored)),
    }
}

fn with_restrictions(
    client: StoredClientV1,
    of: Option<&str>,
    restrictions: &[StoredRestrictionV3],
) -> Result<Client, Unreadable> {
    let mut client = Client::try_from(client)?;
    for restriction in restrictions {
        restrict(&mut client.grants, restriction)?;
    }
    Ok(Client { organization: of.map(organization).transpose()?, ..client })
}

fn organization(stored: &str) -> Result<Organization, Unreadable> {
    Organization::parse(stored).map_err(|_| Unreadable::field("organization"))
}

fn restrictions(grants: &Grants) -> Vec<StoredRestrictionV3> {
    let restricted = grants.iter().filter_map(|(scope, fields)| match fields {
        FieldSet::All => None,
        FieldSet::Only(names) => Some((scope, names)),
    });
    restricted
        .map(|(scope, names)| StoredRestrictionV3 {
            scope: scope.to_string(),
            fields: names.iter().map(ToString::to_string).collect(),
        })
        .collect()
}

/// Puts a restriction on a grant that is there.
fn restrict(grants: &mut Grants, stored: &StoredRestrictionV3) -> Result<(), Unreadable> {
    let unreadable = || Unreadable::field("restrictions");
    let scope = Scope::parse(&stored.scope).map_err(|_| unreadable())?;
    let names = stored.fields.iter().map(|name| FieldName::parse(scope.resource, name));
    let names: Vec<FieldName> = names.collect::<Result<_, _>>().map_err(|_| unreadable())?;
    if !grants.contains(scope) {
        return Err(unreadable());
    }
    grants.insert(scope, FieldSet::only(names));
    Ok(())
}

/// The client as it will be read back: its instants to the millisecond.
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
            status: match client.status {
                ClientStatus::Active => StoredClientStatusV1::Active,
                ClientStatus::Disabled => StoredClientStatusV1::Disabled,
            },
            grants: client.grants.scopes().iter().map(|scope| scope.to_string()).collect(),
            secrets: client.secrets.iter().map(StoredClientSecretV1::from).collect(),
            not_before_ms: client.not_before.map(milliseconds),
            rate_limit_per_minute: client.rate_limit_per_minute.map(RateLimit::requests),
            rate_limit_per_day: client.rate_limit_per_day.map(RateLimit::requests),
            created_at_ms: milliseconds(client.created_at),
            updated_at_ms: milliseconds(client.updated_at),
        }
    }
}

impl TryFrom<StoredClientV1> for Client {
    type Error = Unreadable;

    fn try_from(stored: StoredClientV1) -> Result<Self, Unreadable> {
        let grants: Result<Grants, _> = stored.grants.iter().map(|scope| Scope::parse(scope)).collect();
        let secrets: Result<Vec<ClientSecret>, _> = stored.secrets.into_iter().map(ClientSecret::try_from).collect();
        Ok(Self {
            id: ClientId::parse(&stored.id).map_err(|_| Unreadable::field("id"))?,
            name: ClientName::parse(&stored.name).map_err(|_| Unreadable::field("name"))?,
            organization: None,
            legal_basis: None,
            purpose: None,
            status: match stored.status {
                StoredClientStatusV1::Active => ClientStatus::Active,
                StoredClientStatusV1::Disabled => ClientStatus::Disabled,
            },
            grants: grants.map_err(|_| Unreadable::field("grants"))?,
            secrets: secrets?,
            not_before: stored.not_before_ms.map(instant).transpose()?,
            rate_limit_per_minute: rate_limit(stored.rate_limit_per_minute, "rate_limit_per_minute")?,
            rate_limit_per_day: rate_limit(stored.rate_limit_per_day, "rate_limit_per_day")?,
            created_at: instant(stored.created_at_ms)?,
            updated_at: instant(stored.updated_at_ms)?,
        })
    }
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
