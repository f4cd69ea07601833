//! `/checkup` and `/verification`: how the server is set up, and whether the register is valid.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::mpsc::channel;

use crate::admin::access::Administrator;
use crate::admin::resource::Routes;
use crate::api::error::ApiError;
use crate::api::extract::query::NoParameters;
use crate::api::lines::{self, Telling, write_line};
use crate::state::AppState;
use daftar_api_types::admin::operation::{
    CheckBody, CheckupBody, FindingBody, VerificationBody, VerificationLine, VerifiedPartBody,
};
use daftar_domain::checkup::Check;
use daftar_domain::error::AppError;
use daftar_domain::verification::{Finding, VerificationEvent, VerificationResult};

/// How many lines wait to be sent.
const WAITING_MAX: usize = 64;

/// The paths of both.
pub fn routes() -> Routes {
    vec![("/checkup", get(check)), ("/verification", get(verify))]
}

/// Checks how the server is set up, and changes nothing.
async fn check(
    Administrator(_): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
) -> Result<Json<CheckupBody>, ApiError> {
    Ok(Json(checkup_body(app.checkup().await?)))
}

/// Checks as the API has them.
#[must_use]
pub fn checkup_body(checks: Vec<Check>) -> CheckupBody {
    let body = |check| {
        let Check { area, name, state, message, remedy } = check;
        let (area, check, state) = (area.name().to_owned(), name.to_owned(), state.name().to_owned());
        CheckBody { area, check, state, message, remedy }
    };
    CheckupBody::new(checks.into_iter().map(body).collect())
}

/// Verifies the whole register, and reports findings as it continues: a JSON object a line.
async fn verify(
    Administrator(ctx): Administrator,
    _: NoParameters,
    State(app): State<AppState>,
) -> Result<Response, ApiError> {
    let run = app.verifier.begin(&ctx).await?;
    let (events, reported) = channel(WAITING_MAX);
    let lines = Lines(VerificationResult::default());
    Ok(lines::answer(&app.spools, &ctx.actor, run.run(events), reported, lines))
}

/// The events of a verification run as lines, and its result so far.
struct Lines(VerificationResult);

impl Telling for Lines {
    type Event = VerificationEvent;
    type End = Result<(), AppError>;

    fn lines(&mut self, event: VerificationEvent) -> Option<Vec<u8>> {
        self.0.count(&event).then(|| bytes(&event_line(event)))
    }

    fn last(&mut self, end: Self::End) -> Vec<u8> {
        bytes(&match end {
            Err(failure) => VerificationLine::Error(failure.to_string()),
            Ok(()) => VerificationLine::Result(result_body(&self.0)),
        })
    }
}

fn bytes(line: &VerificationLine) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_line(line, &mut bytes);
    bytes
}

/// The line of an event.
#[must_use]
pub fn event_line(event: VerificationEvent) -> VerificationLine {
    match event {
        VerificationEvent::Progress { part, done, total } => {
            VerificationLine::Progress { part: part.name().to_owned(), done, total }
        }
        VerificationEvent::Finding(Finding { part, place, problem, remedy }) => {
            let (part, remedy) = (part.name().to_owned(), remedy.text().to_owned());
            VerificationLine::Finding(FindingBody { part, place, problem, remedy })
        }
    }
}

/// The result of a run.
#[must_use]
pub fn result_body(result: &VerificationResult) -> VerificationBody {
    let (looked_at, findings) = (result.looked_at(), result.findings());
    let parts = result.parts().map(|part| VerifiedPartBody {
        part: part.part.name().to_owned(),
        looked_at: part.looked_at,
        findings: part.findings,
    });
    VerificationBody { sound: findings == 0, looked_at, findings, parts: parts.collect() }
}
