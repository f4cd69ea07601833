//! Builds the layout of a vocabulary from checked concepts.

use std::sync::OnceLock;

use super::{Flags, Localized, Property, Vocabulary};
use crate::compact::{ConceptIndex, Lists, Texts};
use crate::digest::{ContentDigest, Digester};
use crate::hierarchy::{Hierarchy, HierarchyFault};
use daftar_domain::vocabulary::{Completeness, Concept, ConceptStatus, LocalizedText, VocabularyDescription};

impl Vocabulary {
    /// Indexes concepts that are sorted by code and were checked except for their hierarchy. Invalid references that
    /// the check missed, such as a nonexistent parent, are omitted.
    pub(crate) fn build(description: VocabularyDescription, concepts: &[Concept]) -> Result<Self, HierarchyFault> {
        let mut built = Self::empty(description, concepts)?;
        concepts.iter().for_each(|concept| built.push(concept));
        built.successors = pairs(concepts, |concept| position(concepts, concept.replaced_by.as_ref()?.as_str()));
        for index in (0..concepts.len()).map(ConceptIndex::at) {
            built.alias_owners.extend(built.aliases.of(index).iter().map(|span| (*span, index)));
        }
        let texts = &mut built.texts;
        built.alias_owners.sort_by(|one, other| texts.get(one.0).cmp(texts.get(other.0)));
        built.uris = pairs(concepts, |concept| concept.uri.as_ref().map(|uri| texts.push(uri)));
        Ok(built)
    }

    /// Creates a vocabulary without concepts, with reserved capacity for them.
    fn empty(description: VocabularyDescription, concepts: &[Concept]) -> Result<Self, HierarchyFault> {
        let hierarchy = hierarchy(concepts)?;
        let count = concepts.len();
        let sum = |length: fn(&Concept) -> usize| concepts.iter().map(length).sum::<usize>();
        let default_language = &description.default_language;
        let others = description.languages.iter().filter(|language| *language != default_language);
        Ok(Self {
            digest: digest(&description, concepts),
            languages: std::iter::once(default_language).chain(others).cloned().collect(),
            property_keys: Vec::new(),
            texts: Texts::with_capacity(sum(text_bytes)),
            codes: Vec::with_capacity(count),
            flags: Vec::with_capacity(count),
            labels: Lists::with_capacity(count, sum(|concept| concept.labels.len())),
            definitions: Lists::with_capacity(count, sum(|concept| concept.definitions.len())),
            aliases: Lists::with_capacity(count, sum(|concept| concept.aliases.len())),
            alias_owners: Vec::with_capacity(sum(|concept| concept.aliases.len())),
            properties: Lists::with_capacity(count, sum(|concept| concept.properties.len())),
            uris: Vec::new(),
            successors: Vec::new(),
            hierarchy,
            search: OnceLock::new(),
            local: Vec::new(),
            description,
        })
    }

    fn push(&mut self, concept: &Concept) {
        self.codes.push(self.texts.push(concept.code.as_str()));
        self.flags
            .push(Flags { is_active: concept.status == ConceptStatus::Active, is_selectable: concept.is_selectable });
        let labels = self.localized(&concept.labels);
        self.labels.push_row(labels);
        let definitions = self.localized(&concept.definitions);
        self.definitions.push_row(definitions);
        self.aliases.push_row(concept.aliases.iter().map(|alias| self.texts.push(alias)));
        self.properties.push_row(concept.properties.iter().map(|(key, value)| Property {
            key: place_of(&mut self.property_keys, key),
            value: self.texts.push(value),
        }));
    }

    fn localized(&mut self, texts: &[LocalizedText]) -> Vec<Localized> {
        let mut localized: Vec<Localized> = texts
            .iter()
            .map(|text| Localized {
                language: place_of(&mut self.languages, &text.language),
                text: self.texts.push(&text.value),
            })
            .collect();
        localized.sort_by_key(|text| text.language);
        localized
    }
}

/// Returns the position of a text in `known`. Appends the text if it is new.
fn place_of(known: &mut Vec<String>, text: &str) -> u16 {
    let place = known.iter().position(|other| other == text).unwrap_or_else(|| {
        known.push(text.to_owned());
        known.len() - 1
    });
    u16::try_from(place).unwrap_or(u16::MAX)
}

