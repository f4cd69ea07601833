//! Static checks of a plugin's file: no code of the plugin runs.
//!
//! Checks in this order: size, WebAssembly, component, manifest; then, if the signer is trusted, validity of the
//! complete file, interface version, imports, exports, amount of code.
//!
//! **Invariant:** a [`Package`] is a valid component with a manifest, for a version of the interface that this host
//! supports. It imports only granted functions, and exports the functions that its kind requires.

use std::fmt;
use std::ops::Deref;

use sha2::{Digest as _, Sha256};
use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::Types;
use wasmparser::{Encoding, Instance, Parser, Payload, Validator};

use super::engine::FEATURES;
use super::fault::excerpt;
use super::install::{InstallError, InstallStep};
use super::section::{ManifestError, read_manifest};
use super::wit::InterfaceVersion;
use crate::inspect::supported_versions;
use daftar_domain::config::plugin_limits::CORE_INSTANCES_CEILING as CORE_INSTANCES_MAX;
use daftar_domain::hexadecimal;
use daftar_domain::manifest::{PluginManifest, PluginName};

/// Maximum size of a file that is read, in bytes. The largest known list results in a pack of 40 MB.
pub const PACKAGE_BYTES_MAX: usize = 64 << 20;

/// Maximum code size of all functions, in bytes: the time and memory of compilation are proportional to it. The
/// eligibility engine has 3 MB.
const CODE_BYTES_MAX: usize = 12 << 20;

/// The most functions, for the same reason.
const FUNCTIONS_MAX: usize = 60_000;

/// A plugin's file with a valid manifest; the rest is not checked yet.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its manifest.
    pub manifest: PluginManifest,
    /// The digest of the file.
    pub digest: Digest,
}

impl Candidate {
    /// Reads the manifest of a file.
    ///
    /// # Errors
    /// An error at step `unreadable`, `too_large`, `not_a_component` or `manifest`.
    pub fn read(bytes: Vec<u8>) -> Result<Self, InstallError> {
        check_size(bytes.len())?;
        let manifest = manifest_of(&bytes)?;
        Ok(Self { digest: Digest::of(&bytes), bytes, manifest })
    }

    /// The names that it imports and exports; none if its sections cannot be parsed.
    pub fn surface(&self) -> Option<Surface> {
        let surface = Surface::of(&self.bytes).ok()?;
        let shown = |names: &[String]| names.iter().map(|name| excerpt(name)).collect();
        Some(Surface { imports: shown(&surface.imports), exports: shown(&surface.exports), ..surface })
    }

    /// Runs the static checks.
    ///
    /// # Errors
    /// An error at step `unreadable`, `interface_version`, `imports` or `too_large`.
    pub fn check(self) -> Result<Package, InstallError> {
        let Self { bytes, manifest, .. } = &self;
        let refuse = |step, reason: &dyn fmt::Display| InstallError::of(&manifest.name, step, reason);
        let types = Validator::new_with_features(FEATURES).validate_all(bytes).map_err(|error| {
            refuse(
                InstallStep::Unreadable,
                &format_args!("it is corrupt or uses a disabled feature: {}", excerpt(&error.to_string())),
            )
        })?;
        let version = supported(manifest)?;
        let surface = Surface::of(bytes).map_err(|reason| refuse(InstallStep::Unreadable, &reason))?;
        if surface.is_composed {
            // The compiler would panic: adapters between components need several memories in one module.
            let reason = "it is composed of components with modules of their own, which this sandbox does not support: build one component, without `wac` or WASI virtualization";
            return Err(refuse(InstallStep::Unreadable, &reason));
        }
        check_imports(&surface, &types, manifest, version)?;
        check_export(&surface, &types, manifest, version)?;
        check_code(&surface, &manifest.name)?;
        Ok(Package { candidate: self, version })
    }

    /// Accepts the file without the checks, because this version of the program has checked the same bytes before. The
    /// caller must have authenticated evidence of that.
    ///
    /// # Errors
    /// An error at step `interface_version`.
    pub fn checked_before(self) -> Result<Package, InstallError> {
        let version = supported(&self.manifest)?;
        Ok(Package { candidate: self, version })
    }
}

/// A plugin's file that passed the static checks.
#[derive(Debug)]
pub(super) struct Package {
    /// The file.
    pub candidate: Candidate,
    /// The interface version that it implements.
    pub version: &'static InterfaceVersion,
}

impl Deref for Package {
    type Target = Candidate;

