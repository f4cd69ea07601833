//! `daftar key`

use clap::Subcommand;
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::overlap;
use super::{CliError, GlobalArgs, output};

/// What is done with the keys that sign tokens.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Let a new key sign tokens from now on; those that are about stay good
    Rotate {
        /// How long tokens of the old key are accepted, such as `48h` or `7d`: at least as long as a token is good, which it is without it
        #[arg(long, value_name = "TIME", value_parser = overlap::parse_of_key)]
        overlap: Option<u32>,
    },
    /// List the keys whose tokens are accepted
    List,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: KeyCommand) -> Result<(), CliError> {
    let admin = AdminClient::connect(global)?;
    let result = execute(global, &admin, command);
    admin.close();
    result
}

fn execute(global: &GlobalArgs, admin: &AdminClient, command: KeyCommand) -> Result<(), CliError> {
    let keys = match command {
        KeyCommand::Rotate { overlap } => {
            admin.call("POST", "/signing-keys", Payload::Json(&json!({"overlap_s": overlap})))?
        }
        KeyCommand::List => admin.call("GET", "/signing-keys", Payload::Empty)?,
    };
    if global.json {
        output::json(&keys);
        return Ok(());
    }
    let rows = keys.get("data").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |key: &Value, name| output::text_of(key, name).to_owned();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|key| {
            let names = ["kid", "status", "created_at", "accepted_until"];
            names.map(|name| text(key, name)).to_vec()
        })
        .collect();
    output::table(&["kid", "status", "created_at", "accepted_until"], &rows);
    Ok(())
}
