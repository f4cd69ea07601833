//! Builders with the usual defaults; `with_…` methods change them.

use super::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Property, Selection, VocabularyDescription,
};

impl LocalizedText {
    /// A text in a language, identified by its BCP 47 tag.
    pub fn new(language: impl Into<String>, value: impl Into<String>) -> Self {
        Self { language: language.into(), value: value.into() }
    }
}

impl VocabularyDescription {
    /// A flat, complete, closed list maintained by its source, without licence, attribution or concepts yet.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        domain: impl Into<String>,
        version: impl Into<String>,
        default_language: impl Into<String>,
    ) -> Self {
        let default_language = default_language.into();
        Self {
            namespace: namespace.into(),
            name: name.into(),
            domain: domain.into(),
            version: version.into(),
            source: String::new(),
            licence: String::new(),
            attribution: String::new(),
            languages: vec![default_language.clone()],
            default_language,
            hierarchical: false,
            completeness: Completeness::Full,
            open: false,
            system: true,
            extensible: false,
            concept_count: 0,
        }
    }

    /// The publication and release of the codes.
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// The licence of the data (SPDX) and the acknowledgement that the publisher requires.
    pub fn with_licence(mut self, licence: impl Into<String>, attribution: impl Into<String>) -> Self {
        self.licence = licence.into();
        self.attribution = attribution.into();
        self
    }

    /// Adds a language of labels.
    pub fn with_language(mut self, language: impl Into<String>) -> Self {
        self.languages.push(language.into());
        self
    }

    /// The number of concepts of all pages.
    pub fn with_concept_count(mut self, concept_count: u32) -> Self {
        self.concept_count = concept_count;
        self
    }

    /// Concepts have parents.
    pub fn hierarchical(mut self) -> Self {
        self.hierarchical = true;
        self
    }

    /// Codes follow a grammar; codes that are not listed are passed to `resolve`.
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// A deployment may add local codes.
    pub fn extensible(mut self) -> Self {
        self.extensible = true;
        self
    }

    /// The completeness of the vocabulary, if it is not complete.
    pub fn with_completeness(mut self, completeness: Completeness) -> Self {
        self.completeness = completeness;
        self
    }
}

impl Concept {
    /// An active, selectable top-level code, with its label in the vocabulary's default language.
    pub fn new(code: impl Into<String>, language: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            status: ConceptStatus::Active,
            selectable: true,
            parents: Vec::new(),
            replaced_by: None,
            labels: vec![LocalizedText::new(language, label)],
            definitions: Vec::new(),
            aliases: Vec::new(),
            uri: None,
            properties: Vec::new(),
        }
    }

    /// Adds a label in another language.
    pub fn with_label(mut self, language: impl Into<String>, label: impl Into<String>) -> Self {
        self.labels.push(LocalizedText::new(language, label));
        self
    }

    /// Adds a definition.
    pub fn with_definition(mut self, language: impl Into<String>, definition: impl Into<String>) -> Self {
        self.definitions.push(LocalizedText::new(language, definition));
        self
    }

    /// Adds a parent; the first one is the primary parent.
    pub fn with_parent(mut self, parent: impl Into<String>) -> Self {
        self.parents.push(parent.into());
        self
    }

    /// Adds another spelling that lookups accept.
    pub fn with_alias(mut self, alias: impl Into<String>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// The publisher's URI.
    pub fn with_uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = Some(uri.into());
        self
    }

    /// Adds a property without a field of its own in the interface.
    pub fn with_property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push(Property { key: key.into(), value: value.into() });
        self
    }

    /// Marks it as a heading that only groups other codes.
    pub fn heading(mut self) -> Self {
        self.selectable = false;
        self
    }

    /// Marks it as inactive, for old records only; `successor` is its replacement, if there is one.
    pub fn retired(mut self, successor: Option<String>) -> Self {
        self.status = ConceptStatus::Inactive;
        self.replaced_by = successor;
        self
    }
}

impl ConceptGroup {
    /// An empty group.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), includes: Vec::new(), excludes: Vec::new() }
    }

    /// Adds a selection to the group.
    pub fn including(mut self, selection: Selection) -> Self {
        self.includes.push(selection);
        self
    }

    /// Excludes a selection from the group.
    pub fn excluding(mut self, selection: Selection) -> Self {
        self.excludes.push(selection);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_concept_is_active_selectable_and_at_the_top() {
        let concept = Concept::new("2", "en", "Female");
        assert_eq!(concept.status, ConceptStatus::Active);
        assert!(concept.selectable);
        assert!(concept.parents.is_empty());
        assert_eq!(concept.labels, [LocalizedText::new("en", "Female")]);
    }

    #[test]
    fn a_retired_concept_names_its_successor() {
        let concept = Concept::new("HRK", "en", "Kuna").retired(Some("EUR".to_owned()));
        assert_eq!(concept.status, ConceptStatus::Inactive);
        assert_eq!(concept.replaced_by.as_deref(), Some("EUR"));
    }

    #[test]
    fn the_default_language_is_one_of_the_languages() {
        let description = VocabularyDescription::new("urn:x", "X", "Core", "1", "en").with_language("fr");
        assert_eq!(description.languages, ["en", "fr"]);
        assert_eq!(description.default_language, "en");
    }
}
