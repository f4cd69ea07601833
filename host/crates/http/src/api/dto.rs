//! Request and response bodies.
//!
//! **Invariant:** domain types are never serialized directly. Bodies of records are read and written here by the schema
//! of records, other bodies member by member.

pub mod eligibility;
pub mod extension;
pub mod field;
pub mod member;
pub mod reader;
pub mod record;
pub mod rule_draft;
pub mod vocabulary;
