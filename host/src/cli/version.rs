//! `daftar version`: what this program is, and what it speaks and stores.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CliError, GlobalArgs, output};
use crate::app::about;

/// How much of a commit's name is enough to find it.
const SHORT_COMMIT: usize = 12;

/// What the program was built of, as `cargo xtask` tells it to the compiler of a release. Nothing of it is known in development, and of
/// sources that came without git.
#[derive(Debug, Clone, Copy, Default)]
pub struct Build {
    /// The name of the commit, with `-modified` behind it where something was changed after it.
    pub commit: Option<&'static str>,
    /// When it was made, in seconds since 1970: the same sources say the same, whenever they are built.
    pub committed_s: Option<&'static str>,
}

impl Build {
    /// When the commit was made.
    #[must_use]
    pub fn committed_at(&self) -> Option<Timestamp> {
        let seconds = self.committed_s?.parse().ok()?;
        Timestamp::from_second(seconds).ok()
    }

    /// Version, commit and day, in one line.
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
    let said = body(&global.build, global.pinned.count());
    if global.json {
        output::json(&said);
        return Ok(());
    }
    for (name, key) in [
        ("version", "version"),
        ("commit", "commit"),
        ("of", "committed_at"),
        ("built for", "target"),
        ("by", "rustc"),
        ("plugin interfaces", "plugin_interfaces"),
        ("plugins pinned", "pinned_plugins"),
        ("wasmtime", "wasmtime"),
        ("store layout", "store_layout"),
        ("backup format", "backup_format"),
        ("HTTP API", "api"),
    ] {
        let value = said.get(key).unwrap_or(&Value::Null);
        let text = match value {
            Value::Null => "not recorded".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
        };
        output::line(format_args!("{name:<18} {text}"));
    }
    Ok(())
}

fn body(build: &Build, pinned: usize) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": build.commit,
        "committed_at": build.committed_at().map(|at| at.to_string()),
        "target": about::TARGET,
        "rustc": about::RUSTC,
        "plugin_interfaces": about::plugin_interfaces(),
        "pinned_plugins": pinned,
        "wasmtime": about::WASMTIME,
        "store_layout": about::STORE_LAYOUT,
        "backup_format": about::BACKUP_FORMAT,
        "api": about::API_VERSION,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_says_its_commit_and_day_and_sources_without_git_say_that() {
        let version = env!("CARGO_PKG_VERSION");
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let build = Build { commit: Some(commit), committed_s: Some("1772366400") };
        assert_eq!(build.short(), format!("{version} (0123456789ab 2026-03-01)"));
        let modified = Build { commit: Some("0123456789abcdef0123456789abcdef01234567-modified"), ..build };
        assert_eq!(modified.short(), format!("{version} (0123456789ab-modified 2026-03-01)"));
        assert_eq!(Build::default().short(), format!("{version} (commit not recorded)"));
        assert_eq!(body(&build, 3)["committed_at"], "2026-03-01T12:00:00Z");
        assert_eq!(body(&Build::default(), 0)["commit"], Value::Null);
    }
}
