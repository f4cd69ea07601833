//! Passes target and compiler to the program. This script never calls cargo, npm or git.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    report_builder();
}

/// Passes on the target, the compiler, and the version of the sandbox from the lock file. Missing facts are `unknown`.
fn report_builder() {
    let unknown = || "unknown".to_owned();
    let target = std::env::var_os("TARGET").and_then(|target| target.into_string().ok());
    println!("cargo::rustc-env=DAFTAR_TARGET={}", target.unwrap_or_else(unknown));
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let message =
        Command::new(rustc).arg("--version").output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let message = message.map(|message| message.trim().to_owned()).filter(|message| !message.is_empty());
    println!("cargo::rustc-env=DAFTAR_RUSTC={}", message.unwrap_or_else(unknown));
    // Read when the script runs: it may have been compiled for another folder of sources.
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let lock = Path::new(&folder).join("../Cargo.lock");
    let wasmtime = std::fs::read_to_string(&lock).ok().and_then(|text| {
        let (_, package) = text.split_once("name = \"wasmtime\"\nversion = \"")?;
        package.split_once('"').map(|(version, _)| version.to_owned())
    });
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rustc-env=DAFTAR_WASMTIME={}", wasmtime.unwrap_or_else(unknown));
}
