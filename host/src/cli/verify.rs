//! `daftar verify`

use std::path::Path;

use clap::Args;
use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload, expect_register};
use super::{CliError, GlobalArgs, output};
use crate::app::verify::verify_stopped;
use daftar_api_types::admin::operation::{FindingBody, VerificationBody, VerificationLine};
use daftar_domain::config::Config;
use daftar_domain::verification::VerificationResult;
use daftar_http::admin::operation::{event_line, result_body};

/// Maximum number of queued events of a verification.
const WAITING_MAX: usize = 64;

/// The register to verify.
#[derive(Debug, Args)]
pub struct VerifyArgs {}

/// Runs the command; the exit code is 1 if there are findings.
pub fn run(global: &GlobalArgs, _args: VerifyArgs) -> Result<(), CliError> {
    let mut shown = Shown::new(global.json);
    let result = match AdminClient::connect_running(global)? {
        Some(admin) => of_server(&admin, &mut shown),
        None => {
            let config = global.config()?;
            expect_register(global, &config)?;
            of_folder(&config, &global.data_dir, &mut shown)
        }
    };
    shown.bar.finish_and_clear();
    result?;
    shown.end()
}

/// Verifies the register of a running server.
fn of_server(admin: &AdminClient, shown: &mut Shown) -> Result<(), CliError> {
    admin.lines("GET", "/verification", Payload::default())?.try_for_each(|line| shown.take(line?))
}

/// Verifies the folder of a stopped server.
fn of_folder(config: &Config, data_dir: &Path, shown: &mut Shown) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let (events, mut reported) = tokio::sync::mpsc::channel(WAITING_MAX);
    let mut result = VerificationResult::default();
    let ended = runtime.block_on(async {
        let look = verify_stopped(config, data_dir, events);
        let show = async {
            while let Some(event) = reported.recv().await {
                if result.count(&event) {
                    shown.take(json!(event_line(event)))?;
                }
            }
            Ok(())
        };
        let (ended, is_shown) = tokio::join!(look, show);
        ended.map_err(CliError::from).and(is_shown)
    });
    ended?;
    shown.take(json!(VerificationLine::Result(result_body(&result))))
}

/// The progress of a verification, and the findings to print at its end.
struct Shown {
    is_json: bool,
    bar: ProgressBar,
    /// The findings as returned by the server, including members that a newer server added.
    findings: Vec<Value>,
    result: Option<Value>,
}

impl Shown {
    fn new(is_json: bool) -> Self {
        let bar = output::bar(is_json, 0, "{msg:17} [{wide_bar}] {human_pos}/{human_len} {per_sec}");
        Self { is_json, bar, findings: Vec::new(), result: None }
    }

    /// Processes one line; a line of an unknown kind is ignored.
    fn take(&mut self, mut line: Value) -> Result<(), CliError> {
        let Ok(read) = VerificationLine::deserialize(&line) else { return Ok(()) };
        match read {
            VerificationLine::Progress { part, done, total } => {
                self.bar.set_message(part);
                self.bar.set_length(total.unwrap_or(done).max(done));
                self.bar.set_position(done);
            }
            VerificationLine::Finding(_) if self.is_json => {
                self.findings.extend(line.get_mut("finding").map(Value::take));
            }
            VerificationLine::Finding(FindingBody { part, place, problem, remedy }) => {
                self.bar.suspend(|| output::line(format_args!("{part}: {place}: {problem}; {remedy}")));
            }
            VerificationLine::Error(error) => {
                return Err(CliError::failed(format!("the register cannot be verified: {error}")));
            }
            VerificationLine::Result(_) => self.result = line.get_mut("result").map(Value::take),
        }
        Ok(())
    }

    /// Prints the result.
    fn end(self) -> Result<(), CliError> {
        let Some(result) = self.result else {
            return Err(CliError::unavailable("the verification was interrupted: try again"));
        };
        let read = VerificationBody::deserialize(&result).map_err(|_| CliError::none_to("a verification"))?;
        let (checked, findings) = (read.checked, read.findings);
        if self.is_json {
            output::json(&output::joined(result, json!({"listed": self.findings})));
        } else if findings == 0 {
            output::line(format_args!("{checked} items were verified, no errors"));
        }
        match findings {
            0 => Ok(()),
            1 => Err(CliError::failed(format!("{checked} items were verified, 1 error"))),
            more => Err(CliError::failed(format!("{checked} items were verified, {more} errors"))),
        }
    }
}
