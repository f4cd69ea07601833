//! Dependencies between packages, as cargo resolves them, compared with `dependencies.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Finding;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The rules, which are part of this program so that they are checked with its sources.
const RULES: &str = include_str!("dependencies.toml");
/// Path of the rules, for messages.
const RULES_FILE: &str = "xtask/src/tidy/dependencies.toml";
/// The folder of the server's crates.
const SERVER: &str = "host";
/// The feature of a crate with fixtures for the tests of others.
const TESTING: &str = "testing";

/// Which packages may depend on which.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    #[serde(default)]
    hidden: Vec<Hidden>,
    #[serde(default)]
    never: Vec<Never>,
}

/// Packages that only some crates of the server name among their dependencies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hidden {
    packages: Vec<String>,
    only_in: Vec<String>,
    why: String,
}

/// Packages that others never depend on, by any way.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Never {
    /// The others: a name, or a folder ending in `/` for all in it.
    of: String,
    packages: Vec<String>,
    why: String,
}

impl Rules {
    /// Reads them.
    pub fn read() -> Result<Self, Failure> {
        toml::from_str(RULES).map_err(|error| Failure::new(format!("{RULES_FILE}: {error}")))
    }
}

/// The packages of the workspace and everything that they depend on.
#[derive(Debug, Default)]
pub struct Packages {
    names: BTreeMap<String, String>,
    /// By id: the ids of its dependencies of every kind.
    dependencies: BTreeMap<String, Vec<String>>,
    members: Vec<Member>,
}

/// A package of the workspace.
#[derive(Debug)]
struct Member {
    id: String,
    /// From the project's folder.
    folder: String,
    /// The dependencies of its library and its programs.
    direct: Vec<Direct>,
}

/// The used part of `cargo metadata`.
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
    dependencies: Vec<Direct>,
}

/// A dependency as a package requires it.
#[derive(Debug, Deserialize)]
struct Direct {
    name: String,
    /// None for a dependency of the library and the programs, else `dev` or `build`.
    kind: Option<String>,
    features: Vec<String>,
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
    /// Runs cargo with the lock file.
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
                let direct = package.dependencies.into_iter().filter(|direct| direct.kind.is_none()).collect();
                packages.members.push(Member { id: package.id.clone(), folder: folder.display().to_string(), direct });
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

/// Compares the packages with the rules.
pub fn check(packages: &Packages, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &packages.members {
        let file = format!("{}/Cargo.toml", member.folder);
        if !member.folder.starts_with(SERVER) {
            continue;
        }
        for direct in &member.direct {
            let name = packages.name(&member.id);
            let hidden = rules.hidden.iter().filter(|rule| rule.packages.contains(&direct.name));
            for rule in hidden.filter(|rule| !rule.only_in.iter().any(|only| only == name)) {
                let message =
                    format!("depends on `{}`; only {} may: {}", direct.name, rule.only_in.join(", "), rule.why);
                findings.push(Finding::whole(&file, message));
            }
            if direct.features.iter().any(|feature| feature == TESTING) {
                let message = format!("enables `{TESTING}` of `{}` outside tests", direct.name);
                findings.push(Finding::whole(&file, message));
            }
        }
    }
    for rule in &rules.never {
        let concerned: Vec<_> =
            packages.members.iter().filter(|member| is_of(rule, packages.name(&member.id), &member.folder)).collect();
        if concerned.is_empty() {
            findings.push(Finding::whole(RULES_FILE, format!("no package of the workspace is `{}`", rule.of)));
        }
        for member in concerned {
            for never in &rule.packages {
                if let Some(way) = packages.way(&member.id, never) {
                    let message = format!("depends on `{never}` by {}; {}", way.join(" -> "), rule.why);
                    findings.push(Finding::whole(format!("{}/Cargo.toml", member.folder), message));
                }
            }
        }
    }
    findings
}

fn is_of(rule: &Never, name: &str, folder: &str) -> bool {
    if rule.of.ends_with('/') { format!("{folder}/").starts_with(&rule.of) } else { name == rule.of }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/p", "workspace_members": ["host", "guest"],
        "packages": [
            {"id": "host", "name": "daftar", "manifest_path": "/p/host/Cargo.toml", "dependencies": [
                {"name": "middle", "kind": null, "features": ["testing"]}, {"name": "cel", "kind": "dev", "features": ["testing"]}
            ]},
            {"id": "guest", "name": "daftar-guest", "manifest_path": "/p/plugins/guest/Cargo.toml", "dependencies": [{"name": "cel", "kind": null, "features": []}]},
            {"id": "mid", "name": "middle", "manifest_path": "/r/middle/Cargo.toml", "dependencies": []},
            {"id": "cel", "name": "cel", "manifest_path": "/r/cel/Cargo.toml", "dependencies": []}
        ],
        "resolve": {"nodes": [
            {"id": "host", "dependencies": ["mid"]}, {"id": "mid", "dependencies": ["cel"]},
            {"id": "cel", "dependencies": []}, {"id": "guest", "dependencies": ["cel"]}
        ]}
    }"#;

    fn findings(rules: &str) -> Vec<String> {
        let rules: Rules = toml::from_str(rules).unwrap();
        let found = check(&Packages::read(METADATA.as_bytes()).unwrap(), &rules);
        let found = found.iter().map(ToString::to_string);
        found.filter(|finding| !finding.contains(TESTING)).collect()
    }

    #[test]
    fn finds_an_indirect_dependency_and_reports_the_path() {
        let found = findings("[[never]]\nof = \"daftar\"\npackages = [\"cel\"]\nwhy = \"why\"");
        assert_eq!(found, ["host/Cargo.toml: depends on `cel` by daftar -> middle -> cel; why"]);
    }

    #[test]
    fn a_folder_stands_for_every_package_in_it() {
        let found = findings("[[never]]\nof = \"plugins/\"\npackages = [\"daftar\", \"cel\"]\nwhy = \"why\"");
        assert_eq!(found, ["plugins/guest/Cargo.toml: depends on `cel` by daftar-guest -> cel; why"]);
    }

    #[test]
    fn a_rule_about_no_crate_is_a_mistake() {
        let found = findings("[[never]]\nof = \"plugin/\"\npackages = [\"cel\"]\nwhy = \"why\"");
        assert_eq!(found, ["xtask/src/tidy/dependencies.toml: no package of the workspace is `plugin/`"]);
    }

    #[test]
    fn a_hidden_package_is_named_by_few_crates_of_the_server_and_tests_may_name_it() {
        let hidden =
            |only_in| format!("[[hidden]]\npackages = [\"middle\", \"cel\"]\nonly_in = [\"{only_in}\"]\nwhy = \"why\"");
        assert_eq!(findings(&hidden("daftar")), [""; 0]);
        let found = findings(&hidden("daftar-other"));
        assert_eq!(found, ["host/Cargo.toml: depends on `middle`; only daftar-other may: why"]);
    }

    #[test]
    fn fixtures_for_tests_are_in_no_program() {
        let rules: Rules = toml::from_str("").unwrap();
        let found = check(&Packages::read(METADATA.as_bytes()).unwrap(), &rules);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["host/Cargo.toml: enables `testing` of `middle` outside tests"]);
    }
}
