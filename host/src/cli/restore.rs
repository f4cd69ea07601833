//! `daftar restore`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::backup::{Progress, check, json_of, name_of, open, print, print_authenticity, trust_of};
use super::error::ErrorKind;
use super::{CliError, GlobalArgs, output};
use crate::app::restore::{RefusedPlugin, RestoreError, RestoreTrust, Restored, is_unfinished, restore};
use daftar_domain::config::StoreBackend;

/// Options of a restore.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The backup
    file: PathBuf,
    /// Restore nothing: read the whole backup and print its contents, validity and signer
    #[arg(long)]
    dry_run: bool,
    /// Reject a backup that is not signed by this public key; `ed25519:…`, or a file with that line or a PEM
    #[arg(long, value_name = "KEY")]
    trusted_key: Option<String>,
}

/// Runs the command.
pub fn run(global: &GlobalArgs, args: &RestoreArgs) -> Result<(), CliError> {
    if global.admin_url.is_some() {
        return Err(CliError::usage(
            "a backup is restored by this command itself, and not by a server: name the empty data folder with --data-dir, on its own machine",
        ));
    }
    if args.dry_run {
        return check(global, &args.file, args.trusted_key.as_deref());
    }
    let config = global.config()?;
    let backups = trust_of(&config, args.trusted_key.as_deref())?;
    let trust = RestoreTrust { backups, pinned: global.pinned.clone() };
    let file = open(&args.file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let mut progress = Progress::new(global.json, "restored");
    let bar = move |head: &_, things| progress.at(head, things);
    let restored = runtime.block_on(restore(file, &global.data_dir, &config, trust, bar));
    let Restored { authenticity, refused_plugins, contents, has_keys, findings } =
        restored.map_err(|error| failed(&global.data_dir, &args.file, &error))?;
    if global.json {
        let refused = refused_plugins.iter().map(|RefusedPlugin { name, version, path, reason }| {
            json!({"name": name, "version": version, "file": path, "reason": reason})
        });
        let more = json!({
            "data_dir": global.data_dir, "has_keys": has_keys, "findings": findings.findings(),
            "signature": name_of(authenticity), "refused_plugins": refused.collect::<Vec<_>>(),
        });
        output::json(&output::joined(json_of(&contents, &args.file), more));
        return sound(findings.findings());
    }
    let into = match config.store.backend {
        StoreBackend::Sled => "",
        StoreBackend::Postgres => "the database, its plugins into ",
    };
    output::line(format_args!("restored `{}` into {into}`{}`", args.file.display(), global.data_dir.display()));
    print(&contents);
    print_authenticity(authenticity);
    for RefusedPlugin { name, version, path, reason } in &refused_plugins {
        output::line(format_args!(
            "the plugin {name} {version} is in `{}` and will NOT be loaded: {reason}",
            path.display()
        ));
    }
    if !has_keys {
        output::line(format_args!(
            "no keys are there: before the server is started, put the folder `keys` of the old one into `{}`",
            config.store.keys_home(&global.data_dir).display()
        ));
    }
    output::line(format_args!("verified {} items", findings.checked()));
    sound(findings.findings())
}

/// Returns an error if the backed-up register had findings when the backup was created.
fn sound(findings: u64) -> Result<(), CliError> {
    if findings == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "the register is restored as it was backed up, and {findings} things were wrong with it: `daftar verify` names them"
    )))
}

fn failed(data_dir: &Path, file: &Path, error: &RestoreError) -> CliError {
    // These errors report the state of the register themselves; an unchanged folder requires no message.
    let says_it = matches!(
        error,
        RestoreError::Unfinished(_) | RestoreError::Unconfirmed { .. } | RestoreError::StillMarked { .. }
    );
    let is_reported = says_it || !is_unfinished(data_dir);
    let after = if is_reported {
        String::new()
    } else {
        format!("\n`{}` was not restored; `{}` is not served as it is", file.display(), data_dir.display())
    };
    CliError::of(ErrorKind::from(error), format!("{error}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_that_was_restored_whole_is_not_said_not_to_be_restored() {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("restore.unfinished");
        std::fs::write(&marker, "").unwrap();
        let source = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let message = |error: &RestoreError| failed(folder.path(), Path::new("x.backup"), error).to_string();
        let marked = message(&RestoreError::StillMarked { path: marker.clone(), source: source() });
        assert!(marked.contains("was restored whole") && !marked.contains("was not restored"), "{marked}");
        let unwritten = message(&RestoreError::Folder { path: folder.path().to_owned(), source: source() });
        assert!(unwritten.contains("`x.backup` was not restored"), "{unwritten}");
    }
}
