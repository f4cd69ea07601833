//! Installed plugins, by their files: what was installed is what is there, somebody vouches for it, and this program can run it.

use super::Patient;
use crate::app::PLUGINS_FOLDER;
use crate::app::open::trust;
use daftar_domain::checkup::{Check, CheckArea};
use daftar_domain::manifest::PluginKind;
use daftar_sandbox::{CodeState, FileState, PluginLook, look_at_installed};

const AREA: CheckArea = CheckArea::Plugins;

/// Looks at the list and every file that it names.
pub(super) fn examine(patient: &Patient) -> Vec<Check> {
    let folder = patient.data_dir.join(PLUGINS_FOLDER);
    if !folder.is_dir() {
        return Vec::new();
    }
    let trust = trust(&patient.config.plugins, patient.pinned.clone());
    let found = match look_at_installed(&folder, &patient.data_dir.join("compiled"), &trust) {
        Ok(found) => found,
        Err(reason) => {
            let message =
                format!("the list of installed plugins in {} cannot be used: {reason}", Patient::shown(&folder));
            let remedy = "put the folder back from a backup (`daftar restore` into another folder brings it); no server starts with it";
            return vec![Check::problem(AREA, "list", message, remedy)];
        }
    };
    let mut checks: Vec<Check> = found.iter().flat_map(|plugin| plugin_checks(patient, plugin)).collect();
    let broken = checks.len();
    checks.extend(engine(patient, &found));
    if broken == 0 && !found.is_empty() {
        let count = found.len();
        checks.push(Check::ok(
            AREA,
            "files",
            format_args!("{count} plugins are installed, their files as they were, each vouched for"),
        ));
    }
    checks
}

/// What is wrong with one plugin; nothing where nothing is.
fn plugin_checks(patient: &Patient, plugin: &PluginLook) -> Vec<Check> {
    let (name, data_dir) = (&plugin.name, patient.data_dir.display());
    let again = format!("install it again: `daftar plugin install FILE --data-dir {data_dir}`");
    let mut checks = Vec::new();
    match &plugin.file {
        FileState::AsInstalled => {}
        FileState::Missing(reason) => {
            let message = format!("the file of the plugin `{name}` cannot be read: {reason}");
            checks.push(Check::problem(AREA, "files", message, &again));
        }
        FileState::Changed(digest) => {
            let message = format!(
                "the file of the plugin `{name}` is not the one that was installed: it has the digest {digest}, and {} was installed",
                plugin.digest
            );
            let remedy = format!("find out who changed it; then {again}");
            checks.push(Check::problem(AREA, "files", message, remedy));
        }
        FileState::NotSpoken(reason) => {
            let message = format!("the plugin `{name}` cannot be run by this program: {reason}");
            let remedy = format!("get a version of it for this program, and {again}");
            checks.push(Check::problem(AREA, "interface", message, remedy));
        }
    }
    if let Some(reason) = &plugin.not_vouched_for {
        let message = format!("nobody vouches for the plugin `{name}` now: {reason}");
        let remedy = format!(
            "get its `.sig` file and add the key to `[plugins] trusted_keys`, then install it again; or take it out: `daftar plugin remove {name} --data-dir {data_dir}`"
        );
        checks.push(Check::warning(AREA, "signature", message, remedy));
    }
    // A server has its code in memory, whatever is kept.
    if plugin.code == CodeState::NotKept && !patient.is_server() && plugin.file == FileState::AsInstalled {
        let message = format!(
            "no compiled code of the plugin `{name}` is kept for this program: the next start compiles it, some seconds each"
        );
        checks.push(Check::ok(AREA, "compiled", message));
    }
    checks
}

fn engine(patient: &Patient, found: &[PluginLook]) -> Option<Check> {
    let engines: Vec<&PluginLook> =
        found.iter().filter(|plugin| plugin.kind == PluginKind::EligibilityEngine).collect();
    let wanted = patient.config.plugins.engine.as_ref();
    let install = format!("`daftar plugin install FILE --data-dir {}`", patient.data_dir.display());
    match (wanted, engines.as_slice()) {
        (Some(name), engines) if !engines.iter().any(|engine| engine.name == *name) => {
            let message =
                format!("the eligibility engine `{name}` of `plugins.engine` is not installed: no rule can be decided");
            Some(Check::problem(AREA, "engine", message, format_args!("{install}, or change `plugins.engine`")))
        }
        (None, []) if found.is_empty() && patient.has_register() => {
            let message = "no plugin is installed yet, and without an eligibility engine no rule can be decided";
            let remedy = format!(
                "start the server: it installs the plugins beside the program, or those of `daftar serve --plugins DIR`; or {install}"
            );
            Some(Check::warning(AREA, "engine", message, remedy))
        }
        (None, []) if patient.has_register() => {
            let message = "no eligibility engine is installed: no rule can be decided, and the server does not say that it is ready";
            Some(Check::problem(AREA, "engine", message, install))
        }
        (None, [_, _, ..]) => {
            let message = "several eligibility engines are installed, and none of them serves";
            Some(Check::problem(AREA, "engine", message, "name one as `engine` in `[plugins]`, or remove the others"))
        }
        (Some(_) | None, _) => None,
    }
}
