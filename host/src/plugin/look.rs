//! What can be told of the installed plugins without loading any: for whoever looks at a folder and changes nothing.

use std::path::Path;

use super::compile::CodeCache;
use super::engine::compiling_engine;
use super::library::{InstalledFile, installed_files};
use super::package::{Candidate, Digest};
use super::signature::{Signer, TrustPolicy, UnsignedPlugins};
use super::wit::InterfaceVersion;
use crate::domain::manifest::{PluginKind, PluginName};

/// An installed plugin, by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginLook {
    /// Its name.
    pub name: PluginName,
    /// What it is for.
    pub kind: PluginKind,
    /// The digest of what was installed.
    pub digest: Digest,
    /// Its file.
    pub file: FileState,
    /// Why nobody vouches for it by the settings of now; nothing where somebody does.
    pub not_vouched_for: Option<String>,
    /// Its machine code.
    pub code: CodeState,
}

/// The file of an installed plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// It is the one that was installed, and this program speaks its interface.
    AsInstalled,
    /// It cannot be read.
    Missing(String),
    /// It is another one, with that digest.
    Changed(Digest),
    /// It is the one that was installed, and this program cannot run it.
    NotSpoken(String),
}

/// The machine code of an installed plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeState {
    /// It is kept for this program.
    Kept,
    /// It is made at the next start.
    NotKept,
}

/// Looks at the plugins that the list in `folder` names, and at the code kept in `code_folder`.
///
/// # Errors
/// The list cannot be read.
pub fn look_at_installed(
    folder: &Path,
    code_folder: &Path,
    trust: &TrustPolicy,
) -> Result<Vec<PluginLook>, std::io::Error> {
    let engine = compiling_engine().ok();
    let look = |installed: InstalledFile| {
        let InstalledFile { name, kind, digest, signer, bytes } = installed;
        let is_kept = engine.as_ref().is_some_and(|engine| CodeCache::is_kept(code_folder, engine, digest));
        PluginLook {
            file: file_state(digest, bytes),
            not_vouched_for: not_vouched_for(signer, digest, trust),
            code: if is_kept { CodeState::Kept } else { CodeState::NotKept },
            name,
            kind,
            digest,
        }
    };
    Ok(installed_files(folder)?.into_iter().map(look).collect())
}

fn file_state(digest: Digest, bytes: Result<Vec<u8>, String>) -> FileState {
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(reason) => return FileState::Missing(reason),
    };
    let found = Digest::of(&bytes);
    if found != digest {
        return FileState::Changed(found);
    }
    match Candidate::read(bytes) {
        Err(error) => FileState::NotSpoken(error.to_string()),
        Ok(candidate) => {
            let wanted = candidate.manifest().interface;
            match InterfaceVersion::of(wanted) {
                Some(_) => FileState::AsInstalled,
                None => FileState::NotSpoken(format!(
                    "it speaks version {wanted} of the interface, and this program {}",
                    spoken_versions().join(" and ")
                )),
            }
        }
    }
}

/// The versions of the plugin interface that this program speaks, the newest first.
#[must_use]
pub fn spoken_versions() -> Vec<String> {
    InterfaceVersion::SPOKEN.iter().map(|version| version.number().to_string()).collect()
}

/// Whether whoever vouched for a plugin when it was installed would do so now.
fn not_vouched_for(signer: Signer, digest: Digest, trust: &TrustPolicy) -> Option<String> {
    let is_pinned = trust.judge(&[], digest, None, UnsignedPlugins::Refused) == Ok(Signer::Pinned);
    match signer {
        _ if is_pinned => None,
        Signer::Key(key) if trust.trusts(key) => None,
        Signer::Key(key) => Some(format!("the key {key} signed it, which is not in `[plugins] trusted_keys`")),
        Signer::Pinned => Some("it came with another release of this program".to_owned()),
        Signer::Unsigned => Some("it was installed without a signature".to_owned()),
        Signer::Unrecorded => Some("it was installed by a version of this program that did not ask".to_owned()),
    }
}
