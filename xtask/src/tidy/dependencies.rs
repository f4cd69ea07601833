//! Which packages depend on which, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Finding;
use super::table::{Package, Table};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The packages of the workspace and everything that they depend on.
#[derive(Debug, Default)]
pub struct Packages {
    names: BTreeMap<String, String>,
    /// By id: the ids of what it depends on, for whatever purpose.
    dependencies: BTreeMap<String, Vec<String>>,
    /// Id and folder from the project's, of each member.
    members: Vec<(String, String)>,
}

/// What is read of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    workspace_members: Vec<String>,
    workspace_root: PathBuf,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct MetadataPackage {
    id: String,
    name: String,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Packages {
    /// Asks cargo, which goes by the lock file.
    pub fn of(workspace: &Workspace) -> Result<Self, Failure> {
        let mut command = workspace.cargo(&["metadata", "--format-version", "1", "--locked"]);
        let output = command.output().map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::new(format!("`cargo metadata` failed: {message}")));
        }
        Self::read(&output.stdout)
    }

    fn read(json: &[u8]) -> Result<Self, Failure> {
        let metadata: Metadata = serde_json::from_slice(json)
            .map_err(|error| Failure::new(format!("`cargo metadata` said something else: {error}")))?;
        let mut packages = Self::default();
        for package in metadata.packages {
            if metadata.workspace_members.contains(&package.id) {
                let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
                let folder = folder.strip_prefix(&metadata.workspace_root).unwrap_or(folder);
                packages.members.push((package.id.clone(), folder.display().to_string()));
            }
            packages.names.insert(package.id, package.name);
        }
        let nodes = metadata.resolve.nodes.into_iter().map(|node| (node.id, node.dependencies));
        packages.dependencies = nodes.collect();
        Ok(packages)
    }

    fn name(&self, id: &str) -> &str {
        self.names.get(id).map_or("?", String::as_str)
    }

    /// The way from a package to the nearest one of a name, both included.
    fn way(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        let mut ways = std::collections::VecDeque::from([vec![from.to_owned()]]);
        let mut seen = BTreeSet::from([from.to_owned()]);
        while let Some(way) = ways.pop_front() {
            for next in way.last().and_then(|last| self.dependencies.get(last)).into_iter().flatten() {
                if !seen.insert(next.clone()) {
                    continue;
                }
                let mut longer = way.clone();
                longer.push(next.clone());
                if self.name(next) == to {
                    let known = |id: &String| self.names.get_key_value(id).map_or("?", |(_, name)| name.as_str());
                    return Some(longer.iter().map(known).collect());
                }
                ways.push_back(longer);
            }
        }
        None
    }
}

/// Looks for each package that another never depends on.
pub fn check(packages: &Packages, table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in &table.package {
        let concerned: Vec<_> =
            packages.members.iter().filter(|(id, folder)| is_of(rule, packages.name(id), folder)).collect();
        if concerned.is_empty() {
            let message = format!("no package of the workspace is `{}`", rule.of);
            findings.push(Finding::whole("xtask/src/tidy/directions.toml", message));
        }
        for (id, folder) in concerned {
            for never in &rule.never {
                if let Some(way) = packages.way(id, never) {
                    let message = format!("depends on `{never}` by {}; {}", way.join(" -> "), rule.why);
                    findings.push(Finding::whole(format!("{folder}/Cargo.toml"), message));
                }
            }
        }
    }
    findings
}

fn is_of(rule: &Package, name: &str, folder: &str) -> bool {
    if rule.of.ends_with('/') { format!("{folder}/").starts_with(&rule.of) } else { name == rule.of }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/p", "workspace_members": ["host", "guest"],
        "packages": [
            {"id": "host", "name": "daftar", "manifest_path": "/p/host/Cargo.toml"},
            {"id": "guest", "name": "daftar-guest", "manifest_path": "/p/plugins/guest/Cargo.toml"},
            {"id": "mid", "name": "middle", "manifest_path": "/r/middle/Cargo.toml"},
            {"id": "cel", "name": "cel", "manifest_path": "/r/cel/Cargo.toml"}
        ],
        "resolve": {"nodes": [
            {"id": "host", "dependencies": ["mid"]}, {"id": "mid", "dependencies": ["cel"]},
            {"id": "cel", "dependencies": []}, {"id": "guest", "dependencies": ["cel"]}
        ]}
    }"#;

    fn findings(rules: &str) -> Vec<String> {
        let table: Table =
            toml::from_str(&format!("sources = \"host/src\"\nmodule = []\ncrate = []\n{rules}")).unwrap();
        check(&Packages::read(METADATA.as_bytes()).unwrap(), &table).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn finds_a_dependency_behind_others_and_tells_the_way() {
        let found = findings("[[package]]\nof = \"daftar\"\nnever = [\"cel\"]\nwhy = \"why\"");
        assert_eq!(found, ["host/Cargo.toml: depends on `cel` by daftar -> middle -> cel; why"]);
    }

    #[test]
    fn a_folder_stands_for_every_package_in_it() {
        let found = findings("[[package]]\nof = \"plugins/\"\nnever = [\"daftar\", \"cel\"]\nwhy = \"why\"");
        assert_eq!(found, ["plugins/guest/Cargo.toml: depends on `cel` by daftar-guest -> cel; why"]);
    }

    #[test]
    fn a_rule_about_nobody_is_a_mistake() {
        let found = findings("[[package]]\nof = \"plugin/\"\nnever = [\"cel\"]\nwhy = \"why\"");
        assert_eq!(found, ["xtask/src/tidy/directions.toml: no package of the workspace is `plugin/`"]);
    }
}
