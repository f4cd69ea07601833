//! Bodies of vocabularies: the descriptions, their codes, what a search finds.

pub mod batch;
pub mod concept_group;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::api::conditional::LanguagesTold;
use daftar_domain::code::Namespace;
use daftar_domain::vocabulary::{Completeness, ConceptStatus};
use daftar_service::vocabulary::{
    ConceptRef, Found, Generation, Grade, Label, LanguagePreference, MatchedText, Subsumption, Vocabulary, is_in_force,
};

/// A vocabulary without its codes.
#[derive(Debug, Serialize)]
pub struct VocabularyBody<'a> {
    namespace: &'a str,
    name: &'a str,
    domain: &'a str,
    version: &'a str,
    source: &'a str,
    licence: &'a str,
    attribution: &'a str,
    default_language: &'a str,
    languages: &'a [String],
    code_count: usize,
    hierarchical: bool,
    completeness: &'static str,
    system: bool,
    extensible: bool,
    open: bool,
    /// The plugin that brings it; none for a vocabulary of the host.
    module: Option<&'a str>,
    module_version: Option<&'a str>,
    digest: String,
    /// The version before this one, which can be read too.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier_version: Option<&'a str>,
    /// The version in force, where this one is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<&'a str>,
}

impl<'a> VocabularyBody<'a> {
    /// What is told of a vocabulary.
    #[must_use]
    pub fn new(generation: &'a Generation, vocabulary: &'a Vocabulary) -> Self {
        let description = vocabulary.description();
        let pack = generation.pack_of(&description.namespace);
        let version_of = |one: &'a Arc<Vocabulary>| one.description().version.as_str();
        let in_force = generation.vocabulary(&description.namespace).map(version_of);
        let superseded_by = in_force.filter(|_| !is_in_force(generation, vocabulary));
        let earlier_version = generation.earlier(&description.namespace).map(version_of);
        Self {
            namespace: description.namespace.as_str(),
            name: &description.name,
            domain: &description.domain,
            version: &description.version,
            source: &description.source,
            licence: &description.licence,
            attribution: &description.attribution,
            default_language: &description.default_language,
            languages: vocabulary.languages(),
            code_count: vocabulary.concept_count(),
            hierarchical: description.is_hierarchical,
            completeness: match description.completeness {
                Completeness::Full => "full",
                Completeness::Fragment => "fragment",
                Completeness::Empty => "empty",
            },
            system: description.is_system,
            extensible: description.is_extensible,
            open: description.is_open,
            module: pack.map(|pack| pack.plugin.as_str()),
            module_version: pack.filter(|_| superseded_by.is_none()).map(|pack| pack.version.as_str()),
            digest: vocabulary.digest().to_string(),
            earlier_version: earlier_version.filter(|_| superseded_by.is_none()),
            superseded_by,
        }
    }
}

/// A code with what it is called.
#[derive(Debug, Serialize)]
pub struct CodedBody<'a> {
    uri: String,
    code: &'a str,
    display: &'a str,
    namespace: &'a str,
    language: &'a str,
    /// There only where the reader asked for other languages, and the default one stands in for them.
    #[serde(skip_serializing_if = "is_false")]
    fallback: bool,
    /// There only for a code of the deployment's own.
    #[serde(skip_serializing_if = "is_false")]
    local: bool,
}

impl<'a> CodedBody<'a> {
    /// The code in the language that serves the reader best.
    pub fn new(concept: ConceptRef<'a>, languages: &LanguagePreference, told: &mut LanguagesTold) -> Self {
        let label = concept.label(languages);
        told.add(label.language);
        Self {
            uri: concept.uri_text(),
            code: concept.code(),
            display: label.text,
            namespace: concept.vocabulary().namespace().as_str(),
            language: label.language,
            fallback: label.is_fallback,
            local: concept.is_local(),
        }
    }
}

/// A code above another, or one that takes its place.
#[derive(Debug, Serialize)]
pub struct NeighbourBody<'a> {
    uri: String,
    code: &'a str,
    display: &'a str,
}

impl<'a> NeighbourBody<'a> {
    fn new(concept: ConceptRef<'a>, languages: &LanguagePreference) -> Self {
        Self { uri: concept.uri_text(), code: concept.code(), display: concept.label(languages).text }
    }
}

