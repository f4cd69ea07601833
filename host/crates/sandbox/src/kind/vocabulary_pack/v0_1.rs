//! Vocabulary packs of interface version 0.1.0.
//!
//! This module checks only the guarantees of the interface: limits, and texts that must be codes or URIs. The
//! `vocabulary` crate validates the codes as a vocabulary (duplicates, parents, cycles).

use wasmtime::Store;

use super::Pack;
use super::generated::exports::daftar::plugin::vocabulary as wire;
use crate::sandbox::{CallError, HostState};
use crate::wit::{Position, filled, invalid, list, parsed, same, text};
use daftar_domain::code::{Code, CodeUri, Namespace};
use daftar_domain::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Selection, VocabularyDescription,
};

/// Some concepts, and the cursor of the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConceptPage {
    pub concepts: Vec<Concept>,
    pub next: Option<u32>,
}

/// The most vocabularies of a pack.
const VOCABULARIES_MAX: usize = 64;
/// The most concept groups of a pack.
const CONCEPT_GROUPS_MAX: usize = 1_000;
/// The most selections on either side of a concept group.
const SELECTIONS_MAX: usize = 10_000;
/// The most languages of a vocabulary, hence the most labels of a concept.
const LANGUAGES_MAX: usize = 200;
/// The most parents of a concept.
const PARENTS_MAX: usize = 64;
/// The most aliases of a concept.
const ALIASES_MAX: usize = 1_000;
/// The most properties of a concept.
const PROPERTIES_MAX: usize = 64;
/// The longest name, language tag, version or key, in bytes.
const NAME_BYTES_MAX: usize = 300;
/// The longest label, alias, URI, source, licence or attribution, in bytes.
const LINE_BYTES_MAX: usize = 4_000;
/// The longest definition or value of a property, in bytes.
const PARAGRAPH_BYTES_MAX: usize = 64_000;

const UNKNOWN_NAMESPACE: &str = "the pack does not recognise the namespace that it described";

impl Pack {
    /// Its vocabularies.
    pub(crate) fn describe(&self, store: &mut Store<HostState>) -> Result<Vec<VocabularyDescription>, CallError> {
        let answer = self.daftar_plugin_vocabulary().call_describe(store)?;
        list(answer, VOCABULARIES_MAX, &"describe", description)
    }

    /// Its concept groups.
    pub(crate) fn concept_groups(&self, store: &mut Store<HostState>) -> Result<Vec<ConceptGroup>, CallError> {
        let answer = self.daftar_plugin_vocabulary().call_concept_groups(store)?;
        list(answer, CONCEPT_GROUPS_MAX, &"concept-groups", concept_group)
    }

    /// A page of a vocabulary of the pack.
    pub(crate) fn concepts(
        &self,
        store: &mut Store<HostState>,
        vocabulary: &VocabularyDescription,
        cursor: u32,
        limit: u32,
    ) -> Result<ConceptPage, CallError> {
        let namespace = &vocabulary.namespace;
        store.data().give("the namespace", namespace.as_str().len())?;
        let pack = self.daftar_plugin_vocabulary();
        let place = format_args!("concepts of `{namespace}` from {cursor}");
        let page = pack.call_concepts(store, namespace.as_str(), cursor, limit)?.map_err(|error| {
            let reason = match error {
                wire::PageError::UnknownNamespace => UNKNOWN_NAMESPACE,
                wire::PageError::InvalidCursor => "the pack does not recognise the cursor that it returned",
            };
            invalid(&place, reason)
        })?;
        let count_max = usize::try_from(limit).unwrap_or(usize::MAX);
        let concepts = list(page.concepts, count_max, &place, |item| concept(item, namespace))?;
        Ok(ConceptPage { concepts, next: page.next })
    }

    /// The concept of a code of an open vocabulary, or the reason why the code is invalid.
    pub(crate) fn resolve(
        &self,
        store: &mut Store<HostState>,
        namespace: &Namespace,
        code: &Code,
    ) -> Result<Result<Concept, String>, CallError> {
        let place = format_args!("resolve `{namespace}#{code}`");
        let pack = self.daftar_plugin_vocabulary();
        match pack.call_resolve(store, namespace.as_str(), code.as_str())? {
            Ok(from) => concept(from, namespace).map(Ok),
            Err(wire::ResolveError::Malformed(sentence)) => filled(sentence, LINE_BYTES_MAX, &place).map(Err),
            Err(wire::ResolveError::UnknownNamespace) => Err(invalid(&place, UNKNOWN_NAMESPACE)),
            Err(wire::ResolveError::NotOpen) => {
                Err(invalid(&place, "the pack reports that the vocabulary is not open"))
            }
        }
    }
}

