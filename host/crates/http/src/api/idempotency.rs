//! `Idempotency-Key`: a create that is sent twice is executed once (draft-ietf-httpapi-idempotency-key-header).
//!
//! A request with the header is executed as a transaction of one entry, and its response is part of the same write. A
//! repetition within a day returns the written record, limited to the fields that the client may read at that time. A
//! batch does the same for its own request.
//!
//! **Invariant:** a stored response is returned only to a client that may still make the request.

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::access::AnyClient;
use super::batch::{ATTEMPTS_MAX, InnerRouter};
use super::endpoint::{BASE_PATH, Endpoint};
use super::error::{ApiResult, Problem};
use super::extract::accept::check_accept;
use super::extract::auth::WithinRequest;
use super::extract::body::{RECORD_BYTES_MAX, parse_object, read_bounded};
use super::middleware::response::RequestInfo;
use crate::api::routes::record_search::languages;
use crate::api::routes::{program, record};
use crate::state::AppState;
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::idempotency::{IdempotencyKey, KeyError, StoredResponse};
use daftar_domain::scope::Action;
use daftar_service::idempotency::NamedRequest;
use daftar_service::idempotency::{IdempotentReplay, replay};
use daftar_service::transaction::{CommitError, RollbackReason, Transaction};
use daftar_service::{audit, records};

/// Header with the idempotency key of a request.
pub static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Header of a response to an earlier request.
pub static REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Executes a create with an idempotency key at most once; passes other requests on.
pub async fn once(State(app): State<AppState>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !request.headers().contains_key(&IDEMPOTENCY_KEY) {
        return next.run(request).await;
    }
    let matched = request.extensions().get::<MatchedPath>();
    let endpoint = matched.and_then(|path| app.routes.find(&Method::POST, path.as_str()));
    match endpoint.filter(|endpoint| creates(endpoint)) {
        Some(endpoint) => run(&app, endpoint, request, next).await.unwrap_or_else(IntoResponse::into_response),
        None => next.run(request).await,
    }
}

/// True if a POST to an endpoint creates a record, or a membership in a group. Other endpoints cannot be called within
/// a transaction.
fn creates(endpoint: &Endpoint) -> bool {
    let (scopes, path) = (endpoint.scopes(), endpoint.paths.first());
    let is_of_members = path.is_some_and(|path| path.ends_with("/$add-member"));
    let is_create = !scopes.is_empty() && scopes.iter().all(|scope| scope.action == Action::Create);
    endpoint.is_of_records() && (is_create || is_of_members)
}

async fn run(app: &AppState, endpoint: &Endpoint, request: Request, next: Next) -> ApiResult {
    let (mut parts, body) = request.into_parts();
    let client = AnyClient::identified(&parts, app).await?;
    let ctx = client.context;
    parts.extensions.insert(WithinRequest { context: ctx.clone(), lines: None });
    if !endpoint.scopes().iter().any(|scope| ctx.scopes.covers(*scope)) {
        // The handler rejects it before it checks anything else.
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    check_accept(&parts, app)?;
    let key = key_of(&parts.headers)?.ok_or_else(|| AppError::internal("a header is missing"))?;
    let bytes = read_bounded(Request::from_parts(parts.clone(), body), RECORD_BYTES_MAX).await?;
    if let Some(info) = parts.extensions.get::<RequestInfo>() {
        info.reserve_memory(&bytes).await?;
    }
    let bytes = Bytes::from(bytes);
    let named = NamedRequest { key, digest: digest_of(endpoint, &parts, &bytes), parts: 1 };
    let mut once = app.requests.begin(&ctx, &*app.registry.store, named).await?;
    let mut lock = None;
    for _ in 0..ATTEMPTS_MAX {
        ctx.trail.begin_again();
        if let Some(earlier) = once.earlier(0) {
            let mut response = response(app, &ctx, &parts.headers, earlier.responses.first()).await?;
            response.headers_mut().insert(&REPLAYED, HeaderValue::from_static("true"));
            return Ok(response);
        }
        let mut transaction = Transaction::begin(&app.registry, lock.take());
        transaction.begin_entry(0);
        let request = unmatched(&parts, &bytes);
        let response = InnerRouter::of_one(&app.with_registry(transaction.registry())).response(request).await;
        if !response.status().is_success() {
            if once.is_done_concurrently(&ctx, &*app.registry.store, 0).await? {
                continue;
            }
            transaction.abandon(&ctx, RollbackReason::OtherRefused).await?;
            return Ok(response);
        }
        let reply = answer_of(&transaction, 0, response.status().as_u16());
        match transaction.commit_once(&ctx, once.answered(&ctx, 0, vec![reply])).await {
            Ok(()) => {
                once.note();
                return Ok(response);
            }
            Err(CommitError::Overtaken(of_numbers)) => {
                lock = of_numbers;
                transaction.abandon(&ctx, RollbackReason::Overtaken).await?;
                once.is_done_concurrently(&ctx, &*app.registry.store, 0).await?;
            }
            Err(CommitError::Failed(error)) => {
                transaction.abandon(&ctx, RollbackReason::Failed).await?;
                return Err(error.into());
            }
        }
    }
    Err(AppError::Overtaken.into())
}

/// The original request without its matched route: the route is matched once more.
fn unmatched(parts: &Parts, bytes: &Bytes) -> Request {
    let mut request = Request::new(Body::from(bytes.clone()));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    let (within, info) = (parts.extensions.get::<WithinRequest>(), parts.extensions.get::<RequestInfo>());
    within.map(|within| request.extensions_mut().insert(within.clone()));
    info.map(|info| request.extensions_mut().insert(info.clone()));
    request
}

/// The stored response to an entry.
pub fn answer_of(transaction: &Transaction, entry: usize, status: u16) -> StoredResponse {
    StoredResponse { status, record: transaction.written_by(entry).last().map(|record| record.place()) }
}

/// Reads the idempotency key of a request.
///
/// # Errors
/// 400 if it is invalid or appears twice.
pub fn key_of(headers: &HeaderMap) -> ApiResult<Option<IdempotencyKey>> {
    let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::malformed("`Idempotency-Key` appears twice").into());
    }
    let key = first.to_str().ok().and_then(|text| IdempotencyKey::parse(text.trim()).ok());
    let key = key.ok_or_else(|| Problem::malformed(KeyError.to_string()))?;
    Ok(Some(key))
}

