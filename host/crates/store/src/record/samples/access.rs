//! Consents and clients.

use jiff::Timestamp;
use jiff::civil::Date;

use daftar_domain::client::{Client, ClientName, ClientSecret, ClientStatus, RateLimit, SecretHash};
use daftar_domain::consent::{Consent, ConsentDetails, ConsentId};
use daftar_domain::consent_filter::Purpose;
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::organization::{LegalBasis, Organization};
use daftar_domain::record::RecordId;
use daftar_domain::scope::{Resource, Scope};
use daftar_domain::subject::{Subject, SubjectReference};

use super::parts::{client_id, meta};

/// A consent with every field set.
pub fn full_consent() -> Consent {
    let details = ConsentDetails {
        id: ConsentId::parse("123e4567-e89b-42d3-a456-426614174000").unwrap(),
        subject: SubjectReference { kind: Subject::Individual, id: RecordId(7) },
        grantee: Organization::parse("Ministry of Health").unwrap(),
        purpose: Some("vaccination".into()),
        effective_date: Date::constant(2026, 1, 1),
        expiry_date: Some(Date::constant(2026, 12, 31)),
        resources: vec![Resource::Individual, Resource::ProgramMembership],
        fields: Some(vec!["birth_date".into(), "extension.farmer".into()]),
        legal_basis: LegalBasis::Consent,
        is_withdrawn: false,
    };
    Consent { id: RecordId(9), meta: meta(), details }
}

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
