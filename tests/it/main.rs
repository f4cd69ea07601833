//! End-to-end tests: the real server, a real folder, real plugins. The modules follow the URLs and the commands.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod accept;
mod admin;
mod audit;
mod authorization;
mod backup;
mod batch;
mod checkpoint;
mod cli;
mod clients;
mod consent;
mod deploy;
mod deployment;
mod discovery;
mod documentation;
mod edge;
mod eligibility;
mod error_codes;
mod faults;
mod fields;
mod forged_tokens;
mod group;
mod group_member;
mod group_relationship;
mod group_search;
mod guides;
mod hostile;
mod individual;
mod individual_relationship;
mod keys;
mod limits;
mod logs;
mod many;
mod metrics;
mod model;
mod once;
mod openapi;
mod otlp;
mod plugin;
mod power;
mod program;
mod program_membership;
mod receipt;
mod recovery;
mod rule_draft;
mod secret;
mod sign_in;
mod token;
mod torture;
mod verify;
mod vocabulary;
mod workbench;
