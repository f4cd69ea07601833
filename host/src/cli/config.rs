//! `daftar config`: checks and prints the configuration of a server without starting it.

use clap::Subcommand;
use serde_json::json;

use super::{CliError, GlobalArgs, output};

/// Operations on settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check the configuration file of --config and the environment, and report every problem
    Check,
    /// Show every setting with its value: the default, that of --config, or that of the environment
    Show,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, command: &ConfigCommand) -> Result<(), CliError> {
    let config = global.config()?;
    match command {
        ConfigCommand::Check => {
            let file = global.config.as_deref().map(|file| file.display().to_string());
            let words = match &file {
                Some(file) => format!("the settings of `{file}` and the environment are valid"),
                None => "the settings of the environment are valid; name a configuration file with --config".to_owned(),
            };
            output::done(global, &json!({"file": file, "valid": true}), format_args!("{words}"));
        }
        ConfigCommand::Show if global.json => {
            let value = serde_json::to_value(&config);
            output::json(&value.map_err(CliError::failed)?);
        }
        ConfigCommand::Show => {
            let text = toml::to_string(&config);
            output::line(text.map_err(CliError::failed)?.trim_end());
        }
    }
    Ok(())
}
