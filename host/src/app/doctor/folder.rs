//! The data folder: its owner, the process that uses it, and unfinished operations in it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::{fs, io};

use jiff::Timestamp;
use rustix::fs::{Access, access};

use super::{Patient, SECONDS_OF_A_DAY, SIGNING_KEY_DAYS_MAX};
use crate::app::open::trust;
use crate::app::recovery::CHECKPOINTS_FOLDER;
use crate::app::{PLUGINS_FOLDER, restore};
use daftar_auth::admin_token::{ADMIN_TOKEN_FILE, AdminToken, AdminTokenError};
use daftar_auth::key_folder::{self, KeyFile};
use daftar_auth::keys::KEY_FOLDER;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::config::StoreBackend;
use daftar_domain::manifest::PluginKind;
use daftar_index::checkpoint::{CheckpointFolder, is_of_another_version};
use daftar_sandbox::{FileState, InspectedPlugin, inspect_installed};

const FOLDER: CheckArea = CheckArea::DataFolder;
/// Permissions of group and others in the folder of a register: none.
const OTHERS_MASK: u32 = 0o077;

/// Checks the folder.
pub(super) fn data_folder(patient: &Patient) -> Vec<Check> {
    let folder = &patient.data_dir;
    let shown = Patient::shown(folder);
    let metadata = match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            let remedy = "name the folder of the register with --data-dir";
            return vec![Check::problem(FOLDER, "present", format_args!("{shown} is not a folder"), remedy)];
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let remedy = format!(
                "where a register should be, name its folder with --data-dir; a new one is made by `daftar serve --data-dir {}`",
                folder.display()
            );
            return vec![Check::warning(FOLDER, "present", format_args!("{shown} is not there"), remedy)];
        }
        Err(error) => {
            let remedy = "let the account that runs daftar read it";
            return vec![Check::problem(FOLDER, "present", format_args!("{shown} cannot be checked: {error}"), remedy)];
        }
    };
    let mut checks = vec![owner(folder, metadata.uid()), mode(folder, metadata.permissions().mode())];
    checks.push(writable(folder));
    checks.push(register(patient));
    checks.extend(unfinished_restore(folder));
    checks.extend(in_use(patient));
    if patient.config.store.backend == StoreBackend::Sled {
        checks.extend(store_folder(patient));
        checks.push(checkpoints(patient));
    }
    checks
}

/// Checks the folder of the store if it is outside of the data folder, which protects all that it contains.
fn store_folder(patient: &Patient) -> Vec<Check> {
    let store = patient.store();
    if store.starts_with(&patient.data_dir) {
        return Vec::new();
    }
    // If it does not exist, the check of the register reports that.
    let Ok(metadata) = fs::metadata(&store) else { return Vec::new() };
    vec![owner(&store, metadata.uid()), mode(&store, metadata.permissions().mode()), writable(&store)]
}

fn owner(folder: &Path, owner: u32) -> Check {
    let (shown, account) = (Patient::shown(folder), rustix::process::geteuid().as_raw());
    if owner == account {
        return Check::ok(FOLDER, "owner", format_args!("{shown} belongs to the account that looks (uid {account})"));
    }
    let message = format!("{shown} belongs to the account with uid {owner}, and this one has uid {account}");
    let remedy = format!(
        "run daftar as the owner, or give the folder to the account of the server: `chown -R {account} {}`",
        folder.display()
    );
    Check::warning(FOLDER, "owner", message, remedy)
}

fn mode(folder: &Path, mode: u32) -> Check {
    let (shown, mode) = (Patient::shown(folder), mode & 0o777);
    if mode & OTHERS_MASK == 0 {
        return Check::ok(FOLDER, "mode", format_args!("no other account may read {shown} (mode {mode:03o})"));
    }
    let message = format!("other accounts may look into {shown} (mode {mode:03o}), which holds personal data");
    Check::warning(FOLDER, "mode", message, format_args!("`chmod 700 {}`", folder.display()))
}

fn writable(folder: &Path) -> Check {
    let shown = Patient::shown(folder);
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok(FOLDER, "writable", format_args!("{shown} can be written")),
        Err(error) => {
            let reason = io::Error::from(error);
            let remedy = "give it to the account of the server, and see that its disk is not mounted read-only";
            Check::problem(FOLDER, "writable", format_args!("{shown} cannot be written: {reason}"), remedy)
        }
    }
}

