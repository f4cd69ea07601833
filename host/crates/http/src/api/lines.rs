//! Answers that come as lines of JSON, while what they tell of goes on.
//!
//! **Invariant:** work does not wait for the reader of its lines for as long as there is space for them: what it holds it gives back when it
//! ends, and not when its lines were read.

mod spool;

use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

pub use self::spool::Spools;

use self::spool::Spool;
use crate::api::extract::accept::LINES;
use daftar_domain::audit::Actor;

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

/// An answer that tells of work as it goes on. The work is a task of its own and goes on whether or not its lines are read: these wait in
/// a spool (`spool`), and when that is full, for the reader. It ends when the caller leaves.
///
/// The work tells its events to the sender of `events`; what it told before it ended is sent before the last line.
pub fn answer<T: Telling>(
    spools: &Arc<Spools>,
    actor: &Actor,
    work: impl Future<Output = T::End> + Send + 'static,
    events: Receiver<T::Event>,
    telling: T,
) -> Response {
    let spool = Arc::new(Spool::new(spools, actor));
    let task = tokio::spawn(tell(work, events, telling, Arc::clone(&spool)).in_current_span());
    let reading = (spool, AbortOnDrop(task));
    let lines = stream::unfold(reading, |(spool, task)| async {
        let lines = spool.read().await?;
        Some((lines, (spool, task)))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES));
    response
}

/// Writes a value as a line of JSON; one that cannot be JSON is left out.
pub fn write_line(value: &impl Serialize, out: &mut Vec<u8>) {
    let before = out.len();
    match serde_json::to_writer(&mut *out, value) {
        Ok(()) => out.push(b'\n'),
        Err(_) => out.truncate(before),
    }
}

/// Ends a task when its answer is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Does the work, and writes what it tells.
async fn tell<T: Telling>(
    work: impl Future<Output = T::End> + Send,
    mut events: Receiver<T::Event>,
    mut telling: T,
    spool: Arc<Spool>,
) {
    let _closed_at_the_end = CloseOnDrop(Arc::clone(&spool));
    let mut work = std::pin::pin!(work);
    let mut ended = None;
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            end = &mut work, if ended.is_none() => {
                ended = Some(end);
                continue;
            }
        };
        let lines = match event {
            Some(event) => telling.lines(event),
            None => break,
        };
        if let Some(lines) = lines
            && let Err(stalled) = spool.write(lines).await
        {
            tracing::info!(reason = %stalled, "response of lines ended before its work");
            spool.fail(stalled);
            return;
        }
    }
    let end = match ended {
        Some(end) => end,
        None => work.await,
    };
    if let Err(stalled) = spool.write(telling.last(end)).await {
        spool.fail(stalled);
    }
}

/// Says that nothing more is written, however the task ends.
struct CloseOnDrop(Arc<Spool>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
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

    fn answered(work: impl Future<Output = &'static str> + Send + 'static, events: Receiver<u32>) -> Response {
        answer(&Spools::new(std::env::temp_dir()), &Actor::Administrator, work, events, Even(0))
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
        let response = answered(work, received);
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
        let lines = tokio::spawn(told(answered(work, received)));
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
        let response = answered(work, received);
        drop(response);
        watched.closed().await;
    }

    #[tokio::test]
    async fn work_comes_to_its_end_while_nobody_reads() {
        let (events, received) = channel(1);
        let watched = events.clone();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let work = async move {
            count(events, 100_000).await;
            ended.send(()).unwrap();
            "of"
        };
        let response = answered(work, received);
        has_ended.await.unwrap();
        drop(watched);
        let lines = to_bytes(response.into_body(), 1_000_000).await.unwrap();
        assert!(lines.starts_with(b"0\n2\n") && lines.ends_with(b"99998\nof 100000\n"));
    }
}
