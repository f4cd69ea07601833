//! Service of one connection: passes requests with their source to the router, and tracks requests in progress.
//!
//! **Invariant:** a chunk counts as read when HTTP/1.1 or HTTP/2 drops it, that is, once the socket has accepted its
//! last byte.
//!
//! [`ResponseMemory`]: daftar_auth::limits::response_memory::ResponseMemory

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, Version, header, request};
use axum::routing::future::RouteFuture;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout};
use tower::Service as _;

use super::activity::{Activity, InFlight};
use daftar_auth::limits::response_memory::ReservedMemory;
use daftar_http::api::extract::body::RECORD_BYTES_MAX;
use daftar_http::api::middleware::entrance::Peer;

/// The router, for one connection.
pub(super) struct ConnectionService {
    pub(super) router: Router,
    pub(super) peer: Peer,
    pub(super) activity: Arc<Activity>,
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<CountedBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, mut request: Request<Incoming>) -> ResponseFuture {
        let in_flight = self.activity.begin(request.version());
        request.extensions_mut().insert(self.peer);
        let request = if request.body().is_end_stream() {
            request.map(Body::new)
        } else {
            let (parts, body) = request.into_parts();
            let body = RequestBody::new(body, &parts, &self.activity);
            Request::from_parts(parts, Body::new(body))
        };
        // The routers share their routes; the router is always ready.
        ResponseFuture { response: self.router.clone().call(request), in_flight: Some(in_flight) }
    }
}

/// A request in progress.
pub(super) struct ResponseFuture {
    response: RouteFuture<Infallible>,
    in_flight: Option<InFlight>,
}

impl Future for ResponseFuture {
    type Output = Result<Response<CountedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.response).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(mut response)) => {
                let in_flight = self.in_flight.take();
                let reserved = response.extensions_mut().remove::<Arc<ReservedMemory>>();
                Poll::Ready(Ok(response.map(|body| CountedBody::new(body, in_flight, reserved, context))))
            }
            Poll::Ready(Err(never)) => match never {},
        }
    }
}

/// Maximum number of bytes that are read and discarded: the maximum size of a body.
const DROPPED_BYTES_MAX: usize = RECORD_BYTES_MAX;
/// Time limit for reading and discarding.
const DROPPING_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time without any data.
const DROPPING_STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request on its way to its handler.
pub(super) struct RequestBody {
    body: Option<Incoming>,
    version: Version,
    activity: Arc<Activity>,
    /// True if the client sends the body without waiting for `100 Continue`.
    is_on_its_way: bool,
}

impl RequestBody {
    /// Wraps the body of the request with this head.
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
        // A client that waits for `100 Continue` receives it.
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

/// Reads and discards the rest of a body, until its end or a limit. The connection is in use in the meantime, and its
/// end also ends the read.
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

/// Maximum size of one chunk in bytes: the amount that a client at the minimum rate reads in half of the time in which
/// it must make progress.
const PART_BYTES_MAX: usize = 32 << 10;

/// The body of a response. Its request is in progress until the socket has accepted the complete body, or the client
/// has disconnected.
pub(super) struct CountedBody {
    body: Body,
    /// Received part of the body that was not passed on yet.
    rest: VecDeque<Bytes>,
    rest_bytes: usize,
    /// True if `rest` is the end of the body.
    is_finished: bool,
    response: Option<Arc<ResponseInFlight>>,
}

/// A response that the client has not read completely.
struct ResponseInFlight {
    in_flight: InFlight,
    reserved: Option<Arc<ReservedMemory>>,
}

impl CountedBody {
    /// Wraps the body of a response to that request.
    pub(super) fn new(
        mut body: Body,
        in_flight: Option<InFlight>,
        reserved: Option<Arc<ReservedMemory>>,
        context: &mut Context<'_>,
    ) -> Self {
        let is_finished = body.size_hint().exact().is_some();
        let mut rest = VecDeque::new();
        let mut rest_bytes = 0;
        if is_finished
            && let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(context)
            && let Ok(bytes) = frame.into_data()
        {
            rest_bytes = bytes.len();
            rest = if rest_bytes <= PART_BYTES_MAX {
                VecDeque::from([bytes])
            } else {
                bytes.chunks(PART_BYTES_MAX).map(Bytes::copy_from_slice).collect()
            };
        }
        if let Some(in_flight) = &in_flight
            && is_finished
        {
            in_flight.finished(rest_bytes as u64);
        }
        let response = in_flight.map(|in_flight| Arc::new(ResponseInFlight { in_flight, reserved }));
        Self { body, rest, rest_bytes, is_finished, response }
    }

