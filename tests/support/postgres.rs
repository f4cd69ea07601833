//! A register in PostgreSQL, and servers that share it: each is a separate process of the program, with its own data
//! folder and the shared keys.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daftar_test_postgres::Server as Postgres;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::admin::Admin;
use super::client::{ApiClient, Credentials};
use super::process::{self, Finished, Server};
use super::{template, token};

/// Maximum time until all servers apply a change; far longer than usual.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The setting with which a server loads the register into memory.
pub const IN_MEMORY: &str = "index = \"memory\"\n";
/// Name of the connection on which a server receives change notifications.
pub const LISTENER: &str = "daftar (listen)";
/// The role of a server that loses its listener in a test: its connections are limited, in contrast to those of the
/// database owner.
const BOUNDED_ROLE: &str = "bounded";

/// Condition that selects the session with the lock.
const HOLDER: &str = "datname = current_database() AND application_name = 'holder'";

/// An empty database on a server.
pub struct Database {
    server: Arc<Postgres>,
    name: String,
}

impl Database {
    /// Creates a database on the server that tests share.
    #[must_use]
    pub fn shared() -> Self {
        Self::on(Postgres::shared())
    }

    /// Creates a database on a server that a test may stop.
    #[must_use]
    pub fn on(server: Arc<Postgres>) -> Self {
        let url = server.create_database();
        let name = url.rsplit('/').next().expect("a URL with a name").to_owned();
        Self { server, name }
    }

    /// Its server.
    #[must_use]
    pub fn server(&self) -> &Postgres {
        &self.server
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }

    /// Runs statements and returns their output.
    pub fn sql(&self, statements: &str) -> String {
        self.server.run_sql(&self.name, statements)
    }

    /// Runs statements in a session that acquires a lock, until [`Self::end_holder`] ends the session.
    ///
    /// # Panics
    /// If the session ends in another way.
    pub fn hold(&self, statements: &str) {
        let held = format!("SET application_name = 'holder'; BEGIN; {statements}; SELECT pg_sleep(120)");
        let ended = self.server.try_sql(&self.name, &held).expect_err("a session that was ended");
        assert!(ended.contains("terminating connection due to administrator command"), "{ended}");
    }

    /// Returns true while the session of [`Self::hold`] has its lock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let sleeping = format!("SELECT count(*) FROM pg_stat_activity WHERE {HOLDER} AND wait_event = 'PgSleep'");
        self.sql(&sleeping) == "1"
    }

    /// Ends the session of [`Self::hold`].
    pub fn end_holder(&self) {
        self.sql(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {HOLDER}"));
    }

    /// Its URL for a server whose connections can be limited. Requires that its tables exist.
    #[must_use]
    pub fn bounded_url(&self) -> String {
        let owner = self.server.role();
        let role = format!("{BOUNDED_ROLE}_{}", self.name);
        self.sql(&format!("CREATE ROLE {role} LOGIN; GRANT {owner} TO {role}"));
        self.url().replacen(&format!("{owner}@"), &format!("{role}@"), 1)
    }

    /// Closes the connection on which the limited server receives change notifications, and prevents new ones.
    pub fn deafen(&self) {
        let role = format!("{BOUNDED_ROLE}_{}", self.name);
        self.sql(&format!("ALTER ROLE {role} CONNECTION LIMIT 0"));
        let cut = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}' AND application_name = '{LISTENER}'"
        );
        assert_eq!(self.sql(&cut).trim(), "t", "the bounded server listens on one connection");
    }

    /// Lets the limited server connect again.
    pub fn undeafen(&self) {
        self.sql(&format!("ALTER ROLE {BOUNDED_ROLE}_{} CONNECTION LIMIT -1", self.name));
    }
}

/// Servers that share a register.
pub struct Processes {
    database: Arc<Database>,
    common: TempDir,
    /// More of `[store.postgres]`.
    store: &'static str,
    more_settings: String,
    servers: Vec<Option<OneProcess>>,
}

struct OneProcess {
    server: Server,
    data_dir: PathBuf,
}

impl Processes {
    /// So many servers on an empty database of the shared server.
    #[must_use]
    pub fn start(count: usize) -> Self {
        Self::start_on(Arc::new(Database::shared()), count, "")
    }

    /// Servers on that database, with these settings in addition to its URL.
    #[must_use]
    pub fn start_on(database: Arc<Database>, count: usize, more_settings: &str) -> Self {
        let common = tempfile::tempdir().expect("a temporary folder can be made");
        let mut processes =
            Self { database, common, store: "", more_settings: more_settings.to_owned(), servers: Vec::new() };
        for _ in 0..count {
            let _started = processes.start_one();
        }
        processes
    }

    /// The folder in which the keys of all are.
    #[must_use]
    pub fn shared_dir(&self) -> &Path {
        self.common.path()
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Sets further settings in `[store.postgres]` of servers that start from now on, such as [`IN_MEMORY`].
    pub fn set_store(&mut self, store: &'static str) {
        self.store = store;
    }

    /// Waits until a server is ready.
    #[track_caller]
    pub fn is_ready(&self, number: usize) {
        let connection = self.server(number).connection();
        eventually("it is ready", || connection.request("GET", "/health/ready").send().status == 200);
    }

    /// A value of its metrics page.
    ///
    /// # Panics
    /// If it is missing.
    #[must_use]
    pub fn figure(&self, number: usize, series: &str) -> f64 {
        let page = self.admin(number).metrics();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|figure| figure.trim().parse().ok()).unwrap_or_else(|| panic!("{series} is not on the page"))
    }

