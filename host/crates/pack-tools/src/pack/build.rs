//! From a checked source to a component: blob, memory snapshot, wrapping, manifest.

use super::source::PackSource;
use super::{blob, snapshot};
use crate::pack::limits::BLOB_BYTES_MAX;
use daftar_domain::manifest::{PluginManifest, WantedLimit};
use daftar_sandbox::section::{ManifestError, append_manifest};

/// Codes beyond this size do not fit beside the module's own needs into the memory that plugins get by default.
const COMFORTABLE_BLOB_BYTES: usize = 16 << 20;

/// What a pack needs beside its codes: its code, its stack, and a page of concepts on the way out.
const WORKING_MEMORY_BYTES: usize = 32 << 20;

/// Why a sound source could not be made into a pack.
#[derive(Debug, thiserror::Error)]
pub enum PackBuildError {
    /// The codes take more room than a pack may have.
    #[error("the codes take {bytes} bytes in memory; at most {BLOB_BYTES_MAX} are possible")]
    TooLarge {
        /// The room they take.
        bytes: usize,
    },
    /// The module that should hold the codes is not fit for it.
    #[error("the base module cannot be used: {0}")]
    BaseModule(String),
    /// The module could not be wrapped as a component.
    #[error("the pack cannot be wrapped as a component: {0}")]
    NotWrapped(String),
    /// The manifest could not be attached.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Makes a pack of a source and a core module that can hold codes: [`CODELIST_MODULE`](super::CODELIST_MODULE), or another
/// that keeps to the same protocol.
///
/// # Errors
/// See [`PackBuildError`].
pub fn build(source: &PackSource, base_core_module: &[u8]) -> Result<Vec<u8>, PackBuildError> {
    let blob = blob::write(source).map_err(|too_large| PackBuildError::TooLarge { bytes: too_large.bytes })?;
    let core = snapshot::with_blob(base_core_module, &blob)?;
    let component = wrap(&core)?;
    let manifest = with_wanted_memory(source.manifest.clone(), blob.len());
    Ok(append_manifest(&component, &manifest)?)
}

fn wrap(core: &[u8]) -> Result<Vec<u8>, PackBuildError> {
    let encoder = wit_component::ComponentEncoder::default();
    let encoder = encoder.module(core).map_err(|error| PackBuildError::NotWrapped(format!("{error:#}")))?;
    encoder.validate(true).encode().map_err(|error| PackBuildError::NotWrapped(format!("{error:#}")))
}

/// A large pack asks for the memory that it cannot do without.
fn with_wanted_memory(mut manifest: PluginManifest, blob_bytes: usize) -> PluginManifest {
    if blob_bytes > COMFORTABLE_BLOB_BYTES && manifest.limits.memory_bytes.is_none() {
        let reason = format!("its codes alone take {blob_bytes} bytes of its memory");
        let value = blob_bytes.saturating_add(WORKING_MEMORY_BYTES) as u64;
        manifest.limits.memory_bytes = Some(WantedLimit { value, reason });
    }
    manifest
}
