//! Inspection of plugins without running their code: of a file, and of the installed plugins of a folder, which is not
//! changed.
//!
//! **Invariant:** no code of the plugin runs: its manifest and its sections are read, and it is compiled to determine
//! the size of its machine code, which is discarded.

use std::path::Path;
use std::time::{Duration, Instant};

use super::compile::{CodeCache, CompileIn, Compiler, code_digest};
use super::engine::compiling_engine;
use super::install::{InstallError, InstallStep};
use super::library::{InstalledFile, RecordedPlugin, installed_files};
use super::package::{Candidate, Digest, Surface};
use super::signature::{PluginSignature, SignatureProblem, Signer, TrustPolicy, UnsignedPlugins};
use super::wit::InterfaceVersion;
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};
use daftar_domain::plugin_key::PluginKeyId;

/// The properties of a file with a valid manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its manifest.
    pub manifest: PluginManifest,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file, in bytes.
    pub size_bytes: usize,
    /// The size of its machine code on this machine, in bytes; none if it is rejected.
    pub compiled_bytes: Option<usize>,
    /// The time that its compilation took, with the start of the process that compiles; none if it is rejected.
    pub compile_time: Option<Duration>,
    /// Its imports and exports; none if they cannot be read.
    pub surface: Option<Surface>,
    /// The state of its signature.
    pub signature: SignatureState,
    /// The error of an install before the first call, signatures aside.
    pub refusal: Option<InstallError>,
}

/// The state of the signature of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureState {
    /// A trusted key signed it.
    Signed(PluginKeyId),
    /// Its digest was pinned when this program was built.
    Pinned,
    /// It has no signature.
    Unsigned,
    /// Its key is not trusted, so the signature cannot be verified.
    UnknownKey(PluginKeyId),
    /// Its key is trusted for other plugins only, with those plugins.
    OutsideLimits(PluginKeyId, String),
    /// The signature is malformed or does not match, with the reason.
    Bad(String),
}

impl SignatureState {
    /// Its stable name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Signed(_) => "signed",
            Self::Pinned => "pinned",
            Self::Unsigned => "unsigned",
            Self::UnknownKey(_) => "unknown_key",
            Self::OutsideLimits(..) => "outside_limits",
            Self::Bad(_) => "bad",
        }
    }

    /// The id of the key that the signature claims.
    #[must_use]
    pub fn key(&self) -> Option<PluginKeyId> {
        match self {
            Self::Signed(key) | Self::UnknownKey(key) | Self::OutsideLimits(key, _) => Some(*key),
            Self::Pinned | Self::Unsigned | Self::Bad(_) => None,
        }
    }

    fn of(candidate: &Candidate, signature: Option<&str>, trust: &TrustPolicy) -> Self {
        let manifest = &candidate.manifest;
        let plugin = (&manifest.name, manifest.kind);
        let judged = trust.signer_of(plugin, &candidate.bytes, candidate.digest, signature, UnsignedPlugins::Refused);
        match judged {
            Ok(Signer::Key(key)) => Self::Signed(key),
            Ok(Signer::Pinned) => Self::Pinned,
            // The configuration may allow unsigned plugins and unknown keys.
            Ok(Signer::Unsigned | Signer::Unrecorded) => {
                let key = signature.and_then(|text| PluginSignature::parse(text).ok()).map(|signature| signature.key());
                key.map_or(Self::Unsigned, Self::UnknownKey)
            }
            Err(SignatureProblem::Unsigned { .. }) => Self::Unsigned,
            Err(SignatureProblem::UnknownKey { key, .. }) => Self::UnknownKey(key),
            Err(SignatureProblem::OutsideLimits { key, limits, .. }) => Self::OutsideLimits(key, limits),
            Err(problem @ (SignatureProblem::Malformed { .. } | SignatureProblem::Mismatch { .. })) => {
                Self::Bad(problem.to_string())
            }
        }
    }
}

