//! A plugin's file, checked without running anything of it.
//!
//! The order is: size, WebAssembly at all, a component, manifest; then, when somebody vouches for it, valid as a whole,
//! interface version, imports, exports, amount of code.
//!
//! **Invariant:** a package that exists is a valid component with a manifest, speaks a version of the interface that this
//! host speaks, imports nothing that is not granted, and exports what its kind must.

use std::fmt;
use std::ops::Deref;

use sha2::{Digest as _, Sha256};
use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::Types;
use wasmparser::{Encoding, Parser, Payload, Validator};

use super::engine::FEATURES;
use super::fault::excerpt;
use super::install::{InstallError, InstallStep};
use super::section::{ManifestError, read_manifest};
use super::wit::InterfaceVersion;
use crate::inspect::spoken_versions;
use daftar_domain::manifest::{PluginManifest, PluginName};

/// The largest file that is read, in bytes. The largest list that we know makes a pack of 40 MB.
pub const PACKAGE_BYTES_MAX: usize = 64 << 20;

/// The most code of all functions, in bytes: compiling takes time and memory in proportion. The eligibility engine has 3 MB.
const CODE_BYTES_MAX: usize = 12 << 20;

/// The most functions, for the same reason.
const FUNCTIONS_MAX: usize = 60_000;

/// A plugin's file whose manifest could be read; nothing else of it was looked at.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The file.
    pub bytes: Vec<u8>,
    /// What it says about itself.
    pub manifest: PluginManifest,
    /// The digest of the file.
    pub digest: Digest,
}

impl Candidate {
    /// Reads the manifest of a file.
    ///
    /// # Errors
    /// A refusal at `unreadable`, `too_large`, `not_a_component` or `manifest`.
    pub fn read(bytes: Vec<u8>) -> Result<Self, InstallError> {
        check_size(bytes.len())?;
        let manifest = manifest_of(&bytes)?;
        Ok(Self { digest: Digest::of(&bytes), bytes, manifest })
    }

    /// The names that it imports and exports, as it says itself; none where its frames cannot be read.
    pub fn surface(&self) -> Option<Surface> {
        let surface = Surface::of(&self.bytes).ok()?;
        let shown = |names: &[String]| names.iter().map(|name| excerpt(name)).collect();
        Some(Surface { imports: shown(&surface.imports), exports: shown(&surface.exports), ..surface })
    }

    /// Checks everything that needs no running.
    ///
    /// # Errors
    /// A refusal at `unreadable`, `interface_version`, `imports` or `too_large`.
    pub fn check(self) -> Result<Package, InstallError> {
        let Self { bytes, manifest, .. } = &self;
        let refuse = |step, reason: &dyn fmt::Display| InstallError::of(&manifest.name, step, reason);
        let types = Validator::new_with_features(FEATURES).validate_all(bytes).map_err(|error| {
            refuse(
                InstallStep::Unreadable,
                &format_args!("it is damaged or uses what is not allowed: {}", excerpt(&error.to_string())),
            )
        })?;
        let version = spoken(manifest)?;
        let surface = Surface::of(bytes).map_err(|reason| refuse(InstallStep::Unreadable, &reason))?;
        check_imports(&surface, &types, manifest, version)?;
        check_export(&surface, &types, manifest, version)?;
        check_code(&surface, &manifest.name)?;
        Ok(Package { candidate: self, version })
    }

    /// Takes the file as checked, because this version of the program has checked the very same bytes before. Whoever calls
    /// this holds something authenticated that says so.
    ///
    /// # Errors
    /// A refusal at `interface_version`.
    pub fn checked_before(self) -> Result<Package, InstallError> {
        let version = spoken(&self.manifest)?;
        Ok(Package { candidate: self, version })
    }
}

/// A plugin's file that passed every check that needs no running.
#[derive(Debug)]
pub(super) struct Package {
    /// The file.
    pub candidate: Candidate,
    /// The version of the interface that it speaks.
    pub version: &'static InterfaceVersion,
}

impl Deref for Package {
    type Target = Candidate;

    /// The file that was checked.
    fn deref(&self) -> &Candidate {
        &self.candidate
    }
}