    /// Starts another server and returns its number.
    pub fn start_one(&mut self) -> usize {
        let url = self.database.url();
        self.start_one_by(&url)
    }

    /// Starts another server that connects to the database by that URL.
    pub fn start_one_by(&mut self, url: &str) -> usize {
        let number = self.servers.len();
        let data_dir = self.common.path().join(format!("process-{number}"));
        template::copy_to(&data_dir);
        let _other_store = std::fs::remove_dir_all(data_dir.join("store"));
        let server = self.serve(&data_dir, url);
        self.servers.push(Some(OneProcess { server, data_dir }));
        number
    }

    /// Starts one again that was stopped or killed, on its folder.
    pub fn start_again(&mut self, number: usize, data_dir: PathBuf) {
        let server = self.serve(&data_dir, &self.database.url());
        self.servers[number] = Some(OneProcess { server, data_dir });
    }

    fn serve(&self, data_dir: &Path, url: &str) -> Server {
        let config = written(data_dir, url, Some(self.common.path()), self.store, &self.more_settings);
        Server::serve(data_dir, &["--config", config.to_str().expect("a path is UTF-8")])
    }

    /// Asks a server to stop as a service manager does, and waits until it has stopped.
    pub fn stop(&mut self, number: usize) -> (Finished, PathBuf) {
        let OneProcess { server, data_dir } = self.servers[number].take().expect("it runs");
        (server.stop(), data_dir)
    }

    /// Ends one as a crash does.
    pub fn kill(&mut self, number: usize) -> PathBuf {
        let OneProcess { server, data_dir } = self.servers[number].take().expect("it runs");
        server.kill();
        data_dir
    }

    /// Number of servers, including stopped ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    fn one(&self, number: usize) -> &OneProcess {
        self.servers[number].as_ref().expect("it runs")
    }

    /// Its folder.
    #[must_use]
    pub fn data_dir(&self, number: usize) -> &Path {
        &self.one(number).data_dir
    }

    /// Its administrator.
    #[must_use]
    pub fn admin(&self, number: usize) -> Admin {
        Server::admin(self.data_dir(number))
    }

    /// Its server.
    #[must_use]
    pub fn server(&self, number: usize) -> &Server {
        &self.one(number).server
    }

    /// A new client with those scopes and limits that no test reaches, registered by one of them.
    #[must_use]
    pub fn credentials(&self, number: usize, scopes: &[&str]) -> Credentials {
        self.credentials_with(number, scopes, &json!({}))
    }

    /// A new client with those scopes and these further properties.
    #[must_use]
    pub fn credentials_with(&self, number: usize, scopes: &[&str], more: &Value) -> Credentials {
        let limits = json!({"name": "test", "scopes": scopes, "rate_limit_per_minute": 1_000_000, "rate_limit_per_day": 1_000_000});
        self.admin(number).create_client(&super::records::with(limits, more.clone()))
    }

    /// Returns a client of one server, with a token that this server issued.
    #[must_use]
    pub fn client_of(&self, number: usize, credentials: &Credentials) -> ApiClient {
        let connection = self.server(number).connection();
        let token = token::fetch(&connection, credentials);
        ApiClient::new(connection, credentials.clone(), token)
    }

    /// Returns the same client with the same token, connected to another server.
    #[must_use]
    pub fn at(&self, number: usize, client: &ApiClient) -> ApiClient {
        let connection = self.server(number).connection();
        ApiClient::new(connection, client.credentials().clone(), client.token().to_owned())
    }
}

/// Starts a server on a database, with the shared keys in `shared_dir` or with its own keys.
#[must_use]
pub fn serve(data_dir: &Path, url: &str, shared_dir: Option<&Path>, more_settings: &str) -> Server {
    let config = settings(data_dir, url, shared_dir, more_settings);
    Server::serve(data_dir, &["--config", config.to_str().expect("a path is UTF-8")])
}

/// Writes the configuration file of a server on a database next to its data folder.
#[must_use]
pub fn settings(data_dir: &Path, url: &str, shared_dir: Option<&Path>, more_settings: &str) -> PathBuf {
    written(data_dir, url, shared_dir, "", more_settings)
}

fn written(data_dir: &Path, url: &str, shared_dir: Option<&Path>, store: &str, more_settings: &str) -> PathBuf {
    let mut text = format!(
        "[store]\nbackend = \"postgres\"\n[store.postgres]\nurl = \"{url}\"\npool_max = 8\npartition_keys = 1024\n{store}"
    );
    if let Some(shared_dir) = shared_dir {
        let _is_written = writeln!(text, "shared_dir = \"{}\"", shared_dir.display());
    }
    let _is_written = write!(text, "[plugins]\nallow_unsigned = true\n{more_settings}\n");
    let path = data_dir.with_extension("toml");
    std::fs::write(&path, text).expect("settings can be written");
    path
}

/// Runs a command on the database of a register.
#[must_use]
pub fn run(data_dir: &Path, arguments: &[&str]) -> Finished {
    let config = data_dir.with_extension("toml");
    process::run(data_dir, &[arguments, &["--config", config.to_str().expect("a path is UTF-8")]].concat())
}

/// Waits until a condition becomes true without further action.
///
/// # Panics
/// If the condition is false for a minute.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT_MAX;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {WAIT_MAX:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
