//! Progress of an import, in a file next to its input.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::source::Mark;
use crate::cli::{CliError, files};
use daftar_api_types::admin::operation::ImportCounts;

/// Format version of the file.
const VERSION: u32 = 1;

/// Adds the counts of two parts.
fn plus(one: ImportCounts, other: ImportCounts) -> ImportCounts {
    ImportCounts {
        read: one.read.saturating_add(other.read),
        created: one.created.saturating_add(other.created),
        updated: one.updated.saturating_add(other.updated),
        skipped: one.skipped.saturating_add(other.skipped),
        rejected: one.rejected.saturating_add(other.rejected),
    }
}

/// Returns the counts as a sentence.
pub fn sentence(counts: &ImportCounts) -> String {
    let ImportCounts { read, created, updated, skipped, rejected } = counts;
    format!("{read} read, {created} created, {updated} updated, {skipped} skipped, {rejected} rejected")
}

/// The source of an import: an import resumes only with the same source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// SHA-256 of the file and of the other inputs that determine the sent lines.
    pub sha256: String,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Handling of existing records.
    pub on_existing: String,
}

/// The contents of the progress file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    version: u32,
    /// The name of the import.
    pub import: String,
    of: Identity,
    /// The rejects file, absolute; unknown in a file of an older program.
    #[serde(default)]
    rejects: Option<PathBuf>,
    /// Position to resume from.
    pub next: Mark,
    /// Length of the rejects file at that point, and of the file of rejected rows.
    pub rejects_bytes: (u64, u64),
    /// Outcomes of the lines so far.
    pub counts: ImportCounts,
}

/// The format version of a file.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Progress {
    /// Returns the progress at the first line.
    pub fn begin(import: String, of: Identity, rejects: PathBuf, next: Mark) -> Self {
        let (rejects, rejects_bytes, counts) = (Some(rejects), (0, 0), ImportCounts::default());
        Self { version: VERSION, import, of, rejects, next, rejects_bytes, counts }
    }

    /// Returns the rejects file of an import that resumes. `named` is the file that its arguments name, `default` the one
    /// without such an argument; both are absolute.
    ///
    /// # Errors
    /// If the arguments name another file than those of the import: its lines are in the former one, and the latter may be
    /// of another import.
    pub fn rejects(&self, named: Option<PathBuf>, default: PathBuf) -> Result<PathBuf, CliError> {
        match (&self.rejects, named) {
            (Some(begun), Some(named)) if *begun != named => Err(CliError::usage(format!(
                "the import began with --rejects {}: resume with the same, or without it",
                begun.display()
            ))),
            (Some(begun), _) => Ok(begun.clone()),
            (None, named) => Ok(named.unwrap_or(default)),
        }
    }

    /// Reads the progress file, if it exists.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn load(path: &Path) -> Result<Option<Self>, CliError> {
        let text = files::read_if_there(path).map_err(|error| CliError::cannot_read(path, &error))?;
        let Some(text) = text else { return Ok(None) };
        let unreadable = |error: &dyn std::fmt::Display| {
            CliError::input(format!(
                "`{}` does not say how far the import came: {error}; restore it, or remove it to start again",
                path.display()
            ))
        };
        // The version is read first: other versions have other members.
        let Versioned { version } = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        if version != VERSION {
            return Err(unreadable(&format!("it is of version {version}, and this program knows {VERSION}")));
        }
        serde_json::from_slice(&text).map(Some).map_err(|error| unreadable(&error))
    }

    /// Checks that the progress belongs to the same import.
    ///
    /// # Errors
    /// When the file or the options differ.
    pub fn check(&self, identity: &Identity, path: &Path) -> Result<(), CliError> {
        let what = if (self.of.bytes, &self.of.sha256) != (identity.bytes, &identity.sha256) {
            "the file, or the mapping, is not what it was when the import began".to_owned()
        } else if self.of.on_existing != identity.on_existing {
            format!("the import began with --on-existing {}", self.of.on_existing)
        } else {
            return Ok(());
        };
        Err(CliError::input(format!("{what}: resume with the same, or remove `{}` to start again", path.display())))
    }

    /// Records a completed part.
    pub fn advance(&mut self, next: Mark, counts: ImportCounts, rejects_bytes: (u64, u64)) {
        (self.next, self.rejects_bytes) = (next, rejects_bytes);
        self.counts = plus(self.counts, counts);
    }

    /// Writes the progress file atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), CliError> {
        files::save(path, self).map_err(|error| CliError::cannot_write(path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(digest: &str) -> Identity {
        Identity { sha256: digest.to_owned(), bytes: 7, on_existing: "reject".to_owned() }
    }

    #[test]
    fn saved_progress_resumes_only_the_same_import() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.progress.json");
        assert_eq!(Progress::load(&path).unwrap(), None);
        let rejects = PathBuf::from("/rejects");
        let mut progress = Progress::begin("0123456789".to_owned(), identity("a"), rejects.clone(), Mark::START);
        let counts = ImportCounts { read: 3, created: 2, rejected: 1, ..ImportCounts::default() };
        progress.advance(Mark { offset: 5, line: 4, unit: 4 }, counts, (77, 8));
        progress.save(&path).unwrap();
        let loaded = Progress::load(&path).unwrap().unwrap();
        assert_eq!(loaded, progress);
        let other = PathBuf::from("/other");
        assert_eq!(loaded.rejects(None, other.clone()).unwrap(), rejects);
        assert_eq!(loaded.rejects(Some(rejects.clone()), other.clone()).unwrap(), rejects);
        assert!(loaded.rejects(Some(other.clone()), rejects.clone()).unwrap_err().message.contains("/rejects"));
        let older = Progress { rejects: None, ..loaded.clone() };
        assert_eq!(older.rejects(None, rejects.clone()).unwrap(), rejects);
        assert_eq!(older.rejects(Some(other.clone()), rejects).unwrap(), other);
        loaded.check(&identity("a"), &path).unwrap();
        assert!(loaded.check(&identity("b"), &path).unwrap_err().to_string().contains("not what it was"));
        std::fs::write(&path, r#"{"version": 2, "sha256": "0"}"#).unwrap();
        assert!(
            Progress::load(&path).unwrap_err().to_string().contains("it is of version 2, and this program knows 1")
        );
        std::fs::write(&path, "{").unwrap();
        assert!(Progress::load(&path).unwrap_err().to_string().contains("does not say how far"));
        files::remove(&path).unwrap();
    }
}