    /// The file that was checked.
    fn deref(&self) -> &Candidate {
        &self.candidate
    }
}

/// The imports, exports and code size of a component, read from its sections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// The names that it imports.
    pub imports: Vec<String>,
    /// The names that it exports.
    pub exports: Vec<String>,
    /// The number of its functions.
    pub functions: usize,
    /// The size of their code, in bytes.
    pub code_bytes: usize,
    /// The number of instances of core modules that an instance of it consists of.
    pub core_instances: usize,
    /// True if components inside it have modules of their own.
    pub is_composed: bool,
}

/// Rejects a file by its size.
///
/// # Errors
/// An error at step `too_large`, or `unreadable` if the file is empty.
pub(super) fn check_size(bytes: usize) -> Result<(), InstallError> {
    match bytes {
        0 => Err(InstallError::new(InstallStep::Unreadable, "the file is empty")),
        1..=PACKAGE_BYTES_MAX => Ok(()),
        _ => {
            let reason = format_args!("the file has {bytes} bytes; the limit is {PACKAGE_BYTES_MAX}");
            Err(InstallError::new(InstallStep::TooLarge, reason))
        }
    }
}

/// Reads the manifest; the step of the error depends on the cause.
pub(super) fn manifest_of(bytes: &[u8]) -> Result<PluginManifest, InstallError> {
    read_manifest(bytes).map_err(|error| {
        let step = match error {
            ManifestError::NotWasm { .. } => InstallStep::Unreadable,
            ManifestError::CoreModule => InstallStep::NotAComponent,
            ManifestError::TooNested => InstallStep::TooLarge,
            ManifestError::Missing
            | ManifestError::Repeated
            | ManifestError::TooLarge { .. }
            | ManifestError::Malformed { .. } => InstallStep::Manifest,
        };
        InstallError::new(step, excerpt(&error.to_string()))
    })
}

fn supported(manifest: &PluginManifest) -> Result<&'static InterfaceVersion, InstallError> {
    InterfaceVersion::of(manifest.interface).ok_or_else(|| {
        let supported = supported_versions().join(", ");
        let reason = format!("it requires plugin interface {}; this server supports {supported}", manifest.interface);
        InstallError::of(&manifest.name, InstallStep::InterfaceVersion, reason)
    })
}

impl Surface {
    fn of(bytes: &[u8]) -> Result<Self, String> {
        let mut surface = Self::default();
        let mut depth = 0usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(|error| error.to_string())? {
                Payload::Version { encoding: Encoding::Module | Encoding::Component, .. } => {}
                Payload::ModuleSection { .. } => {
                    surface.is_composed |= depth > 0;
                    depth = depth.saturating_add(1);
                }
                Payload::ComponentSection { .. } => depth = depth.saturating_add(1),
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        surface.imports.push(import.map_err(|error| error.to_string())?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        surface.exports.push(export.map_err(|error| error.to_string())?.name.name.to_owned());
                    }
                }
                Payload::CodeSectionStart { count, size, .. } => {
                    surface.functions = surface.functions.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
                    surface.code_bytes = surface.code_bytes.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
                }
                Payload::InstanceSection(section) => {
                    for instance in section {
                        let instance = instance.map_err(|error| error.to_string())?;
                        let counts = matches!(instance, Instance::Instantiate { .. });
                        surface.core_instances = surface.core_instances.saturating_add(usize::from(counts));
                    }
                }
                // The validator has checked everything else.
                _ => {}
            }
        }
        Ok(surface)
    }
}

/// The most names that one message lists.
const NAMES_LISTED_MAX: usize = 20;

