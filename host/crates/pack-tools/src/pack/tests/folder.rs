//! A pack's folder in a temporary directory, valid unless a test changes it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

const SETTINGS: &str = r#"
name = "crops"
version = "1.0.0"
description = "Crops for tests."
licence = "CC0-1.0"

[[vocabulary]]
namespace = "urn:example:crops"
name = "Crops"
domain = "Farming"
version = "2026"
source = "Invented"
default_language = "en"
languages = ["en", "fr"]
codes = "crops.tsv"
hierarchical = true
"#;

pub struct PackFolder {
    folder: TempDir,
}

impl PackFolder {
    /// Two codes, a parent and its child, in two languages.
    pub fn valid() -> Self {
        let folder = Self { folder: tempfile::tempdir().unwrap() };
        folder
            .with("pack.toml", SETTINGS)
            .with("codes/crops.tsv", "code\tparents\ncereals\t\nmaize\tcereals\n")
            .with("labels/en/crops.tsv", "code\tlabel\ncereals\tCereals\nmaize\tMaize\n")
            .with("labels/fr/crops.tsv", "code\tlabel\nmaize\tMaïs\n")
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Adds or replaces a file.
    pub fn with(self, file: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Removes a file.
    pub fn without(self, file: &str) -> Self {
        fs::remove_file(self.folder.path().join(file)).unwrap();
        self
    }

    /// Replaces a text in `pack.toml`.
    pub fn with_setting(self, old: &str, new: &str) -> Self {
        assert!(SETTINGS.contains(old), "{old}");
        let settings = SETTINGS.replace(old, new);
        self.with("pack.toml", settings)
    }

    /// Appends to `pack.toml`.
    pub fn with_more_settings(self, more: &str) -> Self {
        let settings = format!("{SETTINGS}\n{more}");
        self.with("pack.toml", settings)
    }
}
