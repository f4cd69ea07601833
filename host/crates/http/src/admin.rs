//! The administrator's HTTP API, on a listener of its own that only this machine can reach.
//!
//! **Invariant:** nothing of it is on the public listener, and nothing of it answers without the admin token.

pub mod access;
pub mod dto;
pub mod export;
pub mod import;
pub mod router;
pub mod routes;
