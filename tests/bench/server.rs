//! A register with made-up people, served on loopback, and a bare server beside it that sends the same bytes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::{get, post};
use daftar::app::serve::{Listeners, serve};
use daftar::app::{App, AppOptions, AppState, CompileIn};
use daftar::config::Config;
use daftar::domain::client::{ClientName, RateLimit};
use daftar::domain::field::FieldSet;
use daftar::domain::grant::Grants;
use daftar::domain::organization::{LegalBasis, Organization};
use daftar::domain::scope::Scope;
use daftar::plugin::CompileBounds;
use daftar::service::client::NewClient;
use secrecy::ExposeSecret;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// The register.
    pub app: AppState,
    /// A token of a client that may do everything the benchmarks do.
    pub token: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// The settings of a register.
pub fn settings() -> Config {
    let mut config = Config::default();
    // The program of the benchmarks knows no digests of plugins.
    config.plugins.allow_unsigned = true;
    config
}

/// How a register in a folder is opened with the plugins of another: as the server does it.
pub fn options(folder: &Path, plugins: &Path) -> Result<AppOptions, String> {
    let compile_in = CompileIn::Child { program: program()?, bounds: CompileBounds::default() };
    let options = AppOptions::new(folder.join("data")).with_plugins_dir(Some(plugins.to_owned()));
    Ok(options.with_compile_in(compile_in))
}

impl Server {
    /// Opens a register in a folder with the default plugins and serves it.
    pub async fn start(folder: &Path) -> Result<Self, String> {
        Self::start_with(folder, &artifacts_folder()?.join("plugins")).await
    }

    /// The same with other settings, which `change` makes.
    pub async fn start_changed(folder: &Path, change: impl FnOnce(&mut Config)) -> Result<Self, String> {
        Self::open(folder, &artifacts_folder()?.join("plugins"), change).await
    }

    /// Opens a register in a folder with the plugins of another and serves it.
    pub async fn start_with(folder: &Path, plugins: &Path) -> Result<Self, String> {
        Self::open(folder, plugins, |_| ()).await
    }

    async fn open(folder: &Path, plugins: &Path, change: impl FnOnce(&mut Config)) -> Result<Self, String> {
        let mut config = settings();
        change(&mut config);
        config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.server.admin_listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = Listeners::bind(&config.server).map_err(|error| error.to_string())?;
        let url = listeners.public_url(&config.server);
        let address = url.trim_start_matches("http://").parse().map_err(|_| "the server has no address".to_owned())?;
        let options = options(folder, plugins)?.with_public_url(url);
        let app = App::open(config, options).await.map_err(|error| error.to_string())?;
        let token = token(&app).await?;
        let (stop, stopped) = oneshot::channel();
        let served = app.clone();
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            if let Err(error) = serve(served, listeners, || (), stopped).await {
                eprintln!("error: the server failed: {error}");
            }
        });
        Ok(Self { address, app, token, stop: Some(stop), task })
    }

    /// Stops it and waits until everything is on disk.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = self.task.await;
    }
}

/// The server's program, which lies beside this one; it compiles plugins in a child process, as servers do.
pub fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = own.with_file_name("daftar");
    if program.exists() { Ok(program) } else { Err(format!("`{}` is not there", program.display())) }
}

/// Where `cargo xtask` built the packs and the engine.
pub fn artifacts_folder() -> Result<PathBuf, String> {
    let artifacts = std::env::var_os("DAFTAR_TEST_ARTIFACTS").map(PathBuf::from);
    artifacts.ok_or_else(|| "run the benchmarks with `cargo xtask bench`".to_owned())
}

async fn token(app: &AppState) -> Result<String, String> {
    token_of(app, None).await
}

/// A token of a new client that may do everything the benchmarks do, on that ground for that organization.
pub async fn token_of(app: &AppState, ground: Option<(LegalBasis, Organization)>) -> Result<String, String> {
    let mut grants = Grants::default();
    for scope in ["individual:all", "group:all", "eligibility:all", "vocabulary:read"] {
        grants.insert(Scope::parse(scope).map_err(|error| error.to_string())?, FieldSet::All);
    }
    let most = RateLimit::parse(daftar::domain::client::RATE_LIMIT_MAX).map_err(|error| error.to_string())?;
    let new = NewClient {
        legal_basis: ground.as_ref().map(|(basis, _)| *basis),
        organization: ground.map(|(_, organization)| organization),
        rate_limit_per_minute: Some(most),
        rate_limit_per_day: Some(most),
        ..new_client(grants.clone())?
    };
    let (client, _) = app.clients.create(&app.system_context(), new).await.map_err(|error| error.to_string())?;
    let issued = daftar::auth::token::issue(
        &app.token_keys.load(),
        &app.config.token,
        &client.id,
        &grants.scopes(),
        app.ids.next_id(),
        app.clock.now(),
    );
    issued.map(|token| token.text.expose_secret().to_owned()).map_err(|error| error.to_string())
}

/// A client with those grants and the limits that clients have where nobody says otherwise.
pub fn new_client(grants: Grants) -> Result<NewClient, String> {
    Ok(NewClient {
        name: ClientName::parse("bench").map_err(|error| error.to_string())?,
        organization: None,
        legal_basis: None,
        purpose: None,
        grants,
        rate_limit_per_minute: None,
        rate_limit_per_day: None,
    })
}

/// A server that does nothing but send `body`, on the same framework and listener.
pub async fn bare(body: Vec<u8>) -> Result<SocketAddr, String> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let body = axum::body::Bytes::from(body);
    let handler = move || {
        let body = body.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], body) }
    };
    // A create's body is read, as any handler must.
    let created = handler.clone();
    let create = move |read: axum::body::Bytes| async move {
        drop(read);
        (StatusCode::CREATED, created().await)
    };
    let asked = handler.clone();
    let ask = move |read: axum::body::Bytes| async move {
        drop(read);
        asked().await
    };
    let router = Router::new()
        .route("/api/v2/Individual/{identifier}", get(handler))
        .route("/api/v2/Individual", post(create))
        .route("/api/v2/oauth/token", post(ask));
    let server = axum_server::from_tcp(listener).map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = server.serve(router.into_make_service()).await {
            eprintln!("error: the bare server failed: {error}");
        }
    });
    Ok(address)
}
