//! The answer to a request that was done before: what it wrote, as far as the client may see it now.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::api::error::ApiError;
use crate::api::routes::search::languages;
use crate::api::routes::{group, individual, program_membership};
use crate::app::AppState;
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::idempotency::RememberedAnswer;
use crate::error::AppError;
use crate::service::shown_again::{ShownAgain, shown_again};
use crate::service::{audit, records};

/// Answers again.
///
/// # Errors
/// When the store fails, or what is remembered makes no sense.
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

fn identifiers_of(shown: &ShownAgain) -> &[crate::domain::identifier::Identifier] {
    match shown {
        ShownAgain::Individual(view) => &view.individual.details.identifiers,
        ShownAgain::Group(view) => &view.group.details.identifiers,
        ShownAgain::ProgramMembership(view) => &view.membership.details.identifiers,
        ShownAgain::Nothing => &[],
    }
}
