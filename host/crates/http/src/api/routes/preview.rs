//! `POST /Eligibility/$preview`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use tokio::sync::mpsc::channel;

use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility::preview::{self as body, PreviewAsked};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::accept::asks_for_lines;
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::api::lines::{self, Telling};
use crate::api::routes::record_search::{self, languages};
use crate::state::AppState;
use daftar_domain::context::OpContext;
use daftar_domain::eligibility::Subject;
use daftar_domain::error::AppError;
use daftar_service::codes::LanguagePreference;
use daftar_service::eligibility::preview::{Among, Means, Preview, PreviewEvent, PreviewRequest, prepare};
use daftar_service::eligibility::seal::Sealer;

/// How many events wait to be sent: subjects come some thousands an event.
const WAITING_MAX: usize = 2;

/// Evaluates a rule over everybody whom a search finds.
pub async fn preview(
    auth: Auth<scope::EligibilityRead>,
    State(app): State<AppState>,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject,
) -> Result<Response, ApiError> {
    previewed(&auth.into_context(), &app, &headers, members).await
}

/// Answers a body of `$preview`: with one JSON object, or with lines where the request asks for these.
///
/// # Errors
/// As the API tells of them.
pub async fn previewed(
    ctx: &OpContext,
    app: &AppState,
    headers: &HeaderMap,
    members: Map<String, Value>,
) -> Result<Response, ApiError> {
    let mut problems = Problems::default();
    let is_streamed = asks_for_lines(headers);
    let asked = body::read(members, is_streamed, &mut problems);
    let asked = problems.finish(asked)?;
    let asked = asked.ok_or_else(|| AppError::internal("a body that is right asks for nothing"))?;
    let PreviewAsked { expression, subject, filter, sample, tells_subjects, as_of } = asked;
    let among = match subject {
        Subject::Individual => Among::Individuals(record_search::individual_filter(app, ctx, &filter)?),
        Subject::Group => Among::Groups(record_search::group_filter(app, ctx, &filter)?),
    };
    let request = PreviewRequest { expression, among, sample, as_of, is_streamed, tells_subjects };
    let means = Means { engine: &app.engine, desk: &app.previews, kept: &app.rule_columns };
    let ready = prepare(ctx, &app.registry, means, request).await?;
    let (languages, sealer) = (languages(app, headers), Sealer::new(ctx, &app.decision_keys));
    if !is_streamed {
        let preview = ready.run(None).await?;
        return Ok(Json(body::previewed(&preview, &languages, &sealer)).into_response());
    }
    let (events, told) = channel(WAITING_MAX);
    let lines =
        Lines { languages, sealer, public_url: app.public_url.clone(), request_id: Arc::clone(&ctx.request_id) };
    Ok(lines::answer(&app.spools, &ctx.actor, ready.run(Some(events)), told, lines))
}

/// What a preview tells as lines.
struct Lines {
    languages: LanguagePreference,
    sealer: Sealer,
    public_url: String,
    request_id: Arc<str>,
}

impl Telling for Lines {
    type Event = PreviewEvent;
    type End = Result<Preview, AppError>;

    fn lines(&mut self, event: PreviewEvent) -> Option<Vec<u8>> {
        Some(body::event_lines(&event))
    }

    fn last(&mut self, end: Self::End) -> Vec<u8> {
        body::last_line(end, (&self.languages, &self.sealer), (&self.public_url, &self.request_id))
    }
}
