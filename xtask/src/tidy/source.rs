//! The text files of the project.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Folders with build output or runtime data, not sources.
const SKIPPED: [&str; 4] = [".git", "target", "dist", "data"];
/// Folders that npm and the builds create at any depth.
const SKIPPED_ANYWHERE: [&str; 3] = ["node_modules", "dist", "dist-tests"];

/// Maximum size of a source file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its path from the project's folder, with `/`.
    pub path: String,
    pub text: String,
}

/// All text files of the project, by path.
#[derive(Debug, Default)]
pub struct Sources(Vec<TextFile>);

impl Sources {
    /// Reads the files. Symbolic links are not followed. A file that is not UTF-8 is not a text file.
    pub fn read(root: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self(files))
    }

    /// Creates sources for a test from (path, text).
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() };
        Self(files.iter().map(file).collect())
    }

    pub fn files(&self) -> &[TextFile] {
        &self.0
    }

    pub fn find(&self, path: &str) -> Option<&TextFile> {
        self.0.iter().find(|file| file.path == path)
    }

    /// The files below a folder, each with its path from there.
    pub fn below<'s>(&'s self, folder: &'s str) -> impl Iterator<Item = (&'s str, &'s TextFile)> {
        self.0.iter().filter_map(move |file| Some((file.path.strip_prefix(folder)?.strip_prefix('/')?, file)))
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<TextFile>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|error| Failure::file(folder, error))? {
        let entry = entry.map_err(|error| Failure::file(folder, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(|error| Failure::file(&entry.path(), error))?;
        let is_skipped = prefix.is_empty() && SKIPPED.contains(&name.as_str());
        if is_skipped || (kind.is_dir() && SKIPPED_ANYWHERE.contains(&name.as_str())) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if kind.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && entry.metadata().is_ok_and(|metadata| metadata.len() <= FILE_BYTES_MAX) {
            let bytes = fs::read(entry.path()).map_err(|error| Failure::file(&entry.path(), error))?;
            files.extend(String::from_utf8(bytes).ok().map(|text| TextFile { path, text }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_source_files_and_skips_build_output() {
        let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert!(sources.find("xtask/src/tidy/source.rs").is_some());
        assert!(sources.find("Cargo.toml").is_some());
        assert!(!sources.files().iter().any(|file| file.path.starts_with("target/")));
        assert!(sources.below("xtask/src").any(|(path, _)| path == "main.rs"));
    }
}
