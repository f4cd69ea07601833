//! An atomic transaction of all entries.
//!
//! Its entries refer by placeholders to records that other entries create. A placeholder may replace a reference: in a
//! member `reference` at any depth, and in `program` and `beneficiary`. Entries may have any order: records are created
//! before entries that refer to them.

use std::collections::BTreeSet;
use std::fmt;

use axum::http::{HeaderValue, StatusCode};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::envelope::{Entry, Kind, PLACEHOLDER};
use super::inner::{Answered, Caller, Deadline, InnerRouter};
use super::{ATTEMPTS_MAX, AnswerWriter};
use crate::api::dto::reader::{Problems, shown};
use crate::api::error::{ApiError, ApiResult, Problem};
use crate::api::idempotency::{DoneBefore, REPLAYED, answer_of};
use crate::state::AppState;
use daftar_domain::audit::AuditOutcome;
use daftar_domain::context::audit_context::HeldLines;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::idempotency::IdempotentRequest;
use daftar_service::idempotency::Once;
use daftar_service::transaction::{CommitError, RollbackReason, Transaction};

pub(super) async fn run(
    app: &AppState,
    caller: &Caller,
    mut entries: Vec<Entry>,
    mut once: Option<Once>,
    deadline: &Deadline,
) -> ApiResult {
    let order = order(&mut entries)?;
    let mut lock = None;
    for _ in 0..ATTEMPTS_MAX {
        caller.context.trail.begin_again();
        if let Some(earlier) = once.as_ref().and_then(|once| once.earlier(0)) {
            return replayed(app, caller, &entries, earlier, deadline).await;
        }
        let mut transaction = Transaction::begin(&app.registry, lock.take());
        let responses = match attempt(app, caller, &transaction, &entries, &order, deadline).await {
            Ok(responses) => responses,
            Err(refusal) => {
                if is_done_concurrently(app, caller, &mut once).await? {
                    continue;
                }
                transaction.abandon(&caller.context, RollbackReason::OtherRefused).await?;
                return Err(refusal);
            }
        };
        let committed = match &once {
            None => transaction.commit(&caller.context).await,
            Some(once) => {
                let status =
                    |answered: &Option<Answered>| answered.as_ref().map_or(200, |answered| answered.status.as_u16());
                let reported =
                    responses.iter().enumerate().map(|(at, answered)| answer_of(&transaction, at, status(answered)));
                let request = once.answered(&caller.context, 0, reported.collect());
                transaction.commit_once(&caller.context, request).await
            }
        };
        match committed {
            Ok(()) => {
                once.iter().for_each(Once::note);
                transaction.record_entries().await?;
                return written(app, &entries, &responses);
            }
            Err(CommitError::Overtaken(of_numbers)) => {
                lock = of_numbers;
                transaction.abandon(&caller.context, RollbackReason::Overtaken).await?;
                is_done_concurrently(app, caller, &mut once).await?;
            }
            Err(CommitError::Failed(error)) => {
                transaction.abandon(&caller.context, RollbackReason::Failed).await?;
                return Err(error.into());
            }
        }
    }
    Err(AppError::Overtaken.into())
}

async fn is_done_concurrently(app: &AppState, caller: &Caller, once: &mut Option<Once>) -> Result<bool, AppError> {
    match once {
        Some(once) => once.is_done_concurrently(&caller.context, &*app.registry.store, 0).await,
        None => Ok(false),
    }
}

