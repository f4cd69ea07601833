//! Domain types and their rules, and types shared by all crates: settings, errors, the context of an operation.
//!
//! **Invariant:** depends on no other workspace crate, no network, no store; only [`config`] and [`folders`] use files.
//! Every value is valid; text is parsed into these types only at the edge.

#[macro_use]
mod named;

pub mod address;
pub mod audit;
pub mod calendar;
pub mod call_counts;
pub mod change;
pub mod checkup;
pub mod client;
pub mod code;
pub mod config;
pub mod consent;
pub mod context;
pub mod deployment;
pub mod eligibility;
pub mod error;
pub mod error_code;
pub mod explanation;
pub mod extension;
pub mod fair;
pub mod field;
pub mod folders;
pub mod forwarded;
pub mod grant;
pub mod group;
pub mod hexadecimal;
pub mod hidden;
pub mod idempotency;
pub mod identifier;
pub mod individual;
pub mod local_code;
pub mod manifest;
pub mod module;
pub mod network;
pub mod organization;
pub mod person_name;
pub mod photo;
pub mod plugin_key;
pub mod program;
pub mod program_membership;
pub mod public_id;
pub mod record;
pub mod relationship;
pub mod rule_draft;
pub mod schema;
pub mod scope;
pub mod search;
pub mod subject;
pub mod tasks;
pub mod trace_parent;
pub mod value;
pub mod verification;
pub mod vocabulary;
