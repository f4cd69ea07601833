//! The folder of a new plugin: the template of its kind, with the SDK and the plugin interface.
//!
//! **Invariant:** existing files are never overwritten: the folder is created, or nothing is written.

use std::path::Path;

use serde::{Deserialize, Serialize};

use daftar_domain::manifest::{PluginKind, PluginName};

/// A file of the folder: its relative path and its text.
type File = (&'static str, &'static str);

macro_rules! scaffold {
    ($kind:literal) => {
        [
            ("Cargo.toml", include_str!(concat!("../../../scaffold/", $kind, "/Cargo.toml"))),
            ("README.md", include_str!(concat!("../../../scaffold/", $kind, "/README.md"))),
            ("plugin.toml", include_str!(concat!("../../../scaffold/", $kind, "/plugin.toml"))),
            ("rust-toolchain.toml", include_str!(concat!("../../../scaffold/", $kind, "/rust-toolchain.toml"))),
            (".gitignore", include_str!(concat!("../../../scaffold/", $kind, "/gitignore"))),
            ("src/lib.rs", include_str!(concat!("../../../scaffold/", $kind, "/src/lib.rs"))),
            ("src/logic.rs", include_str!(concat!("../../../scaffold/", $kind, "/src/logic.rs"))),
            ("tests/cases.toml", include_str!(concat!("../../../scaffold/", $kind, "/tests/cases.toml"))),
        ]
    };
}

macro_rules! vendored {
    ($($path:literal),+ $(,)?) => {
        &[$((concat!("vendor/", $path), include_str!(concat!("../../../../", $path)))),+]
    };
}

/// The files of a new plugin of a kind.
const fn template(kind: PluginKind) -> [File; 8] {
    match kind {
        PluginKind::VocabularyPack => scaffold!("vocabulary-pack"),
        PluginKind::EligibilityEngine => scaffold!("eligibility-engine"),
    }
}

/// The unchanged sources of the SDK.
const SDK_SOURCES: &[File] = vendored![
    "plugins/sdk/src/eligibility.rs",
    "plugins/sdk/src/eligibility/column.rs",
    "plugins/sdk/src/eligibility/explanation.rs",
    "plugins/sdk/src/eligibility/outcome.rs",
    "plugins/sdk/src/lib.rs",
    "plugins/sdk/src/log.rs",
    "plugins/sdk/src/vocabulary.rs",
    "plugins/sdk/src/vocabulary/build.rs",
    "plugins/sdk/src/vocabulary/page.rs",
];

/// The WIT files of the interface.
pub(crate) const INTERFACE: &[File] = vendored![
    "wit/daftar-plugin/0.1.0/columns.wit",
    "wit/daftar-plugin/0.1.0/eligibility.wit",
    "wit/daftar-plugin/0.1.0/log.wit",
    "wit/daftar-plugin/0.1.0/schema.wit",
    "wit/daftar-plugin/0.1.0/vocabulary.wit",
];

/// The version of [`INTERFACE`].
pub(crate) const VERSION: &str = "0.1.0";

/// The SDK's manifest outside of this project's workspace.
const SDK_MANIFEST: &str = r#"[package]
name = "daftar-sdk"
version = "0.1.0"
edition = "2024"
license = "Apache-2.0"
publish = false

[dependencies]
wit-bindgen = { version = "0.60", default-features = false, features = ["macros", "realloc"] }
"#;

/// The lock file of this program's sources.
const LOCK: &str = include_str!("../../../../Cargo.lock");

/// Returns the lock file of a new plugin, with the versions of this program's build, so that the same sources produce
/// the same plugin later and without a network. Cargo removes packages that the plugin does not use.
fn lock_of(name: &PluginName) -> String {
    let locked: Lock = toml::from_str(LOCK).unwrap_or_default();
    let own = |name: &str, dependency: &str| LockedPackage {
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        dependencies: vec![dependency.to_owned()],
        ..LockedPackage::default()
    };
    let mut lock = Lock { version: locked.version, package: vec![own(&format!("plugin-{name}"), SDK)] };
    let mut waiting = vec![SDK.to_owned()];
    while let Some(wanted) = waiting.pop() {
        let is_wanted = |package: &&LockedPackage| {
            // With its version, if several packages have the same name.
            wanted == package.name || wanted == format!("{} {}", package.name, package.version)
        };
        let Some(found) = locked.package.iter().find(is_wanted) else { continue };
        if !lock.package.contains(found) {
            lock.package.push(found.clone());
            waiting.extend(found.dependencies.iter().cloned());
        }
    }
    toml::to_string(&lock).unwrap_or_default()
}

