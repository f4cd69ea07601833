//! The released program in a separate process: default configuration and plugins, log in a file.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use daftar_tests::fresh_address;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http::{Connection, get, token_request};
use crate::machine;

/// Environment variable with the path of the server's program, unless it is in the folder of this program.
const PROGRAM_VARIABLE: &str = "DAFTAR_BENCH_SERVER";
/// Environment variable with the folder in which `cargo xtask` built plugins and fixtures.
const ARTIFACTS_VARIABLE: &str = "DAFTAR_TEST_ARTIFACTS";
/// Timeout until a server is ready.
const READY_MAX: Duration = Duration::from_secs(300);
/// Interval between two checks of it.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// Rate limit per minute and per day, above the number of requests in any round.
const RATE_LIMIT: &str = "10000000";

/// The server's program.
pub fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = std::env::var_os(PROGRAM_VARIABLE).map_or_else(|| own.with_file_name("daftar"), PathBuf::from);
    if program.exists() { Ok(program) } else { Err(format!("`{}` is not there", program.display())) }
}

/// The folder in which `cargo xtask` built plugins and fixtures.
pub fn artifacts() -> Result<PathBuf, String> {
    let artifacts = std::env::var_os(ARTIFACTS_VARIABLE).map(PathBuf::from);
    artifacts.ok_or_else(|| "run the benchmarks with `cargo xtask bench`".to_owned())
}

/// Credentials of a client.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The client's id.
    pub id: String,
    /// Its secret.
    pub secret: String,
}

/// A running server.
pub struct Server {
    child: Child,
    folder: PathBuf,
    config: Option<PathBuf>,
    /// Its address.
    pub address: SocketAddr,
    /// Time until it listened, in milliseconds.
    pub start_ms: f64,
}

impl Server {
    /// Starts the program on the register in a folder and waits until it listens.
    pub fn start(folder: &Path) -> Result<Self, String> {
        Self::start_with(folder, None, &artifacts()?.join("plugins"))
    }

    /// Starts the program with a configuration.
    pub fn start_configured(folder: &Path, text: &str) -> Result<Self, String> {
        let config = folder.join("daftar.toml");
        std::fs::write(&config, text).map_err(|error| error.to_string())?;
        Self::start_with(folder, Some(&config), &artifacts()?.join("plugins"))
    }

