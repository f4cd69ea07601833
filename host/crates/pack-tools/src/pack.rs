//! Vocabulary packs from plain files: the source format, its checks, and the builder.
//!
//! The builder needs no compiler on the machine: the generic pack is embedded in this binary, and a pack is that module
//! with the codes in its memory.
//!
//! `daftar pack build --base` rebuilds an existing pack with other data:
//!
//! | from the base | from the folder |
//! |---|---|
//! | name and description; requested limits except memory, which follows from the codes | version, greater than the base's |
//! | vocabularies that are not in the folder | each of its vocabularies completely: codes, labels, version, source, licence, completeness |
//! | concept groups and extension fields | those in its own settings, which replace those of the base with the same name or path |
//! | licence, acknowledgement and source of the pack, if it keeps a vocabulary of the base | the same, otherwise |
//!
//! The contents are read from the base in the sandbox, which covers everything that a base without an open vocabulary
//! can do; the code of the rebuilt pack is that of the generic pack.
//!
//! **Invariant:** the output is reproducible: the same source gives the same bytes on every machine.

mod blob;
mod build;
mod problem;
mod source;

use std::fmt::Display;
use std::fs::File;
use std::path::Path;

pub use build::{INITIALISE_EXPORT, PackBuildError, build};
pub(crate) use build::{component, initialised};
use daftar_sandbox::{PACKAGE_BYTES_MAX, PluginHost, read_at_most};
pub use problem::{PackErrors, PackProblem};
pub use source::{PackSource, check};

use daftar_domain::manifest::PluginManifest;
use daftar_domain::vocabulary::{PackContents, Selection};
use source::PackCodes;

/// The core module of the generic pack, without codes. `build.rs` provides it.
pub const CODELIST_MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/codelist.wasm"));

/// Builds a pack from a folder of plain files: a component with its manifest, ready to be installed.
///
/// # Errors
/// All problems of the folder.
pub fn build_folder(folder: &Path) -> Result<Vec<u8>, PackErrors> {
    Ok(build(&check(folder)?, CODELIST_MODULE)?)
}

/// Builds a pack from an existing pack and a folder that replaces parts of its data; host/docs/PACKS.md describes the
/// sources of each part. The base runs in the sandbox.
///
/// # Errors
/// All problems of the folder and of the combination.
pub fn rebuild_folder(folder: &Path, base: &Path, host: &PluginHost) -> Result<Vec<u8>, PackErrors> {
    let source = check(folder)?;
    let file = base.display().to_string();
    let refused = |what: &str, error: &dyn Display| PackErrors::one(&file, format_args!("{what}: {error}"));
    let bytes = File::open(base).and_then(|file| read_at_most(file, PACKAGE_BYTES_MAX));
    let bytes = bytes.map_err(|error| refused("it cannot be read", &error))?;
    let (manifest, contents) = host.read_pack(bytes).map_err(|error| refused("it cannot be used as a base", &error))?;
    Ok(build(&rebuild(&file, manifest, contents, source)?, CODELIST_MODULE)?)
}

/// Combines the base with the data of the folder.
///
/// # Errors
/// All conflicts; `file` names the base in them.
fn rebuild(
    file: &str,
    manifest: PluginManifest,
    contents: PackContents,
    source: PackSource,
) -> Result<PackSource, PackErrors> {
    let mut errors = PackErrors::default();
    let mut push = |reason: String| errors.push(file, None, None, reason);
    check_version(&manifest, &source.manifest, &mut push);
    check_vocabularies(&contents, &source.contents, &mut push);
    let is_whole = contents.vocabularies.len() == source.contents.vocabularies.len();
    let contents = merged(contents, source.contents);
    check_groups(&contents, &mut push);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut merged = manifest;
    merged.version = source.manifest.version;
    merged.interface = source.manifest.interface;
    merged.limits.memory_bytes = None;
    replace(&mut merged.extension_fields, source.manifest.extension_fields, |one, other| one.path == other.path);
    if is_whole {
        merged.licence = source.manifest.licence;
        merged.attribution = source.manifest.attribution;
        merged.source = source.manifest.source;
    }
    Ok(PackSource { manifest: merged, is_default: source.is_default, contents })
}

fn check_version(base: &PluginManifest, folder: &PluginManifest, push: &mut impl FnMut(String)) {
    if folder.version <= base.version {
        push(format!(
            "`{}` is at version {}, and the folder's is {}: set a greater `version` in pack.toml, so that servers recognise \
             the rebuilt pack as newer",
            base.name, base.version, folder.version
        ));
    }
}

fn check_vocabularies(base: &PackContents, folder: &PackContents, push: &mut impl FnMut(String)) {
    let known: Vec<&str> = base.vocabularies.iter().map(|(known, _)| known.namespace.as_str()).collect();
    for (vocabulary, _) in &folder.vocabularies {
        if !known.contains(&vocabulary.namespace.as_str()) {
            push(format!(
                "it has no vocabulary `{}` whose data could be replaced; it has {}",
                vocabulary.namespace,
                known.join(", ")
            ));
        }
    }
    for (vocabulary, _) in base.vocabularies.iter().filter(|(vocabulary, _)| vocabulary.is_open) {
        push(format!(
            "its vocabulary `{}` is open: it decides about codes by code of its own, which cannot be carried over",
            vocabulary.namespace
        ));
    }
}

/// Merges vocabularies in the order of the base.
fn merged(base: PackContents, folder: PackContents) -> PackContents {
    let mut replacing = folder.vocabularies;
    let vocabularies = base.vocabularies.into_iter().map(|retained| {
        let found = replacing.iter().position(|(vocabulary, _)| vocabulary.namespace == retained.0.namespace);
        found.map_or(retained, |index| replacing.swap_remove(index))
    });
    let vocabularies = vocabularies.collect();
    let mut concept_groups = base.concept_groups;
    replace(&mut concept_groups, folder.concept_groups, |one, other| one.name == other.name);
    PackContents { vocabularies, concept_groups }
}

/// Replaces items for which `is_same` is true; appends the others.
fn replace<T>(items: &mut Vec<T>, by: Vec<T>, is_same: impl Fn(&T, &T) -> bool) {
    for item in by {
        match items.iter_mut().find(|known| is_same(known, &item)) {
            Some(known) => *known = item,
            None => items.push(item),
        }
    }
}

/// Checks that the codes in the groups exist. The host checks those of other packs.
fn check_groups(contents: &PackContents, push: &mut impl FnMut(String)) {
    let codes = PackCodes::of(&contents.vocabularies);
    for group in &contents.concept_groups {
        for selection in group.includes.iter().chain(&group.excludes) {
            let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
            if codes.lack(uri) {
                push(format!(
                    "its concept group `{}` refers to `{uri}`, which is not in the folder's data: redefine the group \
                     in the folder's pack.toml",
                    group.name
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
