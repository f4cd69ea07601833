//! The data folder: whose it is, who uses it, and what was left unfinished in it.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{Access, access};

use super::Patient;
use crate::app::recovery::CHECKPOINTS_FOLDER;
use crate::app::{PLUGINS_FOLDER, restore};
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::StoreBackend;
use daftar_index::checkpoint::{CheckpointFolder, is_of_another_version};

const AREA: CheckArea = CheckArea::DataFolder;
/// What group and others may do in the folder of a register: nothing.
const OTHERS_MASK: u32 = 0o077;

/// Looks at the folder.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    let folder = &patient.data_dir;
    let shown = Patient::shown(folder);
    let metadata = match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            let remedy = "name the folder of the register with --data-dir";
            return vec![Check::problem(AREA, "present", format_args!("{shown} is not a folder"), remedy)];
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let remedy = format!(
                "where a register should be, name its folder with --data-dir; a new one is made by `daftar serve --data-dir {}`",
                folder.display()
            );
            return vec![Check::warning(AREA, "present", format_args!("{shown} is not there"), remedy)];
        }
        Err(error) => {
            let remedy = "let the account that runs daftar read it";
            return vec![Check::problem(AREA, "present", format_args!("{shown} cannot be looked at: {error}"), remedy)];
        }
    };
    let mut checks = vec![owner(folder, metadata.uid()), mode(folder, metadata.permissions().mode())];
    checks.push(writable(folder));
    checks.push(register(patient));
    checks.extend(unfinished_restore(folder));
    checks.extend(in_use(patient));
    if patient.config.store.backend == StoreBackend::Sled {
        checks.push(checkpoints(patient));
    }
    checks
}

fn owner(folder: &Path, owner: u32) -> Check {
    let (shown, account) = (Patient::shown(folder), rustix::process::geteuid().as_raw());
    if owner == account {
        return Check::ok(AREA, "owner", format_args!("{shown} belongs to the account that looks (uid {account})"));
    }
    let message = format!("{shown} belongs to the account with uid {owner}, and this one has uid {account}");
    let remedy = format!(
        "run daftar as the owner, or give the folder to the account of the server: `chown -R {account} {}`",
        folder.display()
    );
    Check::warning(AREA, "owner", message, remedy)
}

fn mode(folder: &Path, mode: u32) -> Check {
    let (shown, mode) = (Patient::shown(folder), mode & 0o777);
    if mode & OTHERS_MASK == 0 {
        return Check::ok(AREA, "mode", format_args!("nobody else may look into {shown} (mode {mode:03o})"));
    }
    let message = format!("other accounts may look into {shown} (mode {mode:03o}), which holds personal data");
    Check::warning(AREA, "mode", message, format_args!("`chmod 700 {}`", folder.display()))
}

fn writable(folder: &Path) -> Check {
    let shown = Patient::shown(folder);
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok(AREA, "writable", format_args!("{shown} can be written")),
        Err(error) => {
            let reason = io::Error::from(error);
            let remedy = "give it to the account of the server, and see that its disk is not mounted read-only";
            Check::problem(AREA, "writable", format_args!("{shown} cannot be written: {reason}"), remedy)
        }
    }
}

fn register(patient: &Patient) -> Check {
    if patient.config.store.backend == StoreBackend::Postgres {
        return Check::ok(AREA, "register", "the records are in PostgreSQL; the server says whether it is ready");
    }
    let store = Patient::shown(&patient.store());
    if patient.has_register() {
        return Check::ok(AREA, "register", format_args!("the register is in {store}"));
    }
    let remedy = format!(
        "where there should be one, name its folder with --data-dir, or the settings that have `[store] path` with --config; a new one is made by `daftar serve --data-dir {}`",
        patient.data_dir.display()
    );
    Check::warning(AREA, "register", format_args!("there is no register in {store}"), remedy)
}

fn unfinished_restore(folder: &Path) -> Option<Check> {
    restore::is_unfinished(folder).then(|| {
        let shown = Patient::shown(folder);
        let message = format!("{shown} holds a restore that was not finished, and no server opens it");
        let remedy = format!("`rm -r {0}`, then `daftar restore BACKUP --data-dir {0}`", folder.display());
        Check::problem(AREA, "restore", message, remedy)
    })
}

/// Whether somebody has the folder. A server looks at its own.
fn in_use(patient: &Patient) -> Option<Check> {
    if patient.is_server() {
        return Some(Check::ok(AREA, "in_use", "this server uses the folder"));
    }
    let folder = &patient.data_dir;
    let shown = Patient::shown(folder);
    if daftar_sandbox::is_in_use(&folder.join(PLUGINS_FOLDER)) {
        let message = format!("a process uses {shown}, and no server answers for it");
        let remedy = "wait until the other command has ended; where a server hangs, look into its log, stop it and start it again";
        return Some(Check::warning(AREA, "in_use", message, remedy));
    }
    if folder.join("server.json").exists() {
        let message =
            format!("a server that used {shown} ended without being told to: it was killed, or the machine stopped");
        let remedy = format!(
            "nothing that was acknowledged is lost; look why, then start it again: `daftar serve --data-dir {}`",
            folder.display()
        );
        return Some(Check::warning(AREA, "in_use", message, remedy));
    }
    Some(Check::ok(AREA, "in_use", format_args!("no process uses {shown}")))
}

/// The register in memory as it was written to disk: without it a start reads every record.
fn checkpoints(patient: &Patient) -> Check {
    let path = patient.data_dir.join(CHECKPOINTS_FOLDER);
    let none = || {
        let message = "there is no checkpoint: a start reads every record, which takes seconds for a million of them";
        Check::ok(AREA, "checkpoint", message)
    };
    let Some(folder) = CheckpointFolder::existing(path.clone()) else { return none() };
    let shown = Patient::shown(&path);
    let files = match folder.newest_first() {
        Ok(files) => files,
        Err(error) => {
            let remedy = format!("give it to the account of the server, or remove it: `rm -r {}`", path.display());
            return Check::warning(AREA, "checkpoint", format_args!("{shown} cannot be read: {error}"), remedy);
        }
    };
    match files.into_iter().next() {
        None => none(),
        Some(Ok(file)) => {
            let age = fs::metadata(&file.path).and_then(|metadata| metadata.modified()).ok();
            let age = age.and_then(|at| Timestamp::try_from(at).ok()).map(|at| super::age(patient.now, at));
            let write = file.sequence.0;
            let of = age.map(|age| format!(" of {age}")).unwrap_or_default();
            Check::ok(AREA, "checkpoint", format_args!("there is a checkpoint{of}, as of write {write}"))
        }
        Some(Err((_, reason))) if is_of_another_version(reason) => {
            let message = "the checkpoint is of another version of daftar: the next start reads every record once, and makes another";
            Check::ok(AREA, "checkpoint", message)
        }
        Some(Err((file, reason))) => {
            let message = format!(
                "the checkpoint {} cannot be used: {reason}; a start reads every record",
                Patient::shown(&file)
            );
            let remedy = format!("`rm {}`; nothing is lost, the next start makes another", file.display());
            Check::warning(AREA, "checkpoint", message, remedy)
        }
    }
}
