//! `daftar health`

use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;

use super::{CliError, GlobalArgs, output};
use crate::app::running::RunningServer;
use crate::auth::admin_token::AdminToken;

/// How long the server may take: whoever asks every few seconds gives up after about as long.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The biggest metrics page that is read.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// The line of the metrics page that says whether requests can be served.
const SERIES: &str = "daftar_ready ";

/// Asks the server of the data folder whether it is ready, as containers are probed: by the administrator's listener, so that neither
/// the public one's certificate nor a client is needed.
pub fn run(global: &GlobalArgs) -> Result<(), CliError> {
    let folder = global.data_dir.display();
    let Some(running) = RunningServer::find(&global.data_dir) else {
        return Err(CliError::failed(format!(
            "no server uses the data folder `{folder}`: start one, or name its folder"
        )));
    };
    let token = AdminToken::load(&global.data_dir).map_err(CliError::failed)?;
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).timeout_global(Some(TIMEOUT)).build().into();
    let asked = agent
        .get(format!("{}/metrics", running.admin_url))
        .header("authorization", format!("Bearer {}", token.secret().expose_secret()))
        .call();
    let silent = |error: ureq::Error| {
        CliError::failed(format!(
            "the server of the data folder `{folder}` does not answer: {error}; look into its log"
        ))
    };
    let mut answer = asked.map_err(silent)?;
    let page = answer.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string().map_err(silent)?;
    let is_ready = page.lines().any(|line| line.strip_prefix(SERIES) == Some("1"));
    if !is_ready {
        return Err(CliError::failed(
            "the server runs and cannot serve requests: the store has stopped after a failure; its log says why",
        ));
    }
    if global.json {
        output::json(&json!({"ready": true}));
    } else {
        output::line("ready");
    }
    Ok(())
}
