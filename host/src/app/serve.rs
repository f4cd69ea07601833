//! The listeners: where they are, with which certificate, and how they stop.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::running::RunningServer;
use super::{AppState, StartError};
use crate::config::{ServerConfig, TlsConfig};

/// How long requests in flight may take after the server was told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Bound sockets. They are bound before anything is loaded, so that an address in use is told at once.
#[derive(Debug)]
pub struct Listeners {
    public: TcpListener,
    admin: TcpListener,
    /// For the commands of this machine, where `admin` is for others and speaks HTTPS under a name that they do not know.
    admin_here: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    /// Binds all addresses.
    ///
    /// # Errors
    /// [`StartError::Listen`] naming the address that cannot be had.
    pub fn bind(config: &ServerConfig) -> Result<Self, StartError> {
        let metrics = config.metrics_listen.map(bind).transpose()?;
        let (public, admin) = (bind(config.listen)?, bind(config.admin_listen)?);
        let is_for_others = !config.admin_listen.ip().is_loopback();
        let admin_here = is_for_others.then(|| bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).transpose()?;
        Ok(Self { public, admin, admin_here, metrics })
    }

    /// The URL by which clients know the server.
    #[must_use]
    pub fn public_url(&self, config: &ServerConfig) -> String {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let address = self.public.local_addr().unwrap_or(config.listen);
        config.public_url.clone().unwrap_or_else(|| format!("{scheme}://{address}"))
    }

    /// Where the metrics page is without a token, if it has a listener of its own.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Where the admin API is for whoever it is for.
    #[must_use]
    pub fn offered_admin_url(&self) -> String {
        let scheme = if self.admin_here.is_some() { "https" } else { "http" };
        self.admin.local_addr().map(|address| format!("{scheme}://{address}")).unwrap_or_default()
    }

    /// Where the admin API is for this machine.
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

/// Serves until `shutdown` ends, then lets requests in flight finish and closes the register.
///
/// # Errors
/// When a certificate cannot be used or a listener fails.
pub async fn serve(
    app: AppState,
    listeners: Listeners,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let tls = match &app.config.server.tls {
        Some(tls) => Some(tls_config(tls).await?),
        None => None,
    };
    let running = RunningServer { admin_url: listeners.admin_url(), process_id: std::process::id() };
    let announcement = running.announce(&app.data_dir).map_err(|error| StartError::Folder(error.to_string()))?;
    let handle = Handle::new();
    let mut servers = tokio::task::JoinSet::new();
    if let Some(metrics) = listeners.metrics {
        let router = crate::admin::router::metrics_router(app.clone());
        servers.spawn(serve_one(metrics, tls.clone(), router, handle.clone()));
    }
    let admin = crate::admin::router::router(app.clone());
    let admin_tls = match listeners.admin_here {
        Some(here) => {
            servers.spawn(serve_one(here, None, admin.clone(), handle.clone()));
            tls.clone()
        }
        None => None,
    };
    servers.spawn(serve_one(listeners.admin, admin_tls, admin, handle.clone()));
    servers.spawn(serve_one(listeners.public, tls, crate::api::router::router(app.clone()), handle.clone()));
    ready();
    let mut result = tokio::select! {
        () = shutdown => Ok(()),
        Some(ended) = servers.join_next() => flatten(ended),
    };
    handle.graceful_shutdown(Some(GRACE));
    while let Some(ended) = servers.join_next().await {
        result = result.and(flatten(ended));
    }
    drop(announcement);
    if let Err(error) = app.registry.audit.tell_all_counts().await {
        tracing::warn!(error = %error, "the last counts of refusals could not be audited");
    }
    app.checkpoint().await;
    app.close();
    result
}

fn flatten(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<(), StartError> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(StartError::Server(error.to_string())),
        Err(error) => Err(StartError::Server(error.to_string())),
    }
}

async fn serve_one(
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    router: Router,
    handle: Handle<SocketAddr>,
) -> std::io::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    match tls {
        Some(tls) => axum_server::from_tcp_rustls(listener, tls)?.handle(handle).serve(service).await,
        None => axum_server::from_tcp(listener)?.handle(handle).serve(service).await,
    }
}

async fn tls_config(tls: &TlsConfig) -> Result<RustlsConfig, StartError> {
    // Another part of the process may have chosen one already; either is sound.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    RustlsConfig::from_pem_file(&tls.cert, &tls.key).await.map_err(|error| {
        StartError::Certificate(format!(
            "the certificate `{}` with the key `{}` cannot be used: {error}",
            tls.cert.display(),
            tls.key.display()
        ))
    })
}

/// Ends when the process is told to stop: Ctrl-C or SIGTERM. They are heard from the call on, not only once it is waited for: whoever
/// stops a server right after it said that it is ready stops it in order.
#[must_use = "a signal that nobody waits for stops nothing"]
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

/// Ends with the next signal; never, where it cannot be heard.
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

/// The folder `plugins` beside the program, if there is one.
#[must_use]
pub fn default_plugins_dir() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.join("plugins");
    folder.is_dir().then_some(folder)
}
