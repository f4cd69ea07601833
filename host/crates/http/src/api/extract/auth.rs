//! The first argument of every handler: identifies the caller and checks its permission.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::accept::check_accept;
use crate::api::access::ScopeRule;
use crate::api::error::{ApiError, Problem, RETRY_AFTER_S};
use crate::api::middleware::entrance::check_unread;
use crate::api::middleware::response::RequestInfo;
use crate::api::routes::token::refusal;
use crate::state::AppState;
use daftar_auth::authenticate::{AuthFault, AuthFaultKind, Authenticated, ChargedTo};
use daftar_auth::limits::response_memory::Reader;
use daftar_auth::limits::{Decision, Limits, Refusal};
use daftar_auth::oauth_error::{OAuthError, OAuthErrorCode};
use daftar_domain::audit::{Actor, AuditAction};
use daftar_domain::client::Client;
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::{AuditContext, HeldLines};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::scope::{Action, Resource, Scope};

/// A client whose token grants one of the scopes of `R`. Counted in the client's bucket.
pub struct Auth<R> {
    /// Context of the operations.
    pub ctx: OpContext,
    /// The server, with this request's view of the register.
    pub app: AppState,
    rule: PhantomData<R>,
}

/// Any client: the operation requires scopes of its own. Counted in the client's bucket.
#[derive(Debug)]
pub struct AnyClient {
    /// Context of the operations.
    pub context: OpContext,
    /// The request.
    pub info: RequestInfo,
}

/// Extension of a nested request: its client is known and already counted.
#[derive(Debug, Clone)]
pub struct WithinRequest {
    /// Context of the operations.
    pub context: OpContext,
    /// Destination of its audit entries, if they are written with the outer request.
    pub lines: Option<HeldLines>,
}

/// Any caller. Counted in the unauthenticated bucket of the address.
#[derive(Debug, Clone, Copy)]
pub struct Public;

/// Any reader of a page of the documentation, of the workbench, or of their files. Counted in the bucket of pages of the
/// address, so that a client whose calls are rejected can still read the reason.
#[derive(Debug, Clone, Copy)]
pub struct PageCall;

/// Any caller that requests a token. Counted in the token bucket of the address.
#[derive(Debug, Clone, Copy)]
pub struct TokenCall;

/// Any caller. Not counted.
#[derive(Debug, Clone, Copy)]
pub struct HealthCall;

impl<R: ScopeRule> FromRequestParts<AppState> for Auth<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let info = request_info(parts, app);
        let context = match parts.extensions.get::<WithinRequest>() {
            Some(within) => within.context_of(&info),
            None => identify(parts, app, &info).await?,
        };
        context.trail.set_caller(context.actor.clone(), audited_action(R::ACCEPTED));
        if grants_one(&context, R::ACCEPTED) {
            check_accept(parts, app)?;
            return Ok(Self { ctx: context, app: app.clone(), rule: PhantomData });
        }
        let required: Vec<String> = R::ACCEPTED.iter().map(ToString::to_string).collect();
        Err(AppError::MissingScope { required: required.join(" or "), granted: context.scopes }.into())
    }
}

impl WithinRequest {
    /// The context of the request with its audit context.
    fn context_of(&self, info: &RequestInfo) -> OpContext {
        OpContext { trail: info.trail.clone(), ..self.context.clone() }
    }

    /// The context of a nested request whose client has one of these scopes.
    #[must_use]
    pub fn allowed_by(scopes: &[Scope], parts: &Parts, app: &AppState) -> Option<OpContext> {
        let context = parts.extensions.get::<Self>()?.context_of(&request_info(parts, app));
        context.trail.set_caller(context.actor.clone(), audited_action(scopes));
        grants_one(&context, scopes).then_some(context)
    }
}

fn grants_one(context: &OpContext, scopes: &[Scope]) -> bool {
    scopes.iter().any(|scope| context.scopes.covers(*scope))
}

