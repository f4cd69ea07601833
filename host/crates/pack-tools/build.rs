//! Embeds the generic pack, which `cargo xtask build` compiles for the sandbox beforehand. This script never calls
//! cargo or npm.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const MODULE: &str = "codelist.wasm";

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=DAFTAR_GUESTS");
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out_dir) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        println!("cargo::error=OUT_DIR is not set");
        return ExitCode::FAILURE;
    };
    let folder = std::env::var_os("DAFTAR_GUESTS").map(PathBuf::from);
    let Some(module) = find(folder.as_deref(), &out_dir) else {
        println!(
            "cargo::error=guests/{MODULE} is not in the target folder: run `cargo xtask build`, which compiles it first"
        );
        return ExitCode::FAILURE;
    };
    println!("cargo::rerun-if-changed={}", module.display());
    if let Err(error) = std::fs::copy(&module, out_dir.join(MODULE)) {
        println!("cargo::error=cannot copy {}: {error}", module.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The module in the folder named by `DAFTAR_GUESTS`, or in `guests/` of the target folder, which is an ancestor of
/// `OUT_DIR`.
fn find(folder: Option<&Path>, out_dir: &Path) -> Option<PathBuf> {
    let module = match folder {
        Some(folder) => folder.join(MODULE),
        None => out_dir.ancestors().map(|ancestor| ancestor.join("guests").join(MODULE)).find(|path| path.is_file())?,
    };
    module.is_file().then_some(module)
}
