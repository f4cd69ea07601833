//! `POST /$batch`: several requests in one, each handled by the handler of the single request. Contains the handler,
//! the response that grows entry by entry, and batches of independent entries.
//!
//! **Invariant:** no entry is executed before the envelope was read completely, its entries were counted in the
//! client's bucket, and, in a transaction, every placeholder was resolved.
//!
//! **Invariant:** the entries of a transaction are written atomically. Those of a batch are independent: a failed
//! entry, even a panic, never affects another one.

pub mod envelope;
mod inner;
mod transaction;

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::State;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use daftar_api_types::public::batch::{BatchResponseEntry, EntryResponse};
use serde_json::Value;

use self::envelope::{Entry, Envelope, Kind};
pub use self::inner::InnerRouter;
use self::inner::{Answered, Caller, Deadline};
use super::error::{ApiResult, Problem};
use crate::api::access::AnyClient;
use crate::api::extract::body::{JsonObject, RECORD_BYTES_MAX};
use crate::api::extract::query::NoParameters;
use crate::api::idempotency::{DoneBefore, answer_of, digest, key_of};
use crate::state::AppState;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_service::idempotency::{NamedRequest, Once};
use daftar_service::transaction::{CommitError, RollbackReason, Transaction};

/// Maximum size of the bodies before the last one, in bytes: a larger batch reports the entries to request again.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Maximum number of attempts of a transaction whose records other requests change concurrently.
pub const ATTEMPTS_MAX: usize = 4;

/// A response that grows entry by entry.
struct AnswerWriter {
    bytes: Vec<u8>,
    entries: usize,
}

impl AnswerWriter {
    fn new(kind: Kind) -> Self {
        Self { bytes: format!("{{\"type\":\"{}-response\",\"entry\":[", kind.name()).into_bytes(), entries: 0 }
    }

    /// True if the bodies so far reach the limit of a response.
    fn is_full(&self) -> bool {
        self.bytes.len() >= ANSWER_BYTES_MAX
    }

