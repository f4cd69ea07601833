//! What can be told of a plugin's file without running anything of it.
//!
//! **Invariant:** nothing of the plugin runs: its manifest and its frames are read, and it is compiled to see how large its machine
//! code is, which is thrown away.

use super::compile::{CompileIn, Compiler};
use super::engine::compiling_engine;
use super::install::{InstallError, InstallStep};
use super::package::{Candidate, Digest, Surface};
use super::signature::{PluginSignature, SignatureProblem, Signer, TrustPolicy, UnsignedPlugins};
use daftar_domain::manifest::PluginManifest;
use daftar_domain::plugin_key::PluginKeyId;

/// What is told of a file whose manifest can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// What it says about itself.
    pub manifest: PluginManifest,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file, in bytes.
    pub size_bytes: usize,
    /// The size of its machine code on this machine, in bytes; none where it is refused.
    pub compiled_bytes: Option<usize>,
    /// What it imports and exports; none where that cannot be read.
    pub surface: Option<Surface>,
    /// Who vouches for it.
    pub signature: SignatureState,
    /// The step before its first call that refuses it, whoever vouches for it.
    pub refusal: Option<InstallError>,
}

/// Who vouches for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignatureState {
    /// A trusted key signed it.
    Signed(PluginKeyId),
    /// This program was built with it.
    Pinned,
    /// It has no signature.
    Unsigned,
    /// A key signed it that is not among the trusted ones, so that it cannot be said whether the signature fits.
    UnknownKey(PluginKeyId),
    /// A trusted key signed it that is limited to other plugins, and to which ones.
    OutsideLimits(PluginKeyId, String),
    /// It has a signature that cannot be read, or that does not fit; and why.
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

    /// The key that signed it, as the signature says.
    #[must_use]
    pub fn key(&self) -> Option<PluginKeyId> {
        match self {
            Self::Signed(key) | Self::UnknownKey(key) | Self::OutsideLimits(key, _) => Some(*key),
            Self::Pinned | Self::Unsigned | Self::Bad(_) => None,
        }
    }

    fn of(candidate: &Candidate, signature: Option<&str>, trust: &TrustPolicy) -> Self {
        let manifest = candidate.manifest();
        let plugin = (&manifest.name, manifest.kind);
        let judged = trust.judge(plugin, candidate.bytes(), candidate.digest(), signature, UnsignedPlugins::Refused);
        match judged {
            Ok(Signer::Key(key)) => Self::Signed(key),
            Ok(Signer::Pinned) => Self::Pinned,
            // The configuration may allow what is unsigned, or signed by somebody unknown.
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
    /// Looks at a file and the line of its `.sig` file, if there is one.
    ///
    /// # Errors
    /// A refusal at one of the steps up to `manifest`: then there is nothing to tell.
    pub fn of(
        bytes: Vec<u8>,
        signature: Option<&str>,
        trust: &TrustPolicy,
        compile_in: &CompileIn,
    ) -> Result<Self, InstallError> {
        let candidate = Candidate::read(bytes)?;
        let manifest = candidate.manifest().clone();
        let (digest, size_bytes, surface) = (candidate.digest(), candidate.bytes().len(), candidate.surface());
        let signature = SignatureState::of(&candidate, signature, trust);
        let (compiled_bytes, refusal) = match compiled_size(candidate, compile_in) {
            Ok(bytes) => (Some(bytes), None),
            Err(refusal) => (None, Some(refusal)),
        };
        Ok(Self { manifest, digest, size_bytes, compiled_bytes, surface, signature, refusal })
    }
}

/// The size of the machine code of a file that passes the checks.
fn compiled_size(candidate: Candidate, compile_in: &CompileIn) -> Result<usize, InstallError> {
    let package = candidate.check()?;
    let failed = |error| InstallError::of(&package.manifest().name, InstallStep::Compile, error);
    let engine = compiling_engine().map_err(failed)?;
    Compiler::new(compile_in.clone(), None).measure(&engine, &package)
}
