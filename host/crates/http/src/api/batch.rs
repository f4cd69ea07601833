//! `POST /$batch`: several requests in one, each answered by the very handler that answers it alone.
//!
//! **Invariant:** nothing of a batch is done before its envelope was read whole, its entries were counted in the client's bucket,
//! and, in a transaction, every placeholder was found.
//!
//! **Invariant:** the entries of a transaction are written together or not at all; those of a batch each by itself, so that the
//! failure of one, a panic even, never touches another.

mod answer;
mod deadline;
pub mod envelope;
mod independent;
mod inner;
mod placeholders;
mod transaction;
pub mod url;

use axum::response::Response;

pub use self::inner::{Caller as BatchCaller, InnerRouter};

use self::deadline::Deadline;
use self::envelope::{Envelope, Kind};
use self::inner::Caller;
use super::error::ApiError;
use super::middleware::answer::RequestInfo;
use crate::state::AppState;
use daftar_service::once::Once;

/// The most bytes of bodies in one answer, beside the last one: a batch that asks for more is told which entries to ask for again.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How often a transaction is made in all while others change meanwhile what it rests on.
pub const ATTEMPTS_MAX: usize = 4;

/// Does what an envelope asks for that came with that request, at most once where the request has a name.
///
/// # Errors
/// What refuses the whole.
pub async fn run(
    app: &AppState,
    (info, caller): (&RequestInfo, Caller),
    envelope: Envelope,
    once: Option<Once>,
) -> Result<Response, ApiError> {
    let deadline = Deadline::of(app, info);
    match envelope.kind {
        Kind::Transaction => transaction::run(app, &caller, envelope.entries, once, &deadline).await,
        Kind::Batch => independent::run(app, &caller, envelope.entries, once, &deadline).await,
    }
}
