//! Accepts connections from a listener and passes each to a task of its own.
//!
//! **Invariant:** the accept loop never waits for a single connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connection::{Connections, Phase};
use super::connection_limiter::{ConnectionLimiter, ConnectionLimits, IncomingConnection};
use daftar_auth::limits::response_memory::{ClosesSlowest, ResponseMemory};
use daftar_domain::network::Network;
use daftar_http::api::middleware::entrance::Refusal;

/// Pause before the next connection is accepted if the process lacks descriptors or memory for one.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Minimum interval between identical log entries about connections.
const LOGGED_EVERY: Duration = Duration::from_secs(60);
/// Time limit for interrupted connections to close.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A listener with its connections.
pub(super) struct Acceptor {
    pub(super) listener: std::net::TcpListener,
    pub(super) connections: Connections,
    pub(super) limits: ConnectionLimits,
    pub(super) admission: Admission,
    /// Time limit for requests in progress when the server stops.
    pub(super) shutdown_timeout: Duration,
    /// Accounting of the responses of these connections, if any.
    pub(super) response_memory: Option<Arc<ResponseMemory>>,
}

/// Sources from which a listener accepts connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission {
    /// Sources that represent many clients.
    pub(super) proxies: Vec<Network>,
    /// True if only local clients may connect.
    pub(super) is_for_proxies_alone: bool,
}

impl Admission {
    fn incoming(&self, address: IpAddr) -> IncomingConnection {
        let address = address.to_canonical();
        let is_proxy = self.proxies.iter().any(|network| network.contains(address));
        let is_stranger = self.is_for_proxies_alone && !is_proxy && !address.is_loopback();
        IncomingConnection { address, is_proxy, refusal: is_stranger.then_some(Refusal::NotAProxy) }
    }
}

impl Acceptor {
    /// Serves until the server stops and every request in progress is finished or interrupted.
    ///
    /// # Errors
    /// If the listener cannot be used.
    pub(super) async fn serve(
        self,
        mut phase: watch::Receiver<Phase>,
        end: Arc<watch::Sender<Phase>>,
    ) -> io::Result<()> {
        let Self { listener, connections, limits, admission, shutdown_timeout, response_memory } = self;
        let listener = TcpListener::from_std(listener)?;
        let connections = Arc::new(connections);
        let limiter = ConnectionLimiter::new(limits, Arc::clone(&connections.transport));
        if let Some(memory) = response_memory {
            let limiter: Arc<dyn ClosesSlowest> = Arc::<ConnectionLimiter>::clone(&limiter);
            memory.set_closes_slowest(Arc::downgrade(&limiter));
        }
        let mut reported = LogThrottle::default();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    take(stream, peer, &admission, &limiter, &connections, (phase.clone(), &mut reported));
                }
                // The client disconnected before it was served.
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    reported.say(|| tracing::error!(error = %error, "connections cannot be taken; it is tried again"));
                    tokio::time::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
        // The system rejects later connections.
        drop(listener);
        if tokio::time::timeout(shutdown_timeout, limiter.emptied()).await.is_err() {
            tracing::warn!("requests in progress at the shutdown are aborted");
            end.send_replace(Phase::Ended);
            if tokio::time::timeout(END_TIMEOUT, limiter.emptied()).await.is_err() {
                tracing::warn!("connections are left behind");
            }
        }
        Ok(())
    }
}

fn take(
    stream: TcpStream,
    peer: SocketAddr,
    admission: &Admission,
    limiter: &Arc<ConnectionLimiter>,
    connections: &Arc<Connections>,
    (phase, reported): (watch::Receiver<Phase>, &mut LogThrottle),
) {
    let incoming = admission.incoming(peer.ip());
    let Some(slot) = limiter.admit(incoming) else {
        reported
            .say(|| tracing::warn!("connections are closed without a response: requests in progress use all slots"));
        return;
    };
    match slot.refusal {
        None => {}
        Some(Refusal::Full | Refusal::AddressFull) => {
            reported.say(|| {
                tracing::warn!("connections are answered 503: there are as many as `[server.connections]` allows")
            });
        }
        // The response contains the address of the client, for the operator; the log contains none.
        Some(Refusal::NotAProxy) => reported.say(|| {
            tracing::warn!(
                "connections are refused that come by plain HTTP and from none of `[server] trusted_proxies`"
            );
        }),
    }
    let connections = Arc::clone(connections);
    tokio::spawn(async move { connections.serve(stream, incoming.address, slot, phase).await });
}

/// Returns true if the client caused the error.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

/// Rate-limits log entries about events that may occur a thousand times per second.
#[derive(Default)]
struct LogThrottle(Option<tokio::time::Instant>);

impl LogThrottle {
    fn say(&mut self, say: impl FnOnce()) {
        let now = tokio::time::Instant::now();
        if self.0.is_none_or(|last| now.duration_since(last) >= LOGGED_EVERY) {
            self.0 = Some(now);
            say();
        }
    }
}

/// File descriptors in addition to connections of the public listener: store, checkpoints, plugins, administrator.
pub(in crate::app) const OTHERS: u64 = 512;

/// Raises the limit of open files for this number of connections, and returns the number of connections that it
/// permits.
pub(super) fn raise_descriptor_limit(connections: u64) -> u64 {
    let wanted = connections.saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return connections;
    }
    let possible = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(possible), maximum: limit.maximum });
    let possible = if raised.is_ok() { possible } else { current };
    if possible >= wanted {
        return connections;
    }
    let fitting = possible.saturating_sub(OTHERS).max(possible / 2).max(1);
    tracing::warn!(
        connections.max = fitting,
        files.max = possible,
        "the process may not have as many files open as `[server.connections] max` needs, so fewer connections are taken; raise its limit (`ulimit -n`, `LimitNOFILE=`)"
    );
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_loopback_plain_http_is_for_trusted_proxies_and_this_machine() {
        let proxies = vec![Network::parse("10.1.0.0/16").unwrap()];
        let admission = Admission { proxies: proxies.clone(), is_for_proxies_alone: true };
        for (address, is_proxy, is_refused) in [
            ("10.1.2.3", true, false),
            ("::ffff:10.1.2.3", true, false),
            ("127.0.0.1", false, false),
            ("::1", false, false),
            ("10.2.0.1", false, true),
            ("2001:db8::1", false, true),
        ] {
            let incoming = admission.incoming(address.parse().unwrap());
            assert_eq!((incoming.is_proxy, incoming.refusal.is_some()), (is_proxy, is_refused), "{address}");
        }
        let open = Admission { proxies, is_for_proxies_alone: false };
        assert!(open.incoming("10.2.0.1".parse().unwrap()).refusal.is_none());
    }
}