/// SHA-256 of a request: path, conditions and body. Equivalent spellings of a path, and spaces and the order of members
/// in JSON, make no difference.
fn digest_of(endpoint: &Endpoint, parts: &Parts, body: &[u8]) -> [u8; 32] {
    let path = parts.uri.path();
    let first = endpoint.paths.first().map_or(path, String::as_str);
    let named = path.strip_prefix(BASE_PATH).unwrap_or(path).split('/').nth(2).unwrap_or_default();
    let named = percent_decode_str(named).collect::<Vec<u8>>();
    let condition = |name| parts.headers.get(name).map(|value| value.as_bytes()).unwrap_or_default();
    let (permitted, excluded) = (condition(header::IF_MATCH), condition(header::IF_NONE_MATCH));
    let query = parts.uri.query().unwrap_or_default();
    let same = parse_object(body).map(|members| Value::Object(members).to_string());
    let body = same.as_ref().map_or(body, |text| text.as_bytes());
    digest(&[first.as_bytes(), &named, query.as_bytes(), permitted, excluded, body])
}

/// SHA-256 of parts, each prefixed by its length.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Extension of a nested request that was executed before: its stored response.
#[derive(Debug, Clone, Copy)]
pub struct DoneBefore(pub StoredResponse);

/// Returns the stored response instead of executing the request again.
pub async fn answered_before(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let Some(DoneBefore(reply)) = request.extensions().get().copied() else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let endpoint = parts.extensions.get::<MatchedPath>().and_then(|path| app.routes.find(&parts.method, path.as_str()));
    match WithinRequest::allowed_by(endpoint.map(Endpoint::scopes).unwrap_or_default(), &parts, &app) {
        Some(ctx) => {
            let again = response(&app, &ctx, &parts.headers, Some(&reply)).await;
            again.unwrap_or_else(IntoResponse::into_response)
        }
        // The handler rejects it before it checks anything else.
        None => next.run(Request::from_parts(parts, body)).await,
    }
}

/// Returns a stored response again.
///
/// # Errors
/// [`AppError::NotFound`] if the changed record is no longer visible to the client. Returns other errors if the store
/// fails, or the stored response is inconsistent.
pub async fn response(
    app: &AppState,
    ctx: &OpContext,
    headers: &HeaderMap,
    reply: Option<&StoredResponse>,
) -> ApiResult {
    let reply = reply.ok_or_else(|| AppError::internal("a request is stored without its response"))?;
    let status = StatusCode::from_u16(reply.status).map_err(|error| AppError::Internal(error.into()))?;
    let Some(record) = reply.record else { return Ok(status.into_response()) };
    let shown = replay(ctx, &app.registry, languages(app, headers), record).await?;
    let (kind, identifiers) = (record.0, identifiers_of(&shown));
    let mut entry = audit::entry(ctx, AuditAction::Read, AuditOutcome::Allowed, records::references(kind, identifiers));
    entry.note = Some("the response to a repeated request".to_owned());
    app.registry.audit.record(ctx, entry).await?;
    Ok(match &shown {
        IdempotentReplay::Individual(view) => record::individual_answer(app, status, view).await?,
        IdempotentReplay::Group(view) => record::group_answer(app, status, view).await?,
        IdempotentReplay::ProgramMembership(view) => program::membership_answer(app, status, view, None),
        IdempotentReplay::Nothing => status.into_response(),
    })
}

fn identifiers_of(shown: &IdempotentReplay) -> &[daftar_domain::identifier::Identifier] {
    match shown {
        IdempotentReplay::Individual(view) => &view.individual.details.identifiers,
        IdempotentReplay::Group(view) => &view.group.details.identifiers,
        IdempotentReplay::ProgramMembership(view) => &view.membership.details.identifiers,
        IdempotentReplay::Nothing => &[],
    }
}
