//! `/clients`

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::{MethodFilter, delete};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use crate::admin::access::Administrator;
use crate::admin::grant::{read_grant, read_listed};
use crate::admin::resource::{Key, Routes, act, add, change, list, not_text, show};
use crate::api::dto::reader::{ObjectReader, Problems};
use crate::api::error::{ApiError, Problem};
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_api_types::admin::client::{ClientBody, NewClientBody, RotatedSecretBody, SecretBody};
use daftar_auth::limits::Limits;
use daftar_domain::calendar::format_instant;
use daftar_domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit};
use daftar_domain::consent::PURPOSE_BYTES_MAX;
use daftar_domain::consent_filter::Purpose;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::grant::Grants;
use daftar_domain::organization::{LegalBasis, ORGANIZATION_CHARACTERS_MAX, Organization};
use daftar_domain::scope::Scope;
use daftar_service::client::secret::OVERLAP_S_MAX;
use daftar_service::client::{ClientChanges, NewClient};

/// The most scopes that one request names: more than there are.
const SCOPES_MAX: usize = 100;

/// The paths of clients.
pub fn routes() -> Routes {
    let clients = list(|app: AppState| async move {
        Ok(app.clients.list().iter().map(|client| client_body(&app, client)).collect())
    });
    let client = show(|app: AppState, id: ClientId| async move { Ok(client_body(&app, &*app.clients.show(&id)?)) });
    let set = change(MethodFilter::PATCH, read_changes, |ctx, app: AppState, id: ClientId, changes| async move {
        Ok(client_body(&app, &*app.clients.set(&ctx, &id, changes).await?))
    });
    let disable = act(MethodFilter::POST, |ctx, app: AppState, id: ClientId| async move {
        Ok(Json(client_body(&app, &*app.clients.disable(&ctx, &id).await?)))
    });
    let enable = act(MethodFilter::POST, |ctx, app: AppState, id: ClientId| async move {
        Ok(Json(client_body(&app, &*app.clients.enable(&ctx, &id).await?)))
    });
    let grant = change(MethodFilter::POST, read_one_grant, |ctx, app: AppState, id: ClientId, granted| async move {
        let (scope, fields) = granted;
        Ok(client_body(&app, &*app.clients.grant(&ctx, &id, scope, fields).await?))
    });
    vec![
        ("/clients", clients.merge(add(read_client, create))),
        ("/clients/{id}", client.merge(set)),
        ("/clients/{id}/disable", disable),
        ("/clients/{id}/enable", enable),
        ("/clients/{id}/rotate-secret", change(MethodFilter::POST, read_overlap, rotate_secret)),
        ("/clients/{id}/grants", grant),
        ("/clients/{id}/grants/{scope}", delete(revoke)),
    ]
}

/// Registers a client; its secret is shown this once.
async fn create(ctx: OpContext, app: AppState, new: NewClient) -> Result<NewClientBody, AppError> {
    let (client, secret) = app.clients.create(&ctx, new).await?;
    Ok(NewClientBody { client_secret: secret.expose_secret().to_owned(), client: client_body(&app, &client) })
}

/// Gives a client another secret, which is shown this once; the older ones stay valid for `overlap_s` seconds.
async fn rotate_secret(
    ctx: OpContext,
    app: AppState,
    id: ClientId,
    overlap_s: u32,
) -> Result<RotatedSecretBody, AppError> {
    let rotated = app.clients.rotate_secret(&ctx, &id, overlap_s).await?;
    Ok(RotatedSecretBody {
        client_secret: rotated.secret.expose_secret().to_owned(),
        older_secrets_expire_at: rotated.older_expire_at.map(format_instant),
        client: client_body(&app, &rotated.client),
    })
}

