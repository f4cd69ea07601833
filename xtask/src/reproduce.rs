//! `cargo xtask reproduce`: builds every plugin twice, from two copies of the sources at other paths, and compares the
//! bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::failure::Failure;
use crate::release::{all_files, digest};
use crate::steps::Steps;
use crate::workspace::{Profile, Workspace};
use crate::{build, files, guests, packs};

/// Entries at the top of the project that are not sources: build output, and the default data folder of a server.
const LEFT_OUT_AT_TOP: [&str; 4] = [".git", "target", "dist", "data"];
/// Folders that are not sources anywhere.
const LEFT_OUT: [&str; 1] = ["node_modules"];
/// Two paths that differ in every component, and in length.
const PLACES: [&str; 2] = ["a", "another/and/much/longer/place"];

/// Builds twice and compares; prints the digests.
pub fn run(workspace: &Workspace, steps: &Steps) -> Result<(), Failure> {
    guests::shipped(workspace, steps)?;
    build::server(workspace, steps, Profile::Dev)?;
    let base = workspace.target().join("reproduce");
    let mut made = Vec::new();
    for place in PLACES {
        let place = base.join(place);
        steps.say(&format!("build in {}", place.display()));
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|error| Failure::file(&place, error))?;
        }
        copy_project(workspace, &place.join("sources"))?;
        let copy = workspace.at(place.join("sources"), place.join("target"));
        guests::shipped(&copy, steps)?;
        packs::build_all(&copy, steps, &workspace.server(Profile::Dev), &copy.plugins(), &copy.modules())?;
        made.push(digests(&copy)?);
    }
    let differences = differences(&made);
    let lines = made.first().into_iter().flatten().map(|(name, digest)| format!("{digest}  {name}\n"));
    let reported = std::io::stdout().write_all(lines.collect::<String>().as_bytes());
    reported.map_err(|error| Failure::new(format!("the digests cannot be printed: {error}")))?;
    fs::remove_dir_all(&base).map_err(|error| Failure::file(&base, error))?;
    if differences.is_empty() {
        steps.say(&format!("{} files are the same from both places", made.first().map_or(0, BTreeMap::len)));
        return Ok(());
    }
    Err(Failure::new(format!("these differ from place to place: {}", differences.join(", "))))
}

/// The digests of all shipped or embedded files.
fn digests(workspace: &Workspace) -> Result<BTreeMap<String, String>, Failure> {
    let mut found = BTreeMap::new();
    for folder in [workspace.plugins(), workspace.modules()] {
        for file in all_files(&folder)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "wasm")) {
            let name = file.strip_prefix(workspace.target()).unwrap_or(&file).display().to_string();
            found.insert(name, digest(&file)?);
        }
    }
    let embedded = workspace.target().join("guests/codelist.wasm");
    found.insert("guests/codelist.wasm".to_owned(), digest(&embedded)?);
    Ok(found)
}

/// The names whose digests differ, or that are missing on one side.
fn differences(made: &[BTreeMap<String, String>]) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = made.iter().flat_map(BTreeMap::keys).collect();
    let differ = |name: &&String| {
        let mut digests = made.iter().map(|files| files.get(*name));
        let first = digests.next();
        digests.any(|digest| Some(digest) != first)
    };
    names.into_iter().filter(differ).cloned().collect()
}

/// Copies the sources of the project into a new folder.
pub fn copy_project(workspace: &Workspace, to: &Path) -> Result<(), Failure> {
    copy_sources(workspace.root(), to, workspace.target(), &LEFT_OUT_AT_TOP)
}

fn copy_sources(from: &Path, to: &Path, target: &Path, left_out: &[&str]) -> Result<(), Failure> {
    files::create_folder(to)?;
    let entries = fs::read_dir(from).map_err(|error| Failure::file(from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Failure::file(from, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        if path == target || name.to_str().is_some_and(|name| left_out.contains(&name)) {
            continue;
        }
        if path.is_dir() {
            copy_sources(&path, &to.join(name), target, &LEFT_OUT)?;
        } else {
            files::copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_is_not_copied_and_included_data_is() {
        let folder = std::env::temp_dir().join(format!("daftar-xtask-reproduce-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        for name in ["dist/a", "data/b", "plugins/x/data/c.tsv", "host/workbench/node_modules/d", "e"] {
            let path = from.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        copy_sources(&from, &to, &from.join("target"), &LEFT_OUT_AT_TOP).unwrap();
        let mut copied: Vec<String> =
            all_files(&to).unwrap().iter().map(|file| file.strip_prefix(&to).unwrap().display().to_string()).collect();
        copied.sort_unstable();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(copied, ["e", "plugins/x/data/c.tsv"]);
    }

    #[test]
    fn another_byte_and_a_missing_file_are_differences() {
        let files = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect()
        };
        let one = files(&[("a", "1"), ("b", "2")]);
        assert!(differences(&[one.clone(), one.clone()]).is_empty());
        assert_eq!(differences(&[one.clone(), files(&[("a", "1"), ("b", "3")])]), ["b"]);
        assert_eq!(differences(&[one, files(&[("b", "2"), ("c", "4")])]), ["a", "c"]);
    }
}
