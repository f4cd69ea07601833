//! The administrator's HTTP API, on a listener of its own that only this machine can reach.
//!
//! **Invariant:** nothing of it is on the public listener, and nothing of it answers without the admin token.

pub mod access;
pub mod export;
mod grant;
pub mod import;
pub mod resource;
pub mod router;
pub mod routes;
