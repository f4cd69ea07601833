//! The body of a request. Where the response does not wait for its end, the rest is read and dropped, within bounds.
//!
//! Over HTTP/1.1 a connection that is closed while the client still sends is reset, and the response is lost with it: the client
//! sees a broken pipe in place of the 413 or 503 that says what to do. HTTP/2 ends one stream (RFC 9113, section 8.1).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::{Version, header, request};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout};

use super::activity::{Activity, InFlight};
use daftar_http::api::extract::body::RECORD_BYTES_MAX;

/// The most bytes that are read and dropped: as many as a body may have.
const DROPPED_BYTES_MAX: usize = RECORD_BYTES_MAX;
/// How long that may take.
const DROPPING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long nothing may arrive meanwhile.
const DROPPING_STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request on its way to its handler.
pub(super) struct RequestBody {
    body: Option<Incoming>,
    version: Version,
    activity: Arc<Activity>,
    /// Whether the client sends it without being asked to.
    is_on_its_way: bool,
}

impl RequestBody {
    /// The body of the request with that head.
    pub(super) fn new(body: Incoming, head: &request::Parts, activity: &Arc<Activity>) -> Self {
        let is_on_its_way = !head.headers.contains_key(header::EXPECT);
        Self { body: Some(body), version: head.version, activity: Arc::clone(activity), is_on_its_way }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        // A client that waits for it is told to go on.
        this.is_on_its_way = true;
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        if self.version == Version::HTTP_2 || !self.is_on_its_way || body.is_end_stream() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let in_flight = self.activity.begin(self.version);
        runtime.spawn(drop_rest(body, in_flight));
    }
}

/// Reads what is left of a body, until its end or a bound. The connection is in use meanwhile, and ends with it at the latest.
async fn drop_rest(mut body: Incoming, _in_flight: InFlight) {
    let until = Instant::now() + DROPPING_TIMEOUT;
    let mut left = DROPPED_BYTES_MAX;
    loop {
        let patience = until.saturating_duration_since(Instant::now()).min(DROPPING_STALL_TIMEOUT);
        let Ok(Some(Ok(frame))) = timeout(patience, body.frame()).await else { return };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(bytes) else { return };
        left = rest;
    }
}