fn register(patient: &Patient) -> Check {
    if patient.config.store.backend == StoreBackend::Postgres {
        return Check::ok(FOLDER, "register", "the records are in PostgreSQL; the server says whether it is ready");
    }
    let store = Patient::shown(&patient.store());
    if patient.has_register() {
        return Check::ok(FOLDER, "register", format_args!("the register is in {store}"));
    }
    let remedy = format!(
        "where there should be one, name its folder with --data-dir, or the settings that have `[store] path` with --config; a new one is made by `daftar serve --data-dir {}`",
        patient.data_dir.display()
    );
    Check::warning(FOLDER, "register", format_args!("there is no register in {store}"), remedy)
}

fn unfinished_restore(folder: &Path) -> Option<Check> {
    restore::is_unfinished(folder).then(|| {
        let shown = Patient::shown(folder);
        let message = format!("{shown} holds a restore that was not finished, and no server opens it");
        let remedy = format!("`rm -r {0}`, then `daftar restore BACKUP --data-dir {0}`", folder.display());
        Check::problem(FOLDER, "restore", message, remedy)
    })
}

/// Checks for another process that uses the folder. A server checks its own folder.
fn in_use(patient: &Patient) -> Option<Check> {
    if patient.is_server() {
        return Some(Check::ok(FOLDER, "in_use", "this server uses the folder"));
    }
    let folder = &patient.data_dir;
    let shown = Patient::shown(folder);
    if daftar_sandbox::is_in_use(&folder.join(PLUGINS_FOLDER)) {
        let message = format!("a process uses {shown}, and no server answers for it");
        let remedy = "wait until the other command has ended; where a server hangs, look into its log, stop it and start it again";
        return Some(Check::warning(FOLDER, "in_use", message, remedy));
    }
    if folder.join("server.json").exists() {
        let message =
            format!("a server that used {shown} ended without a stop signal: it was killed, or the machine stopped");
        let remedy = format!(
            "nothing that was acknowledged is lost; look why, then start it again: `daftar serve --data-dir {}`",
            folder.display()
        );
        return Some(Check::warning(FOLDER, "in_use", message, remedy));
    }
    Some(Check::ok(FOLDER, "in_use", format_args!("no process uses {shown}")))
}

/// Checks the checkpoints of the register in memory: without one a start reads every record.
fn checkpoints(patient: &Patient) -> Check {
    let path = patient.data_dir.join(CHECKPOINTS_FOLDER);
    let none = || {
        let message = "there is no checkpoint: a start reads every record, which takes seconds for a million of them";
        Check::ok(FOLDER, "checkpoint", message)
    };
    let Some(folder) = CheckpointFolder::existing(path.clone()) else { return none() };
    let shown = Patient::shown(&path);
    let files = match folder.newest_first() {
        Ok(files) => files,
        Err(error) => {
            let remedy = format!("give it to the account of the server, or remove it: `rm -r {}`", path.display());
            return Check::warning(FOLDER, "checkpoint", format_args!("{shown} cannot be read: {error}"), remedy);
        }
    };
    match files.into_iter().next() {
        None => none(),
        Some(Ok(file)) => {
            let age = fs::metadata(&file.path).and_then(|metadata| metadata.modified()).ok();
            let age = age.and_then(|at| Timestamp::try_from(at).ok()).map(|at| super::age(patient.now, at));
            let write = file.sequence.0;
            let of = age.map(|age| format!(" of {age}")).unwrap_or_default();
            Check::ok(FOLDER, "checkpoint", format_args!("there is a checkpoint{of}, as of write {write}"))
        }
        Some(Err((_, reason))) if is_of_another_version(reason) => {
            let message = "the checkpoint is of another version of daftar: the next start reads every record once, and makes another";
            Check::ok(FOLDER, "checkpoint", message)
        }
        Some(Err((file, reason))) => {
            let message = format!(
                "the checkpoint {} cannot be used: {reason}; a start reads every record",
                Patient::shown(&file)
            );
            let remedy = format!("`rm {}`; nothing is lost, the next start makes another", file.display());
            Check::warning(FOLDER, "checkpoint", message, remedy)
        }
    }
}

