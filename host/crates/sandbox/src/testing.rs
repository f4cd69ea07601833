//! Small plugins and plugin libraries for the tests of this crate and of its dependents.
//!
//! **Invariant:** only tests use this; an invalid fixture panics with its reason.
#![expect(
    clippy::new_without_default,
    clippy::unwrap_used,
    missing_docs,
    reason = "for tests only: an invalid fixture should fail its test immediately, and the names are self-explanatory"
)]

pub mod guest;
pub mod pack_guest;
pub mod rule_guest;
