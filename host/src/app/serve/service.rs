//! What answers the requests of one connection: the router, told who asks, and the connection told what is under way.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use axum::routing::future::RouteFuture;
use hyper::body::{Frame, Incoming, SizeHint};
use tower::Service as _;

use super::activity::{Activity, InFlight};
use crate::api::middleware::caller::Peer;

/// The router, for one connection.
pub(super) struct Answerer {
    pub(super) router: Router,
    pub(super) peer: Peer,
    pub(super) activity: Arc<Activity>,
}

impl hyper::service::Service<Request<Incoming>> for Answerer {
    type Response = Response<CountedBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        let in_flight = self.activity.begin(request.version());
        request.extensions_mut().insert(self.peer);
        // The router shares its routes; it is always ready.
        Answering { answer: self.router.clone().call(request), in_flight: Some(in_flight) }
    }
}

/// A request that is being answered.
pub(super) struct Answering {
    answer: RouteFuture<Infallible>,
    in_flight: Option<InFlight>,
}

impl Future for Answering {
    type Output = Result<Response<CountedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.answer).poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(answer)) => {
                let in_flight = self.in_flight.take();
                Poll::Ready(Ok(answer.map(|body| CountedBody { body, rest: Bytes::new(), in_flight })))
            }
            Poll::Ready(Err(never)) => match never {},
        }
    }
}

/// How much of a body is handed over at once: so much at most waits in memory for a client that does not take it, and is not seen
/// as under way any more.
const PART_BYTES_MAX: usize = 64 << 10;

/// The body of an answer. Its request is under way until the body was handed over, or the client left.
pub(super) struct CountedBody {
    body: Body,
    /// What was taken of the body and is not handed over yet.
    rest: Bytes,
    in_flight: Option<InFlight>,
}

impl CountedBody {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => self.rest = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return other,
            }
        }
        let part = self.rest.split_to(self.rest.len().min(PART_BYTES_MAX));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = this.poll_part(context);
        if let Some(in_flight) = &mut this.in_flight {
            match &polled {
                Poll::Pending => in_flight.is_being_made(),
                Poll::Ready(_) => in_flight.handed_over(),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        // The upper bound first: it may not lie below the lower one.
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(rest));
        }
        whole.set_lower(hint.lower().saturating_add(rest));
        whole
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn hands_a_body_over_in_parts_and_says_how_much_is_left() {
        for length in [0, 1, PART_BYTES_MAX - 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX + 7] {
            let whole: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let body = Body::from(whole.clone());
            let mut body = CountedBody { body, rest: Bytes::new(), in_flight: None };
            let mut read = Vec::new();
            while !body.is_end_stream() {
                assert_eq!(body.size_hint().exact(), Some((length - read.len()) as u64));
                let Some(frame) = body.frame().await else { break };
                let part = frame.unwrap().into_data().unwrap();
                assert!(part.len() <= PART_BYTES_MAX);
                read.extend_from_slice(&part);
            }
            assert!(read == whole, "{length}");
        }
    }
}