/// Rejects imports that are callable and not granted to the kind of the plugin.
fn check_imports(
    surface: &Surface,
    types: &Types,
    manifest: &PluginManifest,
    version: &InterfaceVersion,
) -> Result<(), InstallError> {
    let (granted, type_imports) = (version.granted_imports, version.type_imports());
    let has_types = |name: &str| type_imports.iter().any(|import| import == name) && holds_types_only(types, name);
    let is_allowed = |name: &str| granted.contains(&name) || has_types(name);
    let refused: Vec<&str> = surface.imports.iter().map(String::as_str).filter(|name| !is_allowed(name)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let offered = if granted.is_empty() { "no imports".to_owned() } else { granted.join(", ") };
    let reason = format!("it imports {}; a {} is granted {offered}", named(refused), manifest.kind);
    Err(InstallError::of(&manifest.name, InstallStep::Imports, reason))
}

/// Formats a list of names, limited to the length of a message.
fn named(names: Vec<&str>) -> String {
    let omitted = names.len().saturating_sub(NAMES_LISTED_MAX);
    let mut listed: Vec<String> =
        names.into_iter().take(NAMES_LISTED_MAX).map(|name| format!("`{}`", excerpt(name))).collect();
    if omitted > 0 {
        listed.push(format!("{omitted} more"));
    }
    listed.join(", ")
}

/// Returns true if an import is an interface that contains only types.
fn holds_types_only(types: &Types, import: &str) -> bool {
    let types = types.as_ref();
    let Some(item) = types.component_item_for_import(import) else { return false };
    let ComponentEntityType::Instance(instance) = item.ty else { return false };
    let Some(instance) = types.get(instance) else { return false };
    instance.exports.values().all(|export| matches!(export.ty, ComponentEntityType::Type { .. }))
}

fn check_export(
    surface: &Surface,
    types: &Types,
    manifest: &PluginManifest,
    version: &InterfaceVersion,
) -> Result<(), InstallError> {
    let wanted = version.export(manifest.kind);
    let item = types.as_ref().component_item_for_export(&wanted);
    if item.is_some_and(|item| matches!(item.ty, ComponentEntityType::Instance(_))) {
        return Ok(());
    }
    let exported = surface.exports.iter().map(String::as_str).collect();
    let exported = if surface.exports.is_empty() { "nothing".to_owned() } else { named(exported) };
    let kind = manifest.kind;
    let reason = format!("a {kind} for interface {} must export `{wanted}`; it exports {exported}", manifest.interface);
    Err(InstallError::of(&manifest.name, InstallStep::InterfaceVersion, reason))
}

fn check_code(surface: &Surface, plugin: &PluginName) -> Result<(), InstallError> {
    let Surface { functions, code_bytes, core_instances, .. } = surface;
    if *code_bytes > CODE_BYTES_MAX {
        let reason = format!("it has {code_bytes} bytes of code; the limit is {CODE_BYTES_MAX}");
        return Err(InstallError::of(plugin, InstallStep::TooLarge, reason));
    }
    if *functions > FUNCTIONS_MAX {
        let reason = format!("it has {functions} functions; the limit is {FUNCTIONS_MAX}");
        return Err(InstallError::of(plugin, InstallStep::TooLarge, reason));
    }
    // No setting allows more: the pool of instances has no slots for them.
    if *core_instances > CORE_INSTANCES_MAX {
        let reason = format!("it consists of {core_instances} core instances; the limit is {CORE_INSTANCES_MAX}");
        return Err(InstallError::of(plugin, InstallStep::TooLarge, reason));
    }
    Ok(())
}

/// The SHA-256 of a plugin's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Wraps an existing digest.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        hexadecimal::encode(&self.0)
    }

    /// Parses 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = hexadecimal::decode(text)?.try_into().ok()?;
        Some(Self(bytes)).filter(|digest| digest.to_hex() == text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.to_hex())
    }
}

#[cfg(test)]
mod digest_tests {
    use super::*;

    #[test]
    fn a_digest_survives_a_round_trip() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Digest::from_hex(&digest.to_hex()), Some(digest));
        assert_eq!(Digest::from_hex(&digest.to_hex().to_uppercase()), None);
        assert_eq!(Digest::from_hex("ba78"), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_largest_size() {
        assert_eq!(check_size(0).unwrap_err().step, InstallStep::Unreadable);
        assert!(check_size(PACKAGE_BYTES_MAX - 1).is_ok());
        assert!(check_size(PACKAGE_BYTES_MAX).is_ok());
        assert_eq!(check_size(PACKAGE_BYTES_MAX + 1).unwrap_err().step, InstallStep::TooLarge);
    }

    #[test]
    fn a_component_of_more_core_instances_than_the_pool_has_is_too_large() {
        let checked = |count: usize| {
            let instances = "(core instance (instantiate $m))".repeat(count);
            let file = wat::parse_str(format!("(component (core module $m) {instances})")).unwrap();
            let surface = Surface::of(&file).unwrap();
            assert_eq!(surface.core_instances, count);
            check_code(&surface, &PluginName::parse("test").unwrap())
        };
        assert!(checked(CORE_INSTANCES_MAX).is_ok());
        let refused = checked(CORE_INSTANCES_MAX + 1).unwrap_err();
        assert_eq!(refused.step, InstallStep::TooLarge);
        assert!(refused.reason.contains("9 core instances; the limit is 8"), "{refused}");
    }
}
