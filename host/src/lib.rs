//! daftar: a registry server for social protection.
//!
//! This package combines the crates below `host/crates`: it opens a register, listens for connections and provides the
//! command line. See ARCHITECTURE.md for an overview.
//!
//! **Invariant:** only the crates `daftar-sandbox` and `daftar-pack-tools` depend on wasmtime, and no crate implements
//! the expression language: an expression is opaque text that the eligibility engine parses inside its sandbox.
//!
//! **Invariant:** below `api`, every operation requires an [`context::OpContext`] that identifies the actor.
//!
//! **Invariant:** no key of the store leaves the process; a record is addressed by its identifiers alone.

pub mod app;
pub mod cli;
mod client_tls;
pub mod telemetry;

// Paths for the integration tests.
pub use daftar_auth::{self as auth, limits};
pub use daftar_domain::{self as domain, config, context, error};
pub use daftar_http::{admin, api};
pub use daftar_index as columns;
pub use daftar_sandbox as plugin;
pub use daftar_service as service;
pub use daftar_vocabulary as vocab;

/// The store port and its implementations.
pub mod store {
    pub use daftar_store::*;
    pub use daftar_store_postgres as postgres;
    pub use daftar_store_sled as sled;
}
