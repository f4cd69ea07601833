//! Operations: check the permissions of the actor, then use the store, index, vocabulary or sandbox.
//!
//! **Invariant:** every function receives its context and does not depend on HTTP.

pub mod audit;
pub mod backup;
pub mod bulk;
pub mod catch_up;
pub mod client;
pub mod codes;
pub mod consent;
pub mod deployment;
pub mod edit;
pub mod eligibility;
pub mod follow;
pub mod group;
pub mod idempotency;
pub mod identifiers;
pub mod individual;
mod labels;
pub mod memory_index;
pub mod migrate;
pub mod open_vocabulary;
pub mod photo;
pub mod plugin;
pub mod program;
pub mod program_membership;
pub mod records;
pub mod registry;
pub mod response_cache;
pub mod rule_draft;
pub mod search;
pub mod shared_index;
pub mod signing_key;
pub mod subjects;
pub mod transaction;
pub mod verify;
pub mod visibility;
pub mod vocabulary;
pub mod vocabulary_publisher;
pub mod written;
