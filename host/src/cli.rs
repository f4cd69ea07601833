//! The command line: one file for each command, or for related commands.
//!
//! A failure is printed as a sentence on standard error, or with `--json` as one object, and sets the exit code
//! (`error.rs`, `host/docs/CLI.md`).

mod admin_client;
mod audit;
mod backup;
mod client;
mod config;
mod consent;
mod demo;
mod deployment;
mod doctor;
mod error;
mod eval;
mod examples;
mod export;
mod files;
mod import;
mod migrate;
mod output;
mod pack;
mod plugin;
mod program;
mod replay;
mod restore;
mod rule_draft;
mod serve;
mod table;
mod token;
mod verify;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::fs::Mode;
use rustix::process::umask;

pub use self::error::CliError;
pub use self::version::Build;
use crate::app::{AppOptions, CompileIn, PinnedDigests};
use crate::telemetry::{self, LogWriter};
use daftar_domain::config::{Config, LogConfig, LogLevel, OtlpConfig};
use daftar_domain::error::shorten_panic_messages;

/// daftar: a registry server for social protection.
#[derive(Debug, Parser)]
#[command(name = "daftar", version, about, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Permissions of group and others, which new files and folders of a register do not have.
const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);
/// Heading of the options of all commands in help.
const GLOBAL: &str = "Global options";

/// Options of all commands.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Data folder
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        default_value = "./data",
        value_name = "DIR",
        env = "DAFTAR_DATA_DIR",
        hide_env_values = true
    )]
    data_dir: PathBuf,
    /// Write JSON instead of text
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
    /// Configuration file of the server to run, or of the stopped server whose data folder a command uses
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE", env = "DAFTAR_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Use the admin API at this address instead of the server that uses the data folder
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL", env = "DAFTAR_ADMIN_URL", hide_env_values = true)]
    admin_url: Option<String>,
    /// File with the admin token for --admin-url [default: the environment variable DAFTAR_ADMIN_TOKEN]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE", requires = "admin_url")]
    admin_token_file: Option<PathBuf>,
    /// PEM file with the CA certificates to trust for an https --admin-url [default: those of the system]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE", requires = "admin_url")]
    admin_ca: Option<PathBuf>,
    /// Log the requests of a command, or more events of a server; twice for more detail
    #[arg(short, long, global = true, help_heading = GLOBAL, action = ArgAction::Count)]
    verbose: u8,
    /// Print results and errors only, without notes and progress; a server logs warnings and errors only
    #[arg(short, long, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    quiet: bool,
    /// The plugins that this program was built with.
    #[arg(skip)]
    pinned: PinnedDigests,
    /// Source of this program's build.
    #[arg(skip)]
    build: Build,
}

impl GlobalArgs {
    /// Returns the configuration of `--config`, or the defaults.
    fn config(&self) -> Result<Config, CliError> {
        Ok(self.config.as_deref().map_or_else(Config::from_environment, Config::load)?)
    }

    /// Returns the log level: the configured level, adjusted by `--verbose` and `--quiet`.
    fn log_level(&self, configured: LogLevel) -> LogLevel {
        if self.quiet { configured.min(LogLevel::Warn) } else { configured.more_verbose(self.verbose) }
    }

    /// Starts logging to standard error for a command that is not a server: with `--verbose`, or if the command runs a
    /// plugin for its author.
    fn start_log(&self, shows_plugin_log: bool) -> Result<Option<LogWriter>, CliError> {
        let level = if shows_plugin_log { LogLevel::Debug } else { LogLevel::Warn };
        if self.verbose == 0 && !shows_plugin_log {
            return Ok(None);
        }
        let log = LogConfig { level: self.log_level(level), ..LogConfig::default() };
        let (_, writer) = telemetry::start(&log, &OtlpConfig::default()).map_err(CliError::settings)?;
        Ok(Some(writer))
    }

