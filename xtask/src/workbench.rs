//! The workbench's page: built from `host/workbench` if Node.js is installed, and placed in `workbench` of the target
//! folder, which the server embeds. Without Node.js the folder is empty and the server has no page.
//!
//! **Invariant:** exactly the packages of the lock file; they and the page are made in the target folder, never among the sources.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::files;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

const SOURCES: &str = "host/workbench";
/// The example rules, which the page contains, and their folder beside its copied sources.
const RULES: &str = "examples/rules";
const RULES_FOLDER: &str = "example-rules";
/// The files that npm reads; the second lists every package with its digest.
const NPM_FILES: [&str; 2] = ["package.json", "package-lock.json"];
/// The folders of the sources.
const FOLDERS: [&str; 2] = ["public", "src"];
/// Written by other tools next to the sources.
const NOT_SOURCES: [&str; 3] = ["node_modules", "dist", "dist-tests"];

/// Builds the page unless it is up to date. Without Node.js it prints a message and leaves the page out.
pub fn build(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let embedded = workspace.target().join("workbench");
    files::create_folder(&embedded)?;
    let missing = tools::missing(&["node", "npm"]);
    if !missing.is_empty() {
        steps.say(&format!("NO WORKBENCH in the server, for want of:\n{}", tools::instructions(&missing)));
        return keep_only(&embedded, &HashSet::new());
    }
    let sources = workspace.root().join(SOURCES);
    let place = workspace.target().join("workbench-build");
    let rules = workspace.root().join(RULES);
    let version = digest([&sources, &rules])?;
    if tools::is_there(&place, "page", &version) && embedded.join("index.html").is_file() {
        return Ok(());
    }
    copy_sources(&sources, &place)?;
    for file in files::all_below(&rules, &[])? {
        files::copy(&rules.join(&file), &place.join(RULES_FOLDER).join(&file))?;
    }
    install(steps, &place)?;
    let mut build = tools::npm("run", &place);
    // Its output is for developers of the page; errors go where ours go.
    steps.run("build the page of the workbench", build.args(["build", "--silent"]).stdout(Stdio::null()))?;
    embed(&place.join("dist"), &embedded)?;
    tools::remember(&place, "page", &version)
}

/// Runs the unit tests of the page, where [`build`] left them.
pub fn test(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    let mut test = tools::npm("run", &workspace.target().join("workbench-build"));
    steps.run("test the parts of the workbench", test.args(["test", "--silent"]))
}

fn install(steps: &Steps, place: &Path) -> Result<(), Failure> {
    let mut lock = Sha256::new();
    for name in NPM_FILES {
        lock.update(files::read(&place.join(name))?);
    }
    let version = files::hexadecimal(lock);
    if tools::is_there(place, "packages", &version) {
        return Ok(());
    }
    // None of them has anything to do at its installation.
    let mut install = tools::npm("ci", place);
    steps.run("install what the workbench is built with", install.arg("--ignore-scripts"))?;
    tools::remember(place, "packages", &version)
}

/// Replaces the sources of an earlier build.
fn copy_sources(sources: &Path, place: &Path) -> Result<(), Failure> {
    let copied = FOLDERS.into_iter().chain([RULES_FOLDER]).map(|name| place.join(name));
    for old in copied.filter(|old| old.is_dir()) {
        fs::remove_dir_all(&old).map_err(|cause| Failure::file(&old, cause))?;
    }
    for file in files::all_below(sources, &NOT_SOURCES)? {
        files::copy(&sources.join(&file), &place.join(&file))?;
    }
    Ok(())
}

/// Places the built files, and nothing else, where the server's build expects them.
fn embed(built: &Path, embedded: &Path) -> Result<(), Failure> {
    let mut stored = HashSet::new();
    for name in names(built)? {
        files::write_if_changed(&embedded.join(&name), &files::read(&built.join(&name))?)?;
        stored.insert(name);
    }
    keep_only(embedded, &stored)
}

fn keep_only(folder: &Path, stored: &HashSet<String>) -> Result<(), Failure> {
    for name in names(folder)?.into_iter().filter(|name| !stored.contains(name)) {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(|cause| Failure::file(&path, cause))?;
    }
    Ok(())
}

/// Digest of the files of folders.
fn digest(folders: [&Path; 2]) -> Result<String, Failure> {
    let mut digest = Sha256::new();
    for folder in folders {
        for file in files::all_below(folder, &NOT_SOURCES)? {
            let text = files::read(&folder.join(&file))?;
            digest.update(file.to_string_lossy().as_bytes());
            digest.update([0]);
            digest.update(text.len().to_le_bytes());
            digest.update(text);
        }
    }
    Ok(files::hexadecimal(digest))
}

fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder).map_err(|cause| Failure::file(folder, cause))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect())
}
