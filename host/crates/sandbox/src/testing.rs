//! Small plugins and a library of them, for the tests of this crate and of those above it.
//!
//! **Invariant:** nothing outside tests uses this; a fixture that is wrong panics with its reason.
#![expect(
    clippy::new_without_default,
    clippy::unwrap_used,
    missing_docs,
    reason = "for tests alone: a fixture that is wrong should fail its test at once, and names are sentences"
)]

pub mod guest;
pub mod pack_guest;
pub mod rule_guest;
