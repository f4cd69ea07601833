//! Embeds the generic pack, which `cargo xtask build` compiles for the sandbox beforehand, and says where the digests of the
//! plugins are that the program was built with. This script never calls cargo.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const MODULE: &str = "codelist.wasm";
/// Written by `cargo xtask build`, `test`, `bench` and `dist` beside the program.
const PINS: &str = "pinned-digests.txt";

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
    match pins(&out_dir) {
        // The compiler itself sees when what is in it changes.
        Ok(pins) => println!("cargo::rustc-env=DAFTAR_PINNED_DIGESTS={}", pins.display()),
        Err(error) => {
            println!("cargo::error=cannot make {PINS} in the target folder: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The list of digests beside the program; an empty one is made where no plugin was built yet.
fn pins(out_dir: &Path) -> io::Result<PathBuf> {
    // The program's folder holds `build/<package>/out`.
    let programs = out_dir.ancestors().nth(3).ok_or_else(|| io::Error::other("OUT_DIR is not in a target folder"))?;
    let pins = programs.join(PINS);
    match OpenOptions::new().write(true).create_new(true).open(&pins) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(pins),
    }
}

/// The module in the folder named by `DAFTAR_GUESTS`, or in `guests/` of the target folder, which is an ancestor of `OUT_DIR`.
fn find(folder: Option<&Path>, out_dir: &Path) -> Option<PathBuf> {
    let module = match folder {
        Some(folder) => folder.join(MODULE),
        None => out_dir.ancestors().map(|ancestor| ancestor.join("guests").join(MODULE)).find(|path| path.is_file())?,
    };
    module.is_file().then_some(module)
}
