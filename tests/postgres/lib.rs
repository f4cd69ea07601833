//! A PostgreSQL server for tests: a data folder copied from a template, one loopback port, trusted without a password.
//!
//! The programs are found by `PATH`, by `pg_config` or at Debian's location. If they are missing, a test that needs
//! them is listed as not run, and fails if `CI` is set (`daftar_test_needs`).
//!
//! **Invariant:** a server ends with the process that started it, also when that is killed; its folder is removed unless that is killed.
//!
//! **Invariant:** no other PostgreSQL of the machine is used except the one that `DAFTAR_TEST_POSTGRES_URL` names, and
//! there only databases and roles of the tests, which are dropped afterwards.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "this crate runs in tests only, where a panic is how a test fails"
)]

mod cluster;
mod process;
mod roles;
mod running;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tempfile::TempDir;

use self::cluster::AtEnd;
use self::process::{Process, as_server_user};
pub use self::roles::{OPERATIONS, ROLES, Roles, SETUP, commands, renamed, sql_blocks};

/// The role that owns every database.
pub const ROLE: &str = "daftar";

/// Ways to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Closes its connections and shuts down in order.
    Fast,
    /// Stops immediately, as after a loss of power, and recovers at its next start.
    Immediate,
}

/// The data of a server is not needed after its tests: writes are not durable.
const QUICK: [(&str, &str); 3] = [("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")];

/// A server.
pub struct Server {
    programs: PathBuf,
    role: String,
    port: u16,
    /// Prefix of the names of its databases.
    database_prefix: String,
    databases: AtomicU64,
    own: Option<Own>,
}

/// State of a server that this process starts.
struct Own {
    folder: TempDir,
    settings: Vec<(String, String)>,
    process: Mutex<Option<Process>>,
}

/// Folder of the programs. If they are missing, the calling test ends here.
fn programs() -> PathBuf {
    const HOW: &str = "install postgresql and util-linux (packages of Debian)";
    if !can_start() {
        daftar_test_needs::end_test("PostgreSQL or `setpriv`", HOW);
    }
    daftar_test_needs::postgres_programs().unwrap_or_default()
}

/// Tests whether PostgreSQL is on this machine, and `setpriv`, which starts it as a user with the right to run it.
#[must_use]
pub fn can_start() -> bool {
    let has_setpriv = daftar_test_needs::TOOLS.iter().any(|tool| tool.program == "setpriv" && tool.find().is_some());
    has_setpriv && daftar_test_needs::postgres_programs().is_some()
}

