//! What answers the requests of one connection: the router, told who asks, and the connection told what is under way.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::routing::future::RouteFuture;
use hyper::body::{Body as _, Incoming};
use tower::Service as _;

use super::activity::{Activity, InFlight};
use super::request_body::RequestBody;
use super::response_body::CountedBody;
use daftar_auth::limits::response_memory::ReservedMemory;
use daftar_http::api::middleware::entrance::Peer;

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
        let request = if request.body().is_end_stream() {
            request.map(Body::new)
        } else {
            let (parts, body) = request.into_parts();
            let body = RequestBody::new(body, &parts, &self.activity);
            Request::from_parts(parts, Body::new(body))
        };
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
            Poll::Ready(Ok(mut answer)) => {
                let in_flight = self.in_flight.take();
                let reserved = answer.extensions_mut().remove::<Arc<ReservedMemory>>();
                Poll::Ready(Ok(answer.map(|body| CountedBody::new(body, in_flight, reserved, context))))
            }
            Poll::Ready(Err(never)) => match never {},
        }
    }
}