/// Identifies the caller and counts it in the client's bucket. The store is not read for an invalid token or a client
/// over its rate limit. The context has the stored client, even if this process did not know its last change.
async fn identify(parts: &Parts, app: &AppState, info: &RequestInfo) -> Result<OpContext, ApiError> {
    // Before the client is looked up: a change applied in between repeats the lookup.
    let is_current = app.is_current();
    let authorization = || parts.headers.get_all(header::AUTHORIZATION).iter().map(|value| value.as_bytes());
    let mut now = app.clock.now();
    let mut caller = app.authenticate(authorization(), now);
    if let Err(fault) = &caller
        && app.look_again(fault).await?
    {
        now = app.clock.now();
        caller = app.authenticate(authorization(), now);
    }
    let mut caller = match caller {
        Ok(caller) => caller,
        Err(fault) => return Err(refuse(app, info, &fault).await?),
    };
    info.trail.set_caller(Actor::Client(caller.client.id.clone()), AuditAction::Authenticate);
    charge_client(app, info, &caller.client).await?;
    if !is_current {
        app.be_current().await?;
        now = app.clock.now();
        caller = match app.authenticate(authorization(), now) {
            Ok(caller) => caller,
            Err(fault) => return Err(refuse(app, info, &fault).await?),
        };
    }
    let Authenticated { client, scopes, .. } = caller;
    let actor = Actor::Client(client.id.clone());
    check_unread(app, &Reader::Client(client.id.clone()))?;
    let (organization, grants) = (client.organization.clone(), client.grants.clone());
    let (request_id, trail) = (Arc::clone(&info.id), info.trail.clone());
    let consent = client.consent_filter();
    Ok(OpContext { actor, organization, consent, scopes, grants, request_id, now, trail })
}

impl FromRequestParts<AppState> for AnyClient {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let client = Self::identified(parts, app).await?;
        check_accept(parts, app)?;
        Ok(client)
    }
}

impl AnyClient {
    /// Identifies the caller, for any `Accept`.
    ///
    /// # Errors
    /// 401 or 429.
    pub async fn identified(parts: &Parts, app: &AppState) -> Result<Self, ApiError> {
        let info = request_info(parts, app);
        let context = identify(parts, app, &info).await?;
        context.trail.set_caller(context.actor.clone(), AuditAction::Update);
        Ok(Self { context, info })
    }

    /// Counts the rest of a call that costs `calls` in total, the first of which is already counted.
    ///
    /// # Errors
    /// 429 if the bucket has too few calls left: none of the rest is counted then. 422 if it can never have so many.
    pub async fn charge_rest(&self, app: &AppState, calls: usize) -> Result<(), ApiError> {
        let client = self.context.client().and_then(|id| app.clients.directory.find(id));
        let client = client.ok_or_else(|| AppError::internal("a call of a missing client was admitted"))?;
        let quota = Limits::quota_of(&client);
        for (limit, time) in [(quota.per_minute, "minute"), (quota.per_day, "day")] {
            if calls > limit as usize {
                let message = format!(
                    "each entry counts as one request, and this client may make {limit} a {time}: send at most {limit} entries at once"
                );
                return Err(AppError::invalid("entry", "too_many", message).into());
            }
        }
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        accept(&self.info, app.limits.charge_client_rest(&client, calls).await?)
    }
}

fn audited_action(accepted: &[Scope]) -> AuditAction {
    if accepted.first().is_some_and(|scope| scope.resource == Resource::Eligibility) {
        return AuditAction::Evaluate;
    }
    match accepted.first().map(|scope| scope.action) {
        Some(Action::Create) => AuditAction::Create,
        Some(Action::Update | Action::Delete) => AuditAction::Update,
        Some(Action::Search) => AuditAction::Search,
        Some(Action::Read | Action::All) | None => AuditAction::Read,
    }
}

/// Counts a call with an invalid token and returns its error: 429 over the rate limit, else 401.
async fn refuse(app: &AppState, info: &RequestInfo, fault: &AuthFault) -> Result<ApiError, ApiError> {
    match fault.charged_to() {
        ChargedTo::Client(client) => {
            info.trail.set_caller(Actor::Client(client.id.clone()), AuditAction::Authenticate);
            charge_client(app, info, client).await?;
        }
        ChargedTo::Address => {
            // A revoked token still identifies its client.
            info.trail.about(fault.client.iter().map(|client| client.id.to_string()));
            info.trail.set_caller(Actor::Unknown, AuditAction::Authenticate);
            charge_address(app, info).await?;
        }
    }
    let challenge = if fault.is_without_credentials() {
        "Bearer realm=\"daftar\"".to_owned()
    } else {
        format!("Bearer realm=\"daftar\", error=\"invalid_token\", error_description=\"{fault}\"")
    };
    let code = match fault.kind {
        AuthFaultKind::Missing => ErrorCode::TokenMissing,
        AuthFaultKind::SeveralHeaders | AuthFaultKind::HeaderText | AuthFaultKind::Token(_) => ErrorCode::TokenInvalid,
        AuthFaultKind::Expired | AuthFaultKind::Revoked => ErrorCode::TokenExpired,
        AuthFaultKind::UnknownClient | AuthFaultKind::Disabled => ErrorCode::ClientDisabled,
    };
    let problem = Problem::new(code, fault.to_string());
    Ok(problem.with_header(header::WWW_AUTHENTICATE, &challenge).into())
}

