//! Documents of a release: the bill of materials, the notices of licences, completions and manual pages, digests.

pub mod check;
mod notices;
mod packages;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::commit::Commit;
use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::workspace::Workspace;

pub use self::packages::Shipped;

/// The shells whose completions are shipped, with the names that their folders want.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "daftar.bash"), ("zsh", "_daftar"), ("fish", "daftar.fish")];
/// The list of digests.
const SUMS: &str = "SHA256SUMS";

/// Writes all of it into `dist`, where program and plugins are already.
pub fn accompany(workspace: &Workspace, steps: &Steps, dist: &Path, commit: &Commit) -> Result<(), Failure> {
    let program = dist.join(format!("daftar{}", std::env::consts::EXE_SUFFIX));
    steps.say("write completions and manual pages");
    for (shell, file) in COMPLETIONS {
        let script = message(Command::new(&program).args(["completions", shell]))?;
        files::write_if_changed(&dist.join("completions").join(file), &script)?;
    }
    let manual = dist.join("man");
    files::create_folder(&manual)?;
    message(Command::new(&program).arg("manual").arg(&manual))?;

    steps.say("write the bill of materials and the notices");
    let shipped = Shipped::read(workspace)?;
    let lists = packages::code_lists(workspace)?;
    let bom = sbom::document(&shipped, &lists, &plugins(dist)?, commit)?;
    files::write_if_changed(&dist.join("daftar.cdx.json"), &bom)?;
    files::write_if_changed(&dist.join("THIRD-PARTY.md"), notices::text(&shipped, &lists)?.as_bytes())?;
    sums(dist)
}

/// Output of a command.
fn message(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let shown = crate::steps::shown(command);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::new(format!("`{shown}`: {error}")))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Failure::new(format!("`{shown}` failed: {}", output.status)))
    }
}

/// The plugins and modules of a release, by their file's name, with their digests; sorted.
fn plugins(dist: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for folder in ["plugins", "modules"].map(|folder| dist.join(folder)) {
        for file in all_files(&folder)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "wasm")) {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, digest(&file)?));
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the digest of every other file, as `sha256sum --check` reads it.
fn sums(dist: &Path) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for file in all_files(dist)? {
        let name = file.strip_prefix(dist).unwrap_or(&file).display().to_string();
        if name != SUMS {
            lines.push(format!("{}  {name}\n", digest(&file)?));
        }
    }
    files::write_if_changed(&dist.join(SUMS), lines.concat().as_bytes())
}

/// Every file in a folder and the folders in it, sorted.
pub fn all_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| Failure::file(folder, error))?.path();
        if path.is_dir() { found.extend(all_files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// The SHA-256 of a file, in hexadecimal.
pub fn digest(file: &Path) -> Result<String, Failure> {
    Ok(files::hexadecimal(Sha256::new_with_prefix(files::read(file)?)))
}
