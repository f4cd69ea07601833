//! `daftar completions` and `daftar manual`: for shells and for `man`.

use std::io;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use super::{CliError, GlobalArgs, command, output};

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = "bash: daftar completions bash > /usr/share/bash-completion/completions/daftar\n\
    zsh:  daftar completions zsh > /usr/share/zsh/site-functions/_daftar\n\
    fish: daftar completions fish > ~/.config/fish/completions/daftar.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where to.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// Folder of the pages; made where it is not there
    dir: PathBuf,
}

/// Prints a script.
pub fn complete(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut described(), "daftar", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}

/// Writes a page for each command.
pub fn manual(global: &GlobalArgs, args: &ManualArgs) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::cannot_write(&args.dir, &error);
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(described(), &args.dir).map_err(failed)?;
    if global.json {
        output::json(&json!({"folder": args.dir}));
    } else {
        output::line(format_args!("wrote the manual pages to {}", args.dir.display()));
    }
    Ok(())
}

/// The commands that users type, without the day of their build, so that the same commands make the same pages.
fn described() -> clap::Command {
    let whole = command(&super::Build::default());
    let typed = whole.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let about = whole.get_about().cloned().unwrap_or_default();
    clap::Command::new("daftar")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about(about)
        .args(whole.get_arguments().cloned())
        .subcommands(typed)
}
