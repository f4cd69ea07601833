//! `daftar pack build --base`: an existing pack with other data.
//!
//! | from the base | from the folder |
//! |---|---|
//! | name and description; wanted limits but for memory, which follows from the codes | version, greater than the base's |
//! | vocabularies that the folder does not have | each of its vocabularies, whole: codes, labels, version, source, licence, completeness |
//! | concept groups and extension fields | those that it has itself, in place of the base's of the same name or path |
//! | licence, acknowledgement and source of the pack, when some of its vocabularies stay | the same, when none stays |
//!
//! What a pack answers is read from the base in the sandbox, so it is all that a base without an open vocabulary can do; the
//! code of the rebuilt pack is the generic pack's.

use std::collections::HashSet;

use super::problem::{PackErrors, PackProblemKind};
use super::source::PackSource;
use daftar_domain::manifest::PluginManifest;
use daftar_domain::vocabulary::{ConceptGroup, PackContents, Selection};

/// The base with the folder's data in it.
///
/// # Errors
/// Everything that does not go together; `file` names the base in it.
pub fn rebuild(
    file: &str,
    manifest: PluginManifest,
    contents: PackContents,
    source: PackSource,
) -> Result<PackSource, PackErrors> {
    let mut errors = PackErrors::none();
    let mut push = |reason: String| errors.push(file, None, None, PackProblemKind::Base(reason));
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
    for field in source.manifest.extension_fields {
        match merged.extension_fields.iter_mut().find(|known| known.path == field.path) {
            Some(known) => *known = field,
            None => merged.extension_fields.push(field),
        }
    }
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
            "`{}` is at version {}, and the folder's is {}: give a greater `version` in pack.toml, so that servers take \
             the rebuilt pack for the newer one",
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

/// Vocabularies in the order of the base.
fn merged(base: PackContents, folder: PackContents) -> PackContents {
    let mut replacing = folder.vocabularies;
    let vocabularies = base.vocabularies.into_iter().map(|kept| {
        let found = replacing.iter().position(|(vocabulary, _)| vocabulary.namespace == kept.0.namespace);
        found.map_or(kept, |index| replacing.swap_remove(index))
    });
    let vocabularies = vocabularies.collect();
    let mut concept_groups = base.concept_groups;
    for group in folder.concept_groups {
        match concept_groups.iter_mut().find(|known| known.name == group.name) {
            Some(known) => *known = group,
            None => concept_groups.push(group),
        }
    }
    PackContents { vocabularies, concept_groups }
}

/// Whether the groups speak of codes that are there. Those of other packs are the host's business.
fn check_groups(contents: &PackContents, push: &mut impl FnMut(String)) {
    let mut namespaces = HashSet::new();
    let mut codes = HashSet::new();
    for (vocabulary, concepts) in &contents.vocabularies {
        namespaces.insert(&vocabulary.namespace);
        codes.extend(concepts.iter().map(|concept| (&vocabulary.namespace, &concept.code)));
    }
    let selections = |group: &ConceptGroup| {
        let all = group.includes.iter().chain(&group.excludes).cloned();
        all.collect::<Vec<Selection>>()
    };
    for group in &contents.concept_groups {
        for selection in selections(group) {
            let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = &selection;
            if namespaces.contains(&uri.namespace) && !codes.contains(&(&uri.namespace, &uri.code)) {
                push(format!(
                    "its concept group `{}` speaks of `{uri}`, which the folder's data do not have: define the group anew \
                     in the folder's pack.toml",
                    group.name
                ));
            }
        }
    }
}
