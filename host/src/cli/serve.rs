//! `daftar serve`

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{CliError, GlobalArgs, output};
use crate::app::serve::{Listeners, default_plugins_dir, serve, shutdown_signal};
use crate::app::{App, AppOptions, CompileIn};
use crate::telemetry;
use daftar_domain::config::Config;

/// What the server is started with; each overrides the configuration file.
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

/// Runs the command until it is told to stop.
pub fn run(global: &GlobalArgs, args: ServeArgs) -> Result<(), CliError> {
    let mut config = match &global.config {
        Some(path) => Config::load(path)?,
        None => Config::default(),
    };
    if let Some(listen) = args.listen {
        config.server.listen = listen;
    }
    if let Some(admin_listen) = args.admin_listen {
        config.server.admin_listen = admin_listen;
    }
    config.validate()?;
    let (telemetry, _log) = telemetry::start(&config.log, &config.otlp).map_err(CliError::settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let (finishing, mut last_metrics) = (telemetry.clone(), None);
    let served = runtime.block_on(async {
        let listeners = Listeners::bind(&config.server)?;
        let url = listeners.public_url(&config.server);
        let plugins_dir = args.plugins.or_else(|| config.plugins.dir.clone()).or_else(default_plugins_dir);
        let options =
            AppOptions::new(global.data_dir.clone()).with_public_url(url.clone()).with_plugins_dir(plugins_dir);
        let options = options.with_compile_in(CompileIn::this_program()).with_pinned(global.pinned.clone());
        let options = options.with_built_from(global.build.committed_at()).with_telemetry(telemetry);
        let app = App::open(config, options).await?;
        let ready = if global.json {
            json!({"listening_on": url, "admin_on": listeners.offered_admin_url()}).to_string()
        } else {
            format!("listening on {url}")
        };
        app.telemetry().send_metrics_of(app.metrics_source());
        let served = serve(app.clone(), listeners, move || say(&ready), shutdown_signal()).await;
        last_metrics = app.telemetry().is_on().then(|| app.metrics_snapshot());
        served.map_err(CliError::from)
    });
    // The register is closed: a collector that is slow keeps nobody from opening it.
    finishing.finish(last_metrics);
    served
}

/// A server serves, whoever reads its standard output.
fn say(ready: &str) {
    if let Err(error) = output::line_if_heard(ready) {
        tracing::warn!(error = %error, "standard output cannot be written");
    }
}
