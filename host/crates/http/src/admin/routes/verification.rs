//! `/verification`

use axum::extract::State;
use axum::response::Response;
use tokio::sync::mpsc::channel;

use crate::admin::access::Administrator;
use crate::admin::dto::verification::VerificationLine;
use crate::api::error::ApiError;
use crate::api::extract::query::NoParameters;
use crate::api::lines::{self, Telling};
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::verification::{VerificationEvent, VerificationResult};

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
    let lines = Lines(VerificationResult::default());
    Ok(lines::answer(&app.spools, &ctx.actor, look.run(events), told, lines))
}

/// What a look tells as lines; counts on the way what it came to.
struct Lines(VerificationResult);

impl Telling for Lines {
    type Event = VerificationEvent;
    type End = Result<(), AppError>;

    fn lines(&mut self, event: VerificationEvent) -> Option<Vec<u8>> {
        self.0.count(&event).then(|| VerificationLine::from(event).to_bytes())
    }

    fn last(&mut self, end: Self::End) -> Vec<u8> {
        let line = match end {
            Err(failure) => VerificationLine::Error(failure.to_string()),
            Ok(()) => VerificationLine::Result((&self.0).into()),
        };
        line.to_bytes()
    }
}
