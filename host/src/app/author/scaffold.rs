//! The folder that an author of a plugin begins with. It stands alone: the SDK and the interface lie in it.
//!
//! **Invariant:** nothing that exists is written over: the folder is made here, or the command stops.

use std::path::Path;

use daftar_domain::manifest::{PluginKind, PluginName};

/// A file of the folder: its path there, and its text.
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
        ]
    };
}

macro_rules! vendored {
    ($($path:literal),+ $(,)?) => {
        &[$((concat!("vendor/", $path), include_str!(concat!("../../../../", $path)))),+]
    };
}

const VOCABULARY_PACK: [File; 7] = scaffold!("vocabulary-pack");
const ELIGIBILITY_ENGINE: [File; 7] = scaffold!("eligibility-engine");

/// The sources of the SDK and the interface that it is made for, as they are.
const VENDORED: &[File] = vendored![
    "plugins/sdk/src/bindings.rs",
    "plugins/sdk/src/eligibility.rs",
    "plugins/sdk/src/eligibility/column.rs",
    "plugins/sdk/src/eligibility/explanation.rs",
    "plugins/sdk/src/eligibility/outcome.rs",
    "plugins/sdk/src/lib.rs",
    "plugins/sdk/src/log.rs",
    "plugins/sdk/src/vocabulary.rs",
    "plugins/sdk/src/vocabulary/build.rs",
    "plugins/sdk/src/vocabulary/page.rs",
    "wit/daftar-plugin/0.1.0/columns.wit",
    "wit/daftar-plugin/0.1.0/eligibility.wit",
    "wit/daftar-plugin/0.1.0/log.wit",
    "wit/daftar-plugin/0.1.0/schema.wit",
    "wit/daftar-plugin/0.1.0/vocabulary.wit",
    "wit/daftar-plugin/0.1.0/worlds.wit",
];

/// The interface version of [`VENDORED`].
const INTERFACE: &str = "0.1.0";

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

/// The kind of that name.
///
/// # Errors
/// There is none; says which there are.
pub fn kind_of(name: &str) -> Result<PluginKind, String> {
    let kinds = [PluginKind::VocabularyPack, PluginKind::EligibilityEngine];
    kinds.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
        let known = kinds.map(PluginKind::as_str).join("`, `");
        format!("`{name}` is no kind of plugin; there are `{known}`")
    })
}

/// Every file of the folder for a new plugin: path and text.
#[must_use]
pub fn files(kind: PluginKind, name: &PluginName) -> Vec<(&'static str, String)> {
    let own = match kind {
        PluginKind::VocabularyPack => VOCABULARY_PACK,
        PluginKind::EligibilityEngine => ELIGIBILITY_ENGINE,
    };
    let filled = |text: &str| text.replace("@name@", name.as_str()).replace("@interface@", INTERFACE);
    let own = own.into_iter().map(|(path, text)| (path, filled(text)));
    let vendored = VENDORED.iter().map(|(path, text)| (*path, (*text).to_owned()));
    own.chain([("vendor/plugins/sdk/Cargo.toml", SDK_MANIFEST.to_owned())]).chain(vendored).collect()
}

/// Makes the folder for a new plugin.
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

    const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

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
        let mut vendored: Vec<String> =
            VENDORED.iter().map(|(path, _)| path.strip_prefix("vendor/").unwrap().to_owned()).collect();
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
        for kind in [PluginKind::VocabularyPack, PluginKind::EligibilityEngine] {
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

    #[test]
    fn an_unknown_kind_is_told_the_known_ones() {
        assert_eq!(kind_of("vocabulary-pack"), Ok(PluginKind::VocabularyPack));
        assert!(kind_of("pack").unwrap_err().contains("`vocabulary-pack`, `eligibility-engine`"));
    }
}
