//! Validation of the concepts of a vocabulary, individually and together.

use std::collections::{HashMap, HashSet};

use super::limits::{
    DEFINITION_BYTES_MAX, LABEL_BYTES_MAX, LANGUAGES_MAX, LIST_ITEMS_MAX, PROPERTY_KEYS_MAX, VOCABULARY_TEXT_BYTES_MAX,
};
use super::problem::{PackFault, PackProblems, Place, TextFault};
use super::{is_name, line_fault, lines_fault};
use crate::hierarchy::circles;
use crate::vocabulary::text_bytes;
use daftar_domain::code::Code;
use daftar_domain::vocabulary::{Concept, ConceptStatus, LocalizedText, VocabularyDescription};

/// Checks concepts that are sorted by code. Cycles are detected when the hierarchy is built.
pub(super) fn check(description: &VocabularyDescription, concepts: &[Concept], problems: &mut PackProblems) {
    let namespace = &description.namespace;
    sizes(description, concepts, problems);
    for repeated in concepts.chunk_by(|one, other| one.code == other.code) {
        if let [first, _, ..] = repeated {
            let place = Place::Concept(namespace.clone(), first.code.clone());
            problems.push(place, PackFault::CodeTwice { times: repeated.len() });
        }
    }
    let by_code: HashMap<&Code, &Concept> = concepts.iter().map(|concept| (&concept.code, concept)).collect();
    let mut aliases: HashMap<&str, &Code> = HashMap::new();
    for concept in concepts {
        let mut push = |fault| problems.push(Place::Concept(namespace.clone(), concept.code.clone()), fault);
        if !unicode_normalization::is_nfc(concept.code.as_str()) {
            push(PackFault::Text { what: "code".to_owned(), fault: TextFault::NotNormalized });
        }
        parents(concept, &by_code, &mut push);
        successor(concept, &by_code, &mut push);
        texts(description, concept, &mut push);
        for alias in concept.aliases.iter().take(LIST_ITEMS_MAX) {
            let Ok(as_code) = Code::parse(alias) else {
                push(PackFault::MalformedAlias(alias.escape_debug().take(LIST_ITEMS_MAX).collect()));
                continue;
            };
            if by_code.contains_key(&as_code) {
                push(PackFault::AliasIsCode(alias.clone()));
            }
            if let Some(other) = aliases.insert(alias, &concept.code) {
                push(PackFault::AliasTwice { alias: alias.clone(), other: other.clone() });
            }
        }
        properties(concept, &mut push);
    }
    let replaced = concepts.iter().filter(|concept| concept.replaced_by.is_some()).map(|concept| &concept.code);
    for circle in circles(replaced, |code| by_code.get(code).and_then(|concept| concept.replaced_by.as_ref())) {
        let Some(first) = circle.first() else { continue };
        let place = Place::Concept(namespace.clone(), (*first).clone());
        problems.push(place, PackFault::SuccessorCircle(circle.into_iter().cloned().collect()));
    }
}

fn sizes(description: &VocabularyDescription, concepts: &[Concept], problems: &mut PackProblems) {
    let mut push = |fault| problems.push(Place::Vocabulary(description.namespace.clone()), fault);
    let text_bytes = concepts.iter().map(text_bytes).sum();
    if text_bytes > VOCABULARY_TEXT_BYTES_MAX {
        push(PackFault::TooMany { what: "bytes of text", actual: text_bytes, max: VOCABULARY_TEXT_BYTES_MAX });
    }
    let keys: HashSet<&str> =
        concepts.iter().flat_map(|concept| concept.properties.iter().map(|(key, _)| key.as_str())).collect();
    if keys.len() > PROPERTY_KEYS_MAX {
        push(PackFault::TooMany { what: "property keys", actual: keys.len(), max: PROPERTY_KEYS_MAX });
    }
}

fn parents(concept: &Concept, by_code: &HashMap<&Code, &Concept>, push: &mut impl FnMut(PackFault)) {
    let parents = &concept.parents;
    if parents.len() > LIST_ITEMS_MAX {
        push(PackFault::TooMany { what: "parents", actual: parents.len(), max: LIST_ITEMS_MAX });
    }
    for (place, parent) in parents.iter().enumerate().take(LIST_ITEMS_MAX) {
        if *parent == concept.code {
            push(PackFault::SelfParent);
        } else if !by_code.contains_key(parent) {
            push(PackFault::UnknownParent(parent.clone()));
        }
        if parents.iter().take(place).any(|earlier| earlier == parent) {
            push(PackFault::ParentTwice(parent.clone()));
        }
    }
}

fn successor(concept: &Concept, by_code: &HashMap<&Code, &Concept>, push: &mut impl FnMut(PackFault)) {
    let Some(successor) = &concept.replaced_by else { return };
    if concept.status == ConceptStatus::Active {
        push(PackFault::ActiveReplaced(successor.clone()));
    }
    if !by_code.contains_key(successor) {
        push(PackFault::UnknownSuccessor(successor.clone()));
    }
}

fn texts(description: &VocabularyDescription, concept: &Concept, push: &mut impl FnMut(PackFault)) {
    if !concept.labels.iter().any(|label| label.language == description.default_language) {
        push(PackFault::NoDefaultLabel(description.default_language.clone()));
    }
    localized(description, ("label", "labels"), &concept.labels, push, |text| line_fault(text, LABEL_BYTES_MAX));
    localized(description, ("definition", "definitions"), &concept.definitions, push, |text| {
        lines_fault(text, DEFINITION_BYTES_MAX)
    });
    if let Some(fault) = concept.uri.as_ref().and_then(|uri| line_fault(uri, LABEL_BYTES_MAX)) {
        push(PackFault::Text { what: "URI".to_owned(), fault });
    }
}

fn localized(
    description: &VocabularyDescription,
    (one, many): (&'static str, &'static str),
    texts: &[LocalizedText],
    push: &mut impl FnMut(PackFault),
    fault_of: impl Fn(&str) -> Option<TextFault>,
) {
    if texts.len() > LANGUAGES_MAX {
        push(PackFault::TooMany { what: many, actual: texts.len(), max: LANGUAGES_MAX });
    }
    for (place, text) in texts.iter().enumerate().take(LANGUAGES_MAX) {
        let language = &text.language;
        if !description.languages.contains(language) {
            push(PackFault::UnlistedLanguage { what: one, language: language.clone() });
        }
        if texts.iter().take(place).any(|earlier| earlier.language == *language) {
            push(PackFault::TextTwice { what: many, language: language.clone() });
        }
        if let Some(fault) = fault_of(&text.value) {
            push(PackFault::Text { what: format!("{one} in {language}"), fault });
        }
    }
}

fn properties(concept: &Concept, push: &mut impl FnMut(PackFault)) {
    let (aliases, properties) = (concept.aliases.len(), &concept.properties);
    for (what, actual) in [("aliases", aliases), ("properties", properties.len())] {
        if actual > LIST_ITEMS_MAX {
            push(PackFault::TooMany { what, actual, max: LIST_ITEMS_MAX });
        }
    }
    for (place, (key, value)) in properties.iter().enumerate().take(LIST_ITEMS_MAX) {
        if !is_name(key) {
            push(PackFault::PropertyKey(key.escape_debug().take(LIST_ITEMS_MAX).collect()));
        }
        if properties.iter().take(place).any(|(earlier, _)| earlier == key) {
            push(PackFault::PropertyTwice(key.clone()));
        }
        if let Some(fault) = line_fault(value, LABEL_BYTES_MAX) {
            push(PackFault::Text { what: format!("property {key}"), fault });
        }
    }
}
