//! Handlers, one file a noun.

pub mod consent;
pub mod description;
pub mod eligibility;
pub mod group;
pub mod group_member;
pub mod group_search;
pub mod individual;
pub mod individual_search;
pub mod preview;
pub mod program;
pub mod program_membership;
pub mod record_search;
pub mod search;
pub mod token;
pub mod vocabulary;
pub mod workbench;
