//! daftar: a registry server for social protection.
//!
//! The modules point one way, from the outside in; see ARCHITECTURE.md for the map.
//!
//! **Invariant:** only `plugin` names wasmtime, and nothing here knows the expression language: an expression is opaque
//! text that the eligibility engine reads inside its sandbox.
//!
//! **Invariant:** below `api` nothing acts without an [`context::OpContext`] that says as whom.
//!
//! **Invariant:** no key of the store leaves the process; a record is addressed by its identifiers alone.

pub mod admin;
pub mod api;
pub mod app;
pub mod auth;
pub mod cli;
pub mod columns;
pub mod config;
pub mod context;
pub mod domain;
pub mod error;
pub mod fair;
pub mod limits;
pub mod owner_files;
pub mod plugin;
pub mod service;
pub mod store;
pub mod telemetry;
pub mod vocab;
