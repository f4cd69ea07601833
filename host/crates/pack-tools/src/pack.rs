//! Vocabulary packs from plain files: the source format, its checks, and the builder.
//!
//! The builder needs no compiler on the machine: the generic pack is shipped inside this binary, and a pack is that module
//! with its codes put into its memory.
//!
//! **Invariant:** the same source gives the same bytes, on every machine.

mod base;
mod blob;
mod build;
mod limits;
mod problem;
pub(super) mod snapshot;
mod source;

use std::io::Read;
use std::path::Path;

pub use self::snapshot::INITIALISE_EXPORT;
pub use build::{PackBuildError, build};
use daftar_sandbox::{PACKAGE_BYTES_MAX, PluginHost};
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

/// Makes a pack of a folder and an existing pack whose data the folder replaces; host/docs/PACKS.md says what is
/// taken from where. The base is run in the sandbox.
///
/// # Errors
/// Everything that is wrong with the folder, or with the two together.
pub fn rebuild_folder(folder: &Path, base: &Path, host: &PluginHost) -> Result<Vec<u8>, PackErrors> {
    let source = check(folder)?;
    let file = base.display().to_string();
    let bytes = read_bounded(base).map_err(|error| PackErrors::one(&file, PackProblemKind::Unreadable(error)))?;
    let read = host.read_pack(bytes);
    let (manifest, contents) =
        read.map_err(|error| PackErrors::one(&file, PackProblemKind::Base(format!("it is no usable base: {error}"))))?;
    Ok(build(&base::rebuild(&file, manifest, contents, source)?, CODELIST_MODULE)?)
}

/// The bytes of a file, at most one more than plugins may have.
fn read_bounded(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(PACKAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