/// The package of the SDK.
const SDK: &str = "daftar-sdk";

/// A lock file of cargo.
#[derive(Default, Deserialize, Serialize)]
struct Lock {
    version: u32,
    package: Vec<LockedPackage>,
}

/// A package of a lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
struct LockedPackage {
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<String>,
}

/// Returns every file of the folder for a new plugin: path and text.
#[must_use]
pub fn files(kind: PluginKind, name: &PluginName) -> Vec<(&'static str, String)> {
    let filled = |text: &str| text.replace("@name@", name.as_str()).replace("@interface@", VERSION);
    let own = template(kind).into_iter().map(|(path, text)| (path, filled(text)));
    let vendored = SDK_SOURCES.iter().chain(INTERFACE).map(|(path, text)| (*path, (*text).to_owned()));
    let generated = [("vendor/plugins/sdk/Cargo.toml", SDK_MANIFEST.to_owned()), ("Cargo.lock", lock_of(name))];
    own.chain(generated).chain(vendored).collect()
}

/// Creates the folder for a new plugin.
///
/// # Errors
/// The folder exists already, or a file cannot be written.
pub fn write(folder: &Path, kind: PluginKind, name: &PluginName) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("cannot write `{}`: {error}", path.display());
    match std::fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(format!("`{}` exists already; name another folder, or move it away", folder.display()));
        }
        Err(error) => return Err(failed(folder, error)),
    }
    for (path, text) in files(kind, name) {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        }
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

    fn paths_below(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                paths_below(&path, found);
            } else {
                found.push(path.strip_prefix(Path::new(PROJECT)).unwrap().display().to_string());
            }
        }
    }

    #[test]
    fn the_whole_sdk_and_the_whole_interface_are_in_the_folder() {
        let mut expected = Vec::new();
        for folder in ["plugins/sdk/src", "wit/daftar-plugin/0.1.0"] {
            paths_below(&Path::new(PROJECT).join(folder), &mut expected);
        }
        expected.sort();
        let mut vendored: Vec<String> = SDK_SOURCES
            .iter()
            .chain(INTERFACE)
            .map(|(path, _)| path.strip_prefix("vendor/").unwrap().to_owned())
            .collect();
        vendored.sort();
        assert_eq!(vendored, expected);
    }

    #[test]
    fn the_sdk_asks_for_the_same_crates_as_here() {
        let read = |text: &str| -> toml::Table { toml::from_str(text).unwrap() };
        let workspace = read(&std::fs::read_to_string(Path::new(PROJECT).join("Cargo.toml")).unwrap());
        let here = read(&std::fs::read_to_string(Path::new(PROJECT).join("plugins/sdk/Cargo.toml")).unwrap());
        let there = read(SDK_MANIFEST);
        let names = |table: &toml::Table| table["dependencies"].as_table().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&there), names(&here));
        for (name, dependency) in there["dependencies"].as_table().unwrap() {
            assert_eq!(dependency, &workspace["workspace"]["dependencies"][name], "{name}");
        }
        assert_eq!(there["package"]["version"], workspace["workspace"]["package"]["version"]);
    }

    #[test]
    fn nothing_is_left_to_be_filled_in() {
        let name = PluginName::parse("water").unwrap();
        for kind in PluginKind::ALL {
            for (path, text) in files(kind, &name) {
                assert!(!text.contains("@name@") && !text.contains("@interface@"), "{path}");
            }
        }
    }

    #[test]
    fn a_folder_that_exists_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let refused = write(folder.path(), PluginKind::VocabularyPack, &PluginName::parse("water").unwrap());
        assert!(refused.unwrap_err().contains("exists already"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
