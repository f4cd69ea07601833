//! Vocabularies in memory: lookup, hierarchy, concept groups, versions, the generation that a request keeps.
//!
//! The way of a pack: what its plugin brought ([`daftar_domain::vocabulary::PackContents`]) goes through [`check()`],
//! which reports all that is wrong or indexes it; a [`GenerationBuilder`] puts packs and numbers together;
//! [`Vocabularies`] holds the [`Generation`] active. The plugin is not called again.
//!
//! **Invariant:** what a reader sees of codes never changes under it: vocabularies and generations are immutable.
//!
//! **Invariant:** for any input, a lookup costs no more than its result, and an error message a bounded search.

mod check;
mod code_problem;
mod compact;
mod digest;
mod generation;
mod hierarchy;
mod language;
mod nearest;
mod open;
mod search;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod vocabulary;

pub use self::check::problem::{PackFault, PackProblem, PackProblems, Place, TextFault};
pub use self::check::{CheckedPack, check, check_concept_group, limits};
pub use self::code_problem::{CodeProblem, Suggestion};
pub use self::compact::ConceptIndex;
pub use self::digest::ContentDigest;
pub use self::generation::{
    CodeDisplay, DefinedBy, Generation, GenerationBuilder, IdentifierProblem, LookUpProblem, OpenProblem, PackOrigin,
    PublishFault, PublishProblem, PublishedGroup, QuestionProblem, Vocabularies, WELL_KNOWN_CONCEPT_GROUPS,
    check_pattern,
};
pub use self::hierarchy::{DEPTH_MAX, EXTRA_INTERVALS_MAX};
pub use self::language::LanguagePreference;
pub use self::open::{
    CallingThread, NoPacks, OpenCodes, OpenFailure, OpenPacks, OpenUnavailable, QueriedCode, ResolvedCode,
    ResolvedConcept,
};
pub use self::search::{
    Found, FoundPage, Grade, MatchedText, QUERY_BYTES_MAX, QUERY_WORDS_MAX, SearchOptions, SearchQuery,
    SearchQueryError, search,
};
pub use self::table::{CodeTable, TableError};
pub use self::vocabulary::{ConceptRef, Label, Vocabulary};