/// A text in one language.
#[derive(Debug, Serialize)]
pub struct TextBody<'a> {
    language: &'a str,
    value: &'a str,
}

/// A code with everything that is said of it.
#[derive(Debug, Serialize)]
pub struct ConceptBody<'a> {
    #[serde(flatten)]
    coded: CodedBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<TextBody<'a>>,
    level: u32,
    parents: Vec<NeighbourBody<'a>>,
    children_count: usize,
    descendants_count: usize,
    status: &'static str,
    /// False for a heading that only groups others.
    selectable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced_by: Option<NeighbourBody<'a>>,
    designations: Vec<TextBody<'a>>,
    aliases: Vec<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<&'a str, &'a str>,
    /// The owner's own URI for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_uri: Option<&'a str>,
    /// The other name by which it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_as: Option<&'a str>,
}

impl<'a> ConceptBody<'a> {
    /// Everything about a code; `asked_as` is the other name by which it was asked for.
    pub fn new(
        concept: ConceptRef<'a>,
        languages: &LanguagePreference,
        asked_as: Option<&'a str>,
        told: &mut LanguagesTold,
    ) -> Self {
        let text = |label: Label<'a>| TextBody { language: label.language, value: label.text };
        Self {
            coded: CodedBody::new(concept, languages, told),
            definition: concept.definition(languages).map(text),
            level: concept.level(),
            parents: concept.parents().map(|parent| NeighbourBody::new(parent, languages)).collect(),
            children_count: concept.child_count(),
            descendants_count: concept.descendant_count(),
            status: status(concept),
            selectable: concept.is_selectable(),
            replaced_by: concept.replaced_by().map(|successor| NeighbourBody::new(successor, languages)),
            designations: concept.labels().map(|(language, value)| TextBody { language, value }).collect(),
            aliases: concept.aliases().collect(),
            properties: concept.properties().collect(),
            source_uri: concept.owner_uri(),
            asked_as,
        }
    }
}

/// A code that a search found.
#[derive(Debug, Serialize)]
pub struct FoundBody<'a> {
    #[serde(flatten)]
    coded: CodedBody<'a>,
    status: &'static str,
    selectable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_uri: Option<&'a str>,
    #[serde(rename = "match")]
    matched: MatchBody<'a>,
}

#[derive(Debug, Serialize)]
struct MatchBody<'a> {
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
}

impl<'a> FoundBody<'a> {
    /// The code with what of it matched.
    pub fn new(found: Found<'a>, languages: &LanguagePreference, told: &mut LanguagesTold) -> Self {
        let kind = match found.grade {
            Grade::Code => "code",
            Grade::Prefix => "prefix",
            Grade::Words => "words",
            Grade::OneEdit => "one_edit",
        };
        let (text, language) = match found.text {
            MatchedText::Code => (found.concept.code(), None),
            MatchedText::Alias(alias) => (alias, None),
            MatchedText::Label { text, language } => (text, Some(language)),
        };
        Self {
            coded: CodedBody::new(found.concept, languages, told),
            status: status(found.concept),
            selectable: found.concept.is_selectable(),
            source_uri: found.concept.owner_uri(),
            matched: MatchBody { kind, text, language },
        }
    }
}

/// How two codes stand to each other.
#[derive(Debug, Serialize)]
pub struct SubsumptionBody<'a> {
    outcome: &'static str,
    namespace: &'a str,
    a: &'a str,
    b: &'a str,
}

impl<'a> SubsumptionBody<'a> {
    /// The outcome for the codes as they were asked for.
    #[must_use]
    pub fn new(outcome: Subsumption, namespace: &'a Namespace, a: &'a str, b: &'a str) -> Self {
        let outcome = match outcome {
            Subsumption::Equivalent => "equivalent",
            Subsumption::Subsumes => "subsumes",
            Subsumption::SubsumedBy => "subsumed_by",
            Subsumption::NotSubsumed => "not_subsumed",
        };
        Self { outcome, namespace: namespace.as_str(), a, b }
    }
}

fn status(concept: ConceptRef<'_>) -> &'static str {
    match concept.status() {
        ConceptStatus::Active => "active",
        ConceptStatus::Inactive => "deprecated",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