    /// Starts the program with a configuration file and the plugins of a folder.
    pub fn start_with(folder: &Path, config: Option<&Path>, plugins: &Path) -> Result<Self, String> {
        let log = std::fs::File::create(folder.join("server.log")).map_err(|error| error.to_string())?;
        let mut command =
            command(folder, config, &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])?;
        command.arg("--plugins").arg(plugins).stdout(Stdio::piped()).stderr(log);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let start_ms = started.elapsed().as_secs_f64() * 1e3;
        let address = line.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let log = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            let _is_ended = child.kill().and_then(|()| child.wait());
            return Err(format!("the server did not start: {log}"));
        };
        Ok(Self { child, folder: folder.to_owned(), config: config.map(Path::to_owned), address, start_ms })
    }

    /// Waits until the server is ready and has compiled its eligibility engine. It listens before both.
    pub fn ready(&self) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < READY_MAX {
            let mut connection = Connection::from(fresh_address(), self.address)?;
            let (status, body) = connection.exchange(&get("/health/ready", ""))?;
            if status == 200 && !String::from_utf8_lossy(body).contains("is being compiled") {
                return Ok(());
            }
            std::thread::sleep(READY_INTERVAL);
        }
        Err("a server does not become ready".to_owned())
    }

    /// Returns a token of a client, requested from a new address.
    pub fn token(&self, client: &Credentials) -> Result<String, String> {
        let mut connection = Connection::from(fresh_address(), self.address)?;
        let body = connection.json(&token_request(&client.id, &client.secret), 200)?;
        let token = body.get("access_token").and_then(Value::as_str);
        token.map(str::to_owned).ok_or_else(|| "no token was issued".to_owned())
    }

    /// Runs a command on the register of this server and returns its JSON output.
    pub fn command(&self, arguments: &[&str]) -> Result<Value, String> {
        run(&self.folder, self.config.as_deref(), arguments)
    }

    /// Returns the CPU time of the server, in seconds.
    pub fn processor_seconds(&self) -> f64 {
        machine::processor_seconds(self.child.id())
    }

    /// Returns the sum and the number of the values of a histogram without labels on the metrics page; 0 before the
    /// first one is recorded.
    pub fn histogram(&self, name: &str) -> Result<(f64, f64), String> {
        let of_folder = |file: &str| std::fs::read_to_string(self.folder.join("data").join(file));
        let reported: Value = serde_json::from_str(&of_folder("server.json").map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?;
        let address =
            reported.get("admin_url").and_then(Value::as_str).and_then(|url| url.rsplit('/').next()?.parse().ok());
        let token = of_folder("admin.token").map_err(|error| error.to_string())?;
        let mut connection = Connection::to(address.ok_or("the server does not say where its administrator asks")?)?;
        let (status, page) = connection.exchange(&get("/metrics", token.trim()))?;
        if status != 200 {
            return Err(format!("the metrics page has the status {status}"));
        }
        let page = std::str::from_utf8(page).map_err(|error| error.to_string())?;
        let of = |part: &str| page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(part)?.parse().ok());
        Ok((of("_sum ").unwrap_or_default(), of("_count ").unwrap_or_default()))
    }

    /// Returns the resident memory of the server, in MiB.
    pub fn resident_mib(&self) -> f64 {
        machine::resident_mib(self.child.id())
    }

    /// Kills the server.
    pub fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Stops the server and waits until it has exited. Returns the duration in milliseconds.
    pub fn stop(mut self) -> Result<f64, String> {
        let started = Instant::now();
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("the server has no process id")?;
        kill_process(id, Signal::TERM).map_err(|error| error.to_string())?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the server ended with {status}"));
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _is_ended = self.child.kill().and_then(|()| self.child.wait());
        }
    }
}

fn command(folder: &Path, config: Option<&Path>, arguments: &[&str]) -> Result<Command, String> {
    let mut command = Command::new(program()?);
    command.args(arguments).arg("--data-dir").arg(folder.join("data"));
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    command.env_remove("DAFTAR_ADMIN_TOKEN").stdin(Stdio::null());
    Ok(command)
}

/// Runs a command of the program on the register in a folder and returns its JSON output.
pub fn run(folder: &Path, config: Option<&Path>, arguments: &[&str]) -> Result<Value, String> {
    let finished = command(folder, config, arguments)?.arg("--json").output().map_err(|error| error.to_string())?;
    if !finished.status.success() {
        let message = String::from_utf8_lossy(&finished.stderr).into_owned();
        return Err(format!("`daftar {}` failed: {message}", arguments.join(" ")));
    }
    serde_json::from_slice(&finished.stdout)
        .map_err(|error| format!("`daftar {}` printed no JSON: {error}", arguments.join(" ")))
}

/// Creates a client of the register in a folder, with all permissions that the benchmarks need. `more` contains further
/// arguments.
pub fn create_client(folder: &Path, config: Option<&Path>, more: &[&str]) -> Result<Credentials, String> {
    let mut arguments = vec!["client", "create", "--name", "bench"];
    for scope in ["individual:all", "group:all", "eligibility:all", "vocabulary:read"] {
        arguments.extend(["--scope", scope]);
    }
    if !more.contains(&"--rate-limit-per-minute") {
        arguments.extend(["--rate-limit-per-minute", RATE_LIMIT, "--rate-limit-per-day", RATE_LIMIT]);
    }
    arguments.extend(more);
    let client = run(folder, config, &arguments)?;
    let text = |name: &str| client.get(name).and_then(Value::as_str).map(str::to_owned);
    let (id, secret) = (text("client_id"), text("client_secret"));
    Ok(Credentials { id: id.ok_or("a client has no id")?, secret: secret.ok_or("a client has no secret")? })
}
