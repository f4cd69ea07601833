//! How far an import has come, in a file beside its input.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::source::Mark;
use crate::cli::{CliError, files};
use daftar_api_types::admin::operation::ImportCounts;

/// The version of the file's form.
const VERSION: u32 = 1;

/// The counts of two parts together.
fn plus(one: ImportCounts, other: ImportCounts) -> ImportCounts {
    ImportCounts {
        read: one.read.saturating_add(other.read),
        created: one.created.saturating_add(other.created),
        updated: one.updated.saturating_add(other.updated),
        skipped: one.skipped.saturating_add(other.skipped),
        rejected: one.rejected.saturating_add(other.rejected),
    }
}

/// Counts in words.
pub fn sentence(counts: &ImportCounts) -> String {
    let ImportCounts { read, created, updated, skipped, rejected } = counts;
    format!("{read} read, {created} created, {updated} updated, {skipped} skipped, {rejected} rejected")
}

/// What an import is of: it goes on only with the same.
#[derive(Debug)]
pub struct Identity {
    /// SHA-256 of the file, and of what else decides what is sent.
    pub digest: String,
    /// How long the file is.
    pub bytes: u64,
    /// What becomes of records that are there.
    pub on_existing: &'static str,
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    version: u32,
    /// The name of the import.
    pub import: String,
    sha256: String,
    bytes: u64,
    on_existing: String,
    next_offset: u64,
    next_line: u64,
    next_unit: u64,
    rejects_bytes: u64,
    rejected_rows_bytes: u64,
    /// What became of the lines so far.
    pub counts: ImportCounts,
}

impl Progress {
    /// At the first line.
    pub fn begin(import: String, identity: &Identity, Mark { offset, line, unit }: Mark) -> Self {
        Self {
            version: VERSION,
            import,
            sha256: identity.digest.clone(),
            bytes: identity.bytes,
            on_existing: identity.on_existing.to_owned(),
            next_offset: offset,
            next_line: line,
            next_unit: unit,
            rejects_bytes: 0,
            rejected_rows_bytes: 0,
            counts: ImportCounts::default(),
        }
    }

    /// Reads it, if it is there.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn load(path: &Path) -> Result<Option<Self>, CliError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CliError::cannot_read(path, &error)),
        };
        let unreadable = |error: &dyn std::fmt::Display| {
            CliError::input(format!(
                "`{}` does not say how far the import came: {error}; put it back as it was, or remove it to begin anew",
                path.display()
            ))
        };
        let progress: Self = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        if progress.version != VERSION {
            return Err(unreadable(&format!(
                "it is of version {}, and this program knows {VERSION}",
                progress.version
            )));
        }
        Ok(Some(progress))
    }

    /// Checks that it is of the same import.
    ///
    /// # Errors
    /// When the file or the command is another.
    pub fn check(&self, identity: &Identity, path: &Path) -> Result<(), CliError> {
        let what = if self.bytes != identity.bytes || self.sha256 != identity.digest {
            "the file, or the mapping, is not what it was when the import began".to_owned()
        } else if self.on_existing != identity.on_existing {
            format!("the import began with --on-existing {}", self.on_existing)
        } else {
            return Ok(());
        };
        Err(CliError::input(format!("{what}: go on with the same, or remove `{}` to begin anew", path.display())))
    }

    /// Where to go on.
    pub fn mark(&self) -> Mark {
        Mark { offset: self.next_offset, line: self.next_line, unit: self.next_unit }
    }

    /// How long the rejects file was then, and that of rejected rows.
    pub fn rejects_bytes(&self) -> (u64, u64) {
        (self.rejects_bytes, self.rejected_rows_bytes)
    }

    /// A part is done.
    pub fn advance(&mut self, next: Mark, counts: ImportCounts, rejects_bytes: (u64, u64)) {
        let Mark { offset, line, unit } = next;
        (self.next_offset, self.next_line, self.next_unit) = (offset, line, unit);
        self.counts = plus(self.counts, counts);
        (self.rejects_bytes, self.rejected_rows_bytes) = rejects_bytes;
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), CliError> {
        files::save(path, self).map_err(|error| CliError::cannot_write(path, &error))
    }
}

/// Takes the file away: the import has ended.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> Result<(), CliError> {
    std::fs::remove_file(path).map_err(|error| CliError::output(format!("cannot remove `{}`: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(digest: &str) -> Identity {
        Identity { digest: digest.to_owned(), bytes: 7, on_existing: "refuse" }
    }

    #[test]
    fn what_was_saved_is_loaded_and_goes_on_with_the_same_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.progress.json");
        assert_eq!(Progress::load(&path).unwrap(), None);
        let mut progress = Progress::begin("0123456789".to_owned(), &identity("a"), Mark::START);
        let counts = ImportCounts { read: 3, created: 2, rejected: 1, ..ImportCounts::default() };
        progress.advance(Mark { offset: 5, line: 4, unit: 4 }, counts, (77, 8));
        progress.save(&path).unwrap();
        let loaded = Progress::load(&path).unwrap().unwrap();
        assert_eq!(loaded, progress);
        loaded.check(&identity("a"), &path).unwrap();
        assert!(loaded.check(&identity("b"), &path).unwrap_err().to_string().contains("not what it was"));
        std::fs::write(&path, "{").unwrap();
        assert!(Progress::load(&path).unwrap_err().to_string().contains("does not say how far"));
        remove(&path).unwrap();
    }
}
