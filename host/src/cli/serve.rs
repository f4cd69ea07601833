//! `daftar serve`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

use super::{CliError, GlobalArgs, output};
use crate::app::serve::{
    Listeners, RunningServer, START_END_TIMEOUT, default_plugins_dir, hangups, serve, shutdown_signal, unless_stopped,
};
use crate::app::{App, AppOptions, WorkerBounds, run_worker};
use crate::telemetry;
use daftar_api_types::problem::Problem;

/// Options of the server; each overrides the configuration file.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address for API clients
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address for the administrator; off this machine only with HTTPS
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
    /// Folder of plugins to install when absent or newer than what is installed
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// Runs the command until a shutdown signal.
pub fn run(global: &GlobalArgs, args: ServeArgs) -> Result<(), CliError> {
    let mut config = global.config()?;
    if let Some(listen) = args.listen {
        config.server.listen = listen;
    }
    if let Some(admin_listen) = args.admin_listen {
        config.server.admin_listen = admin_listen;
    }
    config.log.level = global.log_level(config.log.level);
    config.validate()?;
    let (telemetry, _log) = telemetry::start(&config.log, &config.otlp).map_err(CliError::settings)?;
    prevent_core_dumps();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let (finishing, mut last_metrics) = (telemetry.clone(), None);
    let mut is_stopped_early = false;
    let served = runtime.block_on(async {
        // First: until these are called SIGHUP ends the process, and SIGTERM is lost if it is the first process of a
        // container. Opening a register may take a while.
        let reloads = hangups();
        let mut shutdown = std::pin::pin!(shutdown_signal());
        let listeners = Listeners::bind(&config.server)?;
        let url = listeners.public_url(&config.server);
        let plugins_dir = args.plugins.or_else(|| config.plugins.dir.clone()).or_else(default_plugins_dir);
        let public_url = Some(url.clone());
        let options = AppOptions {
            public_url,
            plugins_dir,
            telemetry,
            compiles_engines_later: true,
            ..global.app_options(global.data_dir.clone())
        };
        let Some(opened) = unless_stopped(shutdown.as_mut(), App::open(config, options)).await else {
            is_stopped_early = true;
            return Ok(());
        };
        let app = opened?;
        let ready = if global.json {
            json!({"listening_on": url, "admin_on": listeners.offered_admin_url()}).to_string()
        } else {
            format!("listening on {url}")
        };
        app.telemetry().send_metrics_of(app.metrics_source());
        let served = serve(app.clone(), listeners, move || say(&ready), reloads, shutdown).await;
        last_metrics = app.telemetry().is_on().then(|| app.metrics_snapshot());
        served.map_err(CliError::from)
    });
    // The register is closed: a slow collector does not prevent another process from opening it.
    finishing.finish(last_metrics);
    if is_stopped_early {
        runtime.shutdown_timeout(START_END_TIMEOUT);
    }
    served
}

/// Prevents core dumps: the memory of a server contains keys and personal data.
fn prevent_core_dumps() {
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        tracing::warn!(error = %error, "core dumps cannot be prevented, and contain keys and personal data");
    }
}

/// Prints a line; the server continues if its standard output is closed.
fn say(ready: &str) {
    if let Err(error) = output::line_if_heard(ready) {
        tracing::warn!(error = %error, "standard output cannot be written");
    }
}

/// Timeout of the server's response, similar to the timeout of a probe that runs every few seconds.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Prefix of a line about a degraded part of the service.
const DEGRADED: &str = "degraded: ";

/// Checks the readiness of the server of the data folder, for container probes. It uses the admin listener, which
/// requires neither the certificate of the public listener nor a client.
pub fn health(global: &GlobalArgs) -> Result<(), CliError> {
    let folder = global.data_dir.display();
    let Some(running) = RunningServer::find(&global.data_dir) else {
        return Err(CliError::failed(format!(
            "no server uses the data folder `{folder}`: start one, or name its folder"
        )));
    };
    let agent = ureq::Agent::config_builder().proxy(None).timeout_global(Some(TIMEOUT)).http_status_as_error(false);
    let agent: ureq::Agent = agent.build().into();
    let silent = |error: ureq::Error| {
        CliError::failed(format!(
            "the server of the data folder `{folder}` does not answer: {error}; look into its log"
        ))
    };
    let mut answer = agent.get(format!("{}/health/ready", running.admin_url)).call().map_err(silent)?;
    let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(silent)?;
    if !answer.status().is_success() {
        let problem = serde_json::from_str::<Problem<'_>>(&text);
        let reason = problem.map_or_else(|_| "its log says why".to_owned(), |problem| problem.detail);
        return Err(CliError::failed(format!("the server runs and cannot serve requests: {reason}")));
    }
    let degraded: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(DEGRADED)).collect();
    match (global.json, degraded.as_slice()) {
        (true, []) => output::json(&json!({"ready": true})),
        (true, degraded) => output::json(&json!({"ready": true, "degraded": degraded})),
        (false, degraded) => {
            output::line("ready");
            degraded.iter().for_each(|part| output::line(format!("{DEGRADED}{part}")));
        }
    }
    Ok(())
}

/// Limits of the process.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Address space, in bytes
    memory_bytes: u64,
    /// Processor time, in seconds
    processor_s: u64,
}

/// Compiles standard input to standard output.
pub fn compile_plugin(args: CompileArgs) -> ExitCode {
    run_worker(WorkerBounds { memory_bytes: args.memory_bytes, processor_s: args.processor_s })
}
