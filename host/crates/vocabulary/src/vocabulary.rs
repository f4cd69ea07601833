//! An indexed vocabulary.
//!
//! **Invariant:** a vocabulary is valid and immutable: its codes are unique, its parents and successors exist, and no
//! concept is its own ancestor. A new version is another value.
//!
//! **Invariant:** concepts are sorted by code, compared by bytes, so that codes are found by binary search and a
//! [`ConceptIndex`] is a position.

mod build;
mod concept;
mod overlay;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;

pub(super) use self::build::{hierarchy, text_bytes};
pub use self::concept::{ConceptRef, Label};
pub(super) use self::overlay::OverlayFault;
use super::compact::{ConceptIndex, Lists, Span, Texts, to_u32};
use super::digest::ContentDigest;
use super::hierarchy::Hierarchy;
use super::search::SearchIndex;
use daftar_domain::code::Namespace;
use daftar_domain::vocabulary::VocabularyDescription;

/// A text in one of the vocabulary's languages.
#[derive(Debug, Clone, Copy)]
struct Localized {
    /// Position of its language among the vocabulary's languages.
    language: u16,
    text: Span,
}

/// A property of a concept.
#[derive(Debug, Clone, Copy)]
struct Property {
    /// Position of its key among the vocabulary's property keys.
    key: u16,
    value: Span,
}

/// Flags of a concept.
#[derive(Debug, Clone, Copy)]
struct Flags {
    is_active: bool,
    is_selectable: bool,
}

/// The concepts of one version of a vocabulary, indexed.
#[derive(Clone)]
pub struct Vocabulary {
    description: VocabularyDescription,
    digest: ContentDigest,
    /// The default language first.
    languages: Vec<String>,
    property_keys: Vec<String>,
    texts: Texts,
    codes: Vec<Span>,
    flags: Vec<Flags>,
    /// In the order of languages, so that the default label is the first.
    labels: Lists<Localized>,
    definitions: Lists<Localized>,
    aliases: Lists<Span>,
    /// In the order of the aliases.
    alias_owners: Vec<(Span, ConceptIndex)>,
    properties: Lists<Property>,
    /// By concept. Few vocabularies have URIs; in those, nearly every concept has one.
    uris: Vec<(ConceptIndex, Span)>,
    /// By concept.
    successors: Vec<(ConceptIndex, ConceptIndex)>,
    hierarchy: Hierarchy,
    /// Built on the first search.
    search: OnceLock<SearchIndex>,
    /// The local codes of the deployment, in order.
    local: Vec<ConceptIndex>,
}

impl fmt::Debug for Vocabulary {
    /// Formats the identity of the vocabulary, not its thousands of concepts.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Vocabulary")
            .field("namespace", &self.description.namespace)
            .field("version", &self.description.version)
            .field("concepts", &self.codes.len())
            .finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Returns the description in the pack.
    #[must_use]
    pub fn description(&self) -> &VocabularyDescription {
        &self.description
    }

    /// Returns the namespace of its codes.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.description.namespace
    }

    /// Returns the digest of the description and of every concept, independent of their order.
    #[must_use]
    pub fn digest(&self) -> &ContentDigest {
        &self.digest
    }

    /// Returns every language of its texts, the default one first.
    #[must_use]
    pub fn languages(&self) -> &[String] {
        &self.languages
    }

    /// Returns the number of concepts.
    #[must_use]
    pub fn concept_count(&self) -> usize {
        self.codes.len()
    }

    /// Returns the length of the longest code, in bytes.
    pub(super) fn longest_code(&self) -> usize {
        self.codes.iter().map(|span| self.texts.get(*span).len()).max().unwrap_or_default()
    }

    /// Returns true if some concepts are local codes of the deployment.
    pub(super) fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    /// Returns the concept of a code in its exact spelling.
    #[must_use]
    pub fn find(&self, code: &str) -> Option<ConceptRef<'_>> {
        let found = self.codes.binary_search_by(|span| self.texts.get(*span).cmp(code)).ok()?;
        Some(self.reference(ConceptIndex::at(found)))
    }

    /// Returns the concept of an alias in its exact spelling. An alias helps to find a code and is not itself a code.
    #[must_use]
    pub fn find_alias(&self, alias: &str) -> Option<ConceptRef<'_>> {
        let found = self.alias_owners.binary_search_by(|(span, _)| self.texts.get(*span).cmp(alias)).ok()?;
        self.alias_owners.get(found).map(|(_, owner)| self.reference(*owner))
    }

    /// Returns the concepts whose codes have the prefix, in the order of codes.
    pub(super) fn beginning_with(&self, beginning: &str) -> impl Iterator<Item = ConceptRef<'_>> {
        let first = self.codes.partition_point(|span| self.texts.get(*span) < beginning);
        let behind = self.codes.get(first..).unwrap_or_default();
        let count = behind.partition_point(|span| self.texts.get(*span).starts_with(beginning));
        (first..first + count).map(|place| self.reference(ConceptIndex::at(place)))
    }

    /// Returns the index of concepts by the words of their labels.
    pub(super) fn search_index(&self) -> &SearchIndex {
        self.search.get_or_init(|| SearchIndex::build(self))
    }

    /// Returns true if the search index is built, so that a search costs no more than its result.
    #[must_use]
    pub fn is_search_ready(&self) -> bool {
        self.search.get().is_some()
    }

    /// Builds the search index if it does not exist. This takes about ten milliseconds for a large vocabulary.
    pub fn prepare_search(&self) {
        self.search_index();
    }

    /// Returns the concept at a position in the order of codes.
    #[must_use]
    pub fn concept(&self, index: ConceptIndex) -> Option<ConceptRef<'_>> {
        (index.position() < self.codes.len()).then(|| self.reference(index))
    }

    /// Returns every concept in the order of codes.
    pub fn concepts(&self) -> impl DoubleEndedIterator<Item = ConceptRef<'_>> + ExactSizeIterator {
        (0..to_u32(self.codes.len())).map(|position| self.reference(ConceptIndex(position)))
    }

    /// Returns the concepts without parents, in the order of codes.
    pub fn roots(&self) -> impl Iterator<Item = ConceptRef<'_>> {
        self.hierarchy.roots().map(|index| self.reference(index))
    }

    /// Returns every concept in preorder: the descendants of a concept directly follow it.
    pub fn preorder(&self) -> impl Iterator<Item = ConceptRef<'_>> {
        self.hierarchy.preorder().iter().map(|index| self.reference(*index))
    }

    fn reference(&self, index: ConceptIndex) -> ConceptRef<'_> {
        ConceptRef { vocabulary: self, index }
    }
}
