//! `POST /Eligibility/$preview`

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, channel};

use super::search::languages;
use super::{group_search, individual_search};
use crate::api::access::{Auth, scope};
use crate::api::dto::eligibility::preview::{self as body, PreviewAsked, PreviewBody};
use crate::api::dto::reader::Problems;
use crate::api::error::ApiError;
use crate::api::extract::accept::{LINES, asks_for_lines};
use crate::api::extract::body::JsonObject;
use crate::api::extract::query::NoParameters;
use crate::app::AppState;
use crate::context::OpContext;
use crate::domain::eligibility::Subject;
use crate::error::AppError;
use crate::service::codes::LanguagePreference;
use crate::service::eligibility::preview::{Among, Means, Preview, PreviewEvent, PreviewRequest, prepare};

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
        Subject::Individual => Among::Individuals(individual_search::filter(app, ctx, &filter)?),
        Subject::Group => Among::Groups(group_search::filter(app, ctx, &filter)?),
    };
    let request = PreviewRequest { expression, among, sample, as_of };
    let means = Means { engine: &app.engine, desk: &app.previews, kept: &app.rule_columns };
    let ready = prepare(ctx, &app.registry, means, request).await?;
    let languages = languages(app, headers);
    if !is_streamed {
        let preview = ready.run(None, false).await?;
        return Ok(Json(PreviewBody::new(&preview, &languages)).into_response());
    }
    let (events, told) = channel(WAITING_MAX);
    let preview = Some(Box::pin(ready.run(Some(events), tells_subjects)) as BoxFuture<'static, _>);
    let request_id = Arc::clone(&ctx.request_id);
    let lines = Lines { preview, told, ended: None, languages, request_id, is_over: false };
    Ok(([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response())
}

/// The lines of a preview, which goes on as they are sent and ends with them.
struct Lines {
    /// None, once it has ended.
    preview: Option<BoxFuture<'static, Result<Preview, AppError>>>,
    told: Receiver<PreviewEvent>,
    ended: Option<Result<Preview, AppError>>,
    languages: LanguagePreference,
    request_id: Arc<str>,
    is_over: bool,
}

impl Stream for Lines {
    type Item = Result<Vec<u8>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(preview) = &mut self.preview
            && let Poll::Ready(ended) = preview.as_mut().poll(context)
        {
            self.ended = Some(ended);
            self.preview = None;
        }
        match self.told.poll_recv(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(body::event_lines(&event)))),
            Poll::Ready(None) => {
                self.is_over = true;
                let ended = self.ended.take();
                let ended = ended.unwrap_or_else(|| Err(AppError::internal("a preview ended without an answer")));
                Poll::Ready(Some(Ok(body::last_line(ended, &self.languages, &self.request_id))))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