    /// Returns the options for opening the register in a folder.
    fn app_options(&self, data_dir: PathBuf) -> AppOptions {
        AppOptions {
            compile_in: CompileIn::this_program(),
            pinned: self.pinned.clone(),
            built_from: self.build.committed_at(),
            ..AppOptions::new(data_dir)
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::ServeArgs),
    /// Start a demo: sample data in a temporary folder, a client, and curl commands to paste
    Demo(demo::DemoArgs),
    /// Manage API clients
    #[command(subcommand)]
    Client(client::ClientCommand),
    /// Search the audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Install and remove plugins
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Manage programs
    #[command(subcommand)]
    Program(program::ProgramCommand),
    /// List, accept and reject rule drafts of clients
    #[command(subcommand)]
    RuleDraft(rule_draft::RuleDraftCommand),
    /// Test an eligibility rule: its errors, the eligible records, and explanations
    Eval(eval::EvalArgs),
    /// Repeat the decision of an evidence bundle without a register, and compare the bytes of the response
    Replay(replay::ReplayArgs),
    /// Record, list and withdraw consents
    #[command(subcommand)]
    Consent(consent::ConsentCommand),
    /// Export records to a file, as NDJSON or as a table
    Export(export::ExportArgs),
    /// Import records from a file, as NDJSON or as a table
    Import(import::ImportArgs),
    /// Create vocabulary packs
    #[command(subcommand)]
    Pack(pack::PackCommand),
    #[command(flatten)]
    Deployment(deployment::DeploymentCommand),
    /// Get an access token of a client from the token endpoint, for calls with curl
    Token(token::TokenArgs),
    /// Rotate and list signing keys
    #[command(subcommand)]
    Key(client::KeyCommand),
    /// Check that the server of the data folder is ready, for container probes
    Health,
    /// Verify the register on disk and in memory and report errors; read-only
    Verify(verify::VerifyArgs),
    /// Diagnose the installation (configuration, keys, certificate, clock, disk, memory, plugins) and print the fix of
    /// each problem; read-only
    Doctor(doctor::DoctorArgs),
    /// Back up the register to one file, from a running or stopped server
    Backup(backup::BackupArgs),
    /// Check or show the settings without starting a server
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Restore a backup into an empty data folder
    Restore(restore::RestoreArgs),
    /// Move the register from one backend to the other and compare both in full: with the server stopped, or from its
    /// backup while it runs, with the later changes at the end
    Migrate(migrate::MigrateArgs),
    /// Print version, commit, interface versions and storage formats
    Version,
    /// Print a shell completion script
    Completions(version::CompletionsArgs),
    /// Print the OpenAPI description of the HTTP API, without the fields of modules
    Openapi,
    /// Write manual pages for all commands to a folder
    Manual(version::ManualArgs),
    /// Compile the component on standard input; servers run this
    #[command(hide = true)]
    CompilePlugin(serve::CompileArgs),
}

impl Command {
    /// True if the command runs a plugin for its author and therefore prints the plugin's log lines.
    fn shows_plugin_log(&self) -> bool {
        matches!(self, Self::Plugin(command) if command.is_local_run())
    }

    /// True if the command writes files of an author for publication, with the permissions that its caller chose.
    fn writes_public_files(&self) -> bool {
        matches!(self, Self::Pack(_) | Self::Manual(_))
            || matches!(self, Self::Plugin(command) if command.is_of_author())
    }
}

/// Runs the command of the arguments. `pinned` contains the digests of the plugins that the program was built with.
#[must_use]
pub fn main(pinned: &str, build: Build) -> ExitCode {
    shorten_panic_messages();
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let parsed = command(&build).try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let mut cli = match parsed {
        Ok(cli) => cli,
        Err(reported) => return ExitCode::from(output::print_usage(&reported, wants_json)),
    };
    if !cli.command.writes_public_files() {
        // The database creates its files with the permissions that this mask leaves.
        umask(OTHERS);
    }
    cli.global.pinned = PinnedDigests::parse(pinned);
    cli.global.build = build;
    if cli.global.quiet {
        output::be_quiet();
    }
    let result = match cli.command {
        // These three commands set up logging themselves.
        Command::Serve(args) => serve::run(&cli.global, args),
        Command::Demo(args) => demo::run(&cli.global, args),
        Command::CompilePlugin(args) => return serve::compile_plugin(args),
        command => cli.global.start_log(command.shows_plugin_log()).and_then(|_log| execute(&cli.global, command)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error, cli.global.json);
            ExitCode::from(error.kind.exit_code())
        }
    }
}

fn execute(global: &GlobalArgs, command: Command) -> Result<(), CliError> {
    match command {
        Command::Serve(args) => serve::run(global, args),
        Command::Demo(args) => demo::run(global, args),
        Command::Audit(command) => audit::run(global, command),
        Command::Client(command) => client::run(global, command),
        Command::Plugin(command) => plugin::run(global, command),
        Command::Program(command) => program::run(global, command),
        Command::RuleDraft(command) => rule_draft::run(global, command),
        Command::Eval(args) => eval::run(global, args),
        Command::Replay(args) => replay::run(global, &args),
        Command::Consent(command) => consent::run(global, command),
        Command::Export(args) => export::run(global, &args),
        Command::Import(args) => import::run(global, &args),
        Command::Pack(command) => pack::run(global, command),
        Command::Deployment(command) => deployment::run(global, command),
        Command::Key(command) => client::run_keys(global, command),
        Command::Health => serve::health(global),
        Command::Verify(args) => verify::run(global, args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Backup(args) => backup::run(global, &args),
        Command::Config(command) => config::run(global, &command),
        Command::Restore(args) => restore::run(global, &args),
        Command::Migrate(args) => migrate::run(global, &args),
        Command::Version => version::run(global),
        Command::Completions(args) => version::complete(&args),
        Command::Openapi => version::openapi(),
        Command::Manual(args) => version::manual(global, &args),
        Command::Token(args) => token::run(global, &args),
        Command::CompilePlugin(_) => Ok(()),
    }
}

/// Returns the commands, with the build in their version text.
fn command(build: &Build) -> clap::Command {
    examples::with_examples(Cli::command()).version(build.short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
