//! The socket of a connection, watched: it reports what comes, and whether the client takes what is written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::activity::Activity;

/// The most bytes that wait in the system to be sent: with more, the progress of a slow client shows only now and then, and what it
/// does not take is memory that nothing counts.
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// A socket that reports what it does.
pub(super) struct Socket {
    stream: TcpStream,
    activity: Arc<Activity>,
    is_waiting: bool,
}

impl Socket {
    /// Watches a stream.
    ///
    /// # Errors
    /// When the client is gone already.
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>) -> io::Result<Self> {
        // A response is written whole; waiting for more to send with it only costs time.
        stream.set_nodelay(true)?;
        socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        Ok(Self { stream, activity, is_waiting: false })
    }

    /// Notes the outcome of a write.
    fn wrote(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if self.is_waiting != polled.is_pending() {
            self.is_waiting = polled.is_pending();
            self.activity.set_writing(self.is_waiting);
        }
        polled
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
        socket.wrote(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.get_mut();
        let polled = Pin::new(&mut socket.stream).poll_write_vectored(context, parts);
        socket.wrote(polled)
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
