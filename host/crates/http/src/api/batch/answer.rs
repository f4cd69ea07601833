//! The answer to a batch: one part for each entry, in the order of the entries.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use daftar_api_types::public::batch::{BatchAnswerEntry, EntryResponse};

use super::ANSWER_BYTES_MAX;
use super::envelope::{Entry, Kind};
use super::inner::Answered;
use crate::api::error::Problem;
use crate::state::AppState;
use daftar_domain::error::AppError;

/// An answer that grows entry by entry.
pub(super) struct AnswerWriter {
    bytes: Vec<u8>,
    entries: usize,
}

impl AnswerWriter {
    pub(super) fn new(kind: Kind) -> Self {
        Self { bytes: format!("{{\"type\":\"{}\",\"entry\":[", kind.response_name()).into_bytes(), entries: 0 }
    }

    /// Whether the bodies so far take as much room as an answer may have.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= ANSWER_BYTES_MAX
    }

    /// Adds the answer to an entry; without its body where there is no room for one.
    ///
    /// # Errors
    /// When it cannot be written, which is a defect.
    pub(super) fn add(&mut self, app: &AppState, entry: &Entry, answered: &Answered) -> Result<(), AppError> {
        let asked = format!("{}{}", app.public_url, entry.uri.path());
        let part = BatchAnswerEntry {
            full_url: Cow::Borrowed(answered.location.as_deref().unwrap_or(&asked)),
            response: EntryResponse {
                status: answered.status.as_u16(),
                location: answered.location.as_deref().map(Cow::Borrowed),
                etag: answered.etag.as_deref().map(Cow::Borrowed),
                retry_after: answered.problem.as_ref().and_then(Problem::retry_after_s),
            },
            // The bytes of the body follow below, as they are.
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

    pub(super) fn finish(mut self) -> Response {
        self.bytes.extend_from_slice(b"]}");
        let mut response = Response::new(Body::from(self.bytes));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
