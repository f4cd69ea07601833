//! The administrator's HTTP API, on a listener of its own that only this machine can reach.
//!
//! **Invariant:** none of its routes is on the public listener, and none is served without the admin token.

pub mod client;
pub mod consent;
pub mod deployment;
pub mod export;
pub mod import;
pub mod import_lines;
pub mod operation;
pub mod plugin;
pub mod program;
pub mod resource;
pub mod router;
pub mod rule_draft;
