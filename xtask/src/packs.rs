//! Builds the packs of `vocab-packs/` with the server's own builder.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::failure::Failure;
use crate::files;
use crate::guests;
use crate::steps::{Steps, shown};
use crate::workspace::Workspace;

/// The used part of a `pack.toml`.
#[derive(Deserialize)]
struct PackSettings {
    name: String,
    #[serde(default = "yes")]
    default: bool,
}

fn yes() -> bool {
    true
}

/// Builds every pack with the program `server`: those loaded by default into `plugins`, the others into `modules`.
pub fn build_all(
    workspace: &Workspace,
    steps: &Steps,
    server: &Path,
    plugins: &Path,
    modules: &Path,
) -> Result<(), Failure> {
    steps.say("make the vocabulary packs");
    guests::initialise_engine(workspace, steps, server)?;
    let mut built = HashSet::new();
    for folder in folders(&workspace.root().join("vocab-packs"))? {
        let file = folder.join("pack.toml");
        let settings: PackSettings =
            toml::from_str(&files::read_text(&file)?).map_err(|error| Failure::file(&file, error))?;
        let destination = if settings.default { plugins } else { modules };
        let pack = destination.join(format!("{}.wasm", settings.name));
        build(server, &folder, &pack)?;
        built.insert(pack);
    }
    built.extend(guests::engine(workspace));
    built.extend(guests::modules(workspace));
    remove_others(plugins, &built)?;
    remove_others(modules, &built)
}

/// Removes plugins of an earlier state of the sources: a server would load them.
fn remove_others(folder: &Path, built: &HashSet<PathBuf>) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_some_and(|extension| extension == "wasm") && !built.contains(&path) {
            fs::remove_file(&path).map_err(|error| Failure::file(&path, error))?;
        }
    }
    Ok(())
}

/// The folders with a `pack.toml`, sorted.
fn folders(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(root).map_err(|error| Failure::file(root, error))?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|folder| folder.join("pack.toml").is_file());
    folders.sort();
    Ok(folders)
}

/// Builds one pack, unless it is newer than its source and the builder.
fn build(server: &Path, folder: &Path, pack: &Path) -> Result<(), Failure> {
    let built = files::changed(pack);
    if built.is_some() && built > files::changed(folder) && built > files::changed(server) {
        return Ok(());
    }
    if let Some(parent) = pack.parent() {
        files::create_folder(parent)?;
    }
    let mut command = Command::new(server);
    command.args(["pack", "build"]).arg(folder).arg("-o").arg(pack);
    let output = command.output().map_err(|error| Failure::file(server, error))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::new(format!("`{}` failed: {}\n{message}", shown(&command), output.status)));
    }
    if !pack.is_file() {
        return Err(Failure::new(format!("`{}` left no file", shown(&command))));
    }
    Ok(())
}
