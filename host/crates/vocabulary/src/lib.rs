//! Vocabularies in memory: lookup, hierarchy, concept groups, versions, and the generation that a request reads.
//!
//! Life cycle of a pack: [`check()`] validates the contents from its plugin
//! ([`daftar_domain::vocabulary::PackContents`]). It reports all problems or indexes the contents. A
//! [`GenerationBuilder`] combines packs and numbers. [`Vocabularies`] stores the active [`Generation`]. The server does
//! not call the plugin again.
//!
//! **Invariant:** vocabularies and generations are immutable: a reader never observes a change to a code.
//!
//! **Invariant:** for any input, the cost of a lookup is proportional to its result, and an error message costs a
//! bounded search.

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
