//! `cargo xtask dist`: the release, in `dist/` of the project.

use std::fs;
use std::path::Path;

use crate::commit::Commit;
use crate::failure::Failure;
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, docs, files, guests, packs, release, workbench};

/// Builds the release and assembles it: `daftar`, `plugins/`, `modules/`, the licence notes of the data, and its
/// documents (`release.rs`).
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    guests::shipped(workspace, steps)?;
    workbench::build(workspace, steps)?;
    docs::build(workspace, steps)?;
    build::server(workspace, steps, Profile::Release)?;
    let dist = workspace.root().join("dist");
    let (plugins, modules) = (dist.join("plugins"), dist.join("modules"));
    let others = ["completions", "docs", "licences", "man"].map(|folder| dist.join(folder));
    steps.say("lay out dist/");
    for folder in [&plugins, &modules].into_iter().chain(&others) {
        // Files of an earlier release must not be shipped again under this one's name.
        remove(folder)?;
        files::create_folder(folder)?;
    }
    packs::build_all(workspace, steps, &workspace.server(Profile::Release), &plugins, &modules)?;
    if let Some(engine) = guests::engine(workspace) {
        files::copy(&engine, &plugins.join(engine.file_name().unwrap_or_default()))?;
    }
    for module in guests::modules(workspace) {
        files::copy(&module, &modules.join(module.file_name().unwrap_or_default()))?;
    }
    build::stamp(workspace, Profile::Release, &[&plugins, &modules])?;
    let server = dist.join(format!("daftar{}", std::env::consts::EXE_SUFFIX));
    files::copy(&workspace.server(Profile::Release), &server)?;
    copy_licences(workspace, &dist.join("licences"))?;
    docs::lay_out(workspace, &dist.join("docs"))?;
    let of_page = workspace.target().join("workbench/licences.txt");
    if of_page.is_file() {
        files::copy(&of_page, &dist.join("licences/workbench.txt"))?;
    }
    files::copy(&workspace.root().join("LICENSE"), &dist.join("LICENSE"))?;
    release::accompany(workspace, steps, &dist, &Commit::of(workspace.root()))?;
    steps.say(&format!("ready: {}", dist.display()));
    Ok(())
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file(folder, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The notes travel with the data: one file for each pack.
fn copy_licences(workspace: &Workspace, destination: &Path) -> Result<(), Failure> {
    for root in ["vocab-packs", "plugins"].map(|folder| workspace.root().join(folder)) {
        for entry in fs::read_dir(&root).map_err(|error| Failure::file(&root, error))? {
            let entry = entry.map_err(|error| Failure::file(&root, error))?;
            let note = entry.path().join("LICENSE-DATA.md");
            if note.is_file() {
                files::copy(&note, &destination.join(entry.file_name()).with_extension("md"))?;
            }
        }
    }
    Ok(())
}
