//! Concept groups: sets of codes that rules speak of by name.
//!
//! A group is its includes without its excludes, in three-valued logic: where a selection cannot be followed because
//! its vocabulary is not installed (or is a fragment without the code), the membership of that vocabulary's other codes
//! is not known. A group that includes nothing at all is *unset*: then the membership of every code is unknown, which
//! is how `pregnant_eligible` begins.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use super::index::{Index, Known};
use crate::digest::Digester;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::vocabulary::{ConceptGroup, Selection};

/// The names that the registry itself relies on, with what belongs to each.
pub const WELL_KNOWN_CONCEPT_GROUPS: [(&str, &str); 4] = [
    ("feminine_gender", "Genders of women and girls."),
    ("head_of_household", "Roles of the head of a household."),
    ("masculine_gender", "Genders of men and boys."),
    ("pregnant_eligible", "Pregnancy statuses that count as pregnant; the deployment sets it."),
];

/// The vocabulary of genders.
const GENDER_NAMESPACE: &str = "urn:iso:std:iso:5218";

/// Origin of the definition of a concept group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinedBy {
    /// No definition: a well-known name, unset.
    None,
    /// The deployment; its definition wins over a pack's.
    Deployment,
    /// A pack, by the name of its plugin.
    Plugin(String),
}

/// A concept group active, with its members.
#[derive(Debug, Clone)]
pub struct PublishedGroup {
    definition: ConceptGroup,
    defined_by: DefinedBy,
    known: Known,
    concerns_gender: bool,
}

impl PublishedGroup {
    /// Follows the selections of a definition.
    pub(super) fn expand(definition: ConceptGroup, defined_by: DefinedBy, index: &Index) -> Self {
        let included = followed(&definition.includes, index);
        let excluded = followed(&definition.excludes, index);
        let yes = &(&included.yes - &excluded.yes) - &excluded.unknown;
        let unknown = &(&(&included.yes | &included.unknown) - &excluded.yes) - &yes;
        let selections = definition.includes.iter().chain(&definition.excludes);
        let concerns_gender = selections.map(uri_of).any(|uri| uri.namespace.as_str() == GENDER_NAMESPACE);
        Self { definition, defined_by, known: Known { yes, unknown }, concerns_gender }
    }

    /// Its name, description and selections.
    #[must_use]
    pub fn definition(&self) -> &ConceptGroup {
        &self.definition
    }

    /// Origin of its definition.
    #[must_use]
    pub fn defined_by(&self) -> &DefinedBy {
        &self.defined_by
    }

    /// True if it includes nothing yet, so that the membership of every code is unknown.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.definition.includes.is_empty()
    }

    /// The codes that certainly belong to it.
    pub fn members(&self) -> impl Iterator<Item = CodeNumber> + '_ {
        self.known.yes.iter().map(CodeNumber)
    }

    /// The codes with unknown membership, because a vocabulary is incomplete here. Of an unset group
    /// that is every code, and none is listed.
    pub fn undecided(&self) -> impl Iterator<Item = CodeNumber> + '_ {
        self.known.unknown.iter().map(CodeNumber)
    }

    /// Number of codes that certainly belong to it.
    #[must_use]
    pub fn member_count(&self) -> usize {
        usize::try_from(self.known.yes.len()).unwrap_or(usize::MAX)
    }

    /// Number of codes with unknown membership.
    #[must_use]
    pub fn undecided_count(&self) -> usize {
        usize::try_from(self.known.unknown.len()).unwrap_or(usize::MAX)
    }

    /// Name of the missing fact if membership in the group is unknown.
    #[must_use]
    pub fn missing_name(&self) -> String {
        format!("concept_group.{}", self.definition.name)
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// True if it is about genders, so that "not known" is missing to it.
    pub(super) fn concerns_gender(&self) -> bool {
        self.concerns_gender
    }
}

/// True if two definitions select the same, in any order.
pub(super) fn is_same_definition(one: &ConceptGroup, other: &ConceptGroup) -> bool {
    let set = |selections: &[Selection]| selections.iter().map(key).map(owned).collect::<HashSet<_>>();
    set(&one.includes) == set(&other.includes) && set(&one.excludes) == set(&other.excludes)
}

/// Adds a definition to a digest, its selections in their order: answers show them so.
pub(super) fn digest(definition: &ConceptGroup, digester: &mut Digester) {
    digester.text(&definition.name);
    digester.text(&definition.description);
    for selections in [&definition.includes, &definition.excludes] {
        digester.number(selections.len());
        for (takes_descendants, uri) in selections.iter().map(key) {
            digester.flag(takes_descendants);
            digester.text(uri.namespace.as_str());
            digester.text(uri.code.as_str());
        }
    }
}

/// The code that a selection names.
pub(super) fn uri_of(selection: &Selection) -> &CodeUri {
    let (_, uri) = key(selection);
    uri
}

/// The number of gender `0`, "not known": itself as a code, a missing fact to the helpers of rules.
pub(super) fn gender_not_known(index: &Index) -> Option<CodeNumber> {
    index.table().number(&CodeUri::from_parts(GENDER_NAMESPACE, "0").ok()?)
}

/// True if a code is one of the genders.
pub(super) fn is_gender(uri: &CodeUri) -> bool {
    uri.namespace.as_str() == GENDER_NAMESPACE
}

fn key(selection: &Selection) -> (bool, &CodeUri) {
    match selection {
        Selection::Code(uri) => (false, uri),
        Selection::DescendantsOf(uri) => (true, uri),
    }
}

fn owned((takes_descendants, uri): (bool, &CodeUri)) -> (bool, CodeUri) {
    (takes_descendants, uri.clone())
}

fn followed(selections: &[Selection], index: &Index) -> Known {
    let mut known = Known::default();
    let mut alone = RoaringBitmap::new();
    for selection in selections {
        match selection {
            // Equality of codes needs no vocabulary. A local code counts wherever the one that it specialises does.
            Selection::Code(uri) => {
                alone.extend(index.table().number(uri).map(|number| number.0));
                alone.extend(index.local_below(uri));
            }
            Selection::DescendantsOf(uri) => {
                // Descendants of a visited code were visited with it.
                let is_followed = index.table().number(uri).is_some_and(|number| known.yes.contains(number.0));
                if !is_followed {
                    index.add_at_or_below(uri, &mut known);
                }
            }
        }
    }
    known.yes |= alone;
    known.unknown -= &known.yes;
    known
}
