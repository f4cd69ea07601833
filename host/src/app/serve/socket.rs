//! The socket of a connection, watched: it tells what comes and goes, and fails where the client takes nothing for too long.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::activity::Activity;
use crate::app::transport::{Cut, Transport};

/// A socket that says what it does.
pub(super) struct Socket {
    stream: TcpStream,
    activity: Arc<Activity>,
    transport: Arc<Transport>,
    write_timeout: Duration,
    /// Runs while the client takes nothing; made when it first does not.
    patience: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl Socket {
    /// Watches a stream.
    pub(super) fn new(
        stream: TcpStream,
        activity: Arc<Activity>,
        transport: Arc<Transport>,
        write_timeout: Duration,
    ) -> Self {
        Self { stream, activity, transport, write_timeout, patience: None, is_waiting: false }
    }

    /// What became of a write.
    fn wrote(&mut self, polled: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.activity.progressed();
            if std::mem::replace(&mut self.is_waiting, false) {
                self.activity.set_writing(false);
            }
            return polled;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.write_timeout)));
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.activity.set_writing(true);
            patience.as_mut().reset(Instant::now() + self.write_timeout);
        }
        if patience.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.transport.count_cut(Cut::WriteTimeout);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client took nothing for too long")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut socket.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            socket.activity.received();
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let polled = Pin::new(&mut socket.stream).poll_write(context, bytes);
        socket.wrote(polled, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let polled = Pin::new(&mut socket.stream).poll_write_vectored(context, parts);
        socket.wrote(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
