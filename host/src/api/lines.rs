//! Answers that come as lines of JSON, while what they tell of goes on.

use std::convert::Infallible;
use std::future::Future;
use std::task::Poll;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use tokio::sync::mpsc::Receiver;

use crate::api::extract::accept::LINES;

/// What of some work is told, and how.
pub trait Telling: Send + Unpin + 'static {
    /// What happens on the way.
    type Event: Send + 'static;
    /// What the work comes to.
    type End: Send + 'static;

    /// What is said of an event: whole lines, or nothing.
    fn lines(&mut self, event: Self::Event) -> Option<Vec<u8>>;

    /// The last line.
    fn last(&mut self, end: Self::End) -> Vec<u8>;
}

/// An answer that tells of work as it goes on: it goes on as its lines are sent, and ends with them, or when the caller leaves.
///
/// The work tells its events to the sender of `events`; what it told before it ended is sent before the last line.
pub fn answer<T: Telling>(
    work: impl Future<Output = T::End> + Send + 'static,
    mut events: Receiver<T::Event>,
    mut telling: T,
) -> Response {
    let mut work = Some(Box::pin(work));
    let mut end = None;
    let lines = stream::poll_fn(move |context| {
        if let Some(running) = &mut work
            && let Poll::Ready(ended) = running.as_mut().poll(context)
        {
            (work, end) = (None, Some(ended));
        }
        loop {
            match events.poll_recv(context) {
                Poll::Ready(Some(event)) => {
                    if let Some(lines) = telling.lines(event) {
                        return Poll::Ready(Some(Ok::<_, Infallible>(lines)));
                    }
                }
                Poll::Ready(None) if work.is_none() => {
                    return Poll::Ready(end.take().map(|end| Ok(telling.last(end))));
                }
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES));
    response
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tokio::sync::mpsc::{Sender, channel};

    use super::*;

    /// Tells of even numbers, and in the end how many there were in all.
    struct Even(u32);

    impl Telling for Even {
        type Event = u32;
        type End = &'static str;

        fn lines(&mut self, event: u32) -> Option<Vec<u8>> {
            self.0 += 1;
            event.is_multiple_of(2).then(|| format!("{event}\n").into_bytes())
        }

        fn last(&mut self, end: &'static str) -> Vec<u8> {
            format!("{end} {}\n", self.0).into_bytes()
        }
    }

    async fn told(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), 1_000).await.unwrap().to_vec()).unwrap()
    }

    async fn count(events: Sender<u32>, to: u32) {
        for number in 0..to {
            events.send(number).await.unwrap();
        }
    }

    #[tokio::test]
    async fn tells_of_events_in_their_order_and_then_of_the_end() {
        let (events, received) = channel(2);
        let work = async move {
            count(events, 5).await;
            "of"
        };
        let response = answer(work, received, Even(0));
        assert_eq!(response.headers()["content-type"], LINES);
        assert_eq!(told(response).await, "0\n2\n4\nof 5\n");
    }

    #[tokio::test]
    async fn work_that_says_nothing_more_is_waited_for() {
        let (events, received) = channel(2);
        let (go, gone) = tokio::sync::oneshot::channel();
        let work = async move {
            count(events, 1).await;
            gone.await.unwrap()
        };
        let lines = tokio::spawn(told(answer(work, received, Even(0))));
        tokio::task::yield_now().await;
        go.send("late").unwrap();
        assert_eq!(lines.await.unwrap(), "0\nlate 1\n");
    }

    #[tokio::test]
    async fn work_ends_when_the_caller_leaves() {
        let (events, received) = channel(1);
        let watched = events.clone();
        let work = async move {
            count(events, 1_000).await;
            "never"
        };
        let response = answer(work, received, Even(0));
        drop(response);
        watched.closed().await;
    }
}