/// The response to a transaction that was executed before, with each entry as the client sees it now. The caller must
/// still have the scopes of every entry.
async fn replayed(
    app: &AppState,
    caller: &Caller,
    entries: &[Entry],
    earlier: &IdempotentRequest,
    deadline: &Deadline,
) -> ApiResult {
    const REPEATED: &str = "the transaction was made when it was sent before";
    let (router, lines) = (InnerRouter::on(app), HeldLines::default());
    let mut reply = AnswerWriter::new(Kind::Transaction);
    for (at, entry) in entries.iter().enumerate() {
        let done = earlier.responses.get(at).copied().map(DoneBefore);
        let done = done.ok_or_else(|| AppError::internal("an entry is stored without its response"))?;
        let answered = router.send(caller, entry, Some(done), Some(lines.clone()), deadline).await?;
        if !answered.is_success() && answered.status != StatusCode::NOT_FOUND {
            let reported = lines.take().into_iter().filter(|line| line.outcome != AuditOutcome::Allowed);
            app.registry.audit.record_ended(reported.collect()).await?;
            return Err(refusal(at, &answered, None, REPEATED));
        }
        reply.add(app, entry, &answered)?;
    }
    app.registry.audit.record_ended(lines.take()).await?;
    let mut response = reply.finish();
    response.headers_mut().insert(&REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// Executes every entry, in order; returns the responses by entry.
async fn attempt(
    app: &AppState,
    caller: &Caller,
    transaction: &Transaction,
    entries: &[Entry],
    order: &[usize],
    deadline: &Deadline,
) -> ApiResult<Vec<Option<Answered>>> {
    let router = InnerRouter::on(&app.with_registry(transaction.registry()));
    let mut responses: Vec<Option<Answered>> = entries.iter().map(|_| None).collect();
    for at in order {
        let (Some(entry), Some(place)) = (entries.get(*at), responses.get_mut(*at)) else { continue };
        let mut entry = entry.clone();
        if let Some(members) = &mut entry.resource {
            fill(members, entries, &|creator| transaction.reference_to(creator));
        }
        transaction.begin_entry(*at);
        let answered = router.send(caller, &entry, None, Some(transaction.lines()), deadline).await?;
        if !answered.is_success() {
            let nothing = "nothing of the transaction was written";
            return Err(refusal(*at, &answered, transaction.collided_with(), nothing));
        }
        *place = Some(answered);
    }
    Ok(responses)
}

fn written(app: &AppState, entries: &[Entry], responses: &[Option<Answered>]) -> ApiResult {
    let mut response = AnswerWriter::new(Kind::Transaction);
    for (entry, answered) in entries.iter().zip(responses) {
        let Some(answered) = answered else { return Err(AppError::internal("an entry was left out").into()) };
        response.add(app, entry, answered)?;
    }
    Ok(response.finish())
}

/// The problem of the transaction for the problem of one entry: 422 naming the entry, or a server error. A missing
/// record is an error of the URL: its field is not one of the body.
fn refusal(at: usize, answered: &Answered, collided_with: Option<usize>, of_the_whole: &str) -> ApiError {
    let name = format!("entry[{at}]");
    let problem = answered.problem.clone();
    let problem = problem.unwrap_or_else(|| Problem::new(ErrorCode::InternalError, "it was rejected without a reason"));
    let detail = format!("{name}: {}; {of_the_whole}", problem.detail);
    if problem.status().is_server_error() {
        return Problem { detail, errors: Vec::new(), ..problem }.into();
    }
    let errors = if problem.errors.is_empty() || problem.code == ErrorCode::NotFound {
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
        message: format!("entry[{at}] conflicts with this entry of the same transaction"),
    });
    let errors = errors.into_iter().chain(other).collect();
    Problem { code: ErrorCode::TransactionFailed, detail, errors, headers: Vec::new(), ..problem }.into()
}

/// Members whose text is a reference anywhere in a body.
const REFERENCES: [&str; 3] = ["reference", "program", "beneficiary"];

/// Returns the order of execution: as given, but records are created before entries that refer to them.
///
/// # Errors
/// [`AppError::Invalid`] naming undefined placeholders, and entries with circular references.
pub(super) fn order(entries: &mut [Entry]) -> Result<Vec<usize>, AppError> {
    let mut problems = Problems::default();
    let placeholders: Vec<Option<Uuid>> = entries.iter().map(|entry| entry.placeholder).collect();
    let needs: Vec<BTreeSet<usize>> =
        entries.iter_mut().enumerate().map(|(at, entry)| needed_by(at, entry, &placeholders, &mut problems)).collect();
    problems.finish(())?;
    let mut order: Vec<usize> = Vec::with_capacity(entries.len());
    let mut waiting: Vec<usize> = (0..entries.len()).collect();
    while !waiting.is_empty() {
        let is_ready = |at: &usize| needs.get(*at).is_none_or(|needs| needs.iter().all(|need| order.contains(need)));
        let Some(place) = waiting.iter().position(is_ready) else { return Err(circle(&waiting)) };
        order.push(waiting.remove(place));
    }
    Ok(order)
}

/// Returns the entries that create the records an entry refers to.
fn needed_by(at: usize, entry: &mut Entry, placeholders: &[Option<Uuid>], problems: &mut Problems) -> BTreeSet<usize> {
    let mut needs = BTreeSet::new();
    let mut note = |place: &Place<'_>, text: &mut String| {
        let Some(wanted) = text.strip_prefix(PLACEHOLDER) else { return };
        let uuid = Uuid::try_parse(wanted).ok();
        let creator = uuid.and_then(|uuid| placeholders.iter().position(|other| *other == Some(uuid)));
        match creator {
            Some(creator) => drop(needs.insert(creator)),
            None if problems.is_full() => {}
            None => {
                let message = "no entry of this transaction has that `full_url`";
                problems.add(format!("entry[{at}].resource.{place}"), "unknown_placeholder", message);
            }
        }
    };
    if let Some(resource) = &mut entry.resource {
        each_reference(None, resource, &mut note);
    }
    needs
}

fn circle(waiting: &[usize]) -> AppError {
    let mut problems = Problems::default();
    for at in waiting {
        problems.add(format!("entry[{at}]"), "circle", "it refers to an entry that, directly or not, refers to it");
    }
    problems.finish(()).err().unwrap_or_else(|| AppError::internal("a circle without entries"))
}

/// Replaces placeholders by references to the created records.
pub(super) fn fill(
    resource: &mut Map<String, Value>,
    entries: &[Entry],
    reference_to: &dyn Fn(usize) -> Option<String>,
) {
    each_reference(None, resource, &mut |_, text| {
        let uuid = text.strip_prefix(PLACEHOLDER).and_then(|wanted| Uuid::try_parse(wanted).ok());
        let creator = uuid.and_then(|uuid| entries.iter().position(|other| other.placeholder == Some(uuid)));
        if let Some(reference) = creator.and_then(reference_to) {
            *text = reference;
        }
    });
}

