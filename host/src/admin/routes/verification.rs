//! `/verification`

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{Receiver, channel};

use crate::admin::access::Administrator;
use crate::admin::dto::verification::VerificationLine;
use crate::api::error::ApiError;
use crate::api::extract::query::NoParameters;
use crate::app::AppState;
use crate::domain::verification::{VerificationEvent, VerificationResult};
use crate::error::AppError;

/// How many lines wait to be sent.
const WAITING_MAX: usize = 64;

/// Looks through the whole register, and tells what it finds as it goes: a JSON object a line.
pub async fn verify(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
) -> Result<Response, ApiError> {
    let look = app.verifier.begin(&ctx).await?;
    let (events, told) = channel(WAITING_MAX);
    let lines = Lines {
        look: Some(Box::pin(look.run(events))),
        told,
        result: VerificationResult::default(),
        failure: None,
        is_over: false,
    };
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// The lines of a look, which goes on as they are sent and ends with them.
struct Lines {
    /// None, once it has ended.
    look: Option<BoxFuture<'static, Result<(), AppError>>>,
    told: Receiver<VerificationEvent>,
    result: VerificationResult,
    failure: Option<String>,
    is_over: bool,
}

impl Stream for Lines {
    type Item = Result<Vec<u8>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(look) = &mut self.look
            && let Poll::Ready(ended) = look.as_mut().poll(context)
        {
            self.failure = ended.err().map(|error| error.to_string());
            self.look = None;
        }
        loop {
            let line = match self.told.poll_recv(context) {
                Poll::Ready(Some(event)) => {
                    if !self.result.count(&event) {
                        continue;
                    }
                    VerificationLine::from(event)
                }
                Poll::Ready(None) => {
                    self.is_over = true;
                    match self.failure.take() {
                        Some(failure) => VerificationLine::Error(failure),
                        None => VerificationLine::Result((&self.result).into()),
                    }
                }
                Poll::Pending => return Poll::Pending,
            };
            return Poll::Ready(Some(Ok(line.to_bytes())));
        }
    }
}
