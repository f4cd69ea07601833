//! Responses about vocabularies: their descriptions, their codes, the results of a search.

pub mod batch;
pub mod concept_group;

use std::borrow::Cow;
use std::sync::Arc;

use daftar_api_types::public::vocabulary as body;

use crate::api::conditional::LanguagesTold;
use daftar_domain::code::Namespace;
use daftar_domain::vocabulary::{Completeness, ConceptStatus};
use daftar_service::vocabulary::{
    ConceptRef, Found, Generation, Grade, Label, LanguagePreference, MatchedText, Subsumption, Vocabulary, is_in_force,
};

/// A vocabulary without its codes.
#[must_use]
pub fn vocabulary<'a>(generation: &'a Generation, vocabulary: &'a Vocabulary) -> body::Vocabulary<'a> {
    let description = vocabulary.description();
    let pack = generation.pack_of(&description.namespace);
    let version_of = |one: &'a Arc<Vocabulary>| one.description().version.as_str();
    let in_force = generation.vocabulary(&description.namespace).map(version_of);
    let superseded_by = in_force.filter(|_| !is_in_force(generation, vocabulary));
    let earlier_version = generation.earlier(&description.namespace).map(version_of);
    let pack_version = pack.filter(|_| superseded_by.is_none()).map(|pack| pack.version.as_str());
    body::Vocabulary {
        namespace: Cow::Borrowed(description.namespace.as_str()),
        name: Cow::Borrowed(&description.name),
        domain: Cow::Borrowed(&description.domain),
        version: Cow::Borrowed(&description.version),
        source: Cow::Borrowed(&description.source),
        licence: Cow::Borrowed(&description.licence),
        attribution: Cow::Borrowed(&description.attribution),
        default_language: Cow::Borrowed(&description.default_language),
        languages: Cow::Borrowed(vocabulary.languages()),
        code_count: vocabulary.concept_count(),
        hierarchical: description.is_hierarchical,
        completeness: match description.completeness {
            Completeness::Full => body::Completeness::Full,
            Completeness::Fragment => body::Completeness::Fragment,
            Completeness::Empty => body::Completeness::Empty,
        },
        system: description.is_system,
        extensible: description.is_extensible,
        open: description.is_open,
        module: pack.map(|pack| Cow::Borrowed(pack.plugin.as_str())),
        module_version: pack_version.map(Cow::Borrowed),
        digest: Cow::Owned(vocabulary.digest().to_string()),
        earlier_version: earlier_version.filter(|_| superseded_by.is_none()).map(Cow::Borrowed),
        superseded_by: superseded_by.map(Cow::Borrowed),
    }
}

/// A code with its name in the language that serves the client best.
pub fn labelled<'a>(
    concept: ConceptRef<'a>,
    languages: &LanguagePreference,
    told: &mut LanguagesTold,
) -> body::LabelledCode<'a> {
    let label = concept.label(languages);
    told.add(label.language);
    body::LabelledCode {
        uri: Cow::Owned(concept.uri_text()),
        code: Cow::Borrowed(concept.code()),
        display: Cow::Borrowed(label.text),
        namespace: Cow::Borrowed(concept.vocabulary().namespace().as_str()),
        language: Cow::Borrowed(label.language),
        fallback: label.is_fallback,
        local: concept.is_local(),
    }
}

fn neighbour<'a>(concept: ConceptRef<'a>, languages: &LanguagePreference) -> body::NeighbourCode<'a> {
    body::NeighbourCode {
        uri: Cow::Owned(concept.uri_text()),
        code: Cow::Borrowed(concept.code()),
        display: Cow::Borrowed(concept.label(languages).text),
    }
}

/// A code with all its properties; `asked_as` is the alias that the request names.
pub fn concept<'a>(
    concept: ConceptRef<'a>,
    languages: &LanguagePreference,
    asked_as: Option<&'a str>,
    told: &mut LanguagesTold,
) -> body::Concept<'a> {
    let text = |language: &'a str, value: &'a str| body::Text {
        language: Cow::Borrowed(language),
        value: Cow::Borrowed(value),
    };
    body::Concept {
        coded: labelled(concept, languages, told),
        definition: concept.definition(languages).map(|label: Label<'a>| text(label.language, label.text)),
        level: concept.level(),
        parents: concept.parents().map(|parent| neighbour(parent, languages)).collect(),
        children_count: concept.child_count(),
        descendants_count: concept.descendant_count(),
        status: status(concept),
        selectable: concept.is_selectable(),
        replaced_by: concept.replaced_by().map(|successor| neighbour(successor, languages)),
        designations: concept.labels().map(|(language, value)| text(language, value)).collect(),
        aliases: concept.aliases().map(Cow::Borrowed).collect(),
        properties: concept.properties().map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))).collect(),
        source_uri: concept.owner_uri().map(Cow::Borrowed),
        asked_as: asked_as.map(Cow::Borrowed),
    }
}

/// A code that a search found, with the text that matched.
pub fn found<'a>(found: Found<'a>, languages: &LanguagePreference, told: &mut LanguagesTold) -> body::FoundCode<'a> {
    let kind = match found.grade {
        Grade::Code => body::MatchKind::Code,
        Grade::Prefix => body::MatchKind::Prefix,
        Grade::Words => body::MatchKind::Words,
        Grade::OneEdit => body::MatchKind::OneEdit,
    };
    let (text, language) = match found.text {
        MatchedText::Code => (found.concept.code(), None),
        MatchedText::Alias(alias) => (alias, None),
        MatchedText::Label { text, language } => (text, Some(Cow::Borrowed(language))),
    };
    body::FoundCode {
        coded: labelled(found.concept, languages, told),
        status: status(found.concept),
        selectable: found.concept.is_selectable(),
        source_uri: found.concept.owner_uri().map(Cow::Borrowed),
        matched: body::Match { kind, text: Cow::Borrowed(text), language },
    }
}

/// The relation of two codes, named as in the request.
#[must_use]
pub fn subsumption<'a>(
    outcome: Subsumption,
    namespace: &'a Namespace,
    a: &'a str,
    b: &'a str,
) -> body::Subsumption<'a> {
    let outcome = match outcome {
        Subsumption::Equivalent => body::SubsumptionOutcome::Equivalent,
        Subsumption::Subsumes => body::SubsumptionOutcome::Subsumes,
        Subsumption::SubsumedBy => body::SubsumptionOutcome::SubsumedBy,
        Subsumption::NotSubsumed => body::SubsumptionOutcome::NotSubsumed,
    };
    let (a, b) = (Cow::Borrowed(a), Cow::Borrowed(b));
    body::Subsumption { outcome, namespace: Cow::Borrowed(namespace.as_str()), a, b }
}

fn status(concept: ConceptRef<'_>) -> body::CodeStatus {
    match concept.status() {
        ConceptStatus::Active => body::CodeStatus::Active,
        ConceptStatus::Inactive => body::CodeStatus::Deprecated,
    }
}
