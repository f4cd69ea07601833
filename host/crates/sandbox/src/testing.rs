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

/// The static checks of an install, from the size of a file to the amount of its code: nothing is compiled and no code
/// of the plugin runs.
///
/// # Errors
/// The step that failed.
pub fn check_statically(bytes: Vec<u8>) -> Result<(), crate::InstallError> {
    crate::Candidate::read(bytes)?.check().map(drop)
}
