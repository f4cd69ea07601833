//! Checks what a pack brought before anything relies on it.
//!
//! **Invariant:** a [`CheckedPack`] exists only when nothing was wrong; everything behind it may count on unique codes,
//! parents that exist, and bounded sizes.
//!
//! **Invariant:** all problems are told at once, not the first only, up to a bound.

mod concepts;
mod description;
mod groups;
pub mod limits;
pub mod problem;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::HashSet;
use std::sync::Arc;

use self::groups::OwnCodes;
use self::limits::{CONCEPTS_MAX, LANGUAGES_MAX, LIST_ITEMS_MAX, VOCABULARIES_MAX};
use self::problem::{PackFault, PackProblems, Place};
use super::compact::ConceptIndex;
use super::hierarchy::{DEPTH_MAX, HierarchyFault};
use super::vocabulary::Vocabulary;
use daftar_domain::code::Code;
use daftar_domain::deployment::Deployment;
use daftar_domain::manifest::ExtensionField;
use daftar_domain::vocabulary::{Concept, ConceptGroup, PackContents, VocabularyDescription};

/// What a pack brings, sound in itself. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CheckedPack {
    vocabularies: Vec<Arc<Vocabulary>>,
    concept_groups: Arc<[ConceptGroup]>,
    extension_fields: Arc<[ExtensionField]>,
    earlier: Vec<Arc<Vocabulary>>,
}

impl CheckedPack {
    /// Its vocabularies, indexed.
    #[must_use]
    pub fn vocabularies(&self) -> &[Arc<Vocabulary>] {
        &self.vocabularies
    }

    /// Its concept groups. Codes of other packs that they name are not checked yet.
    #[must_use]
    pub fn concept_groups(&self) -> &[ConceptGroup] {
        &self.concept_groups
    }

    /// The fields that it adds to records. Those of other packs that they clash with are not checked yet.
    #[must_use]
    pub fn extension_fields(&self) -> &[ExtensionField] {
        &self.extension_fields
    }

    /// The same pack with the fields that its manifest declares.
    #[must_use]
    pub fn with_extension_fields(self, fields: &[ExtensionField]) -> Self {
        Self { extension_fields: fields.into(), ..self }
    }

    /// The versions that its vocabularies had before, where there are such.
    #[must_use]
    pub fn earlier(&self) -> &[Arc<Vocabulary>] {
        &self.earlier
    }

    /// The same pack with what the deployment keeps of earlier versions of its vocabularies.
    #[must_use]
    pub fn with_kept(mut self, deployment: &Deployment) -> Self {
        let earlier = self.vocabularies.iter().filter_map(|vocabulary| vocabulary.earlier(deployment));
        self.earlier = earlier.map(Arc::new).collect();
        for vocabulary in &mut self.vocabularies {
            if let Some(longer) = vocabulary.with_kept(deployment.kept_of(vocabulary.namespace())) {
                *vocabulary = Arc::new(longer);
            }
        }
        self
    }
}

/// Checks a pack's contents and indexes its vocabularies.
///
/// # Errors
/// Everything that is wrong with them.
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
    groups::check(&concept_groups, &own_codes, &mut problems);
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

/// Checks one concept group by itself, as a deployment defines it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn check_concept_group(group: ConceptGroup) -> Result<ConceptGroup, PackProblems> {
    let mut problems = PackProblems::default();
    groups::check(std::slice::from_ref(&group), &OwnCodes::new(), &mut problems);
    if problems.count() == 0 { Ok(group) } else { Err(problems) }
}

/// Checks and indexes one vocabulary by itself; its concepts stand in the order of their codes.
pub(super) fn check_vocabulary(
    description: &VocabularyDescription,
    concepts: &[Concept],
) -> Result<Arc<Vocabulary>, PackProblems> {
    let mut problems = PackProblems::default();
    vocabulary(description, concepts, &mut problems).ok_or(problems)
}

/// Checks a vocabulary whose concepts stand in the order of their codes.
fn vocabulary(
    description: &VocabularyDescription,
    concepts: &[Concept],
    problems: &mut PackProblems,
) -> Option<Arc<Vocabulary>> {
    let problems_before = problems.count();
    description::check(description, concepts, problems);
    if concepts.len() > CONCEPTS_MAX || description.languages.len() > LANGUAGES_MAX {
        // The work that follows is bounded by these two.
        return None;
    }
    concepts::check(description, concepts, problems);
    let built = if problems.count() == problems_before {
        Vocabulary::build(description.clone(), concepts).map(|vocabulary| Some(Arc::new(vocabulary)))
    } else if is_readable_hierarchy(concepts) {
        // The cycles of a vocabulary that is refused anyway are told as well.
        super::vocabulary::hierarchy(concepts).map(|_| None)
    } else {
        Ok(None)
    };
    built.unwrap_or_else(|fault| {
        hierarchy_problems(description, concepts, fault, problems);
        None
    })
}

/// Whether a cycle would be news: repeated codes and self-parents are told already and would show again.
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
