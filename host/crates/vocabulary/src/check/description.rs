//! Whether a vocabulary's description is sound, and true of its concepts.

use super::limits::{CONCEPTS_MAX, DESCRIPTION_TEXT_BYTES_MAX, LANGUAGES_MAX, VERSION_BYTES_MAX};
use super::problem::{PackFault, PackProblems, Place, TextFault};
use super::texts::lines_fault;
use crate::language::is_language_tag;
use daftar_domain::vocabulary::{Completeness, Concept, VocabularyDescription};

pub(super) fn check(description: &VocabularyDescription, concepts: &[Concept], problems: &mut PackProblems) {
    let mut push = |fault| problems.push(Place::Vocabulary(description.namespace.clone()), fault);
    texts(description, &mut push);
    languages(description, &mut push);
    promises(description, concepts, &mut push);
}

fn texts(description: &VocabularyDescription, push: &mut impl FnMut(PackFault)) {
    let texts = [
        ("name", &description.name),
        ("domain", &description.domain),
        ("source", &description.source),
        ("licence", &description.licence),
        ("attribution", &description.attribution),
    ];
    for (what, text) in texts {
        let may_be_empty = what != "name";
        match lines_fault(text, DESCRIPTION_TEXT_BYTES_MAX) {
            Some(TextFault::Empty) if may_be_empty => {}
            Some(fault) => push(PackFault::Text { what: what.to_owned(), fault }),
            None => {}
        }
    }
    let version = &description.version;
    let is_version = (1..=VERSION_BYTES_MAX).contains(&version.len()) && version.bytes().all(|b| b.is_ascii_graphic());
    if !is_version {
        push(PackFault::Version(version.escape_debug().take(VERSION_BYTES_MAX).collect()));
    }
}

fn languages(description: &VocabularyDescription, push: &mut impl FnMut(PackFault)) {
    let languages = &description.languages;
    if languages.len() > LANGUAGES_MAX {
        push(PackFault::TooMany { what: "languages", actual: languages.len(), max: LANGUAGES_MAX });
        return;
    }
    for (place, language) in languages.iter().enumerate() {
        if !is_language_tag(language) {
            push(PackFault::LanguageTag(language.clone()));
        }
        if languages.iter().take(place).any(|earlier| earlier.eq_ignore_ascii_case(language)) {
            push(PackFault::LanguageTwice(language.clone()));
        }
    }
    if !languages.contains(&description.default_language) {
        push(PackFault::DefaultLanguageNotListed(description.default_language.clone()));
    }
}

fn promises(description: &VocabularyDescription, concepts: &[Concept], push: &mut impl FnMut(PackFault)) {
    let actual = concepts.len();
    if actual > CONCEPTS_MAX {
        push(PackFault::TooMany { what: "concepts", actual, max: CONCEPTS_MAX });
    }
    if usize::try_from(description.concept_count).ok() != Some(actual) {
        push(PackFault::Count { promised: description.concept_count, actual });
    }
    let has_parents = concepts.iter().any(|concept| !concept.parents.is_empty());
    match (description.is_hierarchical, has_parents) {
        (false, true) => push(PackFault::NotFlat),
        // What is not whole may lack the levels that would show it.
        // Codes of an open vocabulary that are not listed may lie below those that are.
        (true, false) if description.completeness == Completeness::Full && !description.is_open => {
            push(PackFault::NotHierarchical)
        }
        (true, false | true) | (false, false) => {}
    }
    let may_be_without = description.is_open || description.is_extensible;
    match (description.completeness, actual) {
        (Completeness::Empty, 1..) => push(PackFault::NotEmpty),
        (Completeness::Full | Completeness::Fragment, 0) if !may_be_without => push(PackFault::Empty),
        (Completeness::Empty, 0) | (Completeness::Full | Completeness::Fragment, _) => {}
    }
}
