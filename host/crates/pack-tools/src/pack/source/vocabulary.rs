//! Assembles a vocabulary from its settings, its table of codes and its tables of labels.

use std::collections::HashSet;

use super::SourceReader;
use super::codes::{self, Codes};
use super::settings::{PackSettings, SETTINGS_FILE, VocabularySettings};
use super::table::Table;
use crate::pack::problem::{PackErrors, too_many};
use crate::source_rules::{DEFINITION_BYTES_MAX, LABEL_BYTES_MAX};
use daftar_domain::code::Namespace;
use daftar_domain::vocabulary::{Completeness, Concept, LocalizedText, VocabularyDescription};

/// Reads every vocabulary; reports problems.
pub fn read_all(settings: &PackSettings, reader: &mut SourceReader<'_>) -> Vec<(VocabularyDescription, Vec<Concept>)> {
    let vocabularies = settings.vocabulary.iter().filter_map(|vocabulary| read(settings, vocabulary, reader));
    let vocabularies = vocabularies.collect();
    report_unclaimed(settings, reader);
    vocabularies
}

/// Reads one vocabulary; none if its namespace is invalid, which is already reported.
fn read(
    settings: &PackSettings,
    vocabulary: &VocabularySettings,
    reader: &mut SourceReader<'_>,
) -> Option<(VocabularyDescription, Vec<Concept>)> {
    // The default language first.
    let mut languages = vocabulary.languages.clone();
    languages.sort_by_key(|language| *language != vocabulary.default_language);
    let concepts = match &vocabulary.codes {
        Some(table) => read_concepts(vocabulary, table, &languages, reader),
        None => Vec::new(),
    };
    let description = VocabularyDescription {
        namespace: Namespace::parse(&vocabulary.namespace).ok()?,
        name: vocabulary.name.clone(),
        domain: vocabulary.domain.clone(),
        version: vocabulary.version.clone(),
        source: vocabulary.source.clone(),
        licence: vocabulary.licence.as_ref().unwrap_or(&settings.licence).clone(),
        attribution: vocabulary.attribution.as_ref().unwrap_or(&settings.attribution).clone(),
        default_language: vocabulary.default_language.clone(),
        languages,
        is_hierarchical: vocabulary.hierarchical,
        completeness: vocabulary.completeness,
        is_open: false,
        is_system: vocabulary.system,
        is_extensible: vocabulary.extensible,
        concept_count: u32::try_from(concepts.len()).ok()?,
    };
    Some((description, concepts))
}

fn read_concepts(
    vocabulary: &VocabularySettings,
    table: &str,
    languages: &[String],
    reader: &mut SourceReader<'_>,
) -> Vec<Concept> {
    let Some(mut codes) = codes::read(reader, table, vocabulary.hierarchy) else { return Vec::new() };
    for language in languages {
        read_labels(reader, table, language, &mut codes);
    }
    if let Some(default_language) = languages.first() {
        for (concept, line) in codes.concepts.iter().zip(&codes.lines) {
            if concept.labels.first().is_none_or(|label| label.language != *default_language) {
                let reason = format_args!("there is no label in the default language `{default_language}`");
                reader.errors.push(&codes.file, Some(*line), Some(concept.code.as_str()), reason);
            }
        }
    }
    check_declarations(vocabulary, &codes.concepts, &mut reader.errors);
    codes.concepts
}

/// Reads the labels and definitions of one language, `labels/<language>/<table>`; reports problems.
fn read_labels(reader: &mut SourceReader<'_>, table: &str, language: &str, codes: &mut Codes) {
    let Some(table) = Table::read(reader, &format!("labels/{language}/{table}")) else { return };
    let is_known = |column: &str| matches!(column, "code" | "label" | "definition");
    table.check_columns(&["code", "label"], "code, label and definition", is_known, &mut reader.errors);
    let mut seen = HashSet::new();
    for row in table.rows() {
        let (code, label, definition) = (row.cell("code"), row.cell("label"), row.cell("definition"));
        let mut push = |reason: String| reader.errors.push(&table.file, Some(row.line), Some(code), reason);
        let Some(concept) = codes.names.get(code).and_then(|index| codes.concepts.get_mut(*index)) else {
            push("the vocabulary has no such code".to_owned());
            continue;
        };
        if !seen.insert(code) {
            push(format!("the line for the code `{code}` occurs again"));
            continue;
        }
        if label.is_empty() {
            push("the label is empty; leave the line out where there is none".to_owned());
            continue;
        }
        for (what, text, max) in [
            ("bytes in its label", label, LABEL_BYTES_MAX),
            ("bytes in its definition", definition, DEFINITION_BYTES_MAX),
        ] {
            if text.len() > max {
                push(too_many(what, text.len(), max));
            }
        }
        concept.labels.push(LocalizedText { language: language.to_owned(), value: label.to_owned() });
        if !definition.is_empty() {
            concept.definitions.push(LocalizedText { language: language.to_owned(), value: definition.to_owned() });
        }
    }
}

/// Checks the codes against the declarations of `pack.toml`.
fn check_declarations(vocabulary: &VocabularySettings, concepts: &[Concept], errors: &mut PackErrors) {
    let namespace = &vocabulary.namespace;
    let mut push = |reason: String| errors.push(SETTINGS_FILE, None, None, reason);
    if let Some(declared) = vocabulary.count
        && usize::try_from(declared).ok() != Some(concepts.len())
    {
        push(format!("`{namespace}` has {} codes; pack.toml declares {declared}", concepts.len()));
    }
    if concepts.is_empty() && vocabulary.completeness != Completeness::Empty {
        push(format!("`{namespace}` has no codes, so `completeness` must be \"empty\""));
    }
    let has_parents = concepts.iter().any(|concept| !concept.parents.is_empty());
    let declared = vocabulary.hierarchical;
    if has_parents != declared {
        let found = if has_parents { "some codes have parents" } else { "no code has a parent" };
        push(format!("`{namespace}` has `hierarchical = {declared}`, but {found}"));
    }
}

/// Reports files in the folders of codes and labels that no vocabulary uses.
fn report_unclaimed(settings: &PackSettings, reader: &mut SourceReader<'_>) {
    let mut claimed = HashSet::new();
    for vocabulary in &settings.vocabulary {
        if let Some(table) = &vocabulary.codes {
            claimed.insert(format!("codes/{table}"));
            claimed.extend(vocabulary.languages.iter().map(|language| format!("labels/{language}/{table}")));
        }
    }
    let languages = reader.list("labels");
    let folders = languages.iter().map(|language| format!("labels/{language}"));
    for folder in std::iter::once("codes".to_owned()).chain(folders) {
        for file in reader.list(&folder).iter().map(|name| format!("{folder}/{name}")) {
            if !claimed.contains(&file) {
                reader.errors.push(&file, None, None, "no setting in pack.toml refers to this file");
            }
        }
    }
}
