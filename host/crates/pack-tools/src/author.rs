//! Makes plugins of core modules, for authors of plugins.

mod interface;

use crate::pack::snapshot;
use daftar_domain::manifest::PluginManifest;
use daftar_sandbox::section::{ManifestError, append_manifest};

/// Why a core module could not be made into a plugin.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// Its initialisation failed.
    #[error("the module cannot be initialised: {0}")]
    Initialisation(String),
    /// It does not keep to the plugin interface.
    #[error("the module cannot be wrapped as a component: {0}")]
    Component(String),
    /// The manifest cannot be attached.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Makes a plugin of a core module that was compiled against the plugin interface: a component with its manifest.
///
/// Where the module exports [`INITIALISE_EXPORT`](crate::pack::INITIALISE_EXPORT), that function is run here, once, and the memory that it
/// leaves becomes the initial memory: what a plugin would otherwise build at the start of each instance it has from the
/// beginning. A module that does not say itself which interface it was made for, as one in C does not, was made for the one that
/// the manifest names. The same module gives the same bytes on every machine.
///
/// # Errors
/// The module is not sound, its initialisation fails, or it does not keep to the interface.
pub fn wrap(core: &[u8], manifest: &PluginManifest) -> Result<Vec<u8>, WrapError> {
    let initialised = snapshot::initialised(core).map_err(|error| WrapError::Initialisation(error.to_string()))?;
    let core = initialised.as_deref().unwrap_or(core);
    let described = interface::described(core, manifest).map_err(WrapError::Component)?;
    let core = described.as_deref().unwrap_or(core);
    let refused = |error: &dyn std::fmt::Display| WrapError::Component(format!("{error:#}"));
    let encoder = wit_component::ComponentEncoder::default();
    let encoder = encoder.module(core).map_err(|error| refused(&format_args!("{error:#}")))?;
    let component = encoder.validate(true).encode().map_err(|error| refused(&format_args!("{error:#}")))?;
    Ok(append_manifest(&component, manifest)?)
}
