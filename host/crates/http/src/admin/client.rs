//! `/clients`

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::routing::{MethodFilter, delete};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use crate::admin::resource::{Administrator, Key, Routes, act, add, change, list, not_text, show};
use crate::api::dto::reader::{ObjectReader, Problems, nearest, text_value};
use crate::api::error::{ApiResult, Problem};
use crate::api::extract::query::NoParameters;
use crate::state::AppState;
use daftar_api_types::admin::client::{ClientBody, NewClientBody, RotatedSecretBody, SecretBody};
use daftar_auth::limits::Limits;
use daftar_domain::calendar::format_instant;
use daftar_domain::client::{Client, ClientId, ClientName, ClientSecret, ClientStatus, RateLimit};
use daftar_domain::consent::{PURPOSE_BYTES_MAX, Purpose};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::extension::{EXTENSION, ExtensionFields};
use daftar_domain::field::{FieldName, FieldSet, extension_key, fields_of};
use daftar_domain::grant::Grants;
use daftar_domain::organization::{LegalBasis, ORGANIZATION_CHARACTERS_MAX, Organization};
use daftar_domain::scope::{Resource, Scope};
use daftar_service::client::{ClientChanges, OVERLAP_S_MAX};

/// Maximum number of scopes in one request: more than exist.
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
    let deleted = act(MethodFilter::DELETE, |ctx, app: AppState, id: ClientId| async move {
        app.clients.delete(&ctx, &id).await?;
        Ok(StatusCode::NO_CONTENT)
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
        ("/clients/{id}", client.merge(set).merge(deleted)),
        ("/clients/{id}/disable", disable),
        ("/clients/{id}/enable", enable),
        ("/clients/{id}/rotate-secret", change(MethodFilter::POST, read_overlap, rotate_secret)),
        ("/clients/{id}/grants", grant),
        ("/clients/{id}/grants/{scope}", delete(revoke)),
    ]
}

/// Contents of a request for a new client.
type NewClient = (ClientName, Grants, ClientChanges);

/// Registers a client. Its secret is shown in this response alone.
async fn create(ctx: OpContext, app: AppState, (name, grants, settings): NewClient) -> Result<NewClientBody, AppError> {
    let (client, secret) = app.clients.create(&ctx, (name, grants), settings).await?;
    Ok(NewClientBody { client_secret: secret.expose_secret().to_owned(), client: client_body(&app, &client) })
}

/// Gives a client another secret, shown in this response alone. The older ones stay valid for `overlap_s` seconds.
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
    call: Administrator,
    _: NoParameters,
    path: Result<Path<(String, String)>, PathRejection>,
) -> ApiResult<Json<ClientBody>> {
    let Path((id, scope)) = path.map_err(|_| not_text())?;
    let scope = Scope::parse(&scope).map_err(|error| Problem::malformed(error.to_string()))?;
    let id = ClientId::of_path(&id).map_err(Problem::malformed)?;
    let client = call.app.clients.revoke(&call.ctx, &id, scope).await?;
    Ok(Json(client_body(&call.app, &client)))
}