fn description(from: wire::VocabularyDescription) -> Result<VocabularyDescription, CallError> {
    let namespace = parsed(&from.namespace, &"describe: namespace", Namespace::parse)?;
    macro_rules! place {
        ($field:literal) => {
            &format_args!("vocabulary `{namespace}`: {}", $field)
        };
    }
    Ok(VocabularyDescription {
        name: filled(from.name, NAME_BYTES_MAX, place!("name"))?,
        domain: filled(from.domain, NAME_BYTES_MAX, place!("domain"))?,
        version: filled(from.version, NAME_BYTES_MAX, place!("version"))?,
        source: text(from.source, LINE_BYTES_MAX, place!("source"))?,
        licence: text(from.licence, LINE_BYTES_MAX, place!("licence"))?,
        attribution: text(from.attribution, LINE_BYTES_MAX, place!("attribution"))?,
        default_language: filled(from.default_language, NAME_BYTES_MAX, place!("default-language"))?,
        languages: list(from.languages, LANGUAGES_MAX, place!("languages"), |tag| {
            filled(tag, NAME_BYTES_MAX, place!("languages"))
        })?,
        is_hierarchical: from.hierarchical,
        completeness: same!(from.completeness, wire::Completeness => Completeness { Full, Fragment, Empty }),
        is_open: from.open,
        is_system: from.system,
        is_extensible: from.extensible,
        concept_count: from.concept_count,
        namespace,
    })
}

fn concept(from: wire::Concept, namespace: &Namespace) -> Result<Concept, CallError> {
    let code = parsed(&from.code, &format_args!("a code of `{namespace}`"), Code::parse)?;
    macro_rules! place {
        ($field:literal) => {
            &format_args!("concept `{namespace}#{code}`: {}", $field)
        };
    }
    let parse_code = |text: String| parsed(&text, place!("parents or replaced-by"), Code::parse);
    Ok(Concept {
        status: same!(from.status, wire::ConceptStatus => ConceptStatus { Active, Inactive }),
        is_selectable: from.selectable,
        parents: list(from.parents, PARENTS_MAX, place!("parents"), parse_code)?,
        replaced_by: from.replaced_by.map(parse_code).transpose()?,
        labels: list(from.labels, LANGUAGES_MAX, place!("labels"), |label| {
            localized(label, LINE_BYTES_MAX, place!("labels"))
        })?,
        definitions: list(from.definitions, LANGUAGES_MAX, place!("definitions"), |definition| {
            localized(definition, PARAGRAPH_BYTES_MAX, place!("definitions"))
        })?,
        aliases: list(from.aliases, ALIASES_MAX, place!("aliases"), |alias| {
            filled(alias, LINE_BYTES_MAX, place!("aliases"))
        })?,
        uri: from.uri.map(|uri| filled(uri, LINE_BYTES_MAX, place!("uri"))).transpose()?,
        properties: list(from.properties, PROPERTIES_MAX, place!("properties"), |property| {
            let key = filled(property.key, NAME_BYTES_MAX, place!("properties"))?;
            Ok((key, text(property.value, PARAGRAPH_BYTES_MAX, place!("properties"))?))
        })?,
        code,
    })
}

fn localized(from: wire::LocalizedText, bytes_max: usize, place: Position<'_>) -> Result<LocalizedText, CallError> {
    Ok(LocalizedText {
        language: filled(from.language, NAME_BYTES_MAX, place)?,
        value: filled(from.value, bytes_max, place)?,
    })
}

fn concept_group(from: wire::ConceptGroup) -> Result<ConceptGroup, CallError> {
    let name = filled(from.name, NAME_BYTES_MAX, &"the name of a concept group")?;
    let is_made_right = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let place = format_args!("concept group `{name}`");
    if !is_made_right {
        return Err(invalid(&place, "its name may contain lower-case letters, digits and underscores only"));
    }
    Ok(ConceptGroup {
        description: text(from.description, LINE_BYTES_MAX, &place)?,
        includes: list(from.includes, SELECTIONS_MAX, &place, |item| selection(item, &place))?,
        excludes: list(from.excludes, SELECTIONS_MAX, &place, |item| selection(item, &place))?,
        name: name.clone(),
    })
}

fn selection(from: wire::Selection, place: Position<'_>) -> Result<Selection, CallError> {
    Ok(match from {
        wire::Selection::Code(uri) => Selection::Code(parsed(&uri, place, CodeUri::parse)?),
        wire::Selection::DescendantsOf(uri) => Selection::DescendantsOf(parsed(&uri, place, CodeUri::parse)?),
    })
}
