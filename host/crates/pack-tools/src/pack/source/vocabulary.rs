//! Puts a vocabulary together from its settings, its table of codes and its tables of labels.

use std::collections::HashSet;

use super::files::PackFiles;
use super::settings::{CompletenessSetting, PackSettings, SETTINGS_FILE, VocabularySettings};
use super::{codes, hierarchy, labels, rule};
use crate::pack::problem::{PackErrors, PackProblemKind};
use daftar_domain::code::Namespace;
use daftar_domain::vocabulary::{Concept, VocabularyDescription};

/// Reads every vocabulary; what is wrong is reported.
pub fn read_all(
    settings: &PackSettings,
    files: &PackFiles,
    errors: &mut PackErrors,
) -> Vec<(VocabularyDescription, Vec<Concept>)> {
    let vocabularies = settings.vocabulary.iter().filter_map(|vocabulary| read(settings, vocabulary, files, errors));
    let vocabularies = vocabularies.collect();
    report_unclaimed(settings, files, errors);
    vocabularies
}

/// One vocabulary; none where its namespace is not fit, which is already reported.
fn read(
    settings: &PackSettings,
    vocabulary: &VocabularySettings,
    files: &PackFiles,
    errors: &mut PackErrors,
) -> Option<(VocabularyDescription, Vec<Concept>)> {
    let languages = languages(vocabulary);
    let concepts = match &vocabulary.codes {
        Some(table) => read_concepts(vocabulary, table, &languages, files, errors),
        None => Vec::new(),
    };
    let description = VocabularyDescription {
        namespace: Namespace::parse(&vocabulary.namespace).ok()?,
        name: vocabulary.name.clone(),
        domain: vocabulary.domain.clone(),
        version: vocabulary.version.clone(),
        source: vocabulary.source.clone(),
        licence: settings.licence_of(vocabulary),
        attribution: settings.attribution_of(vocabulary),
        default_language: vocabulary.default_language.clone(),
        languages,
        is_hierarchical: vocabulary.hierarchical,
        completeness: vocabulary.completeness.into(),
        is_open: false,
        is_system: vocabulary.system,
        is_extensible: vocabulary.extensible,
        concept_count: u32::try_from(concepts.len()).ok()?,
    };
    Some((description, concepts))
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
) -> Vec<Concept> {
    let Some(mut codes) = codes::read(files, table, errors) else { return Vec::new() };
    rule::apply(&mut codes, vocabulary.hierarchy, errors);
    hierarchy::check(&codes, errors);
    for language in languages {
        labels::read(files, table, language, &codes.names, &mut codes.concepts, errors);
    }
    if let Some(default_language) = languages.first() {
        for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
            if concept.labels.first().is_none_or(|label| label.language != *default_language) {
                let kind = PackProblemKind::NoDefaultLabel(default_language.clone());
                errors.push(&codes.file, Some(*line), Some(concept.code.as_str()), kind);
            }
        }
    }
    check_declarations(vocabulary, &codes.concepts, errors);
    codes.concepts
}

/// Whether the codes are as `pack.toml` says.
fn check_declarations(vocabulary: &VocabularySettings, concepts: &[Concept], errors: &mut PackErrors) {
    let namespace = vocabulary.namespace.clone();
    if let Some(declared) = vocabulary.count
        && usize::try_from(declared).ok() != Some(concepts.len())
    {
        let kind = PackProblemKind::Count { namespace: namespace.clone(), actual: concepts.len(), declared };
        errors.push(SETTINGS_FILE, None, None, kind);
    }
    if concepts.is_empty() && vocabulary.completeness != CompletenessSetting::Empty {
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
