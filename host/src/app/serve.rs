//! The listeners: addresses, certificate and shutdown.
//!
//! Each connection has a task (`serve/connection.rs`) with a slot in the connection table of its listener
//! (`serve/connection_limiter.rs`); its activity (`serve/activity.rs`) limits its time.

pub(super) mod accept;
mod activity;
pub(super) mod certificate;
mod connection;
mod connection_limiter;
mod service;

use std::fs;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::accept::{Acceptor, Admission};
use self::certificate::CertificateKeeper;
pub use self::certificate::hangups;
use self::connection::{Connections, Phase, TlsAcceptors};
use self::connection_limiter::ConnectionLimits;
use super::{App, AppState, PLUGINS_FOLDER, StartError};
use daftar_domain::config::{ConnectionsConfig, HANDSHAKE_TIMEOUT_MS_DEFAULT, ServerConfig};
use daftar_domain::error::TaskEnded;

/// Number of connections of an administrative listener: separate slots, which no other client can use.
const ADMIN_CONNECTIONS_MAX: usize = 128;
/// Time for which the client of the administrator may read nothing of a response: a backup may wait for a slow disk.
const ADMIN_WRITE_TIMEOUT_MS: u64 = 300_000;
/// Fraction of `write_timeout_ms` for which a response waits before an eviction considers the rate of its client: one
/// second by default.
const SLOW_PART: u32 = 30;

/// Time limit for the task that installs engines to end when the server stops: a write may wait for a lock of the
/// database.
const ENGINES_END_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for work that cannot be interrupted when a server is stopped during its start.
pub const START_END_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay of the next attempt to install engines after a failure of the store.
const ENGINES_AGAIN: Duration = Duration::from_secs(5);

/// Bound sockets. They are bound before anything is loaded, so that an address in use is reported immediately.
#[derive(Debug)]
pub struct Listeners {
    public: TcpListener,
    admin: TcpListener,
    /// For the commands on this machine, if `admin` is for remote clients and uses HTTPS with a name that these
    /// commands do not know.
    admin_here: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    /// Binds all addresses.
    ///
    /// # Errors
    /// [`StartError::Listen`] naming the address that cannot be bound.
    pub fn bind(config: &ServerConfig) -> Result<Self, StartError> {
        let metrics = config.metrics_listen.map(bind).transpose()?;
        let (public, admin) = (bind(config.listen)?, bind(config.admin_listen)?);
        let is_for_others = !config.admin_listen.ip().is_loopback();
        let admin_here = is_for_others.then(|| bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).transpose()?;
        Ok(Self { public, admin, admin_here, metrics })
    }

    /// Returns the URL by which clients reach the server.
    #[must_use]
    pub fn public_url(&self, config: &ServerConfig) -> String {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let address = self.public.local_addr().unwrap_or(config.listen);
        config.public_url.clone().unwrap_or_else(|| format!("{scheme}://{address}"))
    }

    /// Address of the metrics page without a token, if it has a separate listener.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Address of the admin API, for commands on this machine.
    #[must_use]
    pub fn offered_admin_url(&self) -> String {
        let scheme = if self.admin_here.is_some() { "https" } else { "http" };
        self.admin.local_addr().map(|address| format!("{scheme}://{address}")).unwrap_or_default()
    }

    /// Returns the local address of the admin API.
    #[must_use]
    pub fn admin_url(&self) -> String {
        let listener = self.admin_here.as_ref().unwrap_or(&self.admin);
        listener.local_addr().map(|address| format!("http://{address}")).unwrap_or_default()
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })?;
    listener.set_nonblocking(true).map_err(|source| StartError::Listen { address, source })?;
    Ok(listener)
}

