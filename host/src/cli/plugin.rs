//! `daftar plugin`

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::Value;

use super::admin_client::{AdminClient, Payload};
use super::client::part;
use super::{CliError, GlobalArgs, output, upgrade_report};

/// What is done with plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List what is installed, with its use and its faults
    List,
    /// Install a plugin, or replace the one of its name
    Install {
        /// The plugin, one `.wasm` component
        file: PathBuf,
    },
    /// Say what installing a plugin would mean for the records there are; changes nothing
    Report {
        /// The plugin, one `.wasm` component
        file: PathBuf,
        /// Name up to so many of the records that hold codes which would be gone or no longer in use
        #[arg(long, value_name = "N", default_value_t = 0)]
        records: u32,
    },
    /// Remove a plugin; it stays removed when the server starts again
    Remove {
        /// The plugin's name
        name: String,
        /// Also when records use its codes
        #[arg(long)]
        force: bool,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: PluginCommand) -> Result<(), CliError> {
    let admin = AdminClient::connect(global)?;
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: PluginCommand) -> Result<(), CliError> {
    let answer = match command {
        PluginCommand::List => {
            let plugins = admin.call("GET", "/plugins", Payload::Empty)?;
            if !global.json {
                list(&plugins);
                return Ok(());
            }
            plugins
        }
        PluginCommand::Install { file } => {
            let bytes = std::fs::read(&file)
                .map_err(|error| CliError::failed(format!("cannot read `{}`: {error}", file.display())))?;
            let installed = admin.call("POST", "/plugins", Payload::Bytes(bytes))?;
            if !global.json {
                let text = |name| output::text_of(&installed, name);
                output::line(format_args!("installed {} {} ({})", text("name"), text("version"), text("digest")));
                return Ok(());
            }
            installed
        }
        PluginCommand::Report { file, records } => return upgrade_report::run(global, admin, &file, records),
        PluginCommand::Remove { name, force } => {
            let query = if force { "?force=true" } else { "" };
            let removed = admin.call("DELETE", &format!("/plugins/{}{query}", part(&name)), Payload::Empty)?;
            if !global.json {
                output::line(format_args!("removed {name}"));
                return Ok(());
            }
            removed
        }
    };
    output::json(&answer);
    Ok(())
}

fn list(plugins: &Value) {
    let rows = plugins.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|plugin| {
            let text = |name| output::text_of(plugin, name).to_owned();
            let count = |name| plugin.get(name).and_then(Value::as_u64).unwrap_or_default().to_string();
            let digest: String = text("digest").chars().take(19).collect();
            vec![text("name"), text("version"), text("kind"), digest, count("calls"), count("faults")]
        })
        .collect();
    output::table(&["name", "version", "kind", "digest", "calls", "faults"], &rows);
}
