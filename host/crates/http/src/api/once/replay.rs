//! The answer to a request that was done before: what it wrote, as far as the client may see it now.
//!
//! **Invariant:** only who may still make a request is answered again.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::endpoint::Endpoint;
use crate::api::error::ApiError;
use crate::api::extract::auth::WithinRequest;
use crate::api::routes::search::languages;
use crate::api::routes::{group, individual, program_membership};
use crate::state::AppState;
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::idempotency::RememberedAnswer;
use daftar_service::once::{ShownAgain, shown_again};
use daftar_service::{audit, records};

/// Goes with a request within another one that was done before: how it was answered.
#[derive(Debug, Clone, Copy)]
pub struct DoneBefore(pub RememberedAnswer);

/// Answers what was done before instead of doing it once more.
pub async fn answered_before(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let Some(DoneBefore(answer)) = request.extensions().get().copied() else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let endpoint = parts.extensions.get::<MatchedPath>().and_then(|path| app.routes.find(&parts.method, path.as_str()));
    match WithinRequest::allowed_by(endpoint.map(Endpoint::scopes).unwrap_or_default(), &parts, &app) {
        Some(ctx) => {
            let again = response(&app, &ctx, &parts.headers, Some(&answer)).await;
            again.unwrap_or_else(IntoResponse::into_response)
        }
        // The handler refuses it before it looks at anything else.
        None => next.run(Request::from_parts(parts, body)).await,
    }
}

/// Answers again.
///
/// # Errors
/// [`AppError::NotFound`] for a change of what is not there any more for the client. When the store fails, or what is remembered
/// makes no sense.
pub async fn response(
    app: &AppState,
    ctx: &OpContext,
    headers: &HeaderMap,
    answer: Option<&RememberedAnswer>,
) -> Result<Response, ApiError> {
    let answer = answer.ok_or_else(|| AppError::internal("a request is remembered without its answer"))?;
    let status = StatusCode::from_u16(answer.status).map_err(|error| AppError::Internal(error.into()))?;
    let Some(record) = answer.record else { return Ok(status.into_response()) };
    let shown = shown_again(ctx, &app.registry, languages(app, headers), record).await?;
    let (kind, identifiers) = (record.0, identifiers_of(&shown));
    let mut entry = audit::entry(ctx, AuditAction::Read, AuditOutcome::Allowed, records::references(kind, identifiers));
    entry.note = Some("the answer to a request that was done before".to_owned());
    app.registry.audit.record(ctx, entry).await?;
    Ok(match &shown {
        ShownAgain::Individual(view) => individual::answer(app, status, view).await?,
        ShownAgain::Group(view) => group::answer(app, status, view).await?,
        ShownAgain::ProgramMembership(view) => program_membership::answer(app, status, view, None),
        ShownAgain::Nothing => status.into_response(),
    })
}

fn identifiers_of(shown: &ShownAgain) -> &[daftar_domain::identifier::Identifier] {
    match shown {
        ShownAgain::Individual(view) => &view.individual.details.identifiers,
        ShownAgain::Group(view) => &view.group.details.identifiers,
        ShownAgain::ProgramMembership(view) => &view.membership.details.identifiers,
        ShownAgain::Nothing => &[],
    }
}