impl Inspection {
    /// Inspects a file and the line of its `.sig` file, if there is one.
    ///
    /// # Errors
    /// An error at one of the steps up to `manifest`: then there are no properties.
    pub fn of(
        bytes: Vec<u8>,
        signature: Option<&str>,
        trust: &TrustPolicy,
        compile_in: &CompileIn,
    ) -> Result<Self, InstallError> {
        let candidate = Candidate::read(bytes)?;
        let manifest = candidate.manifest.clone();
        let (digest, size_bytes, surface) = (candidate.digest, candidate.bytes.len(), candidate.surface());
        let signature = SignatureState::of(&candidate, signature, trust);
        let (compiled, refusal) = match compile(candidate, compile_in) {
            Ok(compiled) => (Some(compiled), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let (compiled_bytes, compile_time) = compiled.unzip();
        Ok(Self { manifest, digest, size_bytes, compiled_bytes, compile_time, surface, signature, refusal })
    }
}

/// Compiles a file that passes the checks. Returns the size of its machine code, and the time that it took.
fn compile(candidate: Candidate, compile_in: &CompileIn) -> Result<(usize, Duration), InstallError> {
    let package = candidate.check()?;
    let failed = |error| InstallError::of(&package.manifest.name, InstallStep::Compile, error);
    let engine = compiling_engine().map_err(failed)?;
    let started = Instant::now();
    let bytes = Compiler::new(compile_in.clone(), None).measure(&engine, &package)?;
    Ok((bytes, started.elapsed()))
}

/// An installed plugin and the state of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedPlugin {
    /// Its name.
    pub name: PluginName,
    /// Its kind.
    pub kind: PluginKind,
    /// The digest recorded at its install.
    pub digest: Digest,
    /// The state of its file.
    pub file: FileState,
    /// The reason why the current policy does not trust it, if it does not.
    pub untrusted: Option<String>,
    /// True if its machine code is cached for this program; otherwise it is compiled at the next start.
    pub is_code_cached: bool,
}

/// The state of the file of an installed plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// It has the recorded digest, and this program supports its interface.
    AsInstalled,
    /// It cannot be read.
    Missing(String),
    /// It has another digest, which is this one.
    Changed(Digest),
    /// It has the recorded digest, and this program cannot run it.
    Unsupported(String),
}

/// Inspects the plugins that the list in `folder` names, and the code cached in `code_folder`.
///
/// # Errors
/// The list cannot be read.
pub fn inspect_installed(
    folder: &Path,
    code_folder: &Path,
    trust: &TrustPolicy,
) -> Result<Vec<InspectedPlugin>, std::io::Error> {
    let engine = compiling_engine().ok();
    let look = |installed: InstalledFile| {
        let untrusted = untrusted(&installed, trust);
        let InstalledFile { name, record: RecordedPlugin { kind, digest, .. }, bytes } = installed;
        let candidate = bytes.clone().ok().and_then(|bytes| Candidate::read(bytes).ok());
        let code = candidate.map_or(digest, |candidate| code_digest(&candidate));
        InspectedPlugin {
            is_code_cached: engine.as_ref().is_some_and(|engine| CodeCache::is_cached(code_folder, engine, code)),
            file: file_state(digest, bytes),
            untrusted,
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
        Err(error) => FileState::Unsupported(error.to_string()),
        Ok(candidate) => {
            let wanted = candidate.manifest.interface;
            match InterfaceVersion::of(wanted) {
                Some(_) => FileState::AsInstalled,
                None => FileState::Unsupported(format!(
                    "it uses version {wanted} of the plugin interface; this program supports {}",
                    supported_versions().join(" and ")
                )),
            }
        }
    }
}

/// The supported versions of the plugin interface, newest first.
#[must_use]
pub fn supported_versions() -> Vec<String> {
    InterfaceVersion::SUPPORTED.iter().map(|version| version.number.to_string()).collect()
}

/// Returns the reason why the current policy does not accept an installed plugin; including plugins that another
/// release of this program provided, and plugins that an administrator installed as unsigned.
fn untrusted(installed: &InstalledFile, trust: &TrustPolicy) -> Option<String> {
    let InstalledFile { name, record: RecordedPlugin { kind, digest, signer, signature, .. }, bytes } = installed;
    // A signature can be verified only if the file is present and unchanged.
    let is_there = bytes.as_ref().is_ok_and(|bytes| Digest::of(bytes) == *digest);
    let (bytes, signature) = match bytes {
        Ok(bytes) if is_there => (bytes.as_slice(), signature.as_deref()),
        Ok(_) | Err(_) => (&[][..], None),
    };
    let judged = trust.signer_of((name, *kind), bytes, *digest, signature, UnsignedPlugins::Refused);
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
