//! Bodies of the admin API.

pub mod audit;
pub mod checkup;
pub mod concept_group;
pub mod grant;
pub mod identifier_system;
pub mod local_code;
pub mod plugin_use;
pub mod secret;
pub mod signing_key;
pub mod upgrade_report;
pub mod verification;

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Map, Value};

use self::grant::{read_listed, restrictions};
use self::secret::{SecretAges, SecretBody};
use crate::api::dto::reader::{ObjectReader, Problems};
use daftar_domain::calendar::format_instant;
use daftar_domain::client::{Client, ClientName, ClientStatus, RateLimit};
use daftar_domain::consent::PURPOSE_BYTES_MAX;
use daftar_domain::consent_filter::Purpose;
use daftar_domain::extension::ExtensionFields;
use daftar_domain::grant::Grants;
use daftar_domain::organization::{LegalBasis, ORGANIZATION_CHARACTERS_MAX, Organization};
use daftar_service::client::{ClientChanges, NewClient};

/// The most scopes that one request names: more than there are.
const SCOPES_MAX: usize = 100;

/// Reads the body that registers a client; `declared` are the fields that modules add to records.
pub fn read_client(
    members: Map<String, Value>,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> Option<NewClient> {
    let mut reader = ObjectReader::root(members);
    let name = read_name(&mut reader, problems);
    if name.is_none() && !reader.is_problem("name", problems) {
        problems.add("name", "required", "a client has a name");
    }
    let organization = read_organization(&mut reader, "organization", problems);
    let legal_basis = read_legal_basis(&mut reader, problems);
    let purpose = read_purpose(&mut reader, problems);
    let mut grants = Grants::default();
    for (path, item) in reader.list("scopes", SCOPES_MAX, problems).unwrap_or_default() {
        if let Some((scope, fields)) = read_listed(path, item, declared, problems) {
            grants.insert(scope, fields);
        }
    }
    let rate_limit_per_minute = read_limit(&mut reader, "rate_limit_per_minute", problems);
    let rate_limit_per_day = read_limit(&mut reader, "rate_limit_per_day", problems);
    reader.finish(problems);
    let name = name?;
    Some(NewClient { name, organization, legal_basis, purpose, grants, rate_limit_per_minute, rate_limit_per_day })
}

fn read_limit(reader: &mut ObjectReader, name: &'static str, problems: &mut Problems) -> Option<RateLimit> {
    let requests = reader.count(name, problems)?;
    match RateLimit::parse(requests) {
        Ok(limit) => Some(limit),
        Err(error) => {
            problems.add(name, "invalid", error.to_string());
            None
        }
    }
}

/// Reads what is to be changed of a client: what is named is changed, `null` takes it out.
pub fn read_changes(members: Map<String, Value>, problems: &mut Problems) -> ClientChanges {
    let names = |name: &str| members.contains_key(name);
    let has_name = names("name");
    let has_organization = names("organization");
    let (has_legal_basis, has_purpose) = (names("legal_basis"), names("purpose"));
    let (has_minute, has_day) = (names("rate_limit_per_minute"), names("rate_limit_per_day"));
    let mut reader = ObjectReader::root(members);
    let name = read_name(&mut reader, problems);
    if has_name && name.is_none() && !reader.is_problem("name", problems) {
        problems.add("name", "required", "a client has a name, which cannot be taken out");
    }
    let organization = read_organization(&mut reader, "organization", problems);
    let legal_basis = read_legal_basis(&mut reader, problems);
    let purpose = read_purpose(&mut reader, problems);
    let rate_limit_per_minute = read_limit(&mut reader, "rate_limit_per_minute", problems);
    let rate_limit_per_day = read_limit(&mut reader, "rate_limit_per_day", problems);
    reader.finish(problems);
    ClientChanges {
        name,
        organization: has_organization.then_some(organization),
        legal_basis: has_legal_basis.then_some(legal_basis),
        purpose: has_purpose.then_some(purpose),
        rate_limit_per_minute: has_minute.then_some(rate_limit_per_minute),
        rate_limit_per_day: has_day.then_some(rate_limit_per_day),
    }
}

fn read_name(reader: &mut ObjectReader, problems: &mut Problems) -> Option<ClientName> {
    let text = reader.text("name", 1_000, problems)?;
    match ClientName::parse(&text) {
        Ok(name) => Some(name),
        Err(error) => {
            problems.add("name", "invalid", error.to_string());
            None
        }
    }
}

fn read_legal_basis(reader: &mut ObjectReader, problems: &mut Problems) -> Option<LegalBasis> {
    reader.word("legal_basis", &LegalBasis::ALL.map(|basis| (basis.name(), basis)), problems)
}

fn read_purpose(reader: &mut ObjectReader, problems: &mut Problems) -> Option<Purpose> {
    let text = reader.text("purpose", PURPOSE_BYTES_MAX, problems)?;
    match Purpose::parse(&text) {
        Ok(purpose) => Some(purpose),
        Err(error) => {
            problems.add("purpose", "invalid", error.to_string());
            None
        }
    }
}

/// Reads the name of an organization.
pub fn read_organization(
    reader: &mut ObjectReader,
    name: &'static str,
    problems: &mut Problems,
) -> Option<Organization> {
    let text = reader.text(name, 4 * ORGANIZATION_CHARACTERS_MAX, problems)?;
    match Organization::parse(&text) {
        Ok(organization) => Some(organization),
        Err(error) => {
            problems.add(reader.path_of(name), "invalid", error.to_string());
            None
        }
    }
}

/// A client as the administrator sees it.
#[derive(Debug, Serialize)]
pub struct ClientBody {
    client_id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    legal_basis: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<String>,
    status: &'static str,
    scopes: Vec<String>,
    /// By scope, where a grant does not open every field.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fields: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit_per_minute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit_per_day: Option<u32>,
    created_at: String,
    updated_at: String,
    secrets: Vec<SecretBody>,
}

impl ClientBody {
    /// A client with its secrets as old as they are now.
    #[must_use]
    pub fn new(client: &Client, ages: SecretAges) -> Self {
        Self {
            client_id: client.id.to_string(),
            name: client.name.as_str().to_owned(),
            organization: client.organization.as_ref().map(ToString::to_string),
            legal_basis: client.legal_basis.map(LegalBasis::name),
            purpose: client.purpose.as_ref().map(ToString::to_string),
            status: match client.status {
                ClientStatus::Active => "active",
                ClientStatus::Disabled => "disabled",
            },
            scopes: client.grants.scopes().iter().map(|scope| scope.to_string()).collect(),
            fields: restrictions(client),
            rate_limit_per_minute: client.rate_limit_per_minute.map(RateLimit::requests),
            rate_limit_per_day: client.rate_limit_per_day.map(RateLimit::requests),
            created_at: format_instant(client.created_at),
            updated_at: format_instant(client.updated_at),
            secrets: client.secrets.iter().map(|secret| SecretBody::new(client, secret, ages)).collect(),
        }
    }
}

/// A client just registered, with the secret that is told this once.
#[derive(Debug, Serialize)]
pub struct NewClientBody {
    client_secret: String,
    #[serde(flatten)]
    client: ClientBody,
}

impl NewClientBody {
    /// The client and its secret.
    #[must_use]
    pub fn new(client: &Client, secret: &SecretString, ages: SecretAges) -> Self {
        Self { client_secret: secret.expose_secret().to_owned(), client: ClientBody::new(client, ages) }
    }
}

/// Several things.
#[derive(Debug, Serialize)]
pub struct ListBody<T> {
    /// The things.
    pub data: Vec<T>,
}