    /// Adds the response to an entry, without its body once the limit is reached.
    ///
    /// # Errors
    /// If it cannot be written, which is a defect.
    fn add(&mut self, app: &AppState, entry: &Entry, answered: &Answered) -> Result<(), AppError> {
        let requested = entry.uri.path_and_query().map_or(entry.uri.path(), PathAndQuery::as_str);
        let requested = format!("{}{requested}", app.public_url);
        let part = BatchResponseEntry {
            full_url: Cow::Borrowed(answered.location.as_deref().unwrap_or(&requested)),
            response: EntryResponse {
                status: answered.status.as_u16(),
                location: answered.location.as_deref().map(Cow::Borrowed),
                etag: answered.etag.as_deref().map(Cow::Borrowed),
                retry_after: answered.problem.as_ref().and_then(Problem::retry_after_s),
            },
            // The bytes of the body follow below unchanged.
            resource: None,
            problem: None,
        };
        let mut part = serde_json::to_vec(&part).map_err(|error| AppError::Internal(error.into()))?;
        let is_shown = !answered.body.is_empty() && (!self.is_full() || answered.problem.is_some());
        if is_shown && part.pop().is_some() {
            let name: &[u8] = if answered.problem.is_some() { b",\"problem\":" } else { b",\"resource\":" };
            part.extend_from_slice(name);
            part.extend_from_slice(&answered.body);
            part.push(b'}');
        }
        if self.entries > 0 {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(&part);
        self.entries += 1;
        Ok(())
    }

    fn finish(mut self) -> Response {
        self.bytes.extend_from_slice(b"]}");
        let mut response = Response::new(Body::from(self.bytes));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Executes several requests, either atomically or independently.
pub async fn submit(
    client: AnyClient,
    State(app): State<AppState>,
    _: NoParameters,
    headers: HeaderMap,
    JsonObject(members): JsonObject<RECORD_BYTES_MAX>,
) -> ApiResult {
    let key = key_of(&headers)?;
    let digest = key.as_ref().map(|_| digest(&[b"$batch", Value::Object(members.clone()).to_string().as_bytes()]));
    let Envelope { kind, entries } = envelope::read(members)?;
    client.charge_rest(&app, entries.len()).await?;
    // The idempotency key of a transaction stores the complete response; that of a batch each entry that writes.
    let parts = match kind {
        Kind::Transaction => 1,
        Kind::Batch => entries.iter().filter(|entry| entry.method != Method::GET).count() as u64,
    };
    let once = match key.zip(digest) {
        Some((key, digest)) => {
            let named = NamedRequest { key, digest, parts };
            Some(app.requests.begin(&client.context, &*app.registry.store, named).await?)
        }
        None => None,
    };
    let deadline = Deadline::of(&app, &client.info);
    let caller = Caller::new(client.context, &headers, app.public_url.clone());
    match kind {
        Kind::Transaction => transaction::run(&app, &caller, entries, once, &deadline).await,
        Kind::Batch => run_independent(&app, &caller, entries, once, &deadline).await,
    }
}

async fn run_independent(
    app: &AppState,
    caller: &Caller,
    entries: Vec<Entry>,
    mut once: Option<Once>,
    deadline: &Deadline,
) -> ApiResult {
    let router = InnerRouter::on(app);
    let mut response = AnswerWriter::new(Kind::Batch);
    // The responses are counted for the client while the batch gathers others; afterwards the complete response is.
    let mut gathered = Vec::new();
    for (entry, part) in entries.into_iter().zip(1_u16..) {
        let answered = if response.is_full() && entry.method == Method::GET {
            no_capacity(caller)
        } else {
            match once.as_mut().filter(|_| entry.method != Method::GET) {
                None => router.send(caller, &entry, None, None, deadline).await?,
                Some(once) => written_once(app, caller, &entry, (once, part), deadline).await?,
            }
        };
        response.add(app, &entry, &answered)?;
        gathered.extend(answered.memory);
    }
    Ok(response.finish())
}

/// Executes an entry of a batch with an idempotency key, unless it was executed when the batch was sent before.
async fn written_once(
    app: &AppState,
    caller: &Caller,
    entry: &Entry,
    (once, part): (&mut Once, u16),
    deadline: &Deadline,
) -> ApiResult<Answered> {
    let ctx = &caller.context;
    let (mut overtaken_by_others, mut lock) = (None, None);
    for _ in 0..ATTEMPTS_MAX {
        if let Some(earlier) = once.earlier(part) {
            let done = earlier.responses.first().copied().map(DoneBefore);
            let done = done.ok_or_else(|| AppError::internal("an entry is stored without its response"))?;
            return InnerRouter::on(app).send(caller, entry, Some(done), None, deadline).await;
        }
        let mut transaction = Transaction::begin(&app.registry, lock.take());
        let router = InnerRouter::on(&app.with_registry(transaction.registry()));
        let answered = router.send(caller, entry, None, Some(transaction.lines()), deadline).await?;
        if !answered.is_success() {
            if once.is_done_concurrently(ctx, &*app.registry.store, part).await? {
                continue;
            }
            transaction.record_entries().await?;
            return Ok(answered);
        }
        let response = answer_of(&transaction, 0, answered.status.as_u16());
        match transaction.commit_once(ctx, once.answered(ctx, part, vec![response])).await {
            Ok(()) => {
                once.note();
                transaction.record_entries().await?;
                return Ok(answered);
            }
            Err(CommitError::Overtaken(of_numbers)) => {
                once.is_done_concurrently(ctx, &*app.registry.store, part).await?;
                (overtaken_by_others, lock) = (Some(transaction), of_numbers);
            }
            Err(CommitError::Failed(error)) => {
                let failed = failed(caller, error);
                transaction.abandon_entry(ctx, RollbackReason::Failed, failed.status.as_u16()).await?;
                return Ok(failed);
            }
        }
    }
    let failed = failed(caller, AppError::Overtaken);
    if let Some(transaction) = overtaken_by_others {
        transaction.abandon_entry(ctx, RollbackReason::Overtaken, failed.status.as_u16()).await?;
    }
    Ok(failed)
}

fn failed(caller: &Caller, error: AppError) -> Answered {
    Answered::refused(Problem::from(error), caller)
}

fn no_capacity(caller: &Caller) -> Answered {
    let detail = "the responses before this one reach the size limit of a batch: request it in another batch";
    Answered::refused(Problem::new(ErrorCode::ResponseTooLarge, detail), caller)
}