/// Serves until `shutdown` completes, then finishes requests in progress and closes the register. `reloads` are requests
/// of an operator to read the certificate again.
///
/// # Errors
/// If a certificate cannot be used or a listener fails.
pub async fn serve(
    app: App,
    listeners: Listeners,
    ready: impl FnOnce(),
    reloads: Option<Signal>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let certificate = match &app.config.server.tls {
        Some(tls) => Some(CertificateKeeper::start(tls, Arc::clone(&app.transport), Arc::clone(&app.clock))?),
        None => None,
    };
    let tls = certificate.as_ref().map(|keeper| keeper.acceptors()).transpose()?;
    let running = RunningServer {
        admin_url: listeners.admin_url(),
        public_url: Some(app.public_url.clone()),
        process_id: std::process::id(),
    };
    let announcement = running.announce(&app.data_dir).map_err(|error| StartError::Folder(error.to_string()))?;
    let (phase, serving) = watch::channel(Phase::Serving);
    let phase = Arc::new(phase);
    let mut servers = tokio::task::JoinSet::new();
    for acceptor in acceptors(&app.state, listeners, tls) {
        servers.spawn(acceptor.serve(serving.clone(), Arc::clone(&phase)));
    }
    ready();
    let engines = tokio::spawn(compile_engines(app.state.clone(), serving));
    let fresh = async {
        match (certificate, reloads) {
            (Some(keeper), reloads) => keeper.keep_fresh(reloads).await,
            (None, Some(mut reloads)) => {
                while reloads.recv().await.is_some() {
                    tracing::info!("SIGHUP reads the certificate again, and this server has none");
                }
            }
            (None, None) => std::future::pending().await,
        }
    };
    let mut fresh = std::pin::pin!(fresh);
    let mut shutdown = std::pin::pin!(shutdown);
    let mut is_fresh = true;
    let mut result = loop {
        tokio::select! {
            () = shutdown.as_mut() => break Ok(()),
            Some(ended) = servers.join_next() => break flatten(ended),
            // The task ends only if it cannot continue, and has logged the reason.
            () = fresh.as_mut(), if is_fresh => is_fresh = false,
        }
    };
    phase.send_replace(Phase::Draining);
    while let Some(ended) = servers.join_next().await {
        result = result.and(flatten(ended));
    }
    drop(announcement);
    // Its writes precede the checkpoint.
    app.plugins.stop_compiling();
    finish_engines(engines).await;
    if let Err(error) = app.registry.audit.record_all_counts().await {
        tracing::warn!(error = %error, "the last counts of refusals could not be audited");
    }
    app.checkpoint().await;
    app.close();
    result
}

/// Compiles the engines that were left out when the register was opened; retries while the store fails.
async fn compile_engines(app: AppState, mut serving: watch::Receiver<Phase>) {
    while let Err(error) = app.plugins.finish_start(app.clock.now()).await {
        if app.plugins.is_stopping() {
            return;
        }
        tracing::warn!(error = %error, "engines could not be installed, retrying");
        // Ends early when the server stops.
        let _is_over = tokio::time::timeout(ENGINES_AGAIN, serving.changed()).await;
    }
}

/// Waits for the task that compiles engines, and aborts it at the time limit. Usually it ends soon: the running
/// compilation was aborted.
async fn finish_engines(mut engines: JoinHandle<()>) {
    match tokio::time::timeout(ENGINES_END_TIMEOUT, &mut engines).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = %TaskEnded::from(error), "the task that compiles engines failed"),
        Err(_) => {
            tracing::warn!("the task that installs engines did not end in time; the next start installs them");
            engines.abort();
            // The task has released the register when it is over.
            let _was_aborted = engines.await;
        }
    }
}

fn flatten(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<(), StartError> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(StartError::Server(error.to_string())),
        Err(error) => Err(StartError::Server(TaskEnded::from(error).to_string())),
    }
}

/// Returns every listener with its service.
fn acceptors(app: &AppState, listeners: Listeners, tls: Option<TlsAcceptors>) -> Vec<Acceptor> {
    let server = &app.config.server;
    let Listeners { public, admin, admin_here, metrics } = listeners;
    let mut acceptors = Vec::new();
    let for_administrator = |listener, tls, router| {
        let (max, slow_after) = (ADMIN_CONNECTIONS_MAX, Duration::from_millis(ADMIN_WRITE_TIMEOUT_MS));
        let limits = ConnectionLimits { max, per_address_max: max, slow_after };
        let times = ConnectionsConfig {
            write_timeout_ms: server.connections.write_timeout_ms.max(ADMIN_WRITE_TIMEOUT_MS),
            ..server.connections
        };
        acceptor(app, (listener, tls, router), times, (limits, Admission::default()))
    };
    if let Some(metrics) = metrics {
        acceptors.push(for_administrator(
            metrics,
            tls.clone(),
            daftar_http::admin::router::metrics_router(app.clone()),
        ));
    }
    let router = daftar_http::admin::router::router(app.clone());
    let admin_tls = match admin_here {
        Some(here) => {
            acceptors.push(for_administrator(here, None, router.clone()));
            tls.clone()
        }
        None => None,
    };
    acceptors.push(for_administrator(admin, admin_tls, router));
    let limits = ConnectionLimits {
        max: usize::try_from(accept::raise_descriptor_limit(server.connections.max)).unwrap_or(usize::MAX),
        per_address_max: usize::try_from(server.connections.per_address_max).unwrap_or(usize::MAX),
        slow_after: Duration::from_millis(server.connections.write_timeout_ms) / SLOW_PART,
    };
    let is_on_loopback = public.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let admission =
        Admission { proxies: server.trusted_proxies.clone(), is_for_proxies_alone: tls.is_none() && !is_on_loopback };
    let router = daftar_http::api::router::router(app.clone());
    let public = acceptor(app, (public, tls, router), server.connections, (limits, admission));
    acceptors.push(Acceptor { response_memory: Some(Arc::clone(&app.response_memory)), ..public });
    acceptors
}

