//! `daftar pack`

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::{CliError, GlobalArgs, output};
use crate::app::packs;

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
        PackCommand::Build { dir, output: file } => {
            let bytes = packs::build(&dir).map_err(CliError::Failed)?;
            packs::write_file(&file, &bytes)
                .map_err(|error| CliError::failed(format!("cannot write `{}`: {error}", file.display())))?;
            if global.json {
                output::json(&json!({"file": file, "bytes": bytes.len()}));
            } else {
                output::line(format_args!("wrote {} ({} bytes)", file.display(), bytes.len()));
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
