//! Content of a release: the crates that are linked into the program and into the guests, and the code lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::files;
use crate::workspace::{GUEST_TARGET, Workspace};

/// The program.
pub const PROGRAM: &str = "daftar";
/// The guests that are compiled for the sandbox and shipped.
pub const GUESTS: [&str; 3] = ["daftar-cel", "daftar-codelist", "daftar-language-tag"];
/// The folders of plugins with third-party data: packs, and packs with logic of their own.
const LISTS: [(&str, &str); 2] = [("vocab-packs", "pack.toml"), ("plugins", "plugin.toml")];

/// A crate.
#[derive(Debug, Clone)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// As in its manifest, alternatives joined by `OR`.
    pub licence: Option<String>,
    pub repository: Option<String>,
    /// Its authors, according to its manifest.
    pub authors: Vec<String>,
    /// The SHA-256 of its package; none of this project's own.
    pub checksum: Option<String>,
    /// Folder of its sources.
    pub folder: PathBuf,
    /// True if it belongs to this project.
    pub is_own: bool,
    /// Ids of the crates that it is built with.
    pub dependencies: BTreeSet<String>,
}

/// The crates of a release, by their ids `name@version`.
#[derive(Debug, Default)]
pub struct Shipped {
    pub crates: BTreeMap<String, Crate>,
}

/// A code list, or another plugin, with the notice that its publisher requires.
#[derive(Debug, Clone)]
pub struct CodeList {
    pub name: String,
    pub version: String,
    pub licence: String,
    pub attribution: String,
    /// Licence note in the folder of the data.
    pub note: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

impl Shipped {
    /// Asks cargo, for this machine and for the sandbox; the lock file gives the checksums.
    pub fn read(workspace: &Workspace) -> Result<Self, Failure> {
        let lock = files::read_text(&workspace.root().join("Cargo.lock"))?;
        let host = host_target()?;
        let mut shipped = Self::default();
        shipped.add(&metadata(workspace, &host)?, &lock, &[PROGRAM])?;
        shipped.add(&metadata(workspace, GUEST_TARGET)?, &lock, &GUESTS)?;
        Ok(shipped)
    }

    /// Adds the named packages of the workspace and all of their dependencies; those for tests alone are left out.
    fn add(&mut self, json: &[u8], lock: &str, roots: &[&str]) -> Result<(), Failure> {
        let wrong =
            |error: &dyn std::fmt::Display| Failure::new(format!("`cargo metadata` said something else: {error}"));
        let metadata: Metadata = serde_json::from_slice(json).map_err(|error| wrong(&error))?;
        let lock: Lock = toml::from_str(lock).map_err(|error| Failure::new(format!("Cargo.lock: {error}")))?;
        let checksums: BTreeMap<(String, String), String> = lock
            .package
            .into_iter()
            .filter_map(|locked| Some(((locked.name, locked.version), locked.checksum?)))
            .collect();
        let packages: BTreeMap<&str, &Package> =
            metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let edges: BTreeMap<&str, Vec<&str>> = metadata
            .resolve
            .nodes
            .iter()
            .map(|node| {
                let is_built = |dependency: &&Dependency| {
                    dependency.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
                };
                (
                    node.id.as_str(),
                    node.deps.iter().filter(is_built).map(|dependency| dependency.pkg.as_str()).collect(),
                )
            })
            .collect();
        let mut waiting: Vec<&str> = Vec::new();
        for root in roots {
            let found = metadata
                .workspace_members
                .iter()
                .find(|id| packages.get(id.as_str()).is_some_and(|package| package.name == *root));
            waiting.push(found.ok_or_else(|| wrong(&format!("there is no package `{root}`")))?);
        }
        let mut seen: BTreeSet<&str> = waiting.iter().copied().collect();
        while let Some(id) = waiting.pop() {
            let (Some(package), Some(next)) = (packages.get(id), edges.get(id)) else { continue };
            let key = |id: &str| packages.get(id).map(|package| format!("{}@{}", package.name, package.version));
            let entry = self.crates.entry(format!("{}@{}", package.name, package.version));
            let known = entry.or_insert_with(|| Crate {
                name: package.name.clone(),
                version: package.version.clone(),
                // The old way to say "or".
                licence: package.license.as_ref().map(|text| text.replace(" / ", "/").replace('/', " OR ")),
                repository: package.repository.clone(),
                authors: package.authors.clone(),
                checksum: checksums.get(&(package.name.clone(), package.version.clone())).cloned(),
                folder: package.manifest_path.parent().unwrap_or(Path::new("")).to_owned(),
                is_own: metadata.workspace_members.contains(&package.id),
                dependencies: BTreeSet::new(),
            });
            known.dependencies.extend(next.iter().filter_map(|id| key(id)));
            waiting.extend(next.iter().filter(|id| seen.insert(id)));
        }
        Ok(())
    }

