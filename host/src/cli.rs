//! The command line: one file for each command.
//!
//! Exit codes: 0 done, 1 refused or failed, 2 wrong usage (by clap), 3 an import is done and some of its lines were refused, 64 wrong settings.

mod admin_client;
mod audit;
mod backup;
mod client;
mod code;
mod compile_plugin;
mod concept_group;
mod consent;
mod demo;
mod eval;
mod export;
mod identifier_system;
mod import;
mod key;
mod output;
mod pack;
mod plugin;
mod program;
mod restore;
mod serve;
mod table;
mod upgrade_report;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app::PinnedDigests;
use crate::error::contained;

/// The exit code for settings that cannot be used.
const EXIT_CONFIG: u8 = 64;
/// The exit code for an import that is done, some of whose lines were refused.
const EXIT_REJECTS: u8 = 3;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Settings that cannot be used.
    #[error("{0}")]
    Config(String),
    /// All was done but for lines that were refused.
    #[error("{0}")]
    Rejects(String),
    /// Anything else; one sentence that says what happened, to what, and what to do.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}

/// daftar: a registry server for social protection.
#[derive(Debug, Parser)]
#[command(name = "daftar", version, about, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Folder of the register
    #[arg(long, global = true, default_value = "./data", value_name = "DIR")]
    data_dir: PathBuf,
    /// Write JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Configuration file: of the server to run, or of the stopped server whose data folder a command works on
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Administer the server at this address instead of the one that uses the data folder
    #[arg(long, global = true, value_name = "URL")]
    admin_url: Option<String>,
    /// File with the admin token for --admin-url; else the environment variable DAFTAR_ADMIN_TOKEN
    #[arg(long, global = true, value_name = "FILE", requires = "admin_url")]
    admin_token_file: Option<PathBuf>,
    /// PEM file with the certificates to trust of an https --admin-url; else those that this system trusts
    #[arg(long, global = true, value_name = "FILE", requires = "admin_url")]
    admin_ca: Option<PathBuf>,
    /// The plugins that this program was built with.
    #[arg(skip)]
    pinned: PinnedDigests,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::ServeArgs),
    /// Try it out: a make-believe register in a temporary folder, a client, and curl lines to paste
    Demo(demo::DemoArgs),
    /// Register and change API clients
    #[command(subcommand)]
    Client(client::ClientCommand),
    /// Look through the audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Install and remove plugins
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Add, change and end programs
    #[command(subcommand)]
    Program(program::ProgramCommand),
    /// Try an eligibility rule: what is wrong with it, who is eligible, and why
    Eval(eval::EvalArgs),
    /// Write consents down, list and withdraw them
    #[command(subcommand)]
    Consent(consent::ConsentCommand),
    /// Write records to a file, as lines of JSON or as a table
    Export(export::ExportArgs),
    /// Bring many records from a file: one JSON object a line, or a table
    Import(import::ImportArgs),
    /// Make vocabulary packs
    #[command(subcommand)]
    Pack(pack::PackCommand),
    /// Add and deprecate codes of this deployment's own
    #[command(subcommand)]
    Code(code::CodeCommand),
    /// Say which codes rules mean by a name
    #[command(subcommand)]
    ConceptGroup(concept_group::ConceptGroupCommand),
    /// Register systems that identifiers may be of, list and take them out
    #[command(subcommand)]
    IdentifierSystem(identifier_system::IdentifierSystemCommand),
    /// Replace the key that signs tokens, and list the keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Look through the whole register, on disk and in memory, and tell what is wrong; changes nothing
    Verify(verify::VerifyArgs),
    /// Write the whole register into one file, while the server runs or not
    Backup(backup::BackupArgs),
    /// Put a backup back into an empty data folder
    Restore(restore::RestoreArgs),
    /// Compile the component on standard input; servers run this
    #[command(hide = true)]
    CompilePlugin(compile_plugin::CompileArgs),
}

/// Runs the command that the arguments name. `pinned` has the digests of the plugins that the program was built with.
#[must_use]
pub fn main(pinned: &str) -> ExitCode {
    contained::tell_panics_shortly();
    let mut cli = Cli::parse();
    cli.global.pinned = PinnedDigests::parse(pinned);
    let result = match cli.command {
        Command::Serve(args) => serve::run(&cli.global, args),
        Command::Demo(args) => demo::run(&cli.global, args),
        Command::Audit(command) => audit::run(&cli.global, command),
        Command::Client(command) => client::run(&cli.global, command),
        Command::Plugin(command) => plugin::run(&cli.global, command),
        Command::Program(command) => program::run(&cli.global, command),
        Command::Eval(args) => eval::run(&cli.global, args),
        Command::Consent(command) => consent::run(&cli.global, command),
        Command::Export(args) => export::run(&cli.global, &args),
        Command::Import(args) => import::run(&cli.global, &args),
        Command::Pack(command) => pack::run(&cli.global, command),
        Command::Code(command) => code::run(&cli.global, command),
        Command::ConceptGroup(command) => concept_group::run(&cli.global, command),
        Command::IdentifierSystem(command) => identifier_system::run(&cli.global, command),
        Command::Key(command) => key::run(&cli.global, command),
        Command::Verify(args) => verify::run(&cli.global, args),
        Command::Backup(args) => backup::run(&cli.global, &args),
        Command::Restore(args) => restore::run(&cli.global, &args),
        Command::CompilePlugin(args) => return compile_plugin::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            match error {
                CliError::Config(_) => ExitCode::from(EXIT_CONFIG),
                CliError::Rejects(_) => ExitCode::from(EXIT_REJECTS),
                CliError::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
