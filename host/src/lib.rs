//! daftar: a registry server for social protection.
//!
//! This package puts the crates below `host/crates` together: it opens a register, listens, and is led from the command
//! line. See ARCHITECTURE.md for the map.
//!
//! **Invariant:** only the crates `daftar-sandbox` and `daftar-pack-tools` name wasmtime, and nothing here knows the expression language: an
//! expression is opaque text that the eligibility engine reads inside its sandbox.
//!
//! **Invariant:** below `api` nothing acts without an [`context::OpContext`] that says as whom.
//!
//! **Invariant:** no key of the store leaves the process; a record is addressed by its identifiers alone.

pub mod app;
pub mod cli;
mod client_tls;
pub mod telemetry;

// The paths by which the tests of the whole program reach the crates.
pub use daftar_auth::{self as auth, limits};
pub use daftar_domain::{self as domain, config, context, error};
pub use daftar_http::{admin, api};
pub use daftar_index as columns;
pub use daftar_sandbox as plugin;
pub use daftar_service as service;
pub use daftar_vocabulary as vocab;

/// The port to the store, and the stores.
pub mod store {
    pub use daftar_store::*;
    pub use daftar_store_postgres as postgres;
    pub use daftar_store_sled as sled;
}
