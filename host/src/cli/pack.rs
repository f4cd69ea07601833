//! `daftar pack`

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::plugin::say_signed;
use super::{CliError, GlobalArgs, output};
use crate::app::packs;
use crate::app::plugin_files::{self, PrivateKey};

/// What is done with vocabulary packs.
#[derive(Debug, Subcommand)]
pub enum PackCommand {
    /// Make a pack from a folder of plain files; needs no compiler
    Build {
        /// Folder with `pack.toml`, codes and labels
        dir: PathBuf,
        /// Where the pack is written
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Private key to sign the pack with; the signature is left beside it in `FILE.sig`
        #[arg(long, value_name = "KEY")]
        sign: Option<PathBuf>,
    },
    /// Check a folder without making anything
    Check {
        /// Folder with `pack.toml`, codes and labels
        dir: PathBuf,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: PackCommand) -> Result<(), CliError> {
    match command {
        PackCommand::Build { dir, output: file, sign } => {
            // Read first: nothing is made that would then lack its signature.
            let key = sign.as_deref().map(PrivateKey::read).transpose().map_err(CliError::failed)?;
            let bytes = packs::build(&dir).map_err(CliError::Failed)?;
            packs::write_file(&file, &bytes)
                .map_err(|error| CliError::failed(format!("cannot write `{}`: {error}", file.display())))?;
            let signature = key.map(|key| plugin_files::sign(&file, &bytes, &key)).transpose();
            let signature = signature.map_err(CliError::Failed)?;
            if global.json {
                let key = signature.map(|signature| signature.key().to_string());
                output::json(&json!({"file": file, "bytes": bytes.len(), "key_id": key}));
            } else {
                output::line(format_args!("wrote {} ({} bytes)", file.display(), bytes.len()));
                if let Some(signature) = &signature {
                    say_signed(&file, signature);
                }
            }
        }
        PackCommand::Check { dir } => {
            let codes = packs::check(&dir).map_err(CliError::Failed)?;
            if global.json {
                output::json(&json!({"codes": codes}));
            } else {
                output::line(format_args!("{} is in order: {codes} codes", dir.display()));
            }
        }
    }
    Ok(())
}
