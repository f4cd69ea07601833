//! Builds plugins from core modules and components, for authors of plugins.
//!
//! Rust bindings leave a custom section in a module that names its WIT world. A compiler without component support
//! leaves none; then the manifest determines the world, and the module must use its export names.

use std::collections::BTreeMap;
use std::str::FromStr;

use wasm_encoder::reencode::{Reencode as _, RoundtripReencoder};
use wasm_encoder::{ExportSection, Module, RawSection};
use wasmparser::{ExportSectionReader, Parser, Payload};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve, SourceMap};

use crate::pack;
use crate::scaffold::{INTERFACE, VERSION};
use daftar_domain::manifest::PluginManifest;
use daftar_sandbox::section::{ManifestError, append_manifest};

/// An export of a core module and its new name, for compilers that cannot write the names of the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportName {
    /// The name in the module.
    pub from: String,
    /// The name in the interface.
    pub to: String,
}

impl FromStr for ExportName {
    type Err = String;

    /// Parses `FROM=TO`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                Ok(Self { from: from.to_owned(), to: to.to_owned() })
            }
            _ => Err("write it as MODULE_EXPORT=INTERFACE_EXPORT".to_owned()),
        }
    }
}

/// The reason why a plugin could not be built from a module or a component.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// An export to rename is missing, or the names collide.
    #[error("its exports cannot be renamed: {0}")]
    Export(String),
    /// It imports functions of a system or a runtime.
    #[error(
        "it imports {0}, which no server grants; a plugin may import `daftar:plugin/log@{VERSION}` alone: \
         compile it without WASI and without the functions of a runtime"
    )]
    Imports(String),
    /// The initialisation of the module failed.
    #[error("the module cannot be initialised: {0}")]
    Initialisation(String),
    /// The module does not match the plugin interface.
    #[error("the module cannot be wrapped as a component: {0}")]
    Component(String),
    /// The manifest cannot be attached.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Builds a plugin from a core module that was compiled against the plugin interface: a component with its manifest. A
/// component only gets the manifest.
///
/// Exports of a module are renamed first. If the module exports [`INITIALISE_EXPORT`](crate::pack::INITIALISE_EXPORT),
/// that function runs once here, and its memory becomes the initial memory of each instance. A module without a section
/// that names its interface, such as one in C, is wrapped for the interface of its kind in the manifest. The output is
/// reproducible on every machine.
///
/// # Errors
/// The file is invalid, an export to rename is missing, the initialisation fails, or the module does not match the
/// interface.
pub fn wrap(file: &[u8], exports: &[ExportName], manifest: &PluginManifest) -> Result<Vec<u8>, WrapError> {
    if Parser::is_component(file) {
        if let Some(ExportName { from, .. }) = exports.first() {
            return Err(WrapError::Export(format!("it is a component, whose exports are already named (`{from}`)")));
        }
        return Ok(append_manifest(file, manifest)?);
    }
    let renamed = if exports.is_empty() { None } else { Some(renamed(file, exports).map_err(WrapError::Export)?) };
    let core = renamed.as_deref().unwrap_or(file);
    check_imports(core)?;
    let initialised = pack::initialised(core).map_err(|error| WrapError::Initialisation(error.to_string()))?;
    let core = initialised.as_deref().unwrap_or(core);
    let described = described(core, manifest).map_err(WrapError::Component)?;
    let core = described.as_deref().unwrap_or(core);
    let component = pack::component(core).map_err(WrapError::Component)?;
    Ok(append_manifest(&component, manifest)?)
}