/// The place of a value in a body. Its text is built for a problem only: a body may have millions of values.
struct Place<'p> {
    within: Option<&'p Place<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Member(&'p str),
    Item(usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(within) = self.within {
            within.fmt(formatter)?;
        }
        match self.step {
            Step::Member(name) if self.within.is_none() => formatter.write_str(&shown(name)),
            Step::Member(name) => write!(formatter, ".{}", shown(name)),
            Step::Item(at) => write!(formatter, "[{at}]"),
        }
    }
}

/// Visits every reference of a body with its place. The depth of the body was limited when it was read.
fn each_reference(
    within: Option<&Place<'_>>,
    members: &mut Map<String, Value>,
    see: &mut dyn FnMut(&Place<'_>, &mut String),
) {
    for (name, value) in members {
        let place = Place { within, step: Step::Member(name) };
        match value {
            Value::String(text) if REFERENCES.contains(&name.as_str()) => see(&place, text),
            other => each_within(&place, other, see),
        }
    }
}

fn each_within(place: &Place<'_>, value: &mut Value, see: &mut dyn FnMut(&Place<'_>, &mut String)) {
    match value {
        Value::Object(members) => each_reference(Some(place), members, see),
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                each_within(&Place { within: Some(place), step: Step::Item(at) }, item, see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn a_timed_out_entry_rejects_the_transaction_with_a_retry_time() {
        let late = Answered::not_begun(&Caller::anonymous());
        let ApiError(problem) = refusal(2, &late, None, "nothing was written");
        assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.detail.starts_with("entry[2]: the time limit of the batch ended"), "{}", problem.detail);
        assert!(problem.errors.is_empty());
        let waits: Vec<_> = problem.headers.iter().filter(|(name, _)| *name == header::RETRY_AFTER).collect();
        assert_eq!(waits.len(), 1, "{waits:?}");
    }
}

#[cfg(test)]
mod placeholders_tests {
    use serde_json::json;

    use super::*;
    use crate::api::batch::envelope;

    fn name(number: usize) -> String {
        format!("urn:uuid:00000000-0000-4000-8000-{number:012}")
    }

    /// Returns one entry for each list of referenced entries.
    fn entries(needs: &[&[usize]]) -> Vec<Entry> {
        let entry = |(at, needs): (usize, &&[usize])| {
            let members: Vec<Value> = needs.iter().map(|need| json!({"entity": {"reference": name(*need)}})).collect();
            let resource = json!({"name": name(9), "member": members});
            json!({"full_url": name(at), "request": {"method": "POST", "url": "Group"}, "resource": resource})
        };
        let entry: Vec<Value> = needs.iter().enumerate().map(entry).collect();
        let Value::Object(members) = json!({"type": "transaction", "entry": entry}) else { unreachable!() };
        envelope::read(members).unwrap().entries
    }

    fn refusal(needs: &[&[usize]]) -> Vec<(String, &'static str)> {
        match order(&mut entries(needs)).unwrap_err() {
            AppError::Invalid(problems) => problems.into_iter().map(|problem| (problem.field, problem.code)).collect(),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn referenced_entries_come_first_and_others_keep_their_order() {
        assert_eq!(order(&mut entries(&[&[], &[], &[]])).unwrap(), [0, 1, 2]);
        assert_eq!(order(&mut entries(&[&[2], &[], &[3], &[]])).unwrap(), [1, 3, 2, 0]);
        assert_eq!(order(&mut entries(&[&[1, 1, 2], &[], &[1]])).unwrap(), [1, 2, 0]);
    }

    #[test]
    fn circles_and_unknown_placeholders_are_named() {
        assert_eq!(refusal(&[&[0]]), [("entry[0]".to_owned(), "circle")]);
        let both = [("entry[0]".to_owned(), "circle"), ("entry[2]".to_owned(), "circle")];
        assert_eq!(refusal(&[&[2], &[], &[0]]), both);
        let unknown = [("entry[1].resource.member[1].entity.reference".to_owned(), "unknown_placeholder")];
        assert_eq!(refusal(&[&[], &[0, 7]]), unknown);
    }

    #[test]
    fn placeholders_are_filled_where_references_stand_and_nowhere_else() {
        let entries = entries(&[&[], &[0]]);
        let Value::Object(mut body) = json!({
            "name": name(0), "program": name(1), "beneficiary": {"reference": name(0), "display": name(0)},
            "member": [{"entity": {"reference": "Individual/urn:x|1"}}],
        }) else {
            unreachable!()
        };
        fill(&mut body, &entries, &|at| Some(format!("Individual/urn:x|{at}")));
        let expected = json!({
            "name": name(0), "program": "Individual/urn:x|1", "beneficiary": {"reference": "Individual/urn:x|0", "display": name(0)},
            "member": [{"entity": {"reference": "Individual/urn:x|1"}}],
        });
        assert_eq!(Value::Object(body), expected);
    }
}
