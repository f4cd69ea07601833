//! Handlers, one file a noun.

pub mod batch;
pub mod concept_group;
pub mod consent;
pub mod description;
pub mod discovery;
pub mod eligibility;
pub mod group;
pub mod group_member;
pub mod group_search;
pub mod health;
pub mod individual;
pub mod individual_search;
pub mod program;
pub mod program_membership;
pub mod record_search;
pub mod search;
pub mod token;
pub mod vocabulary;
pub mod workbench;