/// What the frames of a component show: the names at its surface, and how much code it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// The names that it imports.
    pub imports: Vec<String>,
    /// The names that it exports.
    pub exports: Vec<String>,
    /// How many functions there are in it.
    pub functions: usize,
    /// How large their code is together, in bytes.
    pub code_bytes: usize,
}

/// Refuses a file by its size alone.
///
/// # Errors
/// A refusal at `too_large`, or at `unreadable` where there is nothing.
pub(super) fn check_size(bytes: usize) -> Result<(), InstallError> {
    match bytes {
        0 => Err(InstallError::new(InstallStep::Unreadable, "the file is empty")),
        1..=PACKAGE_BYTES_MAX => Ok(()),
        _ => {
            let reason = format_args!("the file has {bytes} bytes; at most {PACKAGE_BYTES_MAX} are read");
            Err(InstallError::new(InstallStep::TooLarge, reason))
        }
    }
}

/// Reads the manifest, and says at which step its absence is a refusal.
pub(super) fn manifest_of(bytes: &[u8]) -> Result<PluginManifest, InstallError> {
    read_manifest(bytes).map_err(|error| {
        let step = match error {
            ManifestError::NotWasm { .. } => InstallStep::Unreadable,
            ManifestError::CoreModule => InstallStep::NotAComponent,
            ManifestError::Missing
            | ManifestError::Repeated
            | ManifestError::TooLarge { .. }
            | ManifestError::Malformed { .. } => InstallStep::Manifest,
        };
        InstallError::new(step, excerpt(&error.to_string()))
    })
}

fn spoken(manifest: &PluginManifest) -> Result<&'static InterfaceVersion, InstallError> {
    InterfaceVersion::of(manifest.interface).ok_or_else(|| {
        let spoken = spoken_versions().join(", ");
        let reason = format!("it is made for plugin interface {}; this host speaks {spoken}", manifest.interface);
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
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth = depth.saturating_add(1),
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
                // The validator has looked at everything else.
                _ => {}
            }
        }
        Ok(surface)
    }
}

/// The most names of a file that one message tells.
const NAMES_TOLD_MAX: usize = 20;

/// Lists every import that gives a plugin something to call and is not granted to its kind.
fn check_imports(
    surface: &Surface,
    types: &Types,
    manifest: &PluginManifest,
    version: &InterfaceVersion,
) -> Result<(), InstallError> {
    let granted = version.granted_imports;
    let is_allowed =
        |name: &str| granted.contains(&name) || (version.type_imports.contains(&name) && holds_types_only(types, name));
    let refused: Vec<&str> = surface.imports.iter().map(String::as_str).filter(|name| !is_allowed(name)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let offered = if granted.is_empty() { "no imports".to_owned() } else { granted.join(", ") };
    let reason = format!("it imports {}; a {} is granted {offered}", named(refused), manifest.kind);
    Err(InstallError::of(&manifest.name, InstallStep::Imports, reason))
}

/// Names that a file holds, as many as a message takes.
fn named(names: Vec<&str>) -> String {
    let untold = names.len().saturating_sub(NAMES_TOLD_MAX);
    let mut told: Vec<String> =
        names.into_iter().take(NAMES_TOLD_MAX).map(|name| format!("`{}`", excerpt(name))).collect();
    if untold > 0 {
        told.push(format!("{untold} more"));
    }
    told.join(", ")
}

/// Whether an import is an interface that holds nothing but types.
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
    let item = types.as_ref().component_item_for_export(wanted);
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
    let Surface { functions, code_bytes, .. } = surface;
    if *code_bytes > CODE_BYTES_MAX {
        let reason = format!("it holds {code_bytes} bytes of code; at most {CODE_BYTES_MAX} are compiled");
        return Err(InstallError::of(plugin, InstallStep::TooLarge, reason));
    }
    if *functions > FUNCTIONS_MAX {
        let reason = format!("it holds {functions} functions; at most {FUNCTIONS_MAX} are compiled");
        return Err(InstallError::of(plugin, InstallStep::TooLarge, reason));
    }
    Ok(())
}

/// The SHA-256 of a plugin's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest that these 32 bytes are.
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
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0u8; 32];
        let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 2 * bytes.len() || !is_plain {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
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
    fn a_digest_reads_what_it_writes() {
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
}