/// Revokes a scope.
async fn revoke(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<ClientBody>, ApiError> {
    let Path((id, scope)) = path.map_err(|_| not_text())?;
    let scope = Scope::parse(&scope).map_err(|error| Problem::malformed(error.to_string()))?;
    let id = ClientId::of_path(&id).map_err(Problem::malformed)?;
    let client = app.clients.revoke(&ctx, &id, scope).await?;
    Ok(Json(client_body(&app, &client)))
}

/// Reads the body that registers a client.
fn read_client(app: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<NewClient> {
    let vocabularies = app.registry.vocabularies.current();
    let mut reader = ObjectReader::root(members);
    let read = read_settings(&mut reader, "a client has a name", true, problems);
    let mut grants = Grants::default();
    for (path, item) in reader.list("scopes", SCOPES_MAX, problems).unwrap_or_default() {
        if let Some((scope, fields)) = read_listed(path, item, vocabularies.extension_fields(), problems) {
            grants.insert(scope, fields);
        }
    }
    let (rate_limit_per_minute, rate_limit_per_day) = read_limits(&mut reader, problems);
    reader.finish(problems);
    let Settings { name, organization, legal_basis, purpose } = read;
    let name = name?;
    Some(NewClient { name, organization, legal_basis, purpose, grants, rate_limit_per_minute, rate_limit_per_day })
}

/// Reads the changes of a client: a member that is there is changed, `null` removes the value.
fn read_changes(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<ClientChanges> {
    let given: BTreeSet<String> = members.keys().cloned().collect();
    let mut reader = ObjectReader::root(members);
    let missing = "a client has a name, which cannot be taken out";
    let read = read_settings(&mut reader, missing, given.contains("name"), problems);
    let (rate_limit_per_minute, rate_limit_per_day) = read_limits(&mut reader, problems);
    reader.finish(problems);
    Some(ClientChanges {
        name: read.name,
        organization: given.contains("organization").then_some(read.organization),
        legal_basis: given.contains("legal_basis").then_some(read.legal_basis),
        purpose: given.contains("purpose").then_some(read.purpose),
        rate_limit_per_minute: given.contains("rate_limit_per_minute").then_some(rate_limit_per_minute),
        rate_limit_per_day: given.contains("rate_limit_per_day").then_some(rate_limit_per_day),
    })
}

/// What a client is called, and to whom it belongs.
struct Settings {
    name: Option<ClientName>,
    organization: Option<Organization>,
    legal_basis: Option<LegalBasis>,
    purpose: Option<Purpose>,
}

/// Reads these; `missing` is the problem of a name that is required and is not there.
fn read_settings(
    reader: &mut ObjectReader,
    missing: &str,
    is_name_required: bool,
    problems: &mut Problems,
) -> Settings {
    let name = read_text(reader, ("name", 1_000), ClientName::parse, problems);
    if is_name_required && name.is_none() && !reader.is_problem("name", problems) {
        problems.add("name", "required", missing);
    }
    let organization = ("organization", 4 * ORGANIZATION_CHARACTERS_MAX);
    Settings {
        name,
        organization: read_text(reader, organization, Organization::parse, problems),
        legal_basis: reader.word("legal_basis", &LegalBasis::ALL.map(|basis| (basis.name(), basis)), problems),
        purpose: read_text(reader, ("purpose", PURPOSE_BYTES_MAX), Purpose::parse, problems),
    }
}

/// Reads the limits a minute and a day.
fn read_limits(reader: &mut ObjectReader, problems: &mut Problems) -> (Option<RateLimit>, Option<RateLimit>) {
    let mut limit = |name: &'static str| {
        let requests = reader.count(name, problems)?;
        RateLimit::parse(requests).map_err(|error| problems.add(name, "invalid", error.to_string())).ok()
    };
    (limit("rate_limit_per_minute"), limit("rate_limit_per_day"))
}

/// Reads `{scope, fields?}`.
fn read_one_grant(app: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<(Scope, FieldSet)> {
    read_grant(members, app.registry.vocabularies.current().extension_fields(), problems)
}

/// Reads `{overlap_s?}`: for how many seconds older secrets stay valid.
fn read_overlap(_: &AppState, mut members: Map<String, Value>, problems: &mut Problems) -> Option<u32> {
    if members.get("overlap_s").and_then(Value::as_u64) == Some(0) {
        // An explicit 0 is as if it were not given.
        members.remove("overlap_s");
    }
    let mut reader = ObjectReader::root(members);
    let overlap_s = reader.count("overlap_s", problems).unwrap_or_default();
    reader.finish(problems);
    if overlap_s > OVERLAP_S_MAX {
        problems.add("overlap_s", "invalid", format!("it is a number of seconds from 0 to {OVERLAP_S_MAX}, 30 days"));
    }
    Some(overlap_s)
}

/// Reads a text of at most so many bytes that `parse` accepts.
fn read_text<T, E: ToString>(
    reader: &mut ObjectReader,
    (name, bytes_max): (&'static str, usize),
    parse: impl FnOnce(&str) -> Result<T, E>,
    problems: &mut Problems,
) -> Option<T> {
    let text = reader.text(name, bytes_max, problems)?;
    parse(&text).map_err(|error| problems.add(name, "invalid", error.to_string())).ok()
}

/// A client with the limits that count for it, and its secrets as old as they are now.
fn client_body(app: &AppState, client: &Client) -> ClientBody {
    let effective = Limits::quota_of(client);
    let restricted = client.grants.iter().filter_map(|(scope, fields)| match fields {
        FieldSet::All => None,
        FieldSet::Only(names) => Some((scope.to_string(), names.iter().map(ToString::to_string).collect())),
    });
    ClientBody {
        client_id: client.id.to_string(),
        name: client.name.as_str().to_owned(),
        organization: client.organization.as_ref().map(ToString::to_string),
        legal_basis: client.legal_basis.map(|basis| basis.name().to_owned()),
        purpose: client.purpose.as_ref().map(ToString::to_string),
        status: match client.status {
            ClientStatus::Active => "active".to_owned(),
            ClientStatus::Disabled => "disabled".to_owned(),
        },
        scopes: client.grants.scopes().iter().map(|scope| scope.to_string()).collect(),
        fields: restricted.collect(),
        rate_limit_per_minute: client.rate_limit_per_minute.map(RateLimit::requests),
        rate_limit_per_day: client.rate_limit_per_day.map(RateLimit::requests),
        effective_rate_limit_per_minute: effective.per_minute,
        effective_rate_limit_per_day: effective.per_day,
        created_at: format_instant(client.created_at),
        updated_at: format_instant(client.updated_at),
        secrets: client.secrets.iter().map(|secret| secret_body(app, client, secret)).collect(),
    }
}

fn secret_body(app: &AppState, client: &Client, secret: &ClientSecret) -> SecretBody {
    let now = app.clock.now();
    let warning_days = app.config.token.secret_age_warning();
    let overdue = warning_days.filter(|days| client.is_active() && secret.is_overdue(now, *days));
    let warn = |days| {
        format!("older than {days} days: `daftar client rotate-secret {} --overlap 24h` gives another", client.id)
    };
    SecretBody {
        created_at: format_instant(secret.created_at),
        expires_at: secret.expires_at.map(format_instant),
        age_days: secret.age_days(now),
        warning: overdue.map(warn),
    }
}
