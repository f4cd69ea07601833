//! The real server, in this process, on free ports, with a folder and a clock of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use daftar::app::serve::{Listeners, serve};
use daftar::app::{App, AppOptions, CompileBounds, CompileIn};
use daftar::config::{Config, ServerConfig};
use daftar::context::FakeClock;
use daftar::domain::manifest::PluginName;
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::admin::Admin;
use super::client::{ApiClient, Credentials};
use super::http::{Connection, Request};
use super::{artifacts, template, token};

/// Initial time of every clock: noon of a day that is no person's birthday.
const START: &str = "2026-03-01T12:00:00Z";

/// The data folder within the temporary one.
const DATA: &str = "data";

/// Setup of a register under test.
pub struct TestAppBuilder {
    plugins_dir: Option<PathBuf>,
    config: Config,
    prepared: Option<TempDir>,
    compiler: Option<PathBuf>,
}

impl TestAppBuilder {
    /// Creates the data folder in another way than as a copy of one in which the default plugins are installed.
    #[must_use]
    pub fn prepared(mut self, prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        prepare(&folder.path().join(DATA));
        self.prepared = Some(folder);
        self
    }

    /// Takes plugins from another folder in place of the default ones.
    #[must_use]
    pub fn plugins(mut self, folder: &Path) -> Self {
        self.plugins_dir = Some(folder.to_owned());
        self
    }

    /// Changes the settings.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the time limit of the calls of a plugin. A test that expects another limit to end a call sets it so high that
    /// this one does not end the call first: the threads of plugins have a low priority, and the limit is wall-clock
    /// time.
    #[must_use]
    pub fn call_ms(self, plugin: &str, call_ms: u64) -> Self {
        let plugin = PluginName::parse(plugin).expect("the name of a plugin");
        self.config(|config| config.plugins.limits.entry(plugin).or_default().call_ms = Some(call_ms))
    }

    /// Compiles plugins by that program in place of the test's process, and engines only once the server listens.
    #[must_use]
    pub fn compiling_engines_later(mut self, program: &Path) -> Self {
        self.compiler = Some(program.to_owned());
        self
    }

    /// Starts the server.
    #[must_use]
    pub fn start(self) -> TestApp {
        let is_prepared = self.prepared.is_some();
        let folder = self.prepared.unwrap_or_else(|| tempfile::tempdir().expect("a temporary folder can be made"));
        let data_dir = folder.path().join(DATA);
        if self.plugins_dir.is_none() && !is_prepared {
            template::copy_to(&data_dir);
        }
        let mut app = TestApp {
            clock: FakeClock::new(TestApp::begun()),
            plugins_dir: self.plugins_dir.unwrap_or_else(artifacts::plugins),
            config: self.config,
            compiler: self.compiler,
            public_port: Arc::default(),
            admin_port: Arc::default(),
            metrics_port: Arc::default(),
            server: None,
            _folder: folder,
            data_dir,
        };
        app.launch();
        app
    }
}

/// A server with its register. Its clock does not advance by itself.
pub struct TestApp {
    clock: FakeClock,
    plugins_dir: PathBuf,
    config: Config,
    compiler: Option<PathBuf>,
    public_port: Arc<AtomicU16>,
    admin_port: Arc<AtomicU16>,
    metrics_port: Arc<AtomicU16>,
    server: Option<RunningThread>,
    data_dir: PathBuf,
    _folder: TempDir,
}

/// The thread that serves, with the handle that stops it.
struct RunningThread {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl TestApp {
    /// A register as it is after installation: default plugins, no people.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// The initial time of its clock.
    #[must_use]
    pub fn begun() -> Timestamp {
        START.parse().expect("an instant")
    }

    /// A builder of a register with other properties.
    #[must_use]
    pub fn builder() -> TestAppBuilder {
        let mut config = Config::default();
        config.server.listen.set_port(0);
        config.server.admin_listen.set_port(0);
        // The guests of tests are not signed; signatures have tests of their own.
        config.plugins.allow_unsigned = true;
        TestAppBuilder { plugins_dir: None, config, prepared: None, compiler: None }
    }

    /// Stops the server and starts it again on the same folder. Clients stay usable: they use the new port.
    pub fn restart(&mut self) {
        self.stop();
        self.launch();
    }

