//! `daftar pack`

mod import;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::plugin::say_signed;
use super::{CliError, GlobalArgs, output};
use crate::app::packs::{self, BuildError, PackErrors, PackProblem};
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
        /// Pack whose data the folder replaces: what the folder does not have (other vocabularies, concept groups, extension
        /// fields) is taken from it
        #[arg(long, value_name = "FILE")]
        base: Option<PathBuf>,
        /// Private key to sign the pack with; the signature is left beside it in `FILE.sig`
        #[arg(long, value_name = "KEY")]
        sign: Option<PathBuf>,
    },
    /// Make a folder of plain files from a file that the owner of a list publishes
    Import(Box<import::ImportArgs>),
    /// Check a folder without making anything
    Check {
        /// Folder with `pack.toml`, codes and labels
        dir: PathBuf,
    },
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: PackCommand) -> Result<(), CliError> {
    match command {
        PackCommand::Build { dir, output: file, base, sign } => {
            expect_folder(&dir)?;
            // Read first: nothing is made that would then lack its signature.
            let key = sign.as_deref().map(PrivateKey::read).transpose().map_err(CliError::input)?;
            let bytes = packs::build(&dir, base.as_deref()).map_err(|error| match error {
                BuildError::Source(errors) => told(global, &errors),
                BuildError::Host(_) => CliError::failed(error),
            })?;
            packs::write_file(&file, &bytes).map_err(|error| CliError::cannot_write(&file, &error))?;
            let signature = key.map(|key| plugin_files::sign(&file, &bytes, &key)).transpose();
            let signature = signature.map_err(CliError::failed)?;
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
        PackCommand::Import(args) => import::run(global, *args)?,
        PackCommand::Check { dir } => {
            expect_folder(&dir)?;
            let codes = packs::check(&dir).map_err(|errors| told(global, &errors))?;
            if global.json {
                output::json(&json!({"codes": codes}));
            } else {
                output::line(format_args!("{} is in order: {codes} codes", dir.display()));
            }
        }
    }
    Ok(())
}

/// Problems of a source name its files: that there is no such folder is said first.
fn expect_folder(dir: &Path) -> Result<(), CliError> {
    match std::fs::metadata(dir) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(CliError::input(format_args!("`{}` is no folder: name the one with `pack.toml`", dir.display()))),
        Err(error) => Err(CliError::cannot_read(dir, &error)),
    }
}

/// What is wrong with a source, as the command's error; in JSON the list is printed and the error is short.
fn told(global: &GlobalArgs, errors: &PackErrors) -> CliError {
    if !global.json {
        return CliError::input(errors);
    }
    let problem = |problem: &PackProblem| {
        let file = (!problem.file.is_empty()).then_some(&problem.file);
        json!({"file": file, "line": problem.line, "code": problem.code, "message": problem.reason})
    };
    let problems: Vec<Value> = errors.problems().iter().map(problem).collect();
    let count = problems.len().saturating_add(errors.left_out());
    output::json(&json!({"problems": problems, "left_out": errors.left_out()}));
    CliError::input(format!("{count} problems; `problems` on standard output lists them"))
}
