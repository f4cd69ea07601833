//! `daftar version`: version, build, interface versions and storage formats of the program.

use std::io;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CliError, GlobalArgs, command, output};
use daftar_http::api::middleware::response::API_VERSION;
use daftar_http::api::openapi::document::published;
use daftar_http::api::router::endpoints;
use daftar_service::backup::FORMAT as BACKUP_FORMAT;
use daftar_store_sled::FORMAT_VERSION;

/// Length of an abbreviated commit name.
const SHORT_COMMIT: usize = 12;

/// The source of the build, as `cargo xtask` passes it to the compiler of a release. Absent in development, and for
/// sources without a git repository.
#[derive(Debug, Clone, Copy, Default)]
pub struct Build {
    /// The commit hash, with the suffix `-modified` if the sources were modified after the commit.
    pub commit: Option<&'static str>,
    /// Time of the commit, in seconds since 1970: independent of the build time, so that the same sources have the same
    /// value.
    pub committed_s: Option<&'static str>,
}

impl Build {
    /// Returns the time of the commit.
    #[must_use]
    pub fn committed_at(&self) -> Option<Timestamp> {
        let seconds = self.committed_s?.parse().ok()?;
        Timestamp::from_second(seconds).ok()
    }

    /// Returns version, commit and date on one line.
    pub(super) fn short(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let Some(commit) = self.commit else { return format!("{version} (commit not recorded)") };
        let (name, rest) = commit.split_at_checked(SHORT_COMMIT).unwrap_or((commit, ""));
        let modified = if rest.ends_with("-modified") { "-modified" } else { "" };
        let day = self.committed_at().map(|at| format!(" {}", at.strftime("%Y-%m-%d"))).unwrap_or_default();
        format!("{version} ({name}{modified}{day})")
    }
}

/// Runs the command.
pub fn run(global: &GlobalArgs) -> Result<(), CliError> {
    let rows = facts(&global.build, global.pinned.count());
    if global.json {
        output::json(&Value::Object(rows.into_iter().map(|(key, _, value)| (key.to_owned(), value)).collect()));
        return Ok(());
    }
    output::labelled(18, rows.map(|(_, label, value)| (label, text_of(&value))));
    Ok(())
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "not recorded".to_owned(),
        recorded => output::text_of(recorded),
    }
}

/// Returns the JSON member, the label and the value of each fact about the program.
fn facts(build: &Build, pinned: usize) -> [(&'static str, &'static str, Value); 11] {
    let interfaces = daftar_sandbox::supported_versions();
    let interfaces = interfaces.iter().map(|version| format!("daftar:plugin@{version}"));
    [
        ("version", "version", json!(env!("CARGO_PKG_VERSION"))),
        ("commit", "commit", json!(build.commit)),
        ("committed_at", "of", json!(build.committed_at().map(|at| at.to_string()))),
        ("target", "built for", json!(env!("DAFTAR_TARGET"))),
        ("rustc", "by", json!(env!("DAFTAR_RUSTC"))),
        ("plugin_interfaces", "plugin interfaces", interfaces.collect()),
        ("pinned_plugins", "plugins pinned", json!(pinned)),
        ("wasmtime", "wasmtime", json!(env!("DAFTAR_WASMTIME"))),
        ("store_layout", "store layout", json!(FORMAT_VERSION)),
        ("backup_format", "backup format", json!(BACKUP_FORMAT)),
        ("api", "HTTP API", json!(API_VERSION)),
    ]
}

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

/// The destination.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// Folder of the pages; made where it is not there
    dir: PathBuf,
    /// Write one page in Markdown, `COMMANDS.md`, instead
    #[arg(long)]
    markdown: bool,
}

/// Prints a script.
pub fn complete(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut described(), "daftar", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}

/// Prints the description of the API.
pub fn openapi() -> Result<(), CliError> {
    output::line(published(&endpoints()).trim_end());
    Ok(())
}

/// Writes a page for each command.
pub fn manual(global: &GlobalArgs, args: &ManualArgs) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::cannot_write(&args.dir, &error);
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    if args.markdown {
        let options = clap_markdown::MarkdownOptions::new().title("Commands".to_owned()).show_footer(false);
        let page = clap_markdown::help_markdown_command_custom(&described(), &options);
        std::fs::write(args.dir.join("COMMANDS.md"), page).map_err(failed)?;
    } else {
        clap_mangen::generate_to(described(), &args.dir).map_err(failed)?;
    }
    let words = format_args!("wrote the manual pages to {}", args.dir.display());
    output::done(global, &json!({"folder": args.dir}), words);
    Ok(())
}

/// Returns the public commands without their build date, so that the same commands produce the same pages.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_reports_commit_and_date_or_their_absence() {
        let version = env!("CARGO_PKG_VERSION");
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let build = Build { commit: Some(commit), committed_s: Some("1772366400") };
        assert_eq!(build.short(), format!("{version} (0123456789ab 2026-03-01)"));
        let modified = Build { commit: Some("0123456789abcdef0123456789abcdef01234567-modified"), ..build };
        assert_eq!(modified.short(), format!("{version} (0123456789ab-modified 2026-03-01)"));
        assert_eq!(Build::default().short(), format!("{version} (commit not recorded)"));
        let fact = |build: &Build, name: &str| facts(build, 3).into_iter().find(|(key, _, _)| *key == name).unwrap().2;
        assert_eq!(fact(&build, "committed_at"), "2026-03-01T12:00:00Z");
        assert_eq!(fact(&Build::default(), "commit"), Value::Null);
    }
}
