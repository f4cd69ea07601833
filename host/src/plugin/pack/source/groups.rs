//! Concept groups: names, and whether the codes they speak of exist.

use std::collections::HashSet;

use super::settings::{ConceptGroupSettings, SETTINGS_FILE, Selection, is_sound_text};
use super::{ConceptGroupSource, VocabularySource};
use crate::plugin::pack::limits::{CONCEPT_GROUPS_MAX, SELECTIONS_MAX};
use crate::plugin::pack::problem::{PackErrors, PackProblemKind};

/// Checks the groups of a pack; what is wrong is reported.
///
/// A group may speak of codes of another pack, which cannot be checked here: the host resolves them when it publishes.
pub fn check(
    groups: &[ConceptGroupSettings],
    vocabularies: &[VocabularySource],
    errors: &mut PackErrors,
) -> Vec<ConceptGroupSource> {
    if groups.len() > CONCEPT_GROUPS_MAX {
        let kind = PackProblemKind::TooMany { what: "concept groups", actual: groups.len(), max: CONCEPT_GROUPS_MAX };
        errors.push(SETTINGS_FILE, None, None, kind);
    }
    let codes: HashSet<(&str, &str)> = vocabularies
        .iter()
        .flat_map(|vocabulary| vocabulary.concepts.iter().map(|concept| (&*vocabulary.namespace, &*concept.code)))
        .collect();
    let namespaces: HashSet<&str> = vocabularies.iter().map(|vocabulary| &*vocabulary.namespace).collect();
    let mut names = HashSet::new();
    for group in groups {
        let mut push = |kind| errors.push(SETTINGS_FILE, None, None, kind);
        if !is_group_name(&group.name) {
            let wanted = "1 to 64 lower-case letters, digits and underscores, beginning with a letter";
            push(PackProblemKind::Setting { key: "concept_group.name".to_owned(), value: group.name.clone(), wanted });
        }
        if !names.insert(&group.name) {
            push(PackProblemKind::Repeated { what: "the concept group", value: group.name.clone() });
        }
        if group.description.is_empty() || !is_sound_text(&group.description) {
            let wanted = "a sentence that says what belongs to the group";
            let key = format!("description of the concept group {}", group.name);
            push(PackProblemKind::Setting { key, value: group.description.clone(), wanted });
        }
        if group.include.is_empty() {
            let key = format!("include of the concept group {}", group.name);
            push(PackProblemKind::Setting { key, value: String::new(), wanted: "a list of at least one selection" });
        }
        let count = group.include.len() + group.exclude.len();
        if count > SELECTIONS_MAX {
            push(PackProblemKind::TooMany { what: "selections", actual: count, max: SELECTIONS_MAX });
        }
        for selection in group.include.iter().chain(&group.exclude) {
            if let Some(wanted) = fault(selection, &namespaces, &codes) {
                let key = format!("selection of the concept group {}", group.name);
                push(PackProblemKind::Setting { key, value: selection.uri().to_owned(), wanted });
            }
        }
    }
    groups.iter().map(source).collect()
}

fn source(group: &ConceptGroupSettings) -> ConceptGroupSource {
    ConceptGroupSource {
        name: group.name.clone(),
        description: group.description.clone(),
        includes: group.include.clone(),
        excludes: group.exclude.clone(),
    }
}

/// What a selection should be and is not.
fn fault(selection: &Selection, namespaces: &HashSet<&str>, codes: &HashSet<(&str, &str)>) -> Option<&'static str> {
    let uri = selection.uri();
    match uri.split_once('#') {
        Some((namespace, code)) if !namespace.is_empty() && !code.is_empty() && is_sound_text(uri) => {
            let is_missing = namespaces.contains(namespace) && !codes.contains(&(namespace, code));
            is_missing.then_some("a code of that vocabulary")
        }
        _ => Some("the URI of a code, <namespace>#<code>"),
    }
}

fn is_group_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
