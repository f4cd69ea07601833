//! Clients.

use jiff::Timestamp;

use daftar_domain::client::{Client, ClientName, ClientSecret, ClientStatus, RateLimit, SecretHash};
use daftar_domain::consent::Purpose;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::scope::{Resource, Scope};

use super::parts::client_id;

/// A client with every field set: one grant on some fields, one on all, and one on none.
pub fn full_client() -> Client {
    let mut client = bare_client();
    let names = ["birth_date", "extension.farmer"].map(|name| FieldName::parse(Resource::Individual, name).unwrap());
    client.grants.insert(Scope::parse("individual:read").unwrap(), FieldSet::only(names));
    client.grants.insert(Scope::parse("program:search").unwrap(), FieldSet::none());
    Client {
        organization: Organization::parse("Ministry of Health").ok(),
        legal_basis: Some(LegalBasis::Consent),
        purpose: Purpose::parse("vaccination").ok(),
        ..client
    }
}

/// A client without an organization, a legal basis and restrictions.
pub fn bare_client() -> Client {
    let instant = |text: &str| text.parse::<Timestamp>().unwrap();
    Client {
        id: client_id("demo-client_1"),
        name: ClientName::parse("Demo · دفتر").unwrap(),
        organization: None,
        legal_basis: None,
        purpose: None,
        status: ClientStatus::Disabled,
        grants: ["individual:read", "group:all"].iter().map(|text| Scope::parse(text).unwrap()).collect(),
        secrets: vec![ClientSecret {
            hash: SecretHash(std::array::from_fn(|index| index as u8)),
            created_at: instant("2026-01-01T00:00:00Z"),
            expires_at: Some(instant("2026-02-01T00:00:00.001Z")),
        }],
        not_before: Some(instant("2026-01-15T12:00:00Z")),
        rate_limit_per_minute: Some(RateLimit::parse(600).unwrap()),
        rate_limit_per_day: Some(RateLimit::parse(1_000_000).unwrap()),
        created_at: instant("2026-01-01T00:00:00Z"),
        updated_at: instant("2026-01-15T12:00:00.5Z"),
    }
}
