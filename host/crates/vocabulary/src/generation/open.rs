//! Concepts that the packs of open vocabularies resolved, in addition to the listed concepts.
//!
//! Resolved concepts and their listed ancestors form a separate small vocabulary, so that labels and the hierarchy are
//! read as in other vocabularies. The listed vocabulary is unchanged: neither its digest nor its concept count reveals
//! the codes in use.
//!
//! **Invariant:** a resolved concept passed the same checks as the concepts at installation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Generation;
use super::group::PublishedGroup;
use super::index::Installed;
use crate::check::{check_vocabulary, problem::PackProblems};
use crate::open::QueriedCode;
use crate::table::{CodeTable, TableError};
use crate::vocabulary::{ConceptRef, Vocabulary};
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::vocabulary::{Completeness, Concept};

/// Resolved codes of an open vocabulary, in addition to its listed codes.
#[derive(Clone, Default)]
pub(super) struct OpenConcepts {
    /// The concepts in their normalized spelling, with their ancestors; `None` before the first query.
    vocabulary: Option<Arc<Vocabulary>>,
    /// Normalized spellings by other spellings.
    spellings: HashMap<Code, Code>,
    /// Problems of codes that the pack rejected.
    malformed: HashMap<Code, String>,
}

impl OpenConcepts {
    /// Returns the concept of a code in the requested spelling.
    pub(super) fn find(&self, code: &str) -> Option<ConceptRef<'_>> {
        self.vocabulary.as_ref()?.find(code)
    }

    /// Returns the normalized spelling of a code that was queried in another one.
    pub(super) fn spelling(&self, code: &Code) -> Option<&Code> {
        self.spellings.get(code)
    }

    /// Returns the problem of a code that the pack reported.
    pub(super) fn malformed(&self, code: &Code) -> Option<&str> {
        self.malformed.get(code).map(String::as_str)
    }
}

/// Error of a response of a pack that contradicts its codes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenProblem {
    /// The response is invalid.
    #[error("{0}")]
    Corrupt(PackProblems),
    /// Codes cannot be numbered.
    #[error(transparent)]
    Numbers(#[from] TableError),
}

impl Generation {
    /// Returns true if any vocabulary is open.
    #[must_use]
    pub fn has_open_vocabularies(&self) -> bool {
        self.vocabularies().any(|vocabulary| vocabulary.description().is_open)
    }

    /// Returns true if the pack must be queried for a code: the vocabulary is open and does not list it, and this
    /// generation has no result for it. A code that is known only as an ancestor has no number, and is queried too.
    #[must_use]
    pub fn needs_lookup(&self, uri: &CodeUri) -> bool {
        let is_open = self.vocabulary(&uri.namespace).is_some_and(|vocabulary| vocabulary.description().is_open);
        let is_numbered = |(installed, concept)| self.index.number(installed, concept).is_some();
        is_open && !self.index.concept_of(uri).is_some_and(is_numbered) && self.index.malformed(uri).is_none()
    }

    /// Returns the codes of an open vocabulary with a number but no concept, the oldest first. Records contain them,
    /// and the server queries the pack for them when it is published.
    pub fn unrequested(&self, namespace: &Namespace) -> Vec<CodeUri> {
        let mut numbers = self.table().numbers_in(namespace).to_vec();
        numbers.sort_unstable();
        numbers.iter().filter_map(|number| self.table().uri(*number)).filter(|uri| self.needs_lookup(uri)).collect()
    }

    /// Returns true if a numbered code of an open vocabulary has neither a concept nor an error of its pack: another
    /// server numbered it, or its pack did not respond.
    #[must_use]
    pub fn has_unresolved_codes(&self) -> bool {
        let mut open = self.vocabularies().filter(|vocabulary| vocabulary.description().is_open);
        open.any(|vocabulary| !self.unrequested(vocabulary.namespace()).is_empty())
    }

