//! Validation of the contents of a pack.
//!
//! **Invariant:** a [`CheckedPack`] has no problems. Its users may rely on unique codes, existing parents, and bounded
//! sizes.
//!
//! **Invariant:** all problems are reported together, not only the first, up to a bound.

mod concepts;
pub mod limits;
pub mod problem;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use self::limits::{
    CONCEPT_GROUPS_MAX, CONCEPTS_MAX, DESCRIPTION_TEXT_BYTES_MAX, LANGUAGES_MAX, LIST_ITEMS_MAX, NAME_BYTES_MAX,
    SELECTIONS_MAX, VERSION_BYTES_MAX, VOCABULARIES_MAX,
};
use self::problem::{PackFault, PackProblems, Place, TextFault};
use super::compact::ConceptIndex;
use super::hierarchy::{DEPTH_MAX, HierarchyFault};
use super::vocabulary::Vocabulary;
use crate::language::is_language_tag;
use daftar_domain::code::{Code, Namespace};
use daftar_domain::deployment::Deployment;
use daftar_domain::manifest::ExtensionField;
use daftar_domain::vocabulary::{Completeness, Concept, ConceptGroup, PackContents, Selection, VocabularyDescription};

/// The codes of each vocabulary of the pack.
type OwnCodes<'a> = HashMap<&'a Namespace, HashSet<&'a Code>>;

fn check_groups(groups: &[ConceptGroup], own_codes: &OwnCodes<'_>, problems: &mut PackProblems) {
    if groups.len() > CONCEPT_GROUPS_MAX {
        let fault = PackFault::TooMany { what: "concept groups", actual: groups.len(), max: CONCEPT_GROUPS_MAX };
        problems.push(Place::Pack, fault);
        return;
    }
    let mut names = HashSet::new();
    for group in groups {
        let shown_name: String = group.name.chars().take(limits::NAME_BYTES_MAX).collect();
        let mut push = |fault| problems.push(Place::ConceptGroup(shown_name.clone()), fault);
        if !is_name(&group.name) {
            push(PackFault::ConceptGroupName);
        }
        if !names.insert(&group.name) {
            push(PackFault::ConceptGroupTwice);
        }
        match lines_fault(&group.description, DESCRIPTION_TEXT_BYTES_MAX) {
            None | Some(TextFault::Empty) => {}
            Some(fault) => push(PackFault::Text { what: "description".to_owned(), fault }),
        }
        let actual = group.includes.len() + group.excludes.len();
        if actual > SELECTIONS_MAX {
            push(PackFault::TooMany { what: "selections", actual, max: SELECTIONS_MAX });
        }
        for selection in group.includes.iter().chain(&group.excludes).take(SELECTIONS_MAX) {
            let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
            if own_codes.get(&uri.namespace).is_some_and(|codes| !codes.contains(&uri.code)) {
                push(PackFault::UnknownSelection(uri.clone()));
            }
        }
    }
}

fn check_description(description: &VocabularyDescription, concepts: &[Concept], problems: &mut PackProblems) {
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
        // A partial vocabulary may lack the levels with parents. Unlisted codes of an open vocabulary may be below
        // listed ones.
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

/// Returns the problem with a text of one line.
fn line_fault(text: &str, bytes_max: usize) -> Option<TextFault> {
    text_fault(text, bytes_max).or_else(|| text.contains(char::is_control).then_some(TextFault::ControlCharacter))
}

/// Returns the problem with a text that may have several lines.
fn lines_fault(text: &str, bytes_max: usize) -> Option<TextFault> {
    let is_forbidden = |character: char| character.is_control() && character != '\n';
    text_fault(text, bytes_max).or_else(|| text.contains(is_forbidden).then_some(TextFault::ControlCharacter))
}

/// Returns true if a text is a valid name: lower-case letters, digits and underscores, beginning with a letter.
fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn text_fault(text: &str, bytes_max: usize) -> Option<TextFault> {
    if text.is_empty() {
        Some(TextFault::Empty)
    } else if text.len() > bytes_max {
        Some(TextFault::TooLong { bytes: text.len(), max: bytes_max })
    } else if unicode_normalization::is_nfc(text) {
        None
    } else {
        Some(TextFault::NotNormalized)
    }
}

#[cfg(test)]
mod tests;

/// The validated content of a pack. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CheckedPack {
    vocabularies: Vec<Arc<Vocabulary>>,
    concept_groups: Arc<[ConceptGroup]>,
    extension_fields: Arc<[ExtensionField]>,
    earlier: Vec<Arc<Vocabulary>>,
}

impl CheckedPack {
    /// Returns the indexed vocabularies.
    #[must_use]
    pub fn vocabularies(&self) -> &[Arc<Vocabulary>] {
        &self.vocabularies
    }

    /// Returns the concept groups. Their codes of other packs are not checked yet.
    #[must_use]
    pub fn concept_groups(&self) -> &[ConceptGroup] {
        &self.concept_groups
    }

    /// Returns the fields that the pack adds to records. Conflicts with fields of other packs are not checked yet.
    #[must_use]
    pub fn extension_fields(&self) -> &[ExtensionField] {
        &self.extension_fields
    }

    /// Returns the pack with the fields that its manifest declares.
    #[must_use]
    pub fn with_extension_fields(self, fields: &[ExtensionField]) -> Self {
        Self { extension_fields: fields.into(), ..self }
    }

    /// Returns the previous versions of its vocabularies, if they exist.
    #[must_use]
    pub fn earlier(&self) -> &[Arc<Vocabulary>] {
        &self.earlier
    }

