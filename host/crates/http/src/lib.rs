//! HTTP: the public and the administrator API, and the shared state of the handlers.
//!
//! **Invariant:** HTTP ends here; the operations below do not depend on it.

pub mod admin;
pub mod api;
pub mod spans;
pub mod state;
pub mod transport;