const KEYS: CheckArea = CheckArea::Keys;

/// Checks every key file.
pub(super) fn keys(patient: &Patient) -> Vec<Check> {
    if !patient.data_dir.is_dir() {
        return Vec::new();
    }
    let home = patient.config.store.keys_home(&patient.data_dir);
    let folder = home.join(KEY_FOLDER);
    let mut checks: Vec<Check> = folder_mode(&folder).into_iter().collect();
    checks.extend(key_folder::look(&home).into_iter().map(|file| key_file(patient, file)));
    checks.push(admin_token(patient));
    checks
}

fn folder_mode(folder: &Path) -> Option<Check> {
    // If the folder does not exist, the checks of its files report that.
    let mode = fs::metadata(folder).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let shown = Patient::shown(folder);
        let message = format!("other accounts may read {shown} (mode {mode:03o}); the server does not start with that");
        Check::problem(KEYS, "mode", message, format_args!("`chmod 700 {}`", folder.display()))
    })
}

fn key_file(patient: &Patient, file: KeyFile) -> Check {
    let shown = Patient::shown(&file.path);
    let (what, is_signing) = (file.purpose, file.is_signing);
    match file.newest {
        Err(reason) => Check::problem(
            KEYS,
            "usable",
            reason,
            format_args!("the server does not start without {what}: fix {shown} as described"),
        ),
        Ok(None) if !patient.has_register() => {
            Check::ok(KEYS, "usable", format_args!("{shown} is made when the server is first started"))
        }
        Ok(None) => {
            let remedy = format!(
                "put {shown} back from a backup: `daftar restore` into another folder brings it. A new one is made at the next start, and what was made with the old one is refused"
            );
            Check::problem(KEYS, "usable", format_args!("{shown} is gone ({what}), and there is a register"), remedy)
        }
        Ok(Some(made)) => {
            let days = patient.now.duration_since(made).as_secs().div_euclid(SECONDS_OF_A_DAY);
            if is_signing && days > SIGNING_KEY_DAYS_MAX {
                let message = format!("the key that signs tokens is {days} days old");
                let remedy = format!(
                    "`daftar key rotate --data-dir {}`: a new one signs at once, tokens of the old one stay good until they expire",
                    patient.data_dir.display()
                );
                return Check::warning(KEYS, "age", message, remedy);
            }
            let days = days.max(0);
            Check::ok(KEYS, "usable", format_args!("{shown} is private and sound, its newest key {days} days old"))
        }
    }
}

fn admin_token(patient: &Patient) -> Check {
    let path = patient.data_dir.join(ADMIN_TOKEN_FILE);
    match AdminToken::load_file(&path) {
        Ok(_) => Check::ok(KEYS, "admin_token", format_args!("{} is private and long enough", Patient::shown(&path))),
        Err(AdminTokenError::Absent(_)) => {
            let message = format!("{} is made when the server is next started", Patient::shown(&path));
            Check::ok(KEYS, "admin_token", message)
        }
        Err(error @ (AdminTokenError::File(_) | AdminTokenError::Unusable(_) | AdminTokenError::Entropy(_))) => {
            let remedy = format!(
                "`chmod 600 {0}` if no one else has read it; else `rm {0}`: the next start creates another token",
                path.display()
            );
            Check::problem(KEYS, "admin_token", error, remedy)
        }
    }
}

const PLUGINS: CheckArea = CheckArea::Plugins;

/// Checks the list and every file that it names.
pub(super) fn plugins(patient: &Patient) -> Vec<Check> {
    let folder = patient.data_dir.join(PLUGINS_FOLDER);
    if !folder.is_dir() {
        return Vec::new();
    }
    let trust = trust(&patient.config.plugins, patient.pinned.clone());
    let found = match inspect_installed(&folder, &patient.data_dir.join("compiled"), &trust) {
        Ok(found) => found,
        Err(reason) => {
            let message =
                format!("the list of installed plugins in {} cannot be used: {reason}", Patient::shown(&folder));
            let remedy = "put the folder back from a backup (`daftar restore` into another folder brings it); no server starts with it";
            return vec![Check::problem(PLUGINS, "list", message, remedy)];
        }
    };
    let mut checks: Vec<Check> = found.iter().flat_map(|plugin| plugin_checks(patient, plugin)).collect();
    let broken = checks.len();
    checks.extend(engine(patient, &found));
    if broken == 0 && !found.is_empty() {
        let count = found.len();
        checks.push(Check::ok(
            PLUGINS,
            "files",
            format_args!("{count} plugins are installed; all files are unchanged and trusted"),
        ));
    }
    checks
}

