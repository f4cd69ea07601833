//! What can be told of the installed plugins without loading any: for whoever looks at a folder and changes nothing.

use std::path::Path;

use super::compile::CodeCache;
use super::engine::compiling_engine;
use super::library::{InstalledFile, RecordedPlugin, installed_files};
use super::package::{Candidate, Digest};
use super::signature::{SignatureProblem, Signer, TrustPolicy, UnsignedPlugins};
use super::wit::InterfaceVersion;
use daftar_domain::manifest::{PluginKind, PluginName};

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
        let not_vouched_for = not_vouched_for(&installed, trust);
        let InstalledFile { name, record: RecordedPlugin { kind, digest, .. }, bytes } = installed;
        let is_kept = engine.as_ref().is_some_and(|engine| CodeCache::is_kept(code_folder, engine, digest));
        PluginLook {
            file: file_state(digest, bytes),
            not_vouched_for,
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

/// Why the policy of now does not accept a plugin that was installed; one that another release of this program brought, or that an
/// administrator installed as unsigned, is named too.
fn not_vouched_for(installed: &InstalledFile, trust: &TrustPolicy) -> Option<String> {
    let InstalledFile { name, record: RecordedPlugin { kind, digest, signer, signature, .. }, bytes } = installed;
    // A signature is of a file: where that is another one or is not there, only what is said without it can be told.
    let is_there = bytes.as_ref().is_ok_and(|bytes| Digest::of(bytes) == *digest);
    let (bytes, signature) = match bytes {
        Ok(bytes) if is_there => (bytes.as_slice(), signature.as_deref()),
        Ok(_) | Err(_) => (&[][..], None),
    };
    let judged = trust.judge((name, *kind), bytes, *digest, signature, UnsignedPlugins::Refused);
    match (judged, signer) {
        (Ok(Signer::Key(_) | Signer::Pinned), _) => None,
        (Err(_), Signer::Pinned) => Some("it came with another release of this program".to_owned()),
        (Ok(Signer::Unsigned | Signer::Unrecorded), _) | (Err(SignatureProblem::Unsigned { .. }), Signer::Unsigned) => {
            Some("it was installed without a signature".to_owned())
        }
        (Err(_), Signer::Key(_)) if !is_there => None,
        (Err(problem), Signer::Key(_) | Signer::Unsigned | Signer::Unrecorded) => Some(problem.to_string()),
    }
}