impl Server {
    /// A server of this test alone. `settings` are those of `postgresql.conf`.
    ///
    /// # Panics
    /// If PostgreSQL does not start; if it is not on this machine, as [`daftar_test_needs::end_test`].
    #[must_use]
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let (programs, folder) = (programs(), cluster::folder());
        cluster::create_data(&programs, folder.path());
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::launched(programs, folder, settings)
    }

    /// A server for all tests of a machine, without durable data.
    ///
    /// # Panics
    /// As [`Server::start`].
    #[must_use]
    pub fn start_for_all() -> Self {
        Self::start(&[&QUICK[..], &[("max_connections", "1000")]].concat())
    }

    fn launched(programs: PathBuf, folder: TempDir, settings: Vec<(String, String)>) -> Self {
        let mut server = Self {
            programs,
            role: ROLE.to_owned(),
            port: 0,
            database_prefix: "register".to_owned(),
            databases: AtomicU64::new(0),
            own: Some(Own { folder, settings, process: Mutex::new(None) }),
        };
        // A free port may be taken by another process before the server has it.
        for _ in 0..20 {
            server.port = free_port();
            if let Some(process) = server.launch() {
                *server.process() = Some(process);
                return server;
            }
        }
        panic!("PostgreSQL does not start: {}", server.log());
    }

    /// A standby of this server that can be promoted.
    ///
    /// # Panics
    /// If it cannot be created or does not start.
    #[must_use]
    pub fn start_standby(&self) -> Self {
        let folder = cluster::folder();
        let mut copy = as_server_user(&self.programs.join("pg_basebackup"));
        copy.args(["--host", "127.0.0.1", "--username", ROLE, "--write-recovery-conf", "--checkpoint", "fast"]);
        copy.args(["--no-sync", "--port", &self.port.to_string()]).arg("--pgdata").arg(folder.path().join("data"));
        run(&mut copy);
        Self::launched(self.programs.clone(), folder, self.own().settings.clone())
    }

    /// Stops replication from that primary, once all of its writes until now are applied.
    ///
    /// # Panics
    /// If that does not happen in time.
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
        panic!("this did not happen in time: {condition}");
    }

    /// The server that tests share and none of them stops: the one that `DAFTAR_TEST_POSTGRES_URL` names, or else one
    /// that runs until this process ends.
    ///
    /// # Panics
    /// As [`Server::start`], and if the variable names no server with a superuser role.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: LazyLock<(Arc<Server>, AtEnd)> = LazyLock::new(|| {
            let server = running::named().unwrap_or_else(Server::start_for_all);
            let at_end = server.tidied_up_at_the_end();
            (Arc::new(server), at_end)
        });
        // A test ends here if they are missing, not while the shared server is created.
        let _are_there = programs();
        Arc::clone(&SHARED.0)
    }

    /// Removes the remains of this process: a folder, or databases and roles.
    fn tidied_up_at_the_end(&self) -> AtEnd {
        let Some(own) = &self.own else { return running::drop_databases_at_end(self) };
        let (folder, pid) = (own.folder.path().to_string_lossy(), self.pid().unwrap_or_default().to_string());
        AtEnd::run("while kill -0 \"$1\"; do sleep 0.05; done; rm -rf \"$2\"", &[&pid, &folder])
    }

    fn own(&self) -> &Own {
        self.own.as_ref().expect("a server that this process starts")
    }

    /// The role that owns every database, a superuser.
    #[must_use]
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder in which a test may put files that the server reads, as certificates; [`Server::hand_over`] transfers
    /// their ownership.
    ///
    /// # Panics
    /// If this process does not start the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.own().folder.path()
    }

    /// Transfers a file to the server's user, readable for no other user.
    ///
    /// # Panics
    /// If the file is missing.
    pub fn hand_over(&self, file: &Path) {
        cluster::hand_over(file);
    }

    /// Creates a database and returns its URL: `postgres://<role>@127.0.0.1:<port>/<name>`.
    ///
    /// # Panics
    /// If the server does not create it.
    #[must_use]
    pub fn create_database(&self) -> String {
        let name = self.next_name();
        self.run_sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        self.url(&name)
    }

    fn next_name(&self) -> String {
        format!("{}_{}", self.database_prefix, self.databases.fetch_add(1, Ordering::Relaxed))
    }

    /// URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{}@127.0.0.1:{}/{database}", self.role, self.port)
    }

    /// Runs statements in a database, and returns their output, without headings.
    ///
    /// # Panics
    /// If one of them fails.
    pub fn run_sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// As [`Server::run_sql`], for statements that may fail.
    ///
    /// # Errors
    /// The error message of PostgreSQL for the first that fails.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]);
        try_run(psql.arg(self.url(database)).args(["--command", statements]))
    }

    /// Stops it; does nothing if it is already stopped.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn stop(&self, how: Stop) {
        let process = self.process().take();
        if let Some(process) = process {
            process.stop(how);
        }
    }

    /// Starts it again, on the same port and with the same databases.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "PostgreSQL was not stopped");
        // A connection of another process may have the port for a while.
        for _ in 0..20 {
            *process = self.launch();
            if process.is_some() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        panic!("PostgreSQL does not start again: {}", self.log());
    }

    /// The id of its main process; `None` while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.own.as_ref()?;
        self.process().as_ref().map(Process::pid)
    }

    /// Content of its log.
    ///
    /// # Panics
    /// If this process does not start the server.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    fn launch(&self) -> Option<Process> {
        let Own { folder, settings, .. } = self.own();
        let mut server = as_server_user(&self.programs.join("postgres"));
        server.arg("-D").arg(folder.path().join("data")).arg("-k").arg(folder.path());
        server.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        for (name, value) in settings {
            server.arg("-c").arg(format!("{name}={value}"));
        }
        let log = std::fs::File::options().create(true).append(true).open(folder.path().join("log"));
        server.stderr(log.expect("the log of PostgreSQL"));
        let mut process = Process::start(server);
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        // It prints nothing when it is ready, and recovery takes it some seconds at most.
        for _ in 0..600 {
            if process.has_ended() {
                return None;
            }
            if ready.status().is_ok_and(|status| status.success()) && is_ready(folder.path(), process.pid()) {
                return Some(process);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        process.stop(Stop::Immediate);
        None
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.own().process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.own.is_some() {
            self.stop(Stop::Immediate);
        }
    }
}

/// Runs a program to its end and returns its output.
fn run(command: &mut Command) -> String {
    try_run(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn try_run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().expect("a program that can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// True if the server of that folder is ready and has that process id: `pg_isready` asks a port, on which the server of
/// another process may answer.
fn is_ready(folder: &Path, pid: u32) -> bool {
    let state = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = state.lines().map(str::trim).collect();
    lines.first() == Some(&pid.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

/// A free port, another one at each call, below those that Linux gives to connections: none of them has it while its
/// server is stopped.
fn free_port() -> u16 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let draw = || {
        let attempt = DRAWN.fetch_add(1, Ordering::Relaxed);
        20_000 + (u64::from(std::process::id()) * 31 + attempt * 977) % 12_000
    };
    let mut drawn = std::iter::repeat_with(draw).take(12_000).filter_map(|port| u16::try_from(port).ok());
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    drawn.find(is_free).expect("a free port")
}
