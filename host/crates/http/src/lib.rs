//! HTTP: the public and the administrator API, and the state that handlers share.
//!
//! **Invariant:** HTTP ends here; the operations below know nothing of it.

pub mod admin;
pub mod api;
pub mod spans;
pub mod state;
pub mod transport;
