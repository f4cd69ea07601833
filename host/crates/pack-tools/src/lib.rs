//! Readers of published classifications, and the builder of vocabulary packs.
//!
//! The command line and the build tasks use it; the server that runs reads packs through the sandbox alone.

pub mod author;
pub mod owner_files;
pub mod pack;
mod source_rules;
