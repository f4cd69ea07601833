//! Sample records for tests, and generators of any record: a file for each noun.
#![expect(clippy::unwrap_used, reason = "for tests alone: an invalid fixture should fail its test immediately")]

mod access;
mod audit;
mod deployment;
mod made_up;
mod parts;
mod records;
mod request;

pub use access::{bare_client, full_client};
pub use audit::{audit_entries, audit_segment};
pub use deployment::{
    concept_group, earlier_version, identifier_system, local_code, retained_concepts, rule_draft, starter_code,
};
pub use made_up::{any_newer_record, any_record};
pub use parts::{coded, meta};
pub use records::{bare_individual, full_consent, full_group, full_individual, full_membership, full_program};
pub use request::idempotent_request;
