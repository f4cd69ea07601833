//! A PostgreSQL of the tests' own: Debian's package, a folder of its own, one loopback port, trusted without a password.
//!
//! **Invariant:** the server ends with the process that started it, also when that is killed, and its folder with it when it is not.
//!
//! **Invariant:** no other PostgreSQL of the machine is touched.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "what is here runs in tests only, where a panic is how a test fails"
)]

mod install;
mod process;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use self::process::{Process, as_server_user};

/// The role that owns every database.
pub const ROLE: &str = "daftar";

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its clients are cut off, and it ends in order.
    Fast,
    /// It ends at once, as after a loss of power, and recovers at its next start.
    Immediate,
}

/// A server.
pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    process: Mutex<Option<Process>>,
    databases: AtomicU64,
}

impl Server {
    /// A server of nobody else. `settings` are those of `postgresql.conf`.
    ///
    /// # Panics
    /// When PostgreSQL is not there and cannot be installed, or does not start.
    #[must_use]
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let programs = install::programs();
        let folder = tempfile::Builder::new().prefix("daftar-postgres-").tempdir().expect("a folder for PostgreSQL");
        process::hand_over(folder.path());
        let mut init = as_server_user(&programs.join("initdb"));
        init.args(["--username", ROLE, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "-D"]);
        run(init.arg(folder.path().join("data")));
        let mut server = Self {
            folder,
            programs,
            port: 0,
            settings: settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            process: Mutex::new(None),
            databases: AtomicU64::new(0),
        };
        server.launch_on_a_free_port();
        server
    }

    fn launch_on_a_free_port(&mut self) {
        // A free port may be taken by another process before the server has it.
        for _ in 0..20 {
            self.port = free_port();
            if let Some(process) = self.launch() {
                *self.process() = Some(process);
                return;
            }
        }
        panic!("PostgreSQL does not start: {}", self.log());
    }

    /// A server that follows this one, and can be told to take over.
    ///
    /// # Panics
    /// When it cannot be made or does not start.
    #[must_use]
    pub fn start_standby(&self) -> Self {
        let folder = tempfile::Builder::new().prefix("daftar-postgres-").tempdir().expect("a folder for PostgreSQL");
        process::hand_over(folder.path());
        let mut copy = as_server_user(&self.programs.join("pg_basebackup"));
        copy.args(["--host", "127.0.0.1", "--username", ROLE, "--write-recovery-conf", "--checkpoint", "fast"]);
        copy.args(["--no-sync", "--port", &self.port.to_string()]).arg("--pgdata").arg(folder.path().join("data"));
        run(&mut copy);
        let mut standby = Self {
            folder,
            programs: self.programs.clone(),
            port: 0,
            settings: self.settings.clone(),
            process: Mutex::new(None),
            databases: AtomicU64::new(0),
        };
        standby.launch_on_a_free_port();
        standby
    }

    /// Hears no more of what the server does that this one follows, once it has all of it until now.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn stop_following(&self, primary: &Self) {
        let until = primary.run_sql("postgres", "SELECT pg_current_wal_lsn()");
        self.wait_for(&format!("SELECT pg_last_wal_replay_lsn() >= '{until}'"));
        self.run_sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
        self.run_sql("postgres", "SELECT pg_reload_conf()");
        self.wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)");
    }

    fn wait_for(&self, condition: &str) {
        for _ in 0..600 {
            if self.run_sql("postgres", condition) == "t" {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("it never came to that: {condition}");
    }

    /// The server that all tests of this process share while one of them holds it. Nobody stops it.
    ///
    /// # Panics
    /// As [`Server::start`].
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        // Nothing of it outlives the tests: nothing is made durable.
        let quick = [("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];
        let server = Arc::new(Self::start(&[&quick[..], &[("max_connections", "400")]].concat()));
        *shared = Arc::downgrade(&server);
        server
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder in which a test may put files that the server reads, as certificates; [`Server::hand_over`] makes them its own.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a file the server's own, readable for nobody else.
    ///
    /// # Panics
    /// When the file is not there.
    pub fn hand_over(&self, file: &Path) {
        process::hand_over(file);
    }

    /// Makes a database and says where it is: `postgres://daftar@127.0.0.1:<port>/<name>`.
    ///
    /// # Panics
    /// When the server does not make it.
    #[must_use]
    pub fn create_database(&self) -> String {
        let name = format!("register_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run_sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        self.url(&name)
    }

    /// Where a database is.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements in a database, and gives what they print, without headings.
    ///
    /// # Panics
    /// When one of them fails.
    pub fn run_sql(&self, database: &str, statements: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]);
        run(psql.arg(self.url(database)).args(["--command", statements]))
    }

    /// Stops it; nothing happens where it was stopped before.
    ///
    /// # Panics
    /// When it does not stop.
    pub fn stop(&self, how: Stop) {
        if let Some(process) = self.process().take() {
            process.stop(how);
        }
    }

    /// Starts it again, on the same port and with the same databases.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "PostgreSQL was not stopped");
        *process = self.launch();
        assert!(process.is_some(), "PostgreSQL does not start again: {}", self.log());
    }

    /// The process that all others of it are children of; none while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    /// What it wrote into its log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn launch(&self) -> Option<Process> {
        let mut server = as_server_user(&self.programs.join("postgres"));
        server.arg("-D").arg(self.folder.path().join("data")).arg("-k").arg(self.folder.path());
        server.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        for (name, value) in &self.settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log"));
        server.stderr(log.expect("the log of PostgreSQL"));
        let mut process = Process::start(server);
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        // It says nothing when it is ready, and recovering takes it some seconds at most.
        for _ in 0..600 {
            if process.has_ended() {
                return None;
            }
            if ready.status().is_ok_and(|status| status.success()) {
                return Some(process);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        process.stop(Stop::Immediate);
        None
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(Stop::Immediate);
    }
}

/// Runs a program to its end and gives what it printed.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("a program of PostgreSQL");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("the port").port()
}