    /// Maps two concepts of one vocabulary to one hierarchy, so that they can be compared. A listed concept of an open
    /// vocabulary is replaced by its counterpart in the hierarchy with the resolved codes.
    #[must_use]
    pub fn side_by_side<'g>(&'g self, one: ConceptRef<'g>, other: ConceptRef<'g>) -> (ConceptRef<'g>, ConceptRef<'g>) {
        if std::ptr::eq(one.vocabulary(), other.vocabulary()) {
            return (one, other);
        }
        let twin = |concept: ConceptRef<'g>| {
            self.index
                .open_of(concept.vocabulary().namespace())
                .and_then(|open| open.find(concept.code()))
                .unwrap_or(concept)
        };
        (twin(one), twin(other))
    }

    /// Returns the generation with resolved concepts, under the same digest.
    ///
    /// If `table` is `Some`, it provides the numbers of the codes, and the generation may be published. Otherwise codes
    /// get numbers after the last one, valid for one request: a record that was read before cannot contain them if this
    /// generation has every number in it, and they are never stored.
    ///
    /// # Errors
    /// Returns an error if a response of a pack is invalid.
    pub fn with_open(
        &self,
        requested: &[Arc<QueriedCode>],
        table: Option<Arc<CodeTable>>,
    ) -> Result<Self, OpenProblem> {
        let mut by_namespace: BTreeMap<&Namespace, Vec<&QueriedCode>> = BTreeMap::new();
        for code in requested.iter().filter(|code| self.needs_lookup(&code.written)) {
            by_namespace.entry(&code.written.namespace).or_default().push(code);
        }
        let mut open = HashMap::new();
        let mut unnumbered = Vec::new();
        for (namespace, codes) in by_namespace {
            let Some(installed) = self.index.find(namespace) else { continue };
            let known = self.index.open_of(namespace).cloned().unwrap_or_default();
            for code in codes.iter().filter_map(|code| code.answer.as_ref().ok()) {
                let uri = code.uri(namespace);
                if self.table().number(&uri).is_none() && !unnumbered.contains(&uri) {
                    unnumbered.push(uri);
                }
            }
            open.insert(namespace.clone(), grown(installed, known, &codes).map_err(OpenProblem::Corrupt)?);
        }
        let table = match table {
            Some(table) => table,
            None => Arc::new(self.table().with_codes(&unnumbered)?),
        };
        let index = self.index.with_open(open, table);
        let again = |group: &PublishedGroup| {
            PublishedGroup::expand(group.definition().clone(), group.defined_by().clone(), &index)
        };
        let groups = self.groups.iter().map(|(name, group)| (name.clone(), again(group))).collect();
        Ok(Self {
            digest: self.digest,
            concept_groups_digest: self.concept_groups_digest,
            packs: self.packs.clone(),
            index,
            groups,
            identifier_rules: self.identifier_rules.clone(),
            registered_systems: self.registered_systems.clone(),
            extension_fields: self.extension_fields.clone(),
            earlier: self.earlier.clone(),
        })
    }
}

/// Returns the known codes of an open vocabulary, with further codes.
fn grown(installed: &Installed, known: OpenConcepts, codes: &[&QueriedCode]) -> Result<OpenConcepts, PackProblems> {
    let listed = &installed.vocabulary;
    let OpenConcepts { vocabulary, mut spellings, mut malformed } = known;
    let mut concepts: BTreeMap<Code, Concept> = BTreeMap::new();
    let mut add = |concept: Concept| drop(concepts.insert(concept.code.clone(), concept));
    vocabulary.iter().flat_map(|known| known.concepts()).filter_map(to_concept).for_each(&mut add);
    for requested in codes {
        match &requested.answer {
            Ok(resolved) => {
                if resolved.concept.code != requested.written.code {
                    spellings.insert(requested.written.code.clone(), resolved.concept.code.clone());
                }
                if listed.find(resolved.concept.code.as_str()).is_none() {
                    add(resolved.concept.clone());
                    resolved.above.iter().cloned().for_each(&mut add);
                }
            }
            Err(sentence) => drop(malformed.insert(requested.written.code.clone(), sentence.clone())),
        }
    }
    let links: Vec<Code> =
        concepts.values().flat_map(|concept| concept.parents.iter().chain(&concept.replaced_by)).cloned().collect();
    for link in links {
        let Some(found) = listed.find(link.as_str()) else { continue };
        for concept in [found].into_iter().chain(found.ancestors()).filter_map(to_concept) {
            concepts.entry(concept.code.clone()).or_insert(concept);
        }
    }
    // Only the pack parses other spellings, and the successor of a listed concept may be missing here.
    let concepts: Vec<Concept> = concepts
        .values()
        .map(|concept| {
            let replaced_by = concept.replaced_by.clone().filter(|code| concepts.contains_key(code));
            Concept { aliases: Vec::new(), replaced_by, ..concept.clone() }
        })
        .collect();
    if concepts.is_empty() {
        return Ok(OpenConcepts { vocabulary: None, spellings, malformed });
    }
    let mut description = listed.description().clone();
    description.completeness = Completeness::Fragment;
    description.concept_count = u32::try_from(concepts.len()).unwrap_or(u32::MAX);
    let vocabulary = Some(check_vocabulary(&description, &concepts)?);
    Ok(OpenConcepts { vocabulary, spellings, malformed })
}

/// Converts a concept of the vocabulary to a concept of the pack, without definitions and other spellings. Never
/// returns `None`: codes of a checked vocabulary are valid.
fn to_concept(concept: ConceptRef<'_>) -> Option<Concept> {
    Some(Concept { definitions: Vec::new(), aliases: Vec::new(), ..concept.to_concept()? })
}
