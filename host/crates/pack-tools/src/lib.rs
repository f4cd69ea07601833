//! Readers of published classifications, and the builder of vocabulary packs.
//!
//! The command line and the build tasks use it; the running server reads packs only through the sandbox.

pub mod author;
pub mod pack;
pub mod publisher_files;
pub mod scaffold;
mod source_rules;
