//! The public HTTP API: extract, delegate, convert.
//!
//! **Invariant:** handlers decide nothing; rules live in `service` and `domain`.
//!
//! **Invariant:** a handler that does not declare its callers does not compile; see [`access`].

pub mod access;
pub mod batch;
pub mod conditional;
pub mod dto;
pub mod elements;
pub mod endpoint;
pub mod error;
pub mod extract;
mod idempotency;
pub mod lines;
pub mod middleware;
pub mod openapi;
pub mod router;
pub mod routes;
pub mod site;
