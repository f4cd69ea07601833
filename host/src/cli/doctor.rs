//! `daftar doctor`

use clap::Args;
use serde_json::{Value, json};

use super::admin_client::AdminClient;
use super::error::ErrorKind;
use super::{CliError, GlobalArgs, output};
use crate::app::doctor::{CheckedBy, Patient, examine, settings};
use daftar_api_types::admin::operation::{CheckBody, CheckupBody};
use daftar_domain::checkup::{Check, CheckArea, CheckState};
use daftar_domain::context::{Clock, SystemClock};
use daftar_http::admin::operation::checkup_body;

/// Checks the running server, or the folder of a stopped one.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also show passed checks
    #[arg(long)]
    all: bool,
}

/// Runs the command: exit code 3 with warnings, 1 with problems.
pub fn run(global: &GlobalArgs, args: &DoctorArgs) -> Result<(), CliError> {
    let (config, mut checks) = settings(global.config.as_deref());
    let server = match ask_server(global) {
        Err(error) if global.admin_url.is_none() => {
            checks.push(no_answer(global, &error));
            None
        }
        requested => requested?,
    };
    let checked_by = if server.is_some() { "server" } else { "command" };
    let checks = match server {
        Some(reported) => {
            // The server's own configuration is active, not that of this command line.
            checks.retain(|_| global.config.is_some());
            [listed(checks), reported].concat()
        }
        None => {
            checks.extend(examine(&Patient {
                config,
                data_dir: global.data_dir.clone(),
                now: SystemClock.now(),
                built_from: global.build.committed_at(),
                pinned: global.pinned.clone(),
                checked_by: CheckedBy::Command,
            }));
            listed(checks)
        }
    };
    let read: Vec<CheckBody> = read(Value::Array(checks.clone()))?;
    let CheckupBody { state, warnings, problems, checks: read } = CheckupBody::new(read);
    if global.json {
        output::json(&json!({
            "state": state, "checked_by": checked_by, "warnings": warnings, "problems": problems, "checks": checks,
        }));
    } else {
        for check in &read {
            print(check, args.all);
        }
        let checked = checks.len();
        output::line(format_args!("{checked} checks by {}", shown_by(checked_by)));
    }
    let sentence = format!("{}, {}", counted(problems, "problem"), counted(warnings, "warning"));
    match (problems, warnings) {
        (0, 0) => Ok(()),
        (0, _) => Err(CliError::findings(sentence)),
        (_, _) => Err(CliError::failed(sentence)),
    }
}

/// Returns the unmodified checks of the server; none if no server uses the folder.
fn ask_server(global: &GlobalArgs) -> Result<Option<Vec<Value>>, CliError> {
    let Some(admin) = AdminClient::connect_running(global)? else { return Ok(None) };
    match admin.get("/checkup")?.get_mut("checks").map(Value::take) {
        Some(Value::Array(checks)) => Ok(Some(checks)),
        _ => Err(CliError::none_to("a checkup")),
    }
}

fn read(checks: Value) -> Result<Vec<CheckBody>, CliError> {
    serde_json::from_value(checks).map_err(|_| CliError::none_to("a checkup"))
}

fn listed(checks: Vec<Check>) -> Vec<Value> {
    checkup_body(checks).checks.iter().map(|check| json!(check)).collect()
}

/// Returns the check for a server that uses the folder and does not respond.
fn no_answer(global: &GlobalArgs, error: &CliError) -> Check {
    let message = format!("a server uses the folder, and does not respond: {error}");
    if error.kind == ErrorKind::Denied {
        let folder = global.data_dir.display();
        let remedy = format!("`chmod 600 {folder}/admin.token`, and run this as the account of the server");
        return Check::problem(CheckArea::Keys, "admin_token", message, remedy);
    }
    let remedy = "look into its log; where it hangs, stop it and start it again";
    Check::problem(CheckArea::DataFolder, "answers", message, remedy)
}

fn print(check: &CheckBody, all: bool) {
    let is_bad = [CheckState::Warning, CheckState::Problem].iter().any(|bad| bad.name() == check.state);
    if !is_bad && !all {
        return;
    }
    output::line(format_args!("{:<9}  {:<11}  {}", check.state.replace('_', " "), check.area, check.message));
    if let Some(remedy) = &check.remedy {
        output::line(format_args!("{:<9}  {:<11}  to do: {remedy}", "", ""));
    }
}

fn shown_by(checked_by: &str) -> &'static str {
    if checked_by == "server" { "the server that runs" } else { "this command; no server runs" }
}

fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}
