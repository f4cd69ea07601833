//! Packs of installed plugins, and of one that is about to be installed.

use std::sync::Arc;

use super::kept;
use crate::vocabulary_publisher::{PROBLEMS_SHOWN_MAX, Packs, Reasons, gather, in_one_line};
use daftar_domain::deployment::{Deployment, Setting};
use daftar_domain::manifest::PluginManifest;
use daftar_domain::vocabulary::PackContents;
use daftar_sandbox::{InstallError, InstalledPlugin, PluginHost, PluginLibrary, Prepared};
use daftar_vocabulary::{CheckedPack, PackOrigin, check};

/// Reads and checks every installed pack; one that is not sound is logged and left out.
pub(super) fn load_packs(host: &PluginHost, library: &PluginLibrary, deployment: &Deployment) -> (Packs, Reasons) {
    let (mut packs, mut reasons) = (Packs::new(), Reasons::new());
    for installed in library.current().packs() {
        let name = installed.manifest().name.clone();
        let checked = match host.load_pack(installed) {
            Ok(contents) => checked(contents, installed.manifest(), deployment),
            Err(error) => Err(error.to_string()),
        };
        match checked {
            Ok(checked) => drop(packs.insert(name, (origin(installed), checked))),
            Err(reason) => {
                tracing::error!(plugin = %name, reason, "an installed pack is not sound, the rest is served");
                reasons.insert(name, reason);
            }
        }
    }
    (packs, reasons)
}

/// The packs as they would be with a prepared plugin, if what it brings is sound and clashes with none of them; with them what
/// is to be kept of the versions that it replaces. None if nothing about the packs changes.
pub(super) fn with(
    packs: &Packs,
    deployment: &Deployment,
    prepared: &Prepared,
) -> Result<Option<(Packs, Vec<Setting>)>, InstallError> {
    let manifest = prepared.manifest();
    let mut changed = packs.clone();
    let Some(contents) = prepared.contents() else {
        if !manifest.extension_fields.is_empty() {
            return Err(prepared.refuse("only a vocabulary pack adds fields to records".to_owned()));
        }
        let has_replaced_a_pack = changed.remove(&manifest.name).is_some();
        return Ok(has_replaced_a_pack.then_some((changed, Vec::new())));
    };
    let checked = checked(contents.clone(), manifest, deployment).map_err(|reason| prepared.refuse(reason))?;
    let (kept, deployment) = kept::of_replaced(packs, &checked, deployment);
    let checked = Arc::new(CheckedPack::clone(&checked).with_kept(&deployment));
    let origin = PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: prepared.digest().to_string(),
    };
    changed.insert(manifest.name.clone(), (origin, checked));
    let (_, problems) = gather(&changed, &deployment);
    if problems.is_empty() { Ok(Some((changed, kept))) } else { Err(prepared.refuse(in_one_line(&problems))) }
}

fn origin(installed: &InstalledPlugin) -> PackOrigin {
    let manifest = installed.manifest();
    PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: installed.loaded().digest().to_string(),
    }
}

/// A pack as it would be taken up, without what is kept of earlier versions; none when it is not sound.
pub(super) fn checked_pack(contents: PackContents, manifest: &PluginManifest) -> Option<Arc<CheckedPack>> {
    checked(contents, manifest, &Deployment::default()).ok()
}

fn checked(
    contents: PackContents,
    manifest: &PluginManifest,
    deployment: &Deployment,
) -> Result<Arc<CheckedPack>, String> {
    let checked = check(contents).map(|pack| pack.with_extension_fields(&manifest.extension_fields));
    checked.map(|pack| Arc::new(pack.with_kept(deployment))).map_err(|problems| {
        let mut lines: Vec<String> =
            problems.problems().iter().take(PROBLEMS_SHOWN_MAX).map(ToString::to_string).collect();
        let untold = problems.count().saturating_sub(lines.len());
        if untold > 0 {
            lines.push(format!("and {untold} more"));
        }
        lines.join("; ")
    })
}
