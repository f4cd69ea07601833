//! The servers under test.

use std::path::PathBuf;

use daftar::context::{Clock as _, SystemClock};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::support::admin::Admin;
use crate::support::app::TestApp;
use crate::support::client::{ApiClient, Credentials};
use crate::support::postgres::Processes;
use crate::support::process::Server;
use crate::support::token;

/// One or several servers of one register.
pub trait World {
    /// Number of servers.
    fn servers(&self) -> usize;

    /// The time of its clock.
    fn now(&self) -> Timestamp;

    /// A client of that server with a new token.
    fn client(&self, server: usize, credentials: &Credentials) -> ApiClient;

    /// The administrator, by that server.
    fn admin(&self, server: usize) -> Admin;

    /// Stops a server and starts it again.
    fn restart(&mut self, server: usize);

    /// Kills a server and starts it again; returns false if this world cannot.
    fn kill(&mut self, _server: usize) -> bool {
        false
    }

    /// Lets time pass; returns false if the clock is the machine's.
    fn pass(&mut self, _minutes: u16) -> bool {
        false
    }

    /// Runs `daftar verify`, where a command can: the text of a failure.
    ///
    /// # Errors
    /// If the register is damaged.
    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A server in this process, with a clock that the test sets.
pub struct Embedded {
    app: TestApp,
    now: Timestamp,
}

impl Embedded {
    /// A new register.
    #[must_use]
    pub fn start() -> Self {
        Self { app: TestApp::start(), now: TestApp::begun() }
    }
}

impl World for Embedded {
    fn servers(&self) -> usize {
        1
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn client(&self, _: usize, credentials: &Credentials) -> ApiClient {
        self.app.client_of(credentials)
    }

    fn admin(&self, _: usize) -> Admin {
        self.app.admin()
    }

    fn restart(&mut self, _: usize) {
        self.app.restart();
    }

    fn pass(&mut self, minutes: u16) -> bool {
        self.app.advance_seconds(i64::from(minutes) * 60);
        true
    }
}

/// A server in its own process on an embedded store, which can be killed.
pub struct Alone {
    folder: TempDir,
    server: Option<Server>,
}

impl Alone {
    /// A new register.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut alone = Self { folder, server: None };
        alone.serve();
        alone
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn serve(&mut self) {
        let config = self.folder.path().join("daftar.toml");
        std::fs::write(&config, "[plugins]\nallow_unsigned = true\n").expect("settings can be written");
        let config = config.to_str().expect("a path is UTF-8");
        self.server = Some(Server::serve(&self.data_dir(), &["--config", config]));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }
}

impl World for Alone {
    fn servers(&self) -> usize {
        1
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn client(&self, _: usize, credentials: &Credentials) -> ApiClient {
        let connection = self.server().connection();
        let token = token::fetch(&connection, credentials);
        ApiClient::new(connection, credentials.clone(), token)
    }

    fn admin(&self, _: usize) -> Admin {
        Server::admin(&self.data_dir())
    }

    fn restart(&mut self, _: usize) {
        let ended = self.server.take().expect("it runs").stop();
        assert_eq!(ended.code, 0, "{ended:?}");
        self.serve();
    }

    fn kill(&mut self, _: usize) -> bool {
        self.server.take().expect("it runs").kill();
        self.serve();
        true
    }

    fn verify(&self) -> Result<(), String> {
        let verified = crate::support::process::run(&self.data_dir(), &["verify", "--json"]);
        if verified.code == 0 { Ok(()) } else { Err(format!("`daftar verify` fails: {verified:?}")) }
    }
}

/// Two servers on one PostgreSQL database.
pub struct Shared(Processes);

impl Shared {
    /// A new register in a database of its own.
    #[must_use]
    pub fn start() -> Self {
        Self(Processes::start(2))
    }
}

impl World for Shared {
    fn servers(&self) -> usize {
        self.0.count()
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn client(&self, server: usize, credentials: &Credentials) -> ApiClient {
        self.0.client_of(server, credentials)
    }

    fn admin(&self, server: usize) -> Admin {
        self.0.admin(server)
    }

    fn restart(&mut self, server: usize) {
        let (ended, data_dir) = self.0.stop(server);
        assert_eq!(ended.code, 0, "{ended:?}");
        self.0.start_again(server, data_dir);
    }

    fn kill(&mut self, server: usize) -> bool {
        let data_dir = self.0.kill(server);
        self.0.start_again(server, data_dir);
        true
    }
}
