//! Records for tests, and ways to make up any: a file for each noun.
#![expect(clippy::unwrap_used, reason = "for tests alone: a fixture that is wrong should fail its test at once")]

mod access;
mod audit;
mod deployment;
mod group;
mod individual;
mod parts;
mod program;
mod request;

pub use access::{bare_client, full_client, full_consent};
pub use audit::{audit_entries, audit_segment};
pub use deployment::{concept_group, earlier_version, identifier_system, kept_concepts, local_code, starter_code};
pub use group::{any_group, full_group};
pub use individual::{any_individual, bare_individual, full_individual};
pub use parts::meta;
pub use program::{full_membership, full_program};
pub use request::remembered_request;