/// Reads the body that registers a client.
fn read_client(app: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<NewClient> {
    let vocabularies = app.registry.vocabularies.current();
    let mut reader = ObjectReader::root(members);
    let settings = read_settings(&mut reader, |_| true, "a client has a name", problems);
    let mut grants = Grants::default();
    for (path, item) in reader.list("scopes", SCOPES_MAX, problems).unwrap_or_default() {
        if let Some((scope, fields)) = read_listed(path, item, vocabularies.extension_fields(), problems) {
            grants.insert(scope, fields);
        }
    }
    reader.finish(problems);
    Some((settings.name.clone()?, grants, settings))
}

/// Reads the changes of a client: a member that is present is changed, `null` removes the value.
fn read_changes(_: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<ClientChanges> {
    let given: BTreeSet<String> = members.keys().cloned().collect();
    let mut reader = ObjectReader::root(members);
    let missing = "a client has a name, which cannot be taken out";
    let changes = read_settings(&mut reader, |name| given.contains(name), missing, problems);
    reader.finish(problems);
    Some(changes)
}

/// Reads a client's name, organization and limits. `is_given` tests which members count; `missing` is the problem of a
/// name that counts and is absent.
fn read_settings(
    reader: &mut ObjectReader,
    is_given: impl Fn(&str) -> bool,
    missing: &str,
    problems: &mut Problems,
) -> ClientChanges {
    let name = read_text(reader, ("name", 1_000), ClientName::parse, problems);
    if is_given("name") && name.is_none() && !reader.is_problem("name", problems) {
        problems.add("name", "required", missing);
    }
    let organization = ("organization", 4 * ORGANIZATION_CHARACTERS_MAX);
    let organization = read_text(reader, organization, Organization::parse, problems);
    let legal_basis = reader.word("legal_basis", &LegalBasis::ALL.map(|basis| (basis.name(), basis)), problems);
    let purpose = read_text(reader, ("purpose", PURPOSE_BYTES_MAX), Purpose::parse, problems);
    let mut limit = |name: &'static str| {
        let parsed = reader.count(name, problems).map(RateLimit::parse).transpose();
        let limit = parsed.map_err(|error| problems.add(name, "invalid", error.to_string())).ok().flatten();
        is_given(name).then_some(limit)
    };
    ClientChanges {
        name,
        organization: is_given("organization").then_some(organization),
        legal_basis: is_given("legal_basis").then_some(legal_basis),
        purpose: is_given("purpose").then_some(purpose),
        rate_limit_per_minute: limit("rate_limit_per_minute"),
        rate_limit_per_day: limit("rate_limit_per_day"),
    }
}

/// Reads `{scope, fields?}`.
fn read_one_grant(app: &AppState, members: Map<String, Value>, problems: &mut Problems) -> Option<(Scope, FieldSet)> {
    read_grant(ObjectReader::root(members), app.registry.vocabularies.current().extension_fields(), problems)
}

/// Reads `{overlap_s?}`: for how many seconds older secrets stay valid.
fn read_overlap(_: &AppState, mut members: Map<String, Value>, problems: &mut Problems) -> Option<u32> {
    if members.get("overlap_s").and_then(Value::as_u64) == Some(0) {
        // An explicit 0 means the same as an absent member.
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

/// Reads a text of at most `bytes_max` bytes that `parse` accepts.
fn read_text<T, E: ToString>(
    reader: &mut ObjectReader,
    (name, bytes_max): (&'static str, usize),
    parse: impl FnOnce(&str) -> Result<T, E>,
    problems: &mut Problems,
) -> Option<T> {
    let text = reader.text(name, bytes_max, problems)?;
    problems.accept(name, "invalid", parse(&text))
}

/// A client with its effective limits, and its secrets with their current age.
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
            ClientStatus::Deleted => "deleted".to_owned(),
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

/// Maximum number of fields in one grant: more than a resource has.
const FIELDS_MAX: usize = 200;
/// Maximum length of a checked name of a scope or a field, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// Maximum edit distance of a misspelt name from its suggestion, which is also less than a third of its letters.
const NAME_EDITS_MAX: usize = 3;

/// Reads one of the grants of a new client: the scope alone, or an object as [`read_grant`] reads it.
fn read_listed(
    path: String,
    item: Value,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> Option<(Scope, FieldSet)> {
    if item.is_object() {
        return read_grant(ObjectReader::at(path, item, problems), declared, problems);
    }
    let text = text_value(&path, item, NAME_BYTES_MAX, problems)?;
    Some((problems.accept(&path, "unknown_scope", Scope::parse(&text))?, FieldSet::All))
}

/// Reads `{scope, fields?}`. Without `fields` the grant has every field of the resource.
fn read_grant(
    mut reader: ObjectReader,
    declared: &ExtensionFields,
    problems: &mut Problems,
) -> Option<(Scope, FieldSet)> {
    let text = reader.text("scope", NAME_BYTES_MAX, problems);
    if text.is_none() && !reader.is_problem("scope", problems) {
        problems.add(reader.path_of("scope"), "required", "the scope to grant is required");
    }
    let at = reader.path_of("fields");
    let items = reader.list("fields", FIELDS_MAX, problems);
    let path = reader.path_of("scope");
    let scope = text.and_then(|text| problems.accept(&path, "unknown_scope", Scope::parse(&text)));
    reader.finish(problems);
    let (scope, Some(items)) = (scope?, items) else { return Some((scope?, FieldSet::All)) };
    if fields_of(scope.resource).is_empty() {
        let message = format!("`{}` has no fields that a grant could be restricted to", scope.resource.name());
        problems.add(at, "contradiction", message);
        return None;
    }
    let mut names = Vec::with_capacity(items.len());
    for (path, item) in items {
        let Some(text) = text_value(&path, item, NAME_BYTES_MAX, problems) else { continue };
        match FieldName::parse(scope.resource, &text) {
            Ok(name) if is_there(&name, declared) => names.push(name),
            Ok(_) | Err(_) => problems.add(path, "unknown_field", unknown(scope.resource, &text, declared)),
        }
    }
    Some((scope, FieldSet::only(names)))
}

/// True if a field can have values: an installed module must declare a key of extensions.
fn is_there(name: &FieldName, declared: &ExtensionFields) -> bool {
    extension_key(name.as_str()).is_none_or(|key| keys_of(declared).any(|known| known == key))
}

fn keys_of(declared: &ExtensionFields) -> impl Iterator<Item = &str> {
    declared.iter().filter_map(|field| field.path.as_str().split('.').next())
}

/// Returns the message for an unknown field name: the closest match, or all fields.
fn unknown(resource: Resource, text: &str, declared: &ExtensionFields) -> String {
    let mut known: Vec<String> = fields_of(resource).iter().map(|name| (*name).to_owned()).collect();
    if fields_of(resource).contains(&EXTENSION) {
        known.extend(keys_of(declared).map(|key| format!("{EXTENSION}.{key}")));
        known.dedup();
    }
    let shown: String = text.chars().filter(|character| !character.is_control()).collect();
    let edits_max = (text.chars().count() / 3).clamp(1, NAME_EDITS_MAX);
    match nearest(text, known.iter().map(String::as_str), edits_max) {
        Some(name) => format!("`{shown}` is no field of `{}`; did you mean `{name}`?", resource.name()),
        None if FieldName::parse(resource, text).is_ok() => {
            format!("no installed module declares `{shown}`; install it first, or grant all of `{EXTENSION}`")
        }
        None => format!("`{shown}` is no field of `{}`; it has {}", resource.name(), known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use daftar_domain::error::AppError;
    use daftar_domain::manifest::{ExtensionField, ExtensionFieldKind, ExtensionPath};

    fn declared() -> ExtensionFields {
        let path = ExtensionPath::parse("farmer.plots").unwrap();
        let field = ExtensionField { path, kind: ExtensionFieldKind::Integer, repeated: false, vocabulary: None };
        let mut fields = ExtensionFields::default();
        fields.add(field).unwrap();
        fields
    }

    fn read(body: Value) -> Result<String, String> {
        let Value::Object(members) = body else { unreachable!() };
        let mut problems = Problems::default();
        let grant = read_grant(ObjectReader::root(members), &declared(), &mut problems);
        match problems.finish(grant) {
            Ok(grant) => match grant.unwrap() {
                (scope, FieldSet::All) => Ok(format!("{scope} all")),
                (scope, FieldSet::Only(names)) => {
                    Ok(format!("{scope} {}", names.iter().map(FieldName::as_str).collect::<Vec<_>>().join(",")))
                }
            },
            Err(AppError::Invalid(found)) => Err(format!("{}: {}", found[0].field, found[0].message)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_grant_is_a_scope_and_perhaps_fields() {
        for (body, grant) in [
            (json!({"scope": "individual:read"}), "individual:read all"),
            (json!({"scope": "individual:read", "fields": null}), "individual:read all"),
            (json!({"scope": "individual:all", "fields": ["name", "birth_date"]}), "individual:all birth_date,name"),
            (json!({"scope": "group:read", "fields": ["extension.farmer"]}), "group:read extension.farmer"),
            (json!({"scope": "program:read", "fields": []}), "program:read "),
        ] {
            assert_eq!(read(body.clone()).as_deref(), Ok(grant), "{body}");
        }
    }

    #[test]
    fn an_unknown_field_is_reported_with_the_closest_match() {
        for (body, problem) in [
            (json!({"fields": ["name"]}), "scope: the scope to grant is required"),
            (
                json!({"scope": "individual:read", "fields": ["name", "birthdate"]}),
                "fields[1]: `birthdate` is no field of `individual`; did you mean `birth_date`?",
            ),
            (
                json!({"scope": "group:read", "fields": ["extension.framer"]}),
                "fields[0]: `extension.framer` is no field of `group`; did you mean `extension.farmer`?",
            ),
            (
                json!({"scope": "group:read", "fields": ["extension.health"]}),
                "fields[0]: no installed module declares `extension.health`; install it first, or grant all of `extension`",
            ),
            (
                json!({"scope": "vocabulary:read", "fields": ["name"]}),
                "fields: `vocabulary` has no fields that a grant could be restricted to",
            ),
        ] {
            assert_eq!(read(body.clone()), Err(problem.to_owned()), "{body}");
        }
        let far = read(json!({"scope": "program:read", "fields": ["income"]})).unwrap_err();
        assert!(far.contains("`income` is no field of `program`; it has identifier, active, name"), "{far}");
    }
}
