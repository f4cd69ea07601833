//! The vocabulary pack `@name@`: hands what `logic` knows to the plugin interface.

pub mod logic;

use daftar_sdk::vocabulary::{
    Concept, ConceptPage, PageError, ResolveError, VocabularyDescription, VocabularyPack, page_of,
};

/// The pack.
pub struct Pack;

impl VocabularyPack for Pack {
    fn describe() -> Vec<VocabularyDescription> {
        daftar_sdk::log::report_panics();
        vec![logic::description()]
    }

    fn concepts(namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
        if namespace != logic::NAMESPACE {
            return Err(PageError::UnknownNamespace);
        }
        page_of(&logic::LISTED, cursor, limit, logic::concept)
    }

    fn resolve(namespace: &str, code: &str) -> Result<Concept, ResolveError> {
        daftar_sdk::log::report_panics();
        if namespace != logic::NAMESPACE {
            return Err(ResolveError::UnknownNamespace);
        }
        logic::resolve(code)
    }
}

#[cfg(target_arch = "wasm32")]
daftar_sdk::export_vocabulary_pack!(Pack);
