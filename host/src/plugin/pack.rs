//! Vocabulary packs from plain files: the source format, its checks, and the builder.
//!
//! The builder needs no compiler on the machine: the generic pack is shipped inside this binary, and a pack is that module
//! with its codes put into its memory.
//!
//! **Invariant:** the same source gives the same bytes, on every machine.

mod blob;
mod build;
mod limits;
mod problem;
pub mod section;
pub(super) mod snapshot;
mod source;

use std::path::Path;

pub use self::snapshot::INITIALISE_EXPORT;
pub use build::{PackBuildError, build};
pub use problem::{PackErrors, PackProblem, PackProblemKind};
pub use source::{PackSource, check};

/// The generic pack's core module, without codes. `host/build.rs` puts it here.
pub const CODELIST_MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/codelist.wasm"));

/// Makes a pack of a folder of plain files: a component with its manifest, ready to be installed.
///
/// # Errors
/// Everything that is wrong with the folder, at once.
pub fn build_folder(folder: &Path) -> Result<Vec<u8>, PackErrors> {
    Ok(build(&check(folder)?, CODELIST_MODULE)?)
}

#[cfg(test)]
mod tests;
