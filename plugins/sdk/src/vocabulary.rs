//! Vocabulary packs: the trait to implement, the types of the interface, and builders for them.

mod build;
mod page;

/// The generated bindings of the world `vocabulary-pack`.
#[doc(hidden)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/daftar-plugin/0.1.0",
        world: "vocabulary-pack",
        pub_export_macro: true,
        export_macro_name: "export_vocabulary_pack",
        default_bindings_module: "daftar_sdk::vocabulary::bindings",
        additional_derives: [PartialEq, Eq],
        with: { "daftar:plugin/log@0.1.0": crate::log::bindings::daftar::plugin::log },
    });
}

use self::bindings::exports::daftar::plugin::vocabulary as generated;

pub use generated::{
    Completeness, Concept, ConceptGroup, ConceptPage, ConceptStatus, LocalizedText, PageError, Property, ResolveError,
    Selection, VocabularyDescription,
};
pub use page::page_of;

/// A vocabulary pack: implement it on an empty struct and export that with
/// [`export_vocabulary_pack!`](crate::export_vocabulary_pack).
///
/// The host reads the pack once, at install, and keeps its own index; it calls again only to [`resolve`](Self::resolve)
/// codes of an open vocabulary. The same call must always return the same response.
pub trait VocabularyPack: 'static {
    /// The vocabularies of this pack, at least one.
    fn describe() -> Vec<VocabularyDescription>;

    /// A page of a vocabulary's concepts from `cursor` (0 for the first), at most `limit` of them, always in the same
    /// order.
    /// [`page_of`] does it for a slice.
    ///
    /// # Errors
    /// [`PageError::UnknownNamespace`] for a vocabulary that the pack does not have, [`PageError::InvalidCursor`] for a
    /// cursor that it never returned.
    fn concepts(namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError>;

    /// The concept groups of this pack; none by default.
    fn concept_groups() -> Vec<ConceptGroup> {
        Vec::new()
    }

    /// The concept of a code that is not listed. Called for open vocabularies only.
    ///
    /// # Errors
    /// [`ResolveError::NotOpen`] by default: codes that are not listed do not exist.
    fn resolve(namespace: &str, code: &str) -> Result<Concept, ResolveError> {
        let _ = (namespace, code);
        Err(ResolveError::NotOpen)
    }
}

impl<P: VocabularyPack> generated::Guest for P {
    fn describe() -> Vec<VocabularyDescription> {
        <P as VocabularyPack>::describe()
    }

    fn concept_groups() -> Vec<ConceptGroup> {
        <P as VocabularyPack>::concept_groups()
    }

    fn concepts(namespace: String, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
        <P as VocabularyPack>::concepts(&namespace, cursor, limit)
    }

    fn resolve(namespace: String, code: String) -> Result<Concept, ResolveError> {
        <P as VocabularyPack>::resolve(&namespace, &code)
    }
}
