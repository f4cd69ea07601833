//! BCP 47 language tags as an open vocabulary: a pack with code of its own.
//!
//! The 184 languages of ISO 639-1 are listed. Any other tag is parsed by the grammar of RFC 5646 when it is resolved:
//! it gets its normalized spelling (§2.1.1), a name derived from that of its language, the tag without its last subtag
//! as parent, and its subtags as properties. [`logic`] implements this and is tested natively; this file only exports
//! it.
//!
//! **Invariant:** registration of subtags is not checked: the IANA registry changes every few weeks, and a pack with
//! last year's would reject this year's tags. Only the grammar is checked.

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
