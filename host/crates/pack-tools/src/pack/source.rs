//! A pack's source: a folder of plain files, read and checked.
//!
//! ```text
//! pack.toml                     what the pack is, its vocabularies and concept groups (see `settings`)
//! codes/<table>.tsv             code | parents | status | replaced_by | aliases | uri | selectable | prop:<key> …
//! labels/<language>/<table>.tsv code | label | definition
//! ```
//! Tables are UTF-8 in normal form C, with one header line and cells separated by tabs, without quoting. Columns are
//! identified by the header; only `code` (and `label`) is required. Several parents or aliases are joined with `|`, the
//! primary parent first. `status` is `active` (or empty) or `inactive`, `selectable` is `yes` (or empty) or `no`. Codes
//! are listed in the order of the lines. If `hierarchy` in `pack.toml` names a rule, there is no column `parents`: the
//! rule determines the parents.
//!
//! **Invariant:** a [`PackSource`] is valid: codes are unique, parents exist and have no cycles, every code has a label
//! in the default language, every text is within the limits and in normal form C.

mod codes;
mod settings;
mod table;
mod vocabulary;

use std::fs::File;
use std::io;
use std::path::Path;

pub use self::settings::PackCodes;
use super::problem::{PackErrors, too_many};
use daftar_domain::manifest::PluginManifest;
use daftar_domain::vocabulary::PackContents;
use daftar_sandbox::read_at_most;

/// The most files in one folder of a pack.
const FILES_MAX: usize = 1_000;

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSource {
    /// The manifest of the pack.
    pub manifest: PluginManifest,
    /// True if a server loads it by default.
    pub is_default: bool,
    /// Its vocabularies and concept groups, in the order of `pack.toml`; codes in the order of their table, labels and
    /// definitions in the order of the vocabulary's languages, the default one first.
    pub contents: PackContents,
}

/// Reads and checks a pack's folder.
///
/// # Errors
/// All problems.
pub fn check(folder: &Path) -> Result<PackSource, PackErrors> {
    let mut reader = SourceReader { folder, errors: PackErrors::default() };
    let Some(settings) = settings::read(&mut reader) else { return Err(reader.errors) };
    let vocabularies = vocabulary::read_all(&settings, &mut reader);
    let concept_groups = settings.concept_groups(&vocabularies, &mut reader.errors);
    if !reader.errors.is_empty() {
        return Err(reader.errors);
    }
    let contents = PackContents { vocabularies, concept_groups };
    Ok(PackSource { manifest: settings.manifest(), is_default: settings.default, contents })
}

/// Reads the files of a pack's folder within limits, and collects all problems. File names are relative to the folder,
/// with `/`.
struct SourceReader<'a> {
    folder: &'a Path,
    errors: PackErrors,
}

impl SourceReader<'_> {
    /// Reads a file of at most `bytes_max`; reports a failure.
    fn read(&mut self, file: &str, bytes_max: usize) -> Option<Vec<u8>> {
        let bytes = read_bounded(&self.folder.join(file), bytes_max);
        self.bounded(file, bytes, "bytes or more", bytes_max)
    }

    /// Lists the names in a folder, sorted; empty if there is no such folder. Hidden files are ignored.
    fn list(&mut self, folder: &str) -> Vec<String> {
        match list_bounded(&self.folder.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => self.bounded(folder, names, "files or more", FILES_MAX).unwrap_or_default(),
        }
    }

    fn bounded<T>(&mut self, file: &str, found: io::Result<Vec<T>>, what: &str, max: usize) -> Option<Vec<T>> {
        let reason = match found {
            Ok(found) if found.len() <= max => return Some(found),
            Ok(found) => too_many(what, found.len(), max),
            Err(error) => format!("it cannot be read: {error}"),
        };
        self.errors.push(file, None, None, reason);
        None
    }
}

/// Reads up to one byte more than the limit, so that the caller can detect a larger file.
fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    read_at_most(file, bytes_max)
}

fn list_bounded(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
        if names.len() > FILES_MAX {
            break;
        }
    }
    names.sort();
    Ok(names)
}
