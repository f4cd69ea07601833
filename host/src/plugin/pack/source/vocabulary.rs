//! Puts a vocabulary together from its settings, its table of codes and its tables of labels.

use std::collections::{HashMap, HashSet};

use super::files::PackFiles;
use super::settings::{Completeness, PackSettings, SETTINGS_FILE, VocabularySettings};
use super::{VocabularySource, codes, hierarchy, labels};
use crate::plugin::pack::problem::{PackErrors, PackProblemKind};

/// Reads every vocabulary; what is wrong is reported.
pub fn read_all(settings: &PackSettings, files: &PackFiles, errors: &mut PackErrors) -> Vec<VocabularySource> {
    let vocabularies = settings.vocabulary.iter().map(|vocabulary| read(settings, vocabulary, files, errors)).collect();
    report_unclaimed(settings, files, errors);
    vocabularies
}

fn read(
    settings: &PackSettings,
    vocabulary: &VocabularySettings,
    files: &PackFiles,
    errors: &mut PackErrors,
) -> VocabularySource {
    let languages = languages(vocabulary);
    let concepts = match &vocabulary.codes {
        Some(table) => read_concepts(vocabulary, table, &languages, files, errors),
        None => Vec::new(),
    };
    VocabularySource {
        namespace: vocabulary.namespace.clone(),
        name: vocabulary.name.clone(),
        domain: vocabulary.domain.clone(),
        version: vocabulary.version.clone(),
        source: vocabulary.source.clone(),
        licence: settings.licence_of(vocabulary),
        attribution: settings.attribution_of(vocabulary),
        languages,
        is_hierarchical: vocabulary.hierarchical,
        completeness: vocabulary.completeness,
        is_system: vocabulary.system,
        is_extensible: vocabulary.extensible,
        concepts,
    }
}

/// The languages with the default one first.
fn languages(vocabulary: &VocabularySettings) -> Vec<String> {
    let mut languages = vocabulary.languages.clone();
    languages.sort_by_key(|language| *language != vocabulary.default_language);
    languages
}

fn read_concepts(
    vocabulary: &VocabularySettings,
    table: &str,
    languages: &[String],
    files: &PackFiles,
    errors: &mut PackErrors,
) -> Vec<super::ConceptSource> {
    let Some(mut codes) = codes::read(files, table, errors) else { return Vec::new() };
    hierarchy::check(&codes, errors);
    let index: HashMap<String, usize> =
        codes.concepts.iter().enumerate().map(|(index, concept)| (concept.code.clone(), index)).collect();
    for (number, language) in (0u32..).zip(languages) {
        labels::read(files, table, (number, language), &index, &mut codes.concepts, errors);
    }
    if let Some(default_language) = languages.first() {
        for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
            if concept.labels.first().is_none_or(|label| label.language != 0) {
                let kind = PackProblemKind::NoDefaultLabel(default_language.clone());
                errors.push(&codes.file, Some(*line), Some(&concept.code), kind);
            }
        }
    }
    check_declarations(vocabulary, &codes.concepts, errors);
    codes.concepts
}

/// Whether the codes are as `pack.toml` says.
fn check_declarations(vocabulary: &VocabularySettings, concepts: &[super::ConceptSource], errors: &mut PackErrors) {
    let namespace = vocabulary.namespace.clone();
    if let Some(declared) = vocabulary.count
        && usize::try_from(declared).ok() != Some(concepts.len())
    {
        let kind = PackProblemKind::Count { namespace: namespace.clone(), actual: concepts.len(), declared };
        errors.push(SETTINGS_FILE, None, None, kind);
    }
    if concepts.is_empty() && vocabulary.completeness != Completeness::Empty {
        let value = namespace.clone();
        let kind =
            PackProblemKind::Setting { key: "completeness".to_owned(), value, wanted: "right: there are no codes" };
        errors.push(SETTINGS_FILE, None, None, kind);
    }
    let has_parents = concepts.iter().any(|concept| !concept.parents.is_empty());
    if has_parents != vocabulary.hierarchical {
        let found = if has_parents { "some codes have parents" } else { "no code has a parent" };
        let kind = PackProblemKind::Hierarchical { namespace, declared: vocabulary.hierarchical, found };
        errors.push(SETTINGS_FILE, None, None, kind);
    }
}

/// Reports files that lie where codes and labels lie but belong to no vocabulary.
fn report_unclaimed(settings: &PackSettings, files: &PackFiles, errors: &mut PackErrors) {
    let mut claimed = HashSet::new();
    for vocabulary in &settings.vocabulary {
        if let Some(table) = &vocabulary.codes {
            claimed.insert(format!("codes/{table}"));
            claimed.extend(vocabulary.languages.iter().map(|language| format!("labels/{language}/{table}")));
        }
    }
    let mut found: Vec<String> = files.list("codes", errors).iter().map(|name| format!("codes/{name}")).collect();
    for language in files.list("labels", errors) {
        let folder = format!("labels/{language}");
        found.extend(files.list(&folder, errors).iter().map(|name| format!("{folder}/{name}")));
    }
    for file in found.iter().filter(|file| !claimed.contains(*file)) {
        errors.push(file, None, None, PackProblemKind::Unclaimed);
    }
}
