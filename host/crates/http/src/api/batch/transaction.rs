//! A transaction: all entries or none.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

use super::answer::AnswerWriter;
use super::deadline::Deadline;
use super::envelope::{Entry, Kind};
use super::inner::{Answered, Caller, InnerRouter};
use super::{ATTEMPTS_MAX, placeholders};
use crate::api::error::{ApiError, Problem};
use crate::api::once::replay::DoneBefore;
use crate::api::once::{REPLAYED, answer_of};
use crate::state::AppState;
use daftar_domain::audit::AuditOutcome;
use daftar_domain::context::trail::HeldLines;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::idempotency::RememberedRequest;
use daftar_service::once::Once;
use daftar_service::transaction::{NotWritten, Transaction, Undone};

pub(super) async fn run(
    app: &AppState,
    caller: &Caller,
    entries: Vec<Entry>,
    mut once: Option<Once>,
    deadline: &Deadline,
) -> Result<Response, ApiError> {
    let order = placeholders::order(&entries)?;
    for _ in 0..ATTEMPTS_MAX {
        caller.context.trail.begin_again();
        if let Some(earlier) = once.as_ref().and_then(|once| once.earlier(0)) {
            return replayed(app, caller, &entries, earlier, deadline).await;
        }
        let transaction = Transaction::begin(&app.registry);
        let answers = match attempt(app, caller, &transaction, &entries, &order, deadline).await {
            Ok(answers) => answers,
            Err(refusal) => {
                if is_done_meanwhile(app, caller, &mut once).await? {
                    continue;
                }
                transaction.abandon(&caller.context, Undone::OtherRefused).await?;
                return Err(refusal);
            }
        };
        let committed = match &once {
            None => transaction.commit(&caller.context).await,
            Some(once) => {
                let status =
                    |answered: &Option<Answered>| answered.as_ref().map_or(200, |answered| answered.status.as_u16());
                let told =
                    answers.iter().enumerate().map(|(at, answered)| answer_of(&transaction, at, status(answered)));
                transaction.commit_once(&caller.context, once.answered(&caller.context, 0, told.collect())).await
            }
        };
        match committed {
            Ok(()) => {
                once.iter().for_each(Once::note);
                transaction.tell().await?;
                return written(app, &entries, &answers);
            }
            Err(NotWritten::Overtaken) => {
                transaction.abandon(&caller.context, Undone::Overtaken).await?;
                is_done_meanwhile(app, caller, &mut once).await?;
            }
            Err(NotWritten::Failed(error)) => {
                transaction.abandon(&caller.context, Undone::Failed).await?;
                return Err(error.into());
            }
        }
    }
    Err(AppError::Overtaken.into())
}

async fn is_done_meanwhile(app: &AppState, caller: &Caller, once: &mut Option<Once>) -> Result<bool, AppError> {
    match once {
        Some(once) => once.is_done_meanwhile(&caller.context, &*app.registry.store, 0).await,
        None => Ok(false),
    }
}

