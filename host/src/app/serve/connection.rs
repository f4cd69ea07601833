//! One connection, from accept to close: handshake, requests and time limits.
//!
//! **Invariant:** every connection terminates, independent of the behaviour of its client: each wait has a timeout.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, Due};
use super::connection_limiter::ConnectionSlot;
use super::service::ConnectionService;
use daftar_domain::config::ConnectionsConfig;
use daftar_http::api::middleware::entrance::Peer;
use daftar_http::transport::{Cut, Transport};

/// Buffer size of a connection, for reads and writes. The largest request head must fit.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// Maximum size of the headers of an HTTP/2 request in bytes, counted as in its RFC.
const HTTP2_HEADER_BYTES_MAX: u32 = 64 << 10;
/// Maximum number of resets by a client before they are checked (CVE-2023-44487).
const HTTP2_RESETS_WAITING_MAX: usize = 20;
/// Maximum number of streams that may end by a protocol error of the client (RUSTSEC-2024-0003).
const HTTP2_FAULTS_MAX: usize = 128;
/// Flow-control window of one body, and of a connection.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Interval of keep-alive pings of HTTP/2 connections, and the timeout of their responses.
const HTTP2_PING_EVERY: Duration = Duration::from_secs(30);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for an idle connection to close gracefully.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the handshake, and of the head of the request, of a connection without a slot.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(2);

/// Phase of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The listener serves requests.
    Serving,
    /// Requests in progress are finished, and no others are started.
    Draining,
    /// Unfinished requests are interrupted.
    Ended,
}

/// State that all connections of a listener share.
pub(super) struct Connections {
    pub(super) router: Router,
    pub(super) tls: Option<TlsAcceptors>,
    pub(super) handshake_timeout: Duration,
    pub(super) limits: ConnectionsConfig,
    pub(super) transport: Arc<Transport>,
    protocol: auto::Builder<TokioExecutor>,
    /// The same for connections that are rejected: one request each, by HTTP/1.1.
    refusing: auto::Builder<TokioExecutor>,
    refusing_limits: ConnectionsConfig,
}

/// TLS acceptor.
#[derive(Clone)]
pub(super) struct TlsAcceptors {
    /// Offers HTTP/2 and HTTP/1.1.
    pub(super) served: TlsAcceptor,
    /// Offers HTTP/1.1 only, for connections that are rejected.
    pub(super) refused: TlsAcceptor,
}