    /// Returns a chunk that records when it was read.
    fn followed(&self, bytes: Bytes) -> Bytes {
        let Some(response) = &self.response else { return bytes };
        if bytes.is_empty() {
            return bytes;
        }
        if !self.is_finished {
            response.in_flight.offered(bytes.len() as u64);
        }
        Bytes::from_owner(Part { bytes, response: Arc::clone(response) })
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => {
                        this.rest_bytes = bytes.len();
                        this.rest.push_back(bytes);
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return other,
            }
        }
        let mut part = this.rest.pop_front().unwrap_or_default();
        if part.len() > PART_BYTES_MAX {
            this.rest.push_front(part.split_off(PART_BYTES_MAX));
        }
        this.rest_bytes = this.rest_bytes.saturating_sub(part.len());
        Poll::Ready(Some(Ok(Frame::data(this.followed(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest_bytes as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        // The upper bound is set first: it may not be below the lower one.
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(rest));
        }
        whole.set_lower(hint.lower().saturating_add(rest));
        whole
    }
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        if let Some(response) = &self.response
            && self.is_finished
            && self.rest_bytes > 0
        {
            response.in_flight.discarded(self.rest_bytes as u64);
            response.release(self.rest_bytes);
        }
    }
}

impl ResponseInFlight {
    fn release(&self, bytes: usize) {
        if let Some(reserved) = &self.reserved {
            reserved.release(bytes as u64);
        }
    }
}

/// A chunk of a body that was passed to the connection.
struct Part {
    bytes: Bytes,
    response: Arc<ResponseInFlight>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.response.in_flight.taken(self.bytes.len() as u64);
        self.response.release(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Version;
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::super::activity::Activity;
    use super::*;

    fn counted(body: Body, activity: &Arc<Activity>) -> CountedBody {
        let mut context = Context::from_waker(std::task::Waker::noop());
        CountedBody::new(body, Some(activity.begin(Version::HTTP_2)), None, &mut context)
    }

    #[tokio::test]
    async fn streams_a_body_and_reports_the_remaining_size() {
        for length in [0, 1, PART_BYTES_MAX - 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX + 7] {
            let whole: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let activity = Arc::new(Activity::new());
            let mut body = counted(Body::from(whole.clone()), &activity);
            let mut read = Vec::new();
            while !body.is_end_stream() {
                assert_eq!(body.size_hint().exact(), Some((length - read.len()) as u64));
                assert_eq!(activity.unread(), (length - read.len()) as u64);
                let Some(frame) = body.frame().await else { break };
                let part = frame.unwrap().into_data().unwrap();
                assert!(part.len() <= PART_BYTES_MAX);
                assert_eq!(activity.unread(), (length - read.len()) as u64, "a part that is not taken waits");
                read.extend_from_slice(&part);
            }
            assert!(read == whole, "{length}");
            drop(body);
            assert!(activity.waiting().is_some());
        }
    }

    #[tokio::test]
    async fn a_request_is_in_progress_until_its_last_part_was_read() {
        let activity = Arc::new(Activity::new());
        let mut body = counted(Body::from(vec![7; 2 * PART_BYTES_MAX]), &activity);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!(activity.unread(), PART_BYTES_MAX as u64, "the rest was given up");
        // HTTP/2 sends a chunk in several frames.
        let (one, other) = (first.slice(..10), first.slice(10..));
        drop((first, one));
        assert!(activity.waiting().is_none() && activity.reading_rate().is_some());
        drop(other);
        assert!(activity.waiting().is_some() && activity.reading_rate().is_none());
    }

    #[tokio::test]
    async fn what_is_made_as_it_is_sent_waits_while_a_part_is_not_taken() {
        let activity = Arc::new(Activity::new());
        let lines = stream::iter([Ok::<_, std::io::Error>(vec![7; PART_BYTES_MAX + 5])]);
        let mut body = counted(Body::from_stream(lines), &activity);
        assert_eq!(activity.unread(), 0);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), activity.unread()), (PART_BYTES_MAX, PART_BYTES_MAX as u64));
        drop(first);
        assert!(activity.reading_rate().is_none() && activity.waiting().is_none());
        let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((second.len(), activity.unread()), (5, 5));
    }
}
