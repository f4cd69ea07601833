//! The servers under test.

use std::path::PathBuf;
use std::sync::Arc;

use daftar::context::{Clock as _, SystemClock};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::admin::Admin;
use crate::support::app::TestApp;
use crate::support::client::{ApiClient, Credentials};
use crate::support::postgres::{self, Database, IN_MEMORY, Processes};
use crate::support::process::{self, Finished, Server};
use crate::support::token;

/// The command that verifies a register.
const VERIFY: [&str; 2] = ["verify", "--json"];

/// One or several servers of one register.
pub trait World {
    /// True if the test sets the clock; otherwise it is the machine's.
    const IS_CLOCK_SET: bool;
    /// True if a server can be killed.
    const CAN_KILL: bool;

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

    /// Kills a server, if it can be killed.
    fn kill(&mut self, _server: usize) {}

    /// Starts a server again that was killed.
    fn start(&mut self, _server: usize) {}

    /// Sets the clock by so many minutes, if the test sets it.
    fn pass(&mut self, _minutes: i16) {}

    /// Runs `daftar verify` with the running servers, stops them, and runs it again: the text of a failure.
    ///
    /// # Errors
    /// If the register is damaged, or a server does not stop as it should.
    fn verify(&mut self) -> Result<(), String>;
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
    const IS_CLOCK_SET: bool = true;
    const CAN_KILL: bool = false;

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

    fn pass(&mut self, minutes: i16) {
        let seconds = i64::from(minutes) * 60;
        self.app.advance_seconds(seconds);
        self.now += SignedDuration::from_secs(seconds);
    }

    fn verify(&mut self) -> Result<(), String> {
        check_verified("a running server", &process::run(self.app.data_dir(), &VERIFY))?;
        self.app.stop();
        check_verified("a stopped server", &process::run(self.app.data_dir(), &VERIFY))
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
    const IS_CLOCK_SET: bool = false;
    const CAN_KILL: bool = true;

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

    fn kill(&mut self, _: usize) {
        self.server.take().expect("it runs").kill();
    }

    fn start(&mut self, _: usize) {
        self.serve();
    }

    fn verify(&mut self) -> Result<(), String> {
        check_verified("a running server", &process::run(&self.data_dir(), &VERIFY))?;
        check_stopped(&self.server.take().expect("it runs").stop())?;
        check_verified("a stopped server", &process::run(&self.data_dir(), &VERIFY))
    }
}

/// Two servers on one PostgreSQL database.
pub struct Shared {
    processes: Processes,
    /// The server that has the register in memory.
    in_memory: Option<usize>,
    /// The folder of a killed server.
    killed: Option<PathBuf>,
}

impl Shared {
    /// A new register in a database of its own. Both servers search its tables.
    #[must_use]
    pub fn start() -> Self {
        Self::new(None)
    }

    /// The same, but one of the servers has the register in memory.
    #[must_use]
    pub fn mixed() -> Self {
        Self::new(Some(1))
    }

    fn new(in_memory: Option<usize>) -> Self {
        let processes = Processes::start_on(Arc::new(Database::shared()), 0, "");
        let mut shared = Self { processes, in_memory, killed: None };
        for number in 0..2 {
            shared.set_index(number);
            let _started = shared.processes.start_one();
            shared.wait(number);
        }
        shared
    }

    /// Sets where the next server that starts has the index of searches.
    fn set_index(&mut self, number: usize) {
        self.processes.set_store(if self.in_memory == Some(number) { IN_MEMORY } else { "" });
    }

    /// Waits until a server has the register in memory.
    fn wait(&self, number: usize) {
        if self.in_memory == Some(number) {
            self.processes.is_ready(number);
        }
    }

    fn start_again(&mut self, number: usize, data_dir: PathBuf) {
        self.set_index(number);
        self.processes.start_again(number, data_dir);
        self.wait(number);
    }
}

impl World for Shared {
    const IS_CLOCK_SET: bool = false;
    const CAN_KILL: bool = true;

    fn servers(&self) -> usize {
        self.processes.count()
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn client(&self, server: usize, credentials: &Credentials) -> ApiClient {
        self.processes.client_of(server, credentials)
    }

    fn admin(&self, server: usize) -> Admin {
        self.processes.admin(server)
    }

    fn restart(&mut self, server: usize) {
        let (ended, data_dir) = self.processes.stop(server);
        assert_eq!(ended.code, 0, "{ended:?}");
        self.start_again(server, data_dir);
    }

    fn kill(&mut self, server: usize) {
        self.killed = Some(self.processes.kill(server));
    }

    fn start(&mut self, server: usize) {
        let data_dir = self.killed.take().expect("it was killed");
        self.start_again(server, data_dir);
    }

    fn verify(&mut self) -> Result<(), String> {
        for number in 0..self.servers() {
            let verified = postgres::run(self.processes.data_dir(number), &VERIFY);
            check_verified(&format!("server {number}"), &verified)?;
        }
        for number in 0..self.servers() {
            let (ended, data_dir) = self.processes.stop(number);
            check_stopped(&ended)?;
            check_verified(&format!("server {number}, stopped"), &postgres::run(&data_dir, &VERIFY))?;
        }
        Ok(())
    }
}

fn check_verified(of: &str, verified: &Finished) -> Result<(), String> {
    let result: Value = serde_json::from_str(&verified.stdout).unwrap_or_default();
    let is_valid = verified.code == 0 && result["valid"] == true;
    if is_valid { Ok(()) } else { Err(format!("`daftar verify` of {of} fails: {verified:?}")) }
}

fn check_stopped(ended: &Finished) -> Result<(), String> {
    if ended.code == 0 { Ok(()) } else { Err(format!("a server does not stop as it should: {ended:?}")) }
}
