//! A batch: each entry by itself, one after the other.

use axum::http::Method;
use axum::response::Response;

use super::ATTEMPTS_MAX;
use super::answer::AnswerWriter;
use super::deadline::Deadline;
use super::envelope::{Entry, Kind};
use super::inner::{Answered, Caller, InnerRequest, InnerRouter};
use crate::api::error::{ApiError, Problem};
use crate::api::once::answer_of;
use crate::api::once::replay::DoneBefore;
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_service::once::Once;
use daftar_service::transaction::{NotWritten, Transaction, Undone};

pub(super) async fn run(
    app: &AppState,
    caller: &Caller,
    entries: Vec<Entry>,
    mut once: Option<Once>,
    deadline: &Deadline,
) -> Result<Response, ApiError> {
    let router = InnerRouter::on(app);
    let mut answer = AnswerWriter::new(Kind::Batch);
    // Counted for the client as long as others are gathered beside it; then the response is.
    let mut gathered = Vec::new();
    for (mut entry, part) in entries.into_iter().zip(1_u16..) {
        let body = entry.resource.take();
        let answered = if answer.is_full() && entry.method == Method::GET {
            no_room(caller)
        } else {
            let request = entry.request(body, None);
            match once.as_mut().filter(|_| entry.method != Method::GET) {
                None => router.send(caller, request, None, deadline).await?,
                Some(once) => written_once(app, caller, request, (once, part), deadline).await?,
            }
        };
        answer.add(app, &entry, &answered)?;
        gathered.extend(answered.memory);
    }
    Ok(answer.finish())
}

/// Does an entry of a batch that has a name, unless it was done when the batch was sent before.
async fn written_once(
    app: &AppState,
    caller: &Caller,
    request: InnerRequest,
    (once, part): (&mut Once, u16),
    deadline: &Deadline,
) -> Result<Answered, ApiError> {
    let ctx = &caller.context;
    let mut overtaken_by_others = None;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(earlier) = once.earlier(part) {
            let done = earlier.answers.first().copied().map(DoneBefore);
            let done = done.ok_or_else(|| AppError::internal("an entry is remembered without its answer"))?;
            let request = InnerRequest { done_before: Some(done), ..request };
            return InnerRouter::on(app).send(caller, request, None, deadline).await;
        }
        let transaction = Transaction::begin(&app.registry);
        let router = InnerRouter::on(&app.with_registry(transaction.registry()));
        let answered = router.send(caller, request.clone(), Some(transaction.lines()), deadline).await?;
        if !answered.is_success() {
            if once.is_done_meanwhile(ctx, &*app.registry.store, part).await? {
                continue;
            }
            transaction.tell().await?;
            return Ok(answered);
        }
        let answer = answer_of(&transaction, 0, answered.status.as_u16());
        match transaction.commit_once(ctx, once.answered(ctx, part, vec![answer])).await {
            Ok(()) => {
                once.note();
                transaction.tell().await?;
                return Ok(answered);
            }
            Err(NotWritten::Overtaken) => {
                once.is_done_meanwhile(ctx, &*app.registry.store, part).await?;
                overtaken_by_others = Some(transaction);
            }
            Err(NotWritten::Failed(error)) => {
                let failed = failed(caller, error);
                transaction.abandon_entry(ctx, Undone::Failed, failed.status.as_u16()).await?;
                return Ok(failed);
            }
        }
    }
    let failed = failed(caller, AppError::Overtaken);
    if let Some(transaction) = overtaken_by_others {
        transaction.abandon_entry(ctx, Undone::Overtaken, failed.status.as_u16()).await?;
    }
    Ok(failed)
}

fn failed(caller: &Caller, error: AppError) -> Answered {
    Answered::refused(Problem::from(error), caller)
}

fn no_room(caller: &Caller) -> Answered {
    let detail =
        "the answers before this one fill the room that the answer to one batch has: ask for it in another batch";
    Answered::refused(Problem::new(ErrorCode::ResponseTooLarge, detail), caller)
}
