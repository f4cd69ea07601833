//! From a guest's core module to a plugin: a component with its manifest in a custom section.

use std::path::Path;

use serde_json::Value;
use wasm_encoder::ComponentSection;

use crate::failure::Failure;
use crate::files;

/// The custom section that the server reads the manifest from.
const MANIFEST_SECTION: &str = "daftar:manifest";

/// Wraps the core module in `module` and leaves the plugin in `plugin`.
pub fn wrap(module: &Path, manifest: &Value, plugin: &Path) -> Result<(), Failure> {
    let core = files::read(module)?;
    let component = wit_component::ComponentEncoder::default()
        .module(&core)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|error| Failure::file(module, format!("it cannot be wrapped as a component: {error:#}")))?;
    files::write_if_changed(plugin, &with_manifest(component, manifest)?)
}

fn with_manifest(mut component: Vec<u8>, manifest: &Value) -> Result<Vec<u8>, Failure> {
    let json = serde_json::to_vec(manifest).map_err(|error| Failure::new(format!("a manifest: {error}")))?;
    let section = wasm_encoder::CustomSection { name: MANIFEST_SECTION.into(), data: json.as_slice().into() };
    section.append_to_component(&mut component);
    Ok(component)
}

/// A manifest written as TOML, with the keys that the JSON has.
pub fn read_manifest(file: &Path) -> Result<Value, Failure> {
    toml::from_str(&files::read_text(file)?).map_err(|error| Failure::file(file, error))
}
