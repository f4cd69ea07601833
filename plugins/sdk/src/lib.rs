//! The SDK for daftar plugins in Rust.
//!
//! A plugin is a crate of type `cdylib`, built for `wasm32-unknown-unknown` and wrapped as a component. This crate
//! provides the types of the plugin interface 0.1.0, a trait to implement for each kind of plugin, and the macro that
//! exports the implementation. It gives a plugin no rights: functions that the host does not link do not exist. The
//! only one it links is [`log`].
//!
//! # A complete vocabulary pack
//!
//! ```
//! use daftar_sdk::vocabulary::{
//!     Concept, ConceptGroup, ConceptPage, PageError, Selection, VocabularyDescription, VocabularyPack, page_of,
//! };
//!
//! const NAMESPACE: &str = "urn:example:water-source";
//! const SOURCES: [(&str, &str, &str); 3] =
//!     [("piped", "Piped water", "Eau courante"), ("well", "Well", "Puits"), ("river", "River", "Rivière")];
//!
//! struct WaterSources;
//!
//! impl VocabularyPack for WaterSources {
//!     fn describe() -> Vec<VocabularyDescription> {
//!         let description = VocabularyDescription::new(NAMESPACE, "Water source", "Housing", "1.0.0", "en")
//!             .with_language("fr")
//!             .with_licence("CC0-1.0", "Example Statistics Office")
//!             .with_concept_count(SOURCES.len() as u32);
//!         vec![description]
//!     }
//!
//!     fn concepts(namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
//!         if namespace != NAMESPACE {
//!             return Err(PageError::UnknownNamespace);
//!         }
//!         page_of(&SOURCES, cursor, limit, |(code, english, french)| {
//!             Concept::new(*code, "en", *english).with_label("fr", *french)
//!         })
//!     }
//!
//!     fn concept_groups() -> Vec<ConceptGroup> {
//!         let safe = ConceptGroup::new("safe_water", "Sources that need no treatment.")
//!             .including(Selection::Code(format!("{NAMESPACE}#piped")));
//!         vec![safe]
//!     }
//! }
//!
//! # #[cfg(target_arch = "wasm32")]
//! daftar_sdk::export_vocabulary_pack!(WaterSources);
//! # let page = WaterSources::concepts(NAMESPACE, 0, 2).unwrap();
//! # assert_eq!((page.concepts.len(), page.next), (2, Some(2)));
//! # assert_eq!(WaterSources::describe()[0].languages, ["en", "fr"]);
//! # assert_eq!(WaterSources::concept_groups()[0].includes.len(), 1);
//! ```
//!
//! `daftar plugin new` generates a folder with such a crate, and `daftar plugin build` builds the plugin. A list that
//! is only data needs no code: `daftar pack build` builds its pack from plain files.
//!
//! **Invariant:** this crate calls nothing outside the sandbox except [`log`]; a plugin that does not use it has no
//! imports.

// The export macros name this crate, in other crates and here.
extern crate self as daftar_sdk;

pub mod eligibility;
pub mod log;
pub mod vocabulary;

pub use eligibility::bindings::export_eligibility_engine;
pub use vocabulary::bindings::export_vocabulary_pack;