fn acceptor(
    app: &AppState,
    (listener, tls, router): (TcpListener, Option<TlsAcceptors>, Router),
    times: ConnectionsConfig,
    (limits, admission): (ConnectionLimits, Admission),
) -> Acceptor {
    let server = &app.config.server;
    let handshake_timeout_ms = server.tls.as_ref().map_or(HANDSHAKE_TIMEOUT_MS_DEFAULT, |tls| tls.handshake_timeout_ms);
    let handshake_timeout = Duration::from_millis(handshake_timeout_ms);
    let connections = Connections::new(router, tls, handshake_timeout, times, Arc::clone(&app.transport));
    let shutdown_timeout = Duration::from_millis(server.shutdown_timeout_ms);
    Acceptor { listener, connections, limits, admission, shutdown_timeout, response_memory: None }
}

/// Completes on Ctrl-C or SIGTERM. Signals are received from the call on, not only once the future is awaited: a caller
/// that stops a server immediately after it reported readiness still gets a graceful shutdown.
#[must_use = "a signal that is not awaited stops nothing"]
pub fn shutdown_signal() -> impl Future<Output = ()> {
    let interrupted = signal(SignalKind::interrupt());
    let terminated = signal(SignalKind::terminate());
    async {
        tokio::select! {
            () = heard(interrupted) => {}
            () = heard(terminated) => {}
        }
    }
}

/// Runs the start of a server; returns `None` if `shutdown` completes before it. A start may be interrupted at any
/// point: a killed process leaves the same.
pub async fn unless_stopped<T>(
    shutdown: Pin<&mut impl Future<Output = ()>>,
    start: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        // A signal takes precedence over the end of the start.
        biased;
        () = shutdown => {
            tracing::info!("the server was stopped before it had started");
            None
        }
        started = start => Some(started),
    }
}

/// Completes with the next signal; never, if the signal cannot be received.
async fn heard(signal: std::io::Result<Signal>) {
    match signal {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => {
            tracing::warn!(error = %error, "one of Ctrl-C and SIGTERM cannot be heard; the other one stops the server");
            std::future::pending().await
        }
    }
}

/// Returns the folder `plugins` beside the program, if it exists.
#[must_use]
pub fn default_plugins_dir() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.join("plugins");
    folder.is_dir().then_some(folder)
}

/// The file in the data folder that contains the addresses of the server.
const FILE: &str = "server.json";

/// A server that runs on a data folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunningServer {
    /// URL of its admin API, without a path.
    pub admin_url: String,
    /// URL of its public API, without a path; absent in the file of an older program.
    #[serde(default)]
    pub public_url: Option<String>,
    /// Its process id.
    pub process_id: u32,
}

/// Publishes the addresses of the server while this value exists.
#[derive(Debug)]
pub struct Announcement {
    path: PathBuf,
}

impl RunningServer {
    /// Finds the server that uses the folder, if any. The file alone is no proof: a killed server leaves it, and
    /// another process may listen at its address now. The process that uses the folder holds the lock of its plugins.
    #[must_use]
    pub fn find(data_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(data_dir.join(FILE)).ok()?;
        let server = serde_json::from_str(&text).ok()?;
        daftar_sandbox::is_in_use(&data_dir.join(PLUGINS_FOLDER)).then_some(server)
    }

    /// Removes the file of a killed server. The caller has the lock of the folder, so no server uses it.
    pub(super) fn forget_killed(data_dir: &Path) {
        if let Err(error) = fs::remove_file(data_dir.join(FILE))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(error = %error, "the file that says where a killed server was cannot be removed");
        }
    }

    /// Writes the file with the addresses of the server.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn announce(&self, data_dir: &Path) -> std::io::Result<Announcement> {
        let path = data_dir.join(FILE);
        let text = serde_json::to_string(self).map_err(std::io::Error::other)?;
        // Written atomically, and readable by its owner only.
        super::packs::write_file(&path, text.as_bytes())?;
        Ok(Announcement { path })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(error = %error, "the file that says where the server is cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_shutdown_interrupts_a_start() {
        let mut stopped = std::pin::pin!(std::future::ready(()));
        assert_eq!(unless_stopped(stopped.as_mut(), std::future::pending::<()>()).await, None);
        let mut running = std::pin::pin!(std::future::pending());
        assert_eq!(unless_stopped(running.as_mut(), std::future::ready(7)).await, Some(7));
    }
}
