//! Checks of codes in rules that need the vocabularies and the schema: suggestions of the engine that name codes, and
//! concept groups without any code of the fields that a rule reads.
//!
//! **Invariant:** a suggestion that reaches the client names an existing code.
//! **Invariant:** a warning about a concept group is given only if no field of the rule can hold any code of it.

use std::collections::BTreeSet;

use super::schema::schema;
use crate::registry::Registry;
use daftar_domain::code::CodeUri;
use daftar_domain::eligibility::{
    Diagnostic, FieldType, PlacedQuestion, Question, Reference, RowSpace, Severity, Subject,
};
use daftar_vocabulary::Generation;

/// The engine knows no codes: it suggests a text as a code of the field's vocabulary. Replaces a suggested name by the
/// code of that name, and removes suggestions of codes that do not exist.
pub(super) fn with_known_codes(generation: &Generation, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    for diagnostic in &mut diagnostics {
        let Some(text) = diagnostic.suggestion.as_deref().and_then(written_code) else { continue };
        diagnostic.suggestion = known(generation, text).map(|uri| format!("code('{uri}')"));
    }
    diagnostics
}

/// The URI in `code('…')`.
fn written_code(suggestion: &str) -> Option<&str> {
    let inside = suggestion.strip_prefix("code(")?.strip_suffix(')')?;
    let quote = inside.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    inside.strip_prefix(quote)?.strip_suffix(quote)
}

/// The URI of a code, given itself or `namespace#name` with its name in any language. Names of a large vocabulary are
/// not searched: one request may contain many.
fn known(generation: &Generation, text: &str) -> Option<String> {
    let (namespace, name) = text.split_once('#')?;
    if let Some(concept) = CodeUri::parse(text).ok().and_then(|uri| generation.check_code(&uri).ok()) {
        return Some(concept.uri_text());
    }
    let vocabulary = generation.vocabularies().find(|vocabulary| vocabulary.namespace().as_str() == namespace)?;
    let mut named = vocabulary.labelled(name.trim());
    // A name of two codes identifies none.
    let found = named.next()?;
    named.next().is_none().then(|| found.uri_text())
}

/// Warns of concept groups that hold no code of any field that the rule reads.
pub(super) fn never_in_group(
    generation: &Generation,
    registry: &Registry,
    subject: Subject,
    questions: &[PlacedQuestion],
    references: &[Reference],
) -> Vec<Diagnostic> {
    let Some(read) = vocabularies_read(registry, subject, references) else { return Vec::new() };
    let warned = questions.iter().filter_map(|placed| {
        let Question::InGroup(name) = &placed.question else { return None };
        let group = generation.concept_group(name)?;
        let of_group: BTreeSet<String> = group
            .members()
            .chain(group.undecided())
            .filter_map(|number| generation.code_texts(number).map(|texts| texts.namespace))
            .collect();
        if of_group.is_empty() || !of_group.is_disjoint(&read) {
            return None;
        }
        let joined = |names: &BTreeSet<String>, by: &str| names.iter().cloned().collect::<Vec<_>>().join(by);
        let message = format!(
            "the concept group `{name}` holds codes of `{}` and the rule reads codes of `{}`, so this is never true",
            joined(&of_group, "` or `"),
            joined(&read, "` or `")
        );
        let parameters = vec![name.clone(), joined(&of_group, " "), joined(&read, " ")];
        let PlacedQuestion { line, column, length, .. } = *placed;
        let code = "never_true".to_owned();
        Some(Diagnostic {
            severity: Severity::Warning,
            code,
            message,
            reason: "group_of_other_vocabulary".to_owned(),
            parameters,
            line,
            column,
            length,
            suggestion: None,
        })
    });
    warned.collect()
}

/// The vocabularies of the coded fields that a rule reads; `None` if there are none, or a field takes any.
fn vocabularies_read(registry: &Registry, subject: Subject, references: &[Reference]) -> Option<BTreeSet<String>> {
    let schema = schema(subject, registry.vocabularies.current().extension_fields());
    let is_read = |space: RowSpace, path: &str| {
        references.iter().any(|reference| reference.space == space && reference.path == path)
    };
    let mut read = BTreeSet::new();
    for field in
        schema.fields.iter().filter(|field| field.kind == FieldType::Coded && is_read(field.space, &field.path))
    {
        if field.vocabularies.is_empty() {
            return None;
        }
        read.extend(field.vocabularies.iter().cloned());
    }
    (!read.is_empty()).then_some(read)
}
