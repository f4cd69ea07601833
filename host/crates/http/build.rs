//! Embeds the workbench's page and the documentation site, if they were built. This script never calls cargo or npm.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The folders of the target folder that are embedded, each with the variable that names another one. Empty where a
/// site was not built.
const SITES: [(&str, &str); 2] = [("workbench", "DAFTAR_WORKBENCH"), ("docs", "DAFTAR_DOCS")];
/// File name extension of a compressed file; only these are embedded.
const COMPRESSED: &str = ".gz";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out_dir) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        println!("cargo::error=OUT_DIR is not set");
        return ExitCode::FAILURE;
    };
    for (site, variable) in SITES {
        if let Err(error) = embed(&out_dir, site, variable) {
            println!("cargo::error=cannot embed `{site}`: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Writes the list of a site's files. They are in a folder of the target folder, an ancestor of `OUT_DIR`, or in the
/// folder that the variable names.
fn embed(out_dir: &Path, site: &str, variable: &str) -> io::Result<()> {
    println!("cargo::rerun-if-env-changed={variable}");
    println!("cargo::rerun-if-env-changed=DAFTAR_GUESTS");
    let guests = std::env::var_os("DAFTAR_GUESTS").map(PathBuf::from);
    let guests = guests.or_else(|| out_dir.ancestors().map(|folder| folder.join("guests")).find(|path| path.is_dir()));
    let beside = guests.and_then(|guests| Some(guests.parent()?.join(site)));
    let named = std::env::var_os(variable).map(PathBuf::from);
    let folder = named.or(beside).ok_or_else(|| io::Error::other("the guests are in no target folder"))?;
    // Cargo would run this script on every build for a missing folder.
    std::fs::create_dir_all(&folder)?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let copies = out_dir.join(site);
    std::fs::create_dir_all(&copies)?;
    let mut names = Vec::new();
    find(&folder, "", &mut names)?;
    names.sort();
    let mut list = "&[\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        let copy = format!("{number}{COMPRESSED}");
        std::fs::copy(folder.join(format!("{name}{COMPRESSED}")), copies.join(&copy))?;
        let copy = format!("{site}/{copy}");
        let _ = writeln!(list, "    File {{ name: {name:?}, compressed: include_bytes!({copy:?}) }},");
    }
    list.push(']');
    std::fs::write(out_dir.join(format!("{site}.rs")), list)
}

/// Adds the paths of the compressed files below a folder, without the extension.
fn find(folder: &Path, below: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            find(&entry.path(), &format!("{name}/"), names)?;
        } else if let Some(name) = name.strip_suffix(COMPRESSED) {
            names.push(name.to_owned());
        }
    }
    Ok(())
}
