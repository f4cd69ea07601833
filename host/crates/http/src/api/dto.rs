//! Bodies on the wire, in and out.
//!
//! **Invariant:** domain types never take a wire form by themselves; each body is read and written here, member by member.

pub mod address;
pub mod consent;
pub mod eligibility;
pub mod extension;
pub mod group;
pub mod individual;
pub mod merge;
pub mod metadata;
pub mod named;
pub mod nearest;
pub mod program;
pub mod program_membership;
pub mod reader;
pub mod shared;
pub mod vocabulary;
