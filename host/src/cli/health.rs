//! `daftar health`

use std::time::Duration;

use serde_json::json;

use super::{CliError, GlobalArgs, output};
use crate::app::running::RunningServer;
use daftar_api_types::problem::Problem;

/// How long the server may take: a probe that asks every few seconds gives up after about as long.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Begins a line about a part of the service that is degraded.
const DEGRADED: &str = "degraded: ";

/// Asks the server of the data folder whether it is ready, as containers are probed: by the administrator's listener, so that neither
/// the public one's certificate nor a client is needed.
pub fn run(global: &GlobalArgs) -> Result<(), CliError> {
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
