//! `daftar key`

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::admin_client::{AdminClient, Payload};
use super::client::overlap;
use super::{CliError, GlobalArgs, output};

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyUse {
    /// Access tokens
    Tokens,
    /// Decisions of rules
    Decisions,
}

/// What is done with the keys that sign tokens and seal decisions.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Let a new key sign from now on; tokens and decisions of the old one stay valid
    Rotate {
        /// What the new key signs: a replaced key of decisions stays accepted, one of tokens as long as its tokens are good
        #[arg(long = "use", value_name = "USE", value_enum, default_value = "tokens")]
        usage: KeyUse,
        /// How long tokens of the old key are accepted, such as `48h` or `7d`: at least as long as a token is good, which it is without it
        #[arg(long, value_name = "TIME", value_parser = overlap::parse_of_key)]
        overlap: Option<u32>,
    },
    /// List the keys whose tokens and decisions are accepted
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
        KeyCommand::Rotate { usage, overlap } => {
            let usage = match usage {
                KeyUse::Tokens => "tokens",
                KeyUse::Decisions => "decisions",
            };
            admin.call("POST", "/signing-keys", Payload::Json(&json!({"use": usage, "overlap_s": overlap})))?
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
            let names = ["kid", "use", "status", "created_at", "accepted_until"];
            names.map(|name| text(key, name)).to_vec()
        })
        .collect();
    output::table(&["kid", "use", "status", "created_at", "accepted_until"], &rows);
    Ok(())
}