/// Rejects imports that are not of the component model, such as `wasi_snapshot_preview1`, and names all of them. Imports
/// of other interfaces are listed at an install.
fn check_imports(core: &[u8]) -> Result<(), WrapError> {
    let mut foreign: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for payload in Parser::new(0).parse_all(core) {
        // An invalid module is reported by a later step.
        let Ok(Payload::ImportSection(imports)) = payload else { continue };
        for import in imports.into_imports().flatten() {
            if !import.module.contains(':') && import.module != ROOT {
                foreign.entry(import.module.to_owned()).or_default().push(import.name.to_owned());
            }
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    let module = |(module, names): (&String, &Vec<String>)| {
        let shown: Vec<&str> = names.iter().map(String::as_str).take(NAMES_LISTED_MAX).collect();
        let more = if names.len() > shown.len() { " and others" } else { "" };
        format!("`{module}` ({}{more})", shown.join(", "))
    };
    Err(WrapError::Imports(foreign.iter().map(module).collect::<Vec<_>>().join(", ")))
}

/// Renames exports of a module; all other sections are unchanged.
fn renamed(core: &[u8], names: &[ExportName]) -> Result<Vec<u8>, String> {
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload.map_err(|error| format!("it is not WebAssembly: {error}"))?;
        if let Payload::ExportSection(exports) = payload {
            module.section(&renamed_exports(exports, names)?);
        } else if let Some((id, range)) = payload.as_section() {
            let data = core.get(range).ok_or("a section lies outside of the file")?;
            module.section(&RawSection { id, data });
        }
    }
    Ok(module.finish())
}

fn renamed_exports(exports: ExportSectionReader<'_>, names: &[ExportName]) -> Result<ExportSection, String> {
    let exports: Vec<_> = exports.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let has = |name: &str| exports.iter().any(|export| export.name == name);
    for ExportName { from, to } in names {
        if !has(from) {
            let there: Vec<&str> = exports.iter().map(|export| export.name).take(NAMES_LISTED_MAX).collect();
            return Err(format!("there is no export `{from}`; there are {}", there.join(", ")));
        }
        if has(to) || names.iter().filter(|other| other.to == *to).count() > 1 {
            return Err(format!("two exports would have the name `{to}`"));
        }
    }
    let mut section = ExportSection::new();
    for export in exports {
        let new = names.iter().find(|name| name.from == export.name).map_or(export.name, |name| name.to.as_str());
        let kind = RoundtripReencoder.export_kind(export.kind).map_err(|error| error.to_string())?;
        section.export(new, kind, export.index);
    }
    Ok(section)
}

/// The most exports, or imports of one module, that a message lists.
const NAMES_LISTED_MAX: usize = 20;
/// The import module of functions that belong to a world itself.
const ROOT: &str = "$root";

/// The prefix of the custom sections that name a module's world.
const SECTION: &str = "component-type";

/// Adds the section that names the world to a module; `None` if it has one.
///
/// # Errors
/// A sentence if it is not a module, or the manifest names an unsupported interface.
fn described(core: &[u8], manifest: &PluginManifest) -> Result<Option<Vec<u8>>, String> {
    for payload in Parser::new(0).parse_all(core) {
        match payload.map_err(|error| format!("it is not WebAssembly: {error}"))? {
            Payload::CustomSection(section) if section.name().starts_with(SECTION) => return Ok(None),
            _ => {}
        }
    }
    if manifest.interface.to_string() != VERSION {
        return Err(format!(
            "the module does not name its interface, and the manifest names {}: this program supports {VERSION}",
            manifest.interface
        ));
    }
    let mut resolve = Resolve::default();
    let package = package(&mut resolve).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], Some(manifest.kind.name())).map_err(|error| format!("{error:#}"))?;
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
    use super::{ExportName, wrap};
    use daftar_domain::manifest::PluginKind;
    use daftar_sandbox::testing::guest;

    /// A pack without a vocabulary, like the output of a compiler without component support.
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
        assert!(wrap(&module, &[], &manifest).is_ok());
        assert_eq!(wrap(&module, &[], &manifest).unwrap(), wrap(&module, &[], &manifest).unwrap(), "the same bytes");
    }

    #[test]
    fn a_module_that_does_not_match_the_interface_is_rejected_with_the_function() {
        let manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        let refused = |text: &str| wrap(&wat::parse_str(text).unwrap(), &[], &manifest).unwrap_err().to_string();
        let missing = refused(&MODULE.replace("0#resolve", "0#dissolve"));
        assert!(missing.contains("resolve"), "{missing}");
        let other = refused(
            &MODULE.replace("(param i32 i32 i32 i32) (result i32) i32.const 0))", "(result i32) i32.const 0))"),
        );
        assert!(other.contains("resolve"), "{other}");
        let engine = guest::manifest("test", "1.0.0", PluginKind::EligibilityEngine);
        let refused = wrap(&wat::parse_str(MODULE).unwrap(), &[], &engine).unwrap_err().to_string();
        assert!(refused.contains("daftar:plugin"), "{refused}");
    }

    #[test]
    fn imports_of_a_system_are_rejected_and_all_are_named() {
        let manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        let imports = r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "clock_time_get" (func (param i32 i64 i32) (result i32)))
            (import "env" "abort" (func))"#;
        let module = wat::parse_str(MODULE.replace("(module", imports)).unwrap();
        let refused = wrap(&module, &[], &manifest).unwrap_err().to_string();
        assert!(refused.contains("`env` (abort), `wasi_snapshot_preview1` (fd_write, clock_time_get)"), "{refused}");
        assert!(refused.contains("`daftar:plugin/log@0.1.0` alone"), "{refused}");
        let log = r#"(module (import "daftar:plugin/log@0.1.0" "write" (func (param i32 i32 i32)))"#;
        assert!(wrap(&wat::parse_str(MODULE.replace("(module", log)).unwrap(), &[], &manifest).is_ok());
    }

    #[test]
    fn an_unsupported_interface_is_named() {
        let mut manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        manifest.interface = "0.9.0".parse().unwrap();
        let refused = wrap(&wat::parse_str(MODULE).unwrap(), &[], &manifest).unwrap_err().to_string();
        assert!(refused.contains("the manifest names 0.9.0: this program supports 0.1.0"), "{refused}");
        assert!(super::described(b"\0asm?", &manifest).unwrap_err().contains("is not WebAssembly"));
    }

    #[test]
    fn exports_are_renamed_and_an_unknown_name_is_an_error() {
        let manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        let short = wat::parse_str(MODULE.replace("daftar:plugin/vocabulary@0.1.0#", "")).unwrap();
        let name = |function: &str| ExportName {
            from: function.to_owned(),
            to: format!("daftar:plugin/vocabulary@0.1.0#{function}"),
        };
        let names = ["describe", "concept-groups", "concepts", "resolve"].map(name);
        let whole = wrap(&wat::parse_str(MODULE).unwrap(), &[], &manifest).unwrap();
        assert_eq!(wrap(&short, &names, &manifest).unwrap(), whole);
        let missing = wrap(&short, &[name("dissolve")], &manifest).unwrap_err().to_string();
        assert!(missing.contains("no export `dissolve`; there are memory, cabi_realloc, describe"), "{missing}");
        let twice = [name("describe"), ExportName { from: "resolve".into(), to: name("describe").to }];
        let twice = wrap(&short, &twice, &manifest).unwrap_err().to_string();
        assert!(twice.contains("two exports would have the name"), "{twice}");
        assert_eq!("a=b#c".parse(), Ok(ExportName { from: "a".into(), to: "b#c".into() }));
        assert!("a=".parse::<ExportName>().is_err());
    }

    #[test]
    fn a_component_only_gets_the_manifest() {
        let manifest = guest::manifest("test", "1.0.0", PluginKind::VocabularyPack);
        let component =
            crate::pack::component(&super::described(&wat::parse_str(MODULE).unwrap(), &manifest).unwrap().unwrap());
        let component = component.unwrap();
        let wrapped = wrap(&component, &[], &manifest).unwrap();
        assert_eq!(wrapped, wrap(&wat::parse_str(MODULE).unwrap(), &[], &manifest).unwrap());
        assert!(wrap(&wrapped, &[], &manifest).unwrap_err().to_string().contains("manifest"), "it is a plugin already");
        let export = "a=b".parse().unwrap();
        assert!(wrap(&component, &[export], &manifest).unwrap_err().to_string().contains("it is a component"));
    }
}