/// Returns the size of the stored texts of a concept, in bytes.
pub(crate) fn text_bytes(concept: &Concept) -> usize {
    let localized = concept.labels.iter().chain(&concept.definitions).map(|text| text.value.len());
    let properties = concept.properties.iter().map(|(_, value)| value.len());
    let aliases = concept.aliases.iter().map(String::len);
    let uri = concept.uri.as_ref().map_or(0, String::len);
    concept.code.as_str().len() + uri + localized.chain(properties).chain(aliases).sum::<usize>()
}

fn position(concepts: &[Concept], code: &str) -> Option<ConceptIndex> {
    concepts.binary_search_by(|concept| concept.code.as_str().cmp(code)).ok().map(ConceptIndex::at)
}

/// Builds the hierarchy of concepts that are sorted by code. Nonexistent parents are omitted.
pub(crate) fn hierarchy(concepts: &[Concept]) -> Result<Hierarchy, HierarchyFault> {
    let links = concepts.iter().map(|concept| concept.parents.len()).sum();
    let mut parents = Lists::with_capacity(concepts.len(), links);
    for concept in concepts {
        parents.push_row(concept.parents.iter().filter_map(|parent| position(concepts, parent.as_str())));
    }
    Hierarchy::build(parents)
}

/// Returns the concepts for which `value` returns `Some`, with the values.
fn pairs<T>(concepts: &[Concept], mut value: impl FnMut(&Concept) -> Option<T>) -> Vec<(ConceptIndex, T)> {
    let numbered = concepts.iter().enumerate();
    let mut pairs: Vec<(ConceptIndex, T)> =
        numbered.filter_map(|(place, concept)| Some((ConceptIndex::at(place), value(concept)?))).collect();
    pairs.shrink_to_fit();
    pairs
}

/// Returns a digest that is independent of the order of items in a pack, except where the order has a meaning.
fn digest(description: &VocabularyDescription, concepts: &[Concept]) -> ContentDigest {
    let VocabularyDescription {
        namespace,
        name,
        domain,
        version,
        source,
        licence,
        attribution,
        default_language,
        languages,
        is_hierarchical,
        completeness,
        is_open,
        is_system,
        is_extensible,
        concept_count: _,
    } = description;
    let mut digester = Digester::of("daftar vocabulary 1");
    for text in [namespace.as_str(), name, domain, version, source, licence, attribution, default_language] {
        digester.text(text);
    }
    sorted_texts(&mut digester, languages.iter().map(|language| (language.as_str(), "")));
    digester.number(match completeness {
        Completeness::Full => 0,
        Completeness::Fragment => 1,
        Completeness::Empty => 2,
    });
    for flag in [is_hierarchical, is_open, is_system, is_extensible] {
        digester.flag(*flag);
    }
    digester.number(concepts.len());
    for concept in concepts {
        digest_concept(&mut digester, concept);
    }
    digester.finish()
}

fn digest_concept(digester: &mut Digester, concept: &Concept) {
    let Concept { code, status, is_selectable, parents, replaced_by, labels, definitions, aliases, uri, properties } =
        concept;
    digester.text(code.as_str());
    digester.flag(*status == ConceptStatus::Active);
    digester.flag(*is_selectable);
    // The first parent is the primary one.
    digester.number(parents.len());
    parents.iter().for_each(|parent| digester.text(parent.as_str()));
    digester.text(replaced_by.as_ref().map_or("", |code| code.as_str()));
    for texts in [labels, definitions] {
        sorted_texts(digester, texts.iter().map(|text| (text.language.as_str(), text.value.as_str())));
    }
    sorted_texts(digester, aliases.iter().map(|alias| (alias.as_str(), "")));
    digester.text(uri.as_deref().unwrap_or_default());
    sorted_texts(digester, properties.iter().map(|(key, value)| (key.as_str(), value.as_str())));
}

fn sorted_texts<'a>(digester: &mut Digester, texts: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut texts: Vec<(&str, &str)> = texts.collect();
    texts.sort_unstable();
    digester.number(texts.len());
    for (name, value) in texts {
        digester.text(name);
        digester.text(value);
    }
}