/// The answer to a transaction that was made before: to whoever may still make every entry of it, each entry as it is for the
/// client now.
async fn replayed(
    app: &AppState,
    caller: &Caller,
    entries: &[Entry],
    earlier: &RememberedRequest,
    deadline: &Deadline,
) -> Result<Response, ApiError> {
    const REPEATED: &str = "the transaction was made when it was sent before";
    let (router, lines) = (InnerRouter::on(app), HeldLines::default());
    let mut answer = AnswerWriter::new(Kind::Transaction);
    for (at, entry) in entries.iter().enumerate() {
        let done = earlier.answers.get(at).copied().map(DoneBefore);
        let done = done.ok_or_else(|| AppError::internal("an entry is remembered without its answer"))?;
        let answered = router.send(caller, entry.request(None, Some(done)), Some(lines.clone()), deadline).await?;
        if !answered.is_success() && answered.status != StatusCode::NOT_FOUND {
            let told = lines.take().into_iter().filter(|line| line.outcome != AuditOutcome::Allowed);
            app.registry.audit.record_ended(told.collect()).await?;
            return Err(refusal(at, &answered, None, REPEATED));
        }
        answer.add(app, entry, &answered)?;
    }
    app.registry.audit.record_ended(lines.take()).await?;
    let mut response = answer.finish();
    response.headers_mut().insert(&REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Does every entry, in order; the answers by entry.
async fn attempt(
    app: &AppState,
    caller: &Caller,
    transaction: &Transaction,
    entries: &[Entry],
    order: &[usize],
    deadline: &Deadline,
) -> Result<Vec<Option<Answered>>, ApiError> {
    let router = InnerRouter::on(&app.with_registry(transaction.registry()));
    let mut answers: Vec<Option<Answered>> = entries.iter().map(|_| None).collect();
    for at in order {
        let (Some(entry), Some(place)) = (entries.get(*at), answers.get_mut(*at)) else { continue };
        let mut body = entry.resource.clone();
        if let Some(members) = &mut body {
            placeholders::fill(members, entries, &|creator| transaction.reference_to(creator));
        }
        transaction.begin_entry(*at);
        let answered = router.send(caller, entry.request(body, None), Some(transaction.lines()), deadline).await?;
        if !answered.is_success() {
            let nothing = "nothing of the transaction was written";
            return Err(refusal(*at, &answered, transaction.collided_with(), nothing));
        }
        *place = Some(answered);
    }
    Ok(answers)
}

fn written(app: &AppState, entries: &[Entry], answers: &[Option<Answered>]) -> Result<Response, ApiError> {
    let mut answer = AnswerWriter::new(Kind::Transaction);
    for (entry, answered) in entries.iter().zip(answers) {
        let Some(answered) = answered else { return Err(AppError::internal("an entry was left out").into()) };
        answer.add(app, entry, answered)?;
    }
    Ok(answer.finish())
}

/// The refusal of the whole for that of one entry: 422 naming the entry, unless the server is at fault.
fn refusal(at: usize, answered: &Answered, collided_with: Option<usize>, of_the_whole: &str) -> ApiError {
    let name = format!("entry[{at}]");
    let problem = answered.problem.clone();
    let problem = problem.unwrap_or_else(|| Problem::new(ErrorCode::InternalError, "it was refused without a reason"));
    let detail = format!("{name}: {}; {of_the_whole}", problem.detail);
    if problem.status().is_server_error() {
        return Problem { detail, errors: Vec::new(), ..problem }.into();
    }
    let errors = if problem.errors.is_empty() {
        vec![FieldProblem { field: name, code: problem.code.name(), message: problem.detail.clone() }]
    } else {
        let within = |error: &FieldProblem| {
            let separator = if error.field.is_empty() { "" } else { "." };
            FieldProblem { field: format!("{name}.resource{separator}{}", error.field), ..error.clone() }
        };
        problem.errors.iter().map(within).collect()
    };
    let other = collided_with.filter(|other| problem.status() == StatusCode::CONFLICT && *other != at);
    let other = other.map(|other| FieldProblem {
        field: format!("entry[{other}]"),
        code: "conflict",
        message: format!("entry[{at}] is refused for what this entry of the same transaction writes"),
    });
    let errors = errors.into_iter().chain(other).collect();
    Problem { code: ErrorCode::TransactionFailed, detail, errors, headers: Vec::new(), ..problem }.into()
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn an_entry_that_had_no_time_left_refuses_the_whole_and_says_when_to_try_again() {
        let late = Answered::not_begun(&Caller::of_nobody());
        let ApiError(problem) = refusal(2, &late, None, "nothing was written");
        assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.detail.starts_with("entry[2]: the time for a batch was over"), "{}", problem.detail);
        assert!(problem.errors.is_empty());
        let waits: Vec<_> = problem.headers.iter().filter(|(name, _)| *name == header::RETRY_AFTER).collect();
        assert_eq!(waits.len(), 1, "{waits:?}");
    }
}
