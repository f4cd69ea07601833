//! Makes plugins of core modules, for authors of plugins.
//!
//! The bindings of Rust leave a custom section in a module that says which world it was made for. A compiler without support for
//! components leaves none; the manifest says then which world it is, and the names of its exports must be those of that world.

use wasmparser::{Parser, Payload};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve, SourceMap};

use crate::pack;
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
    let initialised = pack::initialised(core).map_err(|error| WrapError::Initialisation(error.to_string()))?;
    let core = initialised.as_deref().unwrap_or(core);
    let described = described(core, manifest).map_err(WrapError::Component)?;
    let core = described.as_deref().unwrap_or(core);
    let component = pack::component(core).map_err(WrapError::Component)?;
    Ok(append_manifest(&component, manifest)?)
}

/// The version of the interface below.
const VERSION: &str = "0.1.0";
/// How the sections begin that tell a module's world.
const SECTION: &str = "component-type";

macro_rules! interface {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../wit/daftar-plugin/0.1.0/", $file)))),+]
    };
}

/// The interface's files.
const INTERFACE: &[(&str, &str)] =
    interface!["columns.wit", "eligibility.wit", "log.wit", "schema.wit", "vocabulary.wit", "worlds.wit"];

/// The module with its world in it; `None` where it says so already.
///
/// # Errors
/// A sentence, where it is no module, or the manifest names an interface that this program does not bring.
fn described(core: &[u8], manifest: &PluginManifest) -> Result<Option<Vec<u8>>, String> {
    for payload in Parser::new(0).parse_all(core) {
        match payload.map_err(|error| format!("it is not WebAssembly: {error}"))? {
            Payload::CustomSection(section) if section.name().starts_with(SECTION) => return Ok(None),
            _ => {}
        }
    }
    if manifest.interface.to_string() != VERSION {
        return Err(format!(
            "the module does not say which interface it was made for, and the manifest says {}: this program brings {VERSION}",
            manifest.interface
        ));
    }
    let mut resolve = Resolve::default();
    let package = package(&mut resolve).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], Some(manifest.kind.as_str())).map_err(|error| format!("{error:#}"))?;
    let mut module = core.to_vec();
    let embedded = embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8);
    embedded.map_err(|error| format!("{error:#}"))?;
    Ok(Some(module))
}

fn package(resolve: &mut Resolve) -> Result<PackageId, String> {
    let mut files = SourceMap::default();
    for (file, text) in INTERFACE {
        files.push_str(file, *text);
    }
    let group = files.parse().map_err(|(_, error)| error.to_string())?;
    resolve.push_group(group).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::wrap;
    use daftar_domain::manifest::PluginKind;
    use daftar_sandbox::testing::guest;

    /// A pack without a vocabulary, as a compiler that knows nothing of components would leave it.
    const MODULE: &str = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "daftar:plugin/vocabulary@0.1.0#describe") (result i32) i32.const 0)
        (func (export "daftar:plugin/vocabulary@0.1.0#concept-groups") (result i32) i32.const 0)
        (func (export "daftar:plugin/vocabulary@0.1.0#concepts") (param i32 i32 i32 i32) (result i32) i32.const 0)
        (func (export "daftar:plugin/vocabulary@0.1.0#resolve") (param i32 i32 i32 i32) (result i32) i32.const 0))"#;

    #[test]
    fn a_module_that_names_no_interface_is_wrapped_by_its_manifest() {
        let module = wat::parse_str(MODULE).unwrap();
        let manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        assert!(wrap(&module, &manifest).is_ok());
        assert_eq!(wrap(&module, &manifest).unwrap(), wrap(&module, &manifest).unwrap(), "the same bytes");
    }

    #[test]
    fn what_does_not_keep_to_the_interface_is_refused_with_the_function() {
        let manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        let refused = |text: &str| wrap(&wat::parse_str(text).unwrap(), &manifest).unwrap_err().to_string();
        let missing = refused(&MODULE.replace("0#resolve", "0#dissolve"));
        assert!(missing.contains("resolve"), "{missing}");
        let other = refused(
            &MODULE.replace("(param i32 i32 i32 i32) (result i32) i32.const 0))", "(result i32) i32.const 0))"),
        );
        assert!(other.contains("resolve"), "{other}");
        let engine = guest::manifest("test", "1.0.0", PluginKind::EligibilityEngine);
        let refused = wrap(&wat::parse_str(MODULE).unwrap(), &engine).unwrap_err().to_string();
        assert!(refused.contains("daftar:plugin"), "{refused}");
    }

    #[test]
    fn an_interface_that_is_not_brought_is_named() {
        let mut manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        manifest.interface = "0.9.0".parse().unwrap();
        let refused = wrap(&wat::parse_str(MODULE).unwrap(), &manifest).unwrap_err().to_string();
        assert!(refused.contains("the manifest says 0.9.0: this program brings 0.1.0"), "{refused}");
        assert!(super::described(b"\0asm?", &manifest).unwrap_err().contains("is not WebAssembly"));
    }
}