impl FromRequestParts<AppState> for Public {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let info = request_info(parts, app);
        charge_address(app, &info).await?;
        check_reader(parts, app, &info).map(|()| Self)
    }
}

impl FromRequestParts<AppState> for PageCall {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let info = request_info(parts, app);
        accept(&info, app.limits.charge_page(address(&info)?).await?)?;
        check_reader(parts, app, &info).map(|()| Self)
    }
}

/// Checks a caller without a token: it must read its responses, and accept the media types.
fn check_reader(parts: &Parts, app: &AppState, info: &RequestInfo) -> Result<(), ApiError> {
    check_unread(app, &Reader::of_address(address(info)?))?;
    Ok(check_accept(parts, app)?)
}

impl FromRequestParts<AppState> for HealthCall {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, _: &AppState) -> Result<Self, Self::Rejection> {
        Ok(Self)
    }
}

impl FromRequestParts<AppState> for TokenCall {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Self::Rejection> {
        let info = request_info(parts, app);
        info.trail.set_caller(Actor::Unknown, AuditAction::Authenticate);
        let decision = app.limits.charge_token_request(address(&info).map_err(IntoResponse::into_response)?).await;
        let decision = decision.map_err(|error| ApiError::from(error).into_response())?;
        info.set_rate(decision.headers());
        let Decision::Refused { retry_after_s, .. } = decision else { return Ok(Self) };
        let detail = decision.detail().unwrap_or_default();
        let error = OAuthError::new(OAuthErrorCode::TemporarilyUnavailable, &detail);
        let headers = [(header::RETRY_AFTER, retry_after_s.to_string())];
        Err((StatusCode::TOO_MANY_REQUESTS, headers, axum::Json(refusal(&error))).into_response())
    }
}

/// A token request that cannot be handled now, in OAuth's format.
pub(in crate::api) fn token_unavailable(detail: &str) -> Response {
    let error = OAuthError::new(OAuthErrorCode::TemporarilyUnavailable, detail);
    let headers = [(header::RETRY_AFTER, RETRY_AFTER_S)];
    (StatusCode::SERVICE_UNAVAILABLE, headers, axum::Json(refusal(&error))).into_response()
}

async fn charge_client(app: &AppState, info: &RequestInfo, client: &Client) -> Result<(), ApiError> {
    accept(info, app.limits.charge_client(client).await?)
}

/// Counts a call without a valid token, or of a public endpoint.
pub(in crate::api) async fn charge_address(app: &AppState, info: &RequestInfo) -> Result<(), ApiError> {
    accept(info, app.limits.charge_unauthenticated(address(info)?).await?)
}

fn accept(info: &RequestInfo, decision: Decision) -> Result<(), ApiError> {
    info.set_rate(decision.headers());
    let Decision::Refused { retry_after_s, refusal, .. } = decision else { return Ok(()) };
    let code = match refusal {
        Refusal::Minute | Refusal::AtCapacity => ErrorCode::RateLimited,
        Refusal::Day => ErrorCode::QuotaExceeded,
    };
    let problem = Problem::new(code, decision.detail().unwrap_or_default());
    Err(problem.with_header(header::RETRY_AFTER, &retry_after_s.to_string()).into())
}

/// Address of the caller.
fn address(info: &RequestInfo) -> Result<IpAddr, ApiError> {
    let caller = info.caller.ok_or_else(|| AppError::internal("a request has no address"))?;
    Ok(caller.address)
}

fn request_info(parts: &Parts, app: &AppState) -> RequestInfo {
    let info = parts.extensions.get::<RequestInfo>().cloned();
    info.unwrap_or_else(|| RequestInfo::new(app.ids.next_id().into(), AuditContext::default(), app.clock.elapsed()))
}
