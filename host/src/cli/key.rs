//! `daftar key`

use clap::{Subcommand, ValueEnum};

use super::admin_client::AdminClient;
use super::client::overlap;
use super::{CliError, GlobalArgs, output};
use daftar_api_types::admin::client::{SigningKeyBody, SigningKeyRotation};

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
    let keys = AdminClient::connect(global)?.run(|admin| match command {
        KeyCommand::Rotate { usage, overlap } => {
            let usage = match usage {
                KeyUse::Tokens => "tokens",
                KeyUse::Decisions => "decisions",
            };
            let rotation = SigningKeyRotation { r#use: Some(usage.to_owned()), overlap_s: overlap };
            admin.send_json("POST", "/signing-keys", &rotation)
        }
        KeyCommand::List => admin.get("/signing-keys"),
    })?;
    output::list(global, keys, &["kid", "use", "status", "created_at", "accepted_until"], |key: &SigningKeyBody| {
        let accepted_until = key.accepted_until.clone().unwrap_or_default();
        vec![key.kid.clone(), key.r#use.clone(), key.status.clone(), key.created_at.clone(), accepted_until]
    })
}
