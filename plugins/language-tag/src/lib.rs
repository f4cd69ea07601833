//! BCP 47 language tags as an open vocabulary: a pack with logic of its own.
//!
//! The 184 languages of ISO 639-1 are listed. Every other tag is read by the grammar of RFC 5646 when somebody writes it: it gets
//! its normal spelling (§2.1.1), a name made of the language's, the tag without its last subtag as parent, and its parts as
//! properties. [`logic`] does it all and is tested natively; this file only hands it to the interface.
//!
//! **Invariant:** which subtags are registered is not checked: the IANA registry changes every few weeks, and a pack that knows
//! last year's would refuse this year's tags. The grammar is what is promised.

pub mod languages;
pub mod logic;

use daftar_sdk::vocabulary::{Concept, ConceptPage, PageError, ResolveError, VocabularyDescription, VocabularyPack};

/// The pack.
pub struct LanguageTags;

impl VocabularyPack for LanguageTags {
    fn describe() -> Vec<VocabularyDescription> {
        vec![logic::description()]
    }

    fn concepts(namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
        logic::page(namespace, cursor, limit)
    }

    fn resolve(namespace: &str, code: &str) -> Result<Concept, ResolveError> {
        if namespace == logic::NAMESPACE { logic::resolve(code) } else { Err(ResolveError::UnknownNamespace) }
    }
}

#[cfg(target_arch = "wasm32")]
daftar_sdk::export_vocabulary_pack!(LanguageTags);
