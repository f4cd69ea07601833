//! Concept groups: sets of codes that rules reference by name.
//!
//! The members of a group are its includes without its excludes, in three-valued logic. If a selection cannot be
//! expanded because its vocabulary is not installed (or is a fragment without the code), the membership of the other
//! codes of that vocabulary is unknown. A group without includes is *unset*: the membership of every code is unknown.
//! `pregnant_eligible` is initially unset.

use std::collections::HashSet;

use roaring::RoaringBitmap;

use super::index::{Index, Known};
use crate::digest::Digester;
use daftar_domain::code::{CodeNumber, CodeUri};
use daftar_domain::vocabulary::{ConceptGroup, Selection};

/// Names of the concept groups that the registry itself uses, with their descriptions.
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
    /// The deployment. Its definition overrides the definition of a pack.
    Deployment,
    /// A pack, by the name of its plugin.
    Plugin(String),
}

/// An active concept group with its members.
#[derive(Debug, Clone)]
pub struct PublishedGroup {
    definition: ConceptGroup,
    defined_by: DefinedBy,
    known: Known,
    concerns_gender: bool,
}

impl PublishedGroup {
    /// Expands the selections of a definition.
    pub(super) fn expand(definition: ConceptGroup, defined_by: DefinedBy, index: &Index) -> Self {
        let included = followed(&definition.includes, index);
        let excluded = followed(&definition.excludes, index);
        let yes = &(&included.yes - &excluded.yes) - &excluded.unknown;
        let unknown = &(&(&included.yes | &included.unknown) - &excluded.yes) - &yes;
        let selections = definition.includes.iter().chain(&definition.excludes);
        let concerns_gender = selections.map(uri_of).any(|uri| uri.namespace.as_str() == GENDER_NAMESPACE);
        Self { definition, defined_by, known: Known { yes, unknown }, concerns_gender }
    }

    /// Returns the name, description and selections.
    #[must_use]
    pub fn definition(&self) -> &ConceptGroup {
        &self.definition
    }

    /// Returns the origin of the definition.
    #[must_use]
    pub fn defined_by(&self) -> &DefinedBy {
        &self.defined_by
    }

    /// Returns true if the group has no includes, so that the membership of every code is unknown.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.definition.includes.is_empty()
    }

    /// Returns the codes that are certainly members.
    pub fn members(&self) -> impl Iterator<Item = CodeNumber> + '_ {
        self.known.yes.iter().map(CodeNumber)
    }

    /// Returns the codes with unknown membership, because a vocabulary is incomplete. For an unset group the membership
    /// of every code is unknown; the result is empty.
    pub fn undecided(&self) -> impl Iterator<Item = CodeNumber> + '_ {
        self.known.unknown.iter().map(CodeNumber)
    }

    /// Returns the number of certain members.
    #[must_use]
    pub fn member_count(&self) -> usize {
        usize::try_from(self.known.yes.len()).unwrap_or(usize::MAX)
    }

    /// Returns the number of codes with unknown membership.
    #[must_use]
    pub fn undecided_count(&self) -> usize {
        usize::try_from(self.known.unknown.len()).unwrap_or(usize::MAX)
    }

    /// Returns the name of the missing fact for a code with unknown membership.
    #[must_use]
    pub fn missing_name(&self) -> String {
        format!("concept_group.{}", self.definition.name)
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Returns true if the group selects genders. For such a group the gender "not known" is a missing fact.
    pub(super) fn concerns_gender(&self) -> bool {
        self.concerns_gender
    }
}

/// Returns true if two definitions have the same selections, in any order.
pub(super) fn is_same_definition(one: &ConceptGroup, other: &ConceptGroup) -> bool {
    fn set(selections: &[Selection]) -> HashSet<(bool, &CodeUri)> {
        selections.iter().map(key).collect()
    }
    set(&one.includes) == set(&other.includes) && set(&one.excludes) == set(&other.excludes)
}

/// Adds a definition to a digest. Selections are in their original order, because responses return them in that order.
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

/// Returns the code of a selection.
pub(super) fn uri_of(selection: &Selection) -> &CodeUri {
    let (_, uri) = key(selection);
    uri
}

/// Returns the number of gender `0`, "not known". It is a valid code, but a missing fact for the helper functions of
/// rules.
pub(super) fn gender_not_known(index: &Index) -> Option<CodeNumber> {
    index.table().number(&CodeUri::from_parts(GENDER_NAMESPACE, "0").ok()?)
}

/// Returns true if a code is a gender.
pub(super) fn is_gender(uri: &CodeUri) -> bool {
    uri.namespace.as_str() == GENDER_NAMESPACE
}

fn key(selection: &Selection) -> (bool, &CodeUri) {
    match selection {
        Selection::Code(uri) => (false, uri),
        Selection::DescendantsOf(uri) => (true, uri),
    }
}

fn followed(selections: &[Selection], index: &Index) -> Known {
    let mut known = Known::default();
    let mut alone = RoaringBitmap::new();
    for selection in selections {
        match selection {
            // Equality of codes needs no vocabulary. A local code matches wherever the code that it specializes
            // matches.
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