    /// Third-party crates.
    pub fn of_others(&self) -> impl Iterator<Item = &Crate> {
        self.crates.values().filter(|one| !one.is_own)
    }
}

fn metadata(workspace: &Workspace, target: &str) -> Result<Vec<u8>, Failure> {
    let mut command = workspace.cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform", target]);
    let output = command.output().map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::new(format!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr))))
}

/// The target triple of programs that are built here.
fn host_target() -> Result<String, Failure> {
    let output = std::process::Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|error| Failure::new(format!("rustc: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.ok_or_else(|| Failure::new("`rustc -vV` does not name its host"))
}

/// The used part of `pack.toml` and `plugin.toml`.
#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
    licence: String,
    #[serde(default)]
    attribution: String,
}

/// Every shipped plugin, with its notice; sorted by name.
pub fn code_lists(workspace: &Workspace) -> Result<Vec<CodeList>, Failure> {
    let mut lists = Vec::new();
    for (folder, file) in LISTS {
        let root = workspace.root().join(folder);
        let entries = std::fs::read_dir(&root).map_err(|error| Failure::file(&root, error))?;
        for entry in entries {
            let folder = entry.map_err(|error| Failure::file(&root, error))?.path();
            let manifest = folder.join(file);
            if !manifest.is_file() {
                continue;
            }
            let read: Manifest =
                toml::from_str(&files::read_text(&manifest)?).map_err(|error| Failure::file(&manifest, error))?;
            let Manifest { name, version, licence, attribution } = read;
            let note = folder.join("LICENSE-DATA.md");
            let note = note.is_file().then(|| files::read_text(&note)).transpose()?;
            lists.push(CodeList { name, version, licence, attribution, note });
        }
    }
    lists.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_members": ["p"],
        "packages": [
            {"id": "p", "name": "program", "version": "1.0.0", "license": "Apache-2.0", "repository": null, "manifest_path": "/p/Cargo.toml"},
            {"id": "a", "name": "a", "version": "2.0.0", "license": "MIT/Apache-2.0", "repository": null, "manifest_path": "/r/a/Cargo.toml"},
            {"id": "b", "name": "b", "version": "3.0.0", "license": null, "repository": "https://b.example", "manifest_path": "/r/b/Cargo.toml"},
            {"id": "t", "name": "t", "version": "4.0.0", "license": "MIT", "repository": null, "manifest_path": "/r/t/Cargo.toml"}
        ],
        "resolve": {"nodes": [
            {"id": "p", "deps": [{"pkg": "a", "dep_kinds": [{"kind": null}]}, {"pkg": "t", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": "build"}, {"kind": "dev"}]}]},
            {"id": "b", "deps": []}, {"id": "t", "deps": []}
        ]}
    }"#;
    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"2.0.0\"\nchecksum = \"abc\"\n";

    #[test]
    fn linked_packages_are_found_and_those_of_tests_are_not() {
        let mut shipped = Shipped::default();
        shipped.add(METADATA.as_bytes(), LOCK, &["program"]).unwrap();
        assert_eq!(shipped.crates.keys().collect::<Vec<_>>(), ["a@2.0.0", "b@3.0.0", "program@1.0.0"]);
        let a = shipped.crates.get("a@2.0.0").unwrap();
        assert_eq!((a.licence.as_deref(), a.checksum.as_deref()), (Some("MIT OR Apache-2.0"), Some("abc")));
        assert_eq!(a.dependencies, BTreeSet::from(["b@3.0.0".to_owned()]));
        assert_eq!(shipped.of_others().count(), 2);
        assert!(Shipped::default().add(METADATA.as_bytes(), LOCK, &["missing"]).is_err());
    }
}
