//! A batch: each entry by itself, one after the other.

use std::time::Instant;

use axum::http::{Method, StatusCode};
use axum::response::Response;

use super::answer::AnswerWriter;
use super::envelope::{Entry, Kind};
use super::inner::{Answered, Caller, InnerRequest, InnerRouter, is_over};
use crate::api::error::{ApiError, Problem};
use crate::app::AppState;

pub(super) async fn run(
    app: &AppState,
    caller: &Caller,
    entries: Vec<Entry>,
    deadline: Instant,
) -> Result<Response, ApiError> {
    let router = InnerRouter::on(app);
    let mut answer = AnswerWriter::new(Kind::Batch);
    for mut entry in entries {
        let body = entry.resource.take();
        let answered = if is_over(deadline) {
            not_begun(caller)
        } else if answer.is_full() && entry.method == Method::GET {
            no_room(caller)
        } else {
            let (method, uri, if_match) = (entry.method.clone(), entry.uri.clone(), entry.if_match.clone());
            router.send(caller, InnerRequest { method, uri, if_match, body }, deadline).await?
        };
        answer.add(app, &entry, &answered)?;
    }
    Ok(answer.finish())
}

fn not_begun(caller: &Caller) -> Answered {
    let detail = "the batch took too long before this entry, which was not begun: send it again in another batch";
    refused(caller, StatusCode::SERVICE_UNAVAILABLE, detail)
}

fn no_room(caller: &Caller) -> Answered {
    let detail =
        "the answers before this one fill the room that the answer to one batch has: ask for it in another batch";
    refused(caller, StatusCode::PAYLOAD_TOO_LARGE, detail)
}

fn refused(caller: &Caller, status: StatusCode, detail: &str) -> Answered {
    Answered::refused(Problem::new(status, detail), None, &caller.context.request_id)
}
