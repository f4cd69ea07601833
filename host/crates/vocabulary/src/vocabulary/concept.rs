//! Read access to one concept of a vocabulary.

use std::fmt;

use super::{Localized, Vocabulary};
use crate::compact::ConceptIndex;
use crate::language::LanguagePreference;
use daftar_domain::code::{CodeError, CodeUri};
use daftar_domain::vocabulary::ConceptStatus;

/// A concept of a vocabulary; cheap to copy.
#[derive(Clone, Copy)]
pub struct ConceptRef<'a> {
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) index: ConceptIndex,
}

/// Name of a concept, or a text about it, in one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label<'a> {
    /// The text.
    pub text: &'a str,
    /// The language of the text.
    pub language: &'a str,
    /// True if none of the requested languages is available and the default language replaces them.
    pub is_fallback: bool,
}

impl fmt::Debug for ConceptRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}", self.vocabulary.namespace(), self.code())
    }
}

impl PartialEq for ConceptRef<'_> {
    /// Returns true for the same concept of the same vocabulary value.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.vocabulary, other.vocabulary) && self.index == other.index
    }
}

impl Eq for ConceptRef<'_> {}

impl<'a> ConceptRef<'a> {
    /// Returns the vocabulary of the concept.
    #[must_use]
    pub fn vocabulary(self) -> &'a Vocabulary {
        self.vocabulary
    }

    /// Returns the position in the order of codes.
    #[must_use]
    pub fn index(self) -> ConceptIndex {
        self.index
    }

    /// Returns the code.
    #[must_use]
    pub fn code(self) -> &'a str {
        let span = self.vocabulary.codes.get(self.index.position());
        span.map_or("", |span| self.vocabulary.texts.get(*span))
    }

    /// Returns `<namespace>#<code>`, as text.
    #[must_use]
    pub fn uri_text(self) -> String {
        format!("{}#{}", self.vocabulary.namespace(), self.code())
    }

    /// Returns `<namespace>#<code>`.
    ///
    /// # Errors
    /// Never fails for a checked vocabulary: its codes are valid.
    pub fn uri(self) -> Result<CodeUri, CodeError> {
        CodeUri::from_parts(self.vocabulary.namespace().as_str(), self.code())
    }

    /// Returns the status. Only active concepts may be used in new records.
    #[must_use]
    pub fn status(self) -> ConceptStatus {
        let is_active = self.vocabulary.flags.get(self.index.position()).is_some_and(|flags| flags.is_active);
        if is_active { ConceptStatus::Active } else { ConceptStatus::Inactive }
    }

    /// Returns false for a heading that only groups other concepts.
    #[must_use]
    pub fn is_selectable(self) -> bool {
        self.vocabulary.flags.get(self.index.position()).is_some_and(|flags| flags.is_selectable)
    }

    /// Returns true if a new record may contain the concept: it is active and not a heading.
    #[must_use]
    pub fn is_usable(self) -> bool {
        self.status() == ConceptStatus::Active && self.is_selectable()
    }

    /// Returns the successor of an inactive code.
    #[must_use]
    pub fn replaced_by(self) -> Option<Self> {
        let successors = &self.vocabulary.successors;
        let found = successors.binary_search_by_key(&self.index, |(replaced, _)| *replaced).ok()?;
        successors.get(found).map(|(_, successor)| self.sibling(*successor))
    }

    /// Returns the replacement code: follows successors to the first active one.
    #[must_use]
    pub fn active_successor(self) -> Option<Self> {
        // A checked vocabulary has no cycle of successors. The bound guarantees termination.
        let mut successors = std::iter::successors(self.replaced_by(), |concept| concept.replaced_by());
        successors
            .by_ref()
            .take(self.vocabulary.successors.len())
            .find(|concept| concept.status() == ConceptStatus::Active)
    }

    /// Returns the label in the best language for the reader.
    #[must_use]
    pub fn label(self, languages: &LanguagePreference) -> Label<'a> {
        let labels = self.vocabulary.labels.of(self.index);
        self.text(labels, languages).unwrap_or(Label { text: self.code(), language: "", is_fallback: true })
    }

    /// Returns the label in the vocabulary's default language.
    #[must_use]
    pub fn default_label(self) -> &'a str {
        let labels = self.vocabulary.labels.of(self.index);
        labels.first().map_or(self.code(), |label| self.vocabulary.texts.get(label.text))
    }

    /// Returns the labels by language, the default one first.
    pub fn labels(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.vocabulary.labels.of(self.index).iter().map(move |label| self.localized(label))
    }

    /// Returns the position of the language of a label among the vocabulary's languages. `place` is the position of the
    /// label.
    pub(crate) fn label_language(self, place: u8) -> Option<u16> {
        self.vocabulary.labels.of(self.index).get(usize::from(place)).map(|label| label.language)
    }

    /// Returns the definition in the best language for the reader.
    #[must_use]
    pub fn definition(self, languages: &LanguagePreference) -> Option<Label<'a>> {
        self.text(self.vocabulary.definitions.of(self.index), languages)
    }

    /// Returns the definitions by language, the default one first.
    pub(super) fn every_definition(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.vocabulary.definitions.of(self.index).iter().map(move |text| self.localized(text))
    }

    /// Returns true if the concept is a local code of the deployment, not a code of the vocabulary's publisher.
    #[must_use]
    pub fn is_local(self) -> bool {
        self.vocabulary.local.binary_search(&self.index).is_ok()
    }

    /// Returns the aliases: other spellings that lookups accept.
    pub fn aliases(self) -> impl Iterator<Item = &'a str> {
        self.vocabulary.aliases.of(self.index).iter().map(move |span| self.vocabulary.texts.get(*span))
    }

    /// Returns the publisher's URI for the concept.
    #[must_use]
    pub fn owner_uri(self) -> Option<&'a str> {
        let uris = &self.vocabulary.uris;
        let found = uris.binary_search_by_key(&self.index, |(concept, _)| *concept).ok()?;
        uris.get(found).map(|(_, span)| self.vocabulary.texts.get(*span))
    }

    /// Returns the value of a property.
    #[must_use]
    pub fn property(self, key: &str) -> Option<&'a str> {
        self.properties().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Returns the properties as keys and values.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.vocabulary.properties.of(self.index).iter().map(move |property| {
            let key = self.vocabulary.property_keys.get(usize::from(property.key));
            (key.map_or("", String::as_str), self.vocabulary.texts.get(property.value))
        })
    }

    /// Returns the parents, the primary one first.
    pub fn parents(self) -> impl ExactSizeIterator<Item = Self> {
        self.vocabulary.hierarchy.parents(self.index).iter().map(move |index| self.sibling(*index))
    }

    /// Returns the children, in the order of codes.
    pub fn children(self) -> impl ExactSizeIterator<Item = Self> {
        self.vocabulary.hierarchy.children(self.index).iter().map(move |index| self.sibling(*index))
    }

    /// Returns the number of children.
    #[must_use]
    pub fn child_count(self) -> usize {
        self.vocabulary.hierarchy.children(self.index).len()
    }

    /// Returns all ancestors, nearest first, each once.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        self.vocabulary.hierarchy.ancestors(self.index).into_iter().map(move |index| self.sibling(index))
    }

    /// Returns all descendants, each once.
    pub fn descendants(self) -> impl Iterator<Item = Self> {
        self.vocabulary.hierarchy.descendants(self.index).map(move |index| self.sibling(index))
    }

    /// Returns the number of descendants.
    #[must_use]
    pub fn descendant_count(self) -> usize {
        self.vocabulary.hierarchy.descendant_count(self.index)
    }

    /// Returns true if the concept is a descendant of `ancestor`, a concept of the same vocabulary. No concept is its
    /// own descendant.
    #[must_use]
    pub fn is_below(self, ancestor: Self) -> bool {
        std::ptr::eq(self.vocabulary, ancestor.vocabulary)
            && self.vocabulary.hierarchy.is_below(self.index, ancestor.index)
    }

    /// Returns the level by primary parents: 1 at the top.
    #[must_use]
    pub fn level(self) -> u32 {
        self.vocabulary.hierarchy.level(self.index)
    }

    fn sibling(self, index: ConceptIndex) -> Self {
        Self { vocabulary: self.vocabulary, index }
    }

    fn localized(self, text: &Localized) -> (&'a str, &'a str) {
        let language = self.vocabulary.languages.get(usize::from(text.language));
        (language.map_or("", String::as_str), self.vocabulary.texts.get(text.text))
    }

    /// Returns the best text for the reader; the first text if none is in the default language.
    fn text(self, texts: &'a [Localized], languages: &LanguagePreference) -> Option<Label<'a>> {
        let in_language = |place: usize| texts.iter().find(|text| usize::from(text.language) == place);
        let choice = languages.choose(&self.vocabulary.languages, |place| in_language(place).is_some());
        let found = in_language(choice.language).or(texts.first())?;
        let (language, text) = self.localized(found);
        let is_fallback = choice.is_fallback || usize::from(found.language) != choice.language;
        Some(Label { text, language, is_fallback })
    }
}
