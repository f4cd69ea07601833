//! `daftar identifier-system`

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::{CliError, GlobalArgs, output};

/// What is done with systems of identifiers.
#[derive(Debug, Subcommand)]
pub enum IdentifierSystemCommand {
    /// Register a system that identifiers may be of, beside the codes of the ID types; effective at once
    Add {
        /// Its URI, such as `https://example.org/farmer-id`
        uri: String,
    },
    /// List every system that new identifiers may be of
    List,
    /// Take a system out: no new identifiers may be of it, and those that records carry stay
    Remove {
        /// Its URI
        uri: String,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: IdentifierSystemCommand) -> Result<(), CliError> {
    let admin = match &command {
        IdentifierSystemCommand::Add { .. } => AdminClient::connect_or_begin(global)?,
        _ => AdminClient::connect(global)?,
    };
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: IdentifierSystemCommand) -> Result<(), CliError> {
    match command {
        IdentifierSystemCommand::Add { uri } => {
            let answer = admin.call("POST", "/identifier-systems", Payload::Json(&json!({"uri": uri})))?;
            if global.json {
                output::json(&answer);
            } else {
                output::line(format_args!("added {}", output::text_of(&answer, "uri")));
            }
        }
        IdentifierSystemCommand::Remove { uri } => {
            admin.call("DELETE", &format!("/identifier-systems/{}", part(&uri)), Payload::Empty)?;
            if global.json {
                output::json(&json!({"uri": uri, "removed": true}));
            } else {
                output::line(format_args!("removed {uri}: no new identifiers of it; those that records carry stay"));
            }
        }
        IdentifierSystemCommand::List => {
            let systems = admin.call("GET", "/identifier-systems", Payload::Empty)?;
            if global.json {
                output::json(&systems);
                return Ok(());
            }
            let rows = systems.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let text = |system: &Value, name| output::text_of(system, name).to_owned();
            let rows: Vec<Vec<String>> =
                rows.iter().map(|system| vec![text(system, "uri"), text(system, "origin")]).collect();
            output::table(&["uri", "origin"], &rows);
        }
    }
    Ok(())
}
