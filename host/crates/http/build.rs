//! Embeds the workbench's page where it was built. This script never calls cargo or npm.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The page's files, each followed by its compressed form; an empty folder where no page was built.
const WORKBENCH: &str = "workbench";
/// File name extension of a compressed file.
const COMPRESSED: &str = "gz";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out_dir) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        println!("cargo::error=OUT_DIR is not set");
        return ExitCode::FAILURE;
    };
    if let Err(error) = workbench(&out_dir) {
        println!("cargo::error=cannot embed the page of the workbench: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Writes the list of the page's files. They are in `workbench/` of the target folder, an ancestor of `OUT_DIR`, or in
/// the folder that `DAFTAR_WORKBENCH` names.
fn workbench(out_dir: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=DAFTAR_WORKBENCH");
    println!("cargo::rerun-if-env-changed=DAFTAR_GUESTS");
    let guests = std::env::var_os("DAFTAR_GUESTS").map(PathBuf::from);
    let guests = guests.or_else(|| out_dir.ancestors().map(|folder| folder.join("guests")).find(|path| path.is_dir()));
    let beside = guests.and_then(|guests| Some(guests.parent()?.join(WORKBENCH)));
    let named = std::env::var_os("DAFTAR_WORKBENCH").map(PathBuf::from);
    let folder = named.or(beside).ok_or_else(|| io::Error::other("the guests are in no target folder"))?;
    // Cargo would run this script on every build for a missing folder.
    std::fs::create_dir_all(&folder)?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let copies = out_dir.join(WORKBENCH);
    std::fs::create_dir_all(&copies)?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        std::fs::copy(folder.join(&name), copies.join(&name))?;
        names.push(name);
    }
    names.sort();
    let mut list = "&[\n".to_owned();
    for name in &names {
        let compressed = format!("{name}.{COMPRESSED}");
        if !names.contains(&compressed) {
            continue;
        }
        let _ = writeln!(
            list,
            "    File {{ name: {name:?}, bytes: include_bytes!({:?}), compressed: include_bytes!({:?}) }},",
            format!("{WORKBENCH}/{name}"),
            format!("{WORKBENCH}/{compressed}"),
        );
    }
    list.push(']');
    std::fs::write(out_dir.join("workbench.rs"), list)
}
