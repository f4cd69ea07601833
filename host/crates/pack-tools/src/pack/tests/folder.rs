//! A pack's folder in a temporary place, sound until a test breaks it.

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
    /// Two codes, one below the other, in two languages.
    pub fn sound() -> Self {
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

    /// The folder with a file in it, in place of the one of that name.
    pub fn with(self, file: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// The folder without a file.
    pub fn without(self, file: &str) -> Self {
        fs::remove_file(self.folder.path().join(file)).unwrap();
        self
    }

    /// The folder with a text in `pack.toml` put in place of another.
    pub fn with_setting(self, old: &str, new: &str) -> Self {
        assert!(SETTINGS.contains(old), "{old}");
        let settings = SETTINGS.replace(old, new);
        self.with("pack.toml", settings)
    }

    /// The folder with something at the end of `pack.toml`.
    pub fn with_more_settings(self, more: &str) -> Self {
        let settings = format!("{SETTINGS}\n{more}");
        self.with("pack.toml", settings)
    }
}
