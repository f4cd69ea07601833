//! Handlers, one file for each noun.

pub mod description;
pub mod documentation;
pub mod eligibility;
pub mod group_member;
pub mod program;
pub mod record;
pub mod record_search;
pub mod rule_draft;
pub mod token;
pub mod vocabulary;
pub mod workbench;