    /// Stops the server and starts it again with other settings.
    pub fn restart_with(&mut self, change: impl FnOnce(&mut Config)) {
        self.stop();
        change(&mut self.config);
        self.launch();
    }

    /// The metrics listener, if the configuration has one.
    #[must_use]
    pub fn metrics_listener(&self) -> Connection {
        Connection::to_operator(Arc::clone(&self.metrics_port))
    }

    /// Stops the server; the folder stays.
    pub fn stop(&mut self) {
        let Some(RunningThread { stop, thread }) = self.server.take() else { return };
        let _is_heard = stop.send(()).is_ok();
        let ended = thread.join();
        assert!(std::thread::panicking() || ended.is_ok(), "the server stopped with a panic");
    }

    /// Advances the clock.
    pub fn advance_seconds(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// From now on the clock advances by this number of seconds each time that the server reads it.
    pub fn pass_at_each_look(&self, seconds: u64) {
        self.clock.pass_at_each_look(Duration::from_secs(seconds));
    }

    /// The folder of the register.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The administrator.
    #[must_use]
    pub fn admin(&self) -> Admin {
        let token = std::fs::read_to_string(self.data_dir.join("admin.token")).expect("the server made a token");
        Admin::new(Connection::to_operator(Arc::clone(&self.admin_port)), token.trim().to_owned())
    }

    /// The admin listener without a token.
    #[must_use]
    pub fn admin_listener(&self) -> Connection {
        Connection::to_operator(Arc::clone(&self.admin_port))
    }

    /// A client without a token, from an address of its own.
    #[must_use]
    pub fn anonymous(&self) -> Connection {
        Connection::new(Arc::clone(&self.public_port))
    }

    /// A new client with those scopes, limits that no test reaches, and a token.
    #[must_use]
    pub fn client(&self, scopes: &[&str]) -> ApiClient {
        let credentials = self.admin().create_client(&serde_json::json!({
            "name": "test",
            "scopes": scopes,
            "rate_limit_per_minute": 1_000_000,
            "rate_limit_per_day": 1_000_000,
        }));
        self.client_of(&credentials)
    }

    /// A client that exists already, with a new token.
    #[must_use]
    pub fn client_of(&self, credentials: &Credentials) -> ApiClient {
        let token = token::fetch(&self.anonymous(), credentials);
        ApiClient::new(self.anonymous(), credentials.clone(), token)
    }

    /// A request for a token, from a fresh address.
    #[must_use]
    pub fn token_request(&self) -> Request {
        self.anonymous().request("POST", token::PATH)
    }

    fn launch(&mut self) {
        let listeners = Listeners::bind(&self.config.server).expect("a free port can be had");
        // The address that it is bound to, independent of its public URL.
        let bound = ServerConfig { public_url: None, ..self.config.server.clone() };
        self.public_port.store(port(&listeners.public_url(&bound)), Ordering::Release);
        self.admin_port.store(port(&listeners.admin_url()), Ordering::Release);
        let metrics_port = listeners.metrics_address().map_or(0, |address| address.port());
        self.metrics_port.store(metrics_port, Ordering::Release);
        let options = AppOptions {
            public_url: Some(listeners.public_url(&self.config.server)),
            plugins_dir: Some(self.plugins_dir.clone()),
            clock: Arc::new(self.clock.clone()),
            compile_in: self.compiler.clone().map_or_else(CompileIn::default, |program| CompileIn::Child {
                program,
                bounds: CompileBounds::default(),
            }),
            compiles_engines_later: self.compiler.is_some(),
            ..AppOptions::new(self.data_dir.clone())
        };
        let config = self.config.clone();
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime can be started").block_on(async {
                let app = App::open(config, options).await.expect("the register can be opened");
                let announce = move || ready.send(()).expect("the test waits for the server");
                let until = async move { drop(stopped.await) };
                serve(app, listeners, announce, None, until).await.expect("the server serves");
            });
        });
        if is_ready.recv().is_err() {
            drop(thread.join());
            panic!("the server did not start");
        }
        self.server = Some(RunningThread { stop, thread });
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.stop();
    }
}

fn port(url: &str) -> u16 {
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("`{url}` has no port"))
}