/// Returns the problems with one plugin; empty if it is valid.
fn plugin_checks(patient: &Patient, plugin: &InspectedPlugin) -> Vec<Check> {
    let (name, data_dir) = (&plugin.name, patient.data_dir.display());
    let again = format!("install it again: `daftar plugin install FILE --data-dir {data_dir}`");
    let mut checks = Vec::new();
    match &plugin.file {
        FileState::AsInstalled => {}
        FileState::Missing(reason) => {
            let message = format!("the file of the plugin `{name}` cannot be read: {reason}");
            checks.push(Check::problem(PLUGINS, "files", message, &again));
        }
        FileState::Changed(digest) => {
            let message = format!(
                "the file of the plugin `{name}` is not the one that was installed: it has the digest {digest}, and {} was installed",
                plugin.digest
            );
            let remedy = format!("find out who changed it; then {again}");
            checks.push(Check::problem(PLUGINS, "files", message, remedy));
        }
        FileState::Unsupported(reason) => {
            let message = format!("the plugin `{name}` cannot be run by this program: {reason}");
            let remedy = format!("get a version of it for this program, and {again}");
            checks.push(Check::problem(PLUGINS, "interface", message, remedy));
        }
    }
    if let Some(reason) = &plugin.untrusted {
        let message = format!("the plugin `{name}` is no longer trusted: {reason}");
        let remedy = format!(
            "get its `.sig` file and add the key to `[plugins] trusted_keys`, then install it again; or take it out: `daftar plugin remove {name} --data-dir {data_dir}`"
        );
        checks.push(Check::warning(PLUGINS, "signature", message, remedy));
    }
    // A server has the code of a plugin in memory, independent of the cache.
    if !plugin.is_code_cached && !patient.is_server() && plugin.file == FileState::AsInstalled {
        let message = format!(
            "no compiled code of the plugin `{name}` is cached for this program: the next start compiles it, which takes some seconds"
        );
        checks.push(Check::ok(PLUGINS, "compiled", message));
    }
    checks
}

fn engine(patient: &Patient, found: &[InspectedPlugin]) -> Option<Check> {
    let engines: Vec<&InspectedPlugin> =
        found.iter().filter(|plugin| plugin.kind == PluginKind::EligibilityEngine).collect();
    let wanted = patient.config.plugins.engine.as_ref();
    let install = format!("`daftar plugin install FILE --data-dir {}`", patient.data_dir.display());
    match (wanted, engines.as_slice()) {
        (Some(name), engines) if !engines.iter().any(|engine| engine.name == *name) => {
            let message = format!(
                "the eligibility engine `{name}` of `plugins.engine` is not installed: rules that name no engine cannot be decided"
            );
            Some(Check::problem(PLUGINS, "engine", message, format_args!("{install}, or change `plugins.engine`")))
        }
        (None, []) if found.is_empty() && patient.has_register() => {
            let message = "no plugin is installed yet, and without an eligibility engine no rule can be decided";
            let remedy = format!(
                "start the server: it installs the plugins beside the program, or those of `daftar serve --plugins DIR`; or {install}"
            );
            Some(Check::warning(PLUGINS, "engine", message, remedy))
        }
        (None, []) if patient.has_register() => {
            let message =
                "no eligibility engine is installed: no rule can be decided, and `/health/ready` reports `degraded`";
            Some(Check::problem(PLUGINS, "engine", message, install))
        }
        (None, [_, _, ..]) => {
            let message = "several eligibility engines are installed and none is active: rules that name no engine cannot be decided";
            Some(Check::problem(
                PLUGINS,
                "engine",
                message,
                "name one as `engine` in `[plugins]`, or remove the others",
            ))
        }
        (Some(_) | None, _) => None,
    }
}