    /// Returns the pack with the codes that the deployment retains of earlier versions of its vocabularies.
    #[must_use]
    pub fn with_retained(mut self, deployment: &Deployment) -> Self {
        let earlier = self.vocabularies.iter().filter_map(|vocabulary| vocabulary.earlier(deployment));
        self.earlier = earlier.map(Arc::new).collect();
        for vocabulary in &mut self.vocabularies {
            if let Some(longer) = vocabulary.with_retained(deployment.retained_of(vocabulary.namespace())) {
                *vocabulary = Arc::new(longer);
            }
        }
        self
    }
}

/// Checks a pack's contents and indexes its vocabularies.
///
/// # Errors
/// Returns all problems.
pub fn check(contents: PackContents) -> Result<CheckedPack, PackProblems> {
    let PackContents { vocabularies: mut unchecked, concept_groups } = contents;
    let mut problems = PackProblems::default();
    if unchecked.is_empty() && concept_groups.is_empty() {
        problems.push(Place::Pack, PackFault::Nothing);
    }
    if unchecked.len() > VOCABULARIES_MAX {
        let fault = PackFault::TooMany { what: "vocabularies", actual: unchecked.len(), max: VOCABULARIES_MAX };
        problems.push(Place::Pack, fault);
        unchecked.truncate(VOCABULARIES_MAX);
    }
    let mut namespaces = HashSet::new();
    let mut vocabularies = Vec::new();
    let mut own_codes = OwnCodes::new();
    for (description, concepts) in &mut unchecked {
        concepts.sort_by(|one, other| one.code.cmp(&other.code));
        if !namespaces.insert(description.namespace.clone()) {
            problems.push(Place::Vocabulary(description.namespace.clone()), PackFault::VocabularyTwice);
        }
        vocabularies.extend(vocabulary(description, concepts, &mut problems));
        own_codes.entry(&description.namespace).or_default().extend(concepts.iter().map(|concept| &concept.code));
    }
    check_groups(&concept_groups, &own_codes, &mut problems);
    if problems.count() == 0 {
        Ok(CheckedPack {
            vocabularies,
            concept_groups: concept_groups.into(),
            extension_fields: Arc::new([]),
            earlier: Vec::new(),
        })
    } else {
        Err(problems)
    }
}

/// Checks a single concept group, as defined by a deployment.
///
/// # Errors
/// Returns all problems.
pub fn check_concept_group(group: ConceptGroup) -> Result<ConceptGroup, PackProblems> {
    let mut problems = PackProblems::default();
    check_groups(std::slice::from_ref(&group), &OwnCodes::new(), &mut problems);
    if problems.count() == 0 { Ok(group) } else { Err(problems) }
}

/// Checks and indexes a single vocabulary. Its concepts are sorted by code.
pub(super) fn check_vocabulary(
    description: &VocabularyDescription,
    concepts: &[Concept],
) -> Result<Arc<Vocabulary>, PackProblems> {
    let mut problems = PackProblems::default();
    vocabulary(description, concepts, &mut problems).ok_or(problems)
}

/// Checks a vocabulary whose concepts are sorted by code.
fn vocabulary(
    description: &VocabularyDescription,
    concepts: &[Concept],
    problems: &mut PackProblems,
) -> Option<Arc<Vocabulary>> {
    let problems_before = problems.count();
    check_description(description, concepts, problems);
    if concepts.len() > CONCEPTS_MAX || description.languages.len() > LANGUAGES_MAX {
        // These two limits bound the following work.
        return None;
    }
    concepts::check(description, concepts, problems);
    let built = if problems.count() == problems_before {
        Vocabulary::build(description.clone(), concepts).map(|vocabulary| Some(Arc::new(vocabulary)))
    } else if is_readable_hierarchy(concepts) {
        // The cycles of a vocabulary that is rejected for other problems are reported as well.
        super::vocabulary::hierarchy(concepts).map(|_| None)
    } else {
        Ok(None)
    };
    built.unwrap_or_else(|fault| {
        hierarchy_problems(description, concepts, fault, problems);
        None
    })
}

/// Returns true if a cycle would be a new problem. Duplicate codes and self-parents are already reported and would be
/// reported again as cycles.
fn is_readable_hierarchy(concepts: &[Concept]) -> bool {
    let is_repeated = concepts.array_windows().any(|[one, other]| one.code == other.code);
    let is_odd = |concept: &Concept| concept.parents.len() > LIST_ITEMS_MAX || concept.parents.contains(&concept.code);
    !is_repeated && !concepts.iter().any(is_odd)
}

fn hierarchy_problems(
    description: &VocabularyDescription,
    concepts: &[Concept],
    fault: HierarchyFault,
    problems: &mut PackProblems,
) {
    let code = |index: &ConceptIndex| concepts.get(index.position()).map(|concept| concept.code.clone());
    let namespace = &description.namespace;
    match fault {
        HierarchyFault::Cycles(cycles) => {
            for cycle in cycles {
                let codes: Vec<Code> = cycle.iter().filter_map(code).collect();
                if let Some(first) = codes.first() {
                    problems.push(Place::Concept(namespace.clone(), first.clone()), PackFault::Cycle(codes));
                }
            }
        }
        HierarchyFault::TooDeep(deep) => {
            for code in deep.iter().filter_map(code) {
                problems.push(Place::Concept(namespace.clone(), code), PackFault::TooDeep { max: DEPTH_MAX });
            }
        }
        HierarchyFault::TooTangled => problems.push(Place::Vocabulary(namespace.clone()), PackFault::TooTangled),
    }
}
