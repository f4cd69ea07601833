//! A plugin on its way in: as it is handed in, and as it is once it passed every step.

use std::sync::Arc;

use jiff::Timestamp;

use super::records::RecordedPlugin;
use crate::install::{InstallError, InstallStep, LoadedPlugin};
use crate::package::Digest;
use crate::signature::{Signer, UnsignedPlugins};
use crate::{MachineCode, PackContents, PluginManifest};

/// Whether an older version than the installed one is installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Downgrade {
    /// It is refused.
    #[default]
    Refused,
    /// It is installed.
    Allowed,
}

/// A plugin's file as it is handed in.
#[derive(Debug, Clone)]
pub struct PluginOffer {
    /// The file.
    pub bytes: Vec<u8>,
    /// The line of its `.sig` file, if there is one.
    pub signature: Option<String>,
    /// Whether it is installed when nobody vouches for it, whatever the configuration says.
    pub unsigned: UnsignedPlugins,
    /// Whether it is installed when it is older than the installed version.
    pub downgrade: Downgrade,
}

impl From<Vec<u8>> for PluginOffer {
    /// A file without a signature.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, signature: None, unsigned: UnsignedPlugins::Refused, downgrade: Downgrade::Refused }
    }
}

/// A plugin that passed every step and is not installed yet.
#[derive(Debug)]
pub struct Prepared {
    pub(super) loaded: Arc<LoadedPlugin>,
    pub(super) signer: Signer,
    pub(super) signature: Option<String>,
    /// Whether it is unsigned, and was handed in with the permission for that.
    pub(super) is_excused: bool,
    pub(super) contents: Option<PackContents>,
    pub(super) bytes: Vec<u8>,
    /// Its machine code, where it is to be kept once the plugin is installed.
    pub(super) code: Option<MachineCode>,
}

impl Prepared {
    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.loaded.manifest()
    }

    /// Digest of its file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.loaded.digest()
    }

    /// Its name, version and digest, as the audit log names it.
    #[must_use]
    pub fn reference(&self) -> String {
        self.loaded.reference()
    }

    /// Who vouches for it.
    #[must_use]
    pub fn signer(&self) -> Signer {
        self.signer
    }

    /// What the list of installed plugins records of it.
    pub(super) fn record(&self, now: Timestamp) -> RecordedPlugin {
        let manifest = self.manifest();
        RecordedPlugin {
            version: manifest.version,
            kind: manifest.kind,
            digest: self.digest(),
            signer: self.signer,
            signature: self.signature.clone(),
            is_excused: self.is_excused,
            installed_at: now,
        }
    }

    /// Its file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it brings, if it is a pack: read from it, not yet checked against anything.
    #[must_use]
    pub fn contents(&self) -> Option<&PackContents> {
        self.contents.as_ref()
    }

    /// Refuses it for being older than what is installed.
    #[must_use]
    pub fn refuse_downgrade(&self, reason: impl std::fmt::Display) -> InstallError {
        InstallError::of(&self.manifest().name, InstallStep::Downgrade, reason)
    }

    /// Refuses it for what it brings.
    #[must_use]
    pub fn refuse(&self, reason: impl std::fmt::Display) -> InstallError {
        InstallError::of(&self.manifest().name, InstallStep::Content, reason)
    }
}

/// Has its say on what a plugin brings before it is installed; the error is the reason for a refusal.
pub type Accept<'a> = dyn Fn(&Prepared) -> Result<(), String> + 'a;