impl Connections {
    /// Creates the state for a listener.
    pub(super) fn new(
        router: Router,
        tls: Option<TlsAcceptors>,
        handshake_timeout: Duration,
        limits: ConnectionsConfig,
        transport: Arc<Transport>,
    ) -> Self {
        let protocol = protocol(&limits);
        let mut refusing = protocol.clone().http1_only();
        refusing.http1().keep_alive(false);
        let shortest_ms = u64::try_from(REFUSED_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let refusing_limits = ConnectionsConfig {
            header_timeout_ms: limits.header_timeout_ms.min(shortest_ms),
            write_timeout_ms: limits.write_timeout_ms.min(shortest_ms),
            ..limits
        };
        Self { router, tls, handshake_timeout, limits, transport, protocol, refusing, refusing_limits }
    }

    /// Serves a connection until it is closed.
    pub(super) async fn serve(
        &self,
        stream: TcpStream,
        address: IpAddr,
        slot: ConnectionSlot,
        mut phase: watch::Receiver<Phase>,
    ) {
        let socket = match Socket::new(stream, Arc::clone(&slot.activity)) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!(error = %error, "a connection was gone before it was served");
                return;
            }
        };
        let Some(tls) = &self.tls else {
            return self.converse(socket, address, false, &slot, phase).await;
        };
        let (tls, handshake_timeout) = match slot.refusal {
            None => (&tls.served, self.handshake_timeout),
            Some(_) => (&tls.refused, self.handshake_timeout.min(REFUSED_TIMEOUT)),
        };
        let handshake = tokio::time::timeout(handshake_timeout, tls.accept(socket));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            () = slot.leave.notified() => return,
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.converse(stream, address, true, &slot, phase).await,
            Ok(Err(error)) => {
                self.transport.count_cut(Cut::HandshakeFailed);
                tracing::debug!(error = %error, "a TLS handshake failed");
            }
            Err(_) => self.transport.count_cut(Cut::HandshakeTimeout),
        }
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        address: IpAddr,
        is_tls: bool,
        slot: &ConnectionSlot,
        mut phase: watch::Receiver<Phase>,
    ) {
        let activity = &slot.activity;
        activity.is_ready();
        let peer = Peer { address, is_tls, refusal: slot.refusal };
        let answerer = ConnectionService { router: self.router.clone(), peer, activity: Arc::clone(activity) };
        let (protocol, limits) = match slot.refusal {
            None => (&self.protocol, &self.limits),
            Some(_) => (&self.refusing, &self.refusing_limits),
        };
        let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), answerer));
        let mut look = pin!(tokio::time::sleep_until(Instant::now()));
        let (mut is_closing, mut is_draining) = (false, false);
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(error = %error, "a connection was interrupted");
                    }
                    return;
                }
                () = slot.leave.notified() => {
                    if activity.waiting().is_some() || activity.reading_rate().is_some() {
                        return;
                    }
                    // A request arrived while the slot was reassigned: it is finished, and is the last one.
                    connection.as_mut().graceful_shutdown();
                }
                stopping = phase.wait_for(move |phase| *phase == Phase::Ended || (*phase == Phase::Draining && !is_draining)) => {
                    if stopping.map_or(true, |phase| *phase == Phase::Ended) {
                        return;
                    }
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = look.as_mut() => match activity.due(limits) {
                    Due::LookAgain(at) => look.as_mut().reset(at),
                    Due::Over(Cut::Idle) if !is_closing => {
                        self.transport.count_cut(Cut::Idle);
                        is_closing = true;
                        connection.as_mut().graceful_shutdown();
                        look.as_mut().reset(Instant::now() + CLOSE_TIMEOUT);
                    }
                    Due::Over(cut) => {
                        if !is_closing {
                            self.transport.count_cut(cut);
                        }
                        return;
                    }
                },
            }
        }
    }
}

/// Configures HTTP/1.1 and HTTP/2; the first bytes of the client select the protocol.
fn protocol(limits: &ConnectionsConfig) -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    // The activity of the connection limits the time of a request head, without a timer for each request.
    protocol.http1().timer(TokioTimer::new()).header_read_timeout(None::<Duration>).max_buf_size(BUFFER_BYTES_MAX);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(limits.http2_streams_max).unwrap_or(u32::MAX))
        .max_header_list_size(HTTP2_HEADER_BYTES_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_WAITING_MAX)
        .max_local_error_reset_streams(HTTP2_FAULTS_MAX)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(BUFFER_BYTES_MAX)
        .keep_alive_interval(HTTP2_PING_EVERY)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    protocol
}

/// Maximum number of unsent bytes in the send buffer of the system. With a larger buffer, the progress of a slow client
/// is visible only at long intervals, and the unread data is memory that no limit counts.
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// A socket that records its activity.
pub(super) struct Socket {
    stream: TcpStream,
    activity: Arc<Activity>,
    is_waiting: bool,
}

impl Socket {
    /// Wraps a stream.
    ///
    /// # Errors
    /// If the client has disconnected already.
    pub(super) fn new(stream: TcpStream, activity: Arc<Activity>) -> io::Result<Self> {
        // A response is written completely; waiting for more data to send with it only adds latency.
        stream.set_nodelay(true)?;
        socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        Ok(Self { stream, activity, is_waiting: false })
    }

    /// Records the outcome of a write.
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
