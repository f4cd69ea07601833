//! Builds packs, for the command line.
//!
//! **Invariant:** the old folder is deleted only after the new one has replaced it and contains every file of the old
//! one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

pub use daftar_auth::secret_file::folder_of;
use daftar_domain::folders;
pub use daftar_pack_tools::pack::{PackErrors, PackProblem};
pub use daftar_pack_tools::publisher_files::{
    About, HandWritten, ImportError, ImportFormat, ImportOptions, ImportReport, NoProgress, Progress, Refusal,
};
use daftar_pack_tools::{pack, publisher_files};
use daftar_sandbox::{CompileIn, PluginHost, PluginHostSettings};

/// Reason why no pack was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The folder or the base has a problem.
    #[error("{0}")]
    Source(#[from] PackErrors),
    /// This machine cannot run the base.
    #[error("the base cannot be run here: {0}")]
    Host(String),
}

/// Reason why no source of a pack was written.
#[derive(Debug, thiserror::Error)]
pub enum ImportFailure {
    /// The file of the publisher has a problem.
    #[error("{0}")]
    File(#[from] ImportError),
    /// The content of the file is not a valid pack.
    #[error("what the file holds makes no pack:\n{0}")]
    Source(#[from] PackErrors),
    /// The target path of the source is not empty.
    #[error("`{0}` is there already and is not empty; name another folder, or replace a pack's source with --replace")]
    Taken(PathBuf),
    /// The folder contains files that would be deleted and not written again.
    #[error(
        "--replace would delete from `{folder}` what this import does not write: {}; move it away, or name another folder",
        listed(.names)
    )]
    WouldLose {
        /// The folder.
        folder: PathBuf,
        /// Its files, relative to the folder.
        names: Vec<String>,
    },
    /// The folder cannot be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Builds a pack from a folder, or from an existing pack with the folder's data.
///
/// # Errors
/// All problems.
pub fn build(dir: &Path, base: Option<&Path>) -> Result<Vec<u8>, BuildError> {
    let Some(base) = base else { return Ok(pack::build_folder(dir)?) };
    let settings = PluginHostSettings { compile_in: CompileIn::this_program(), ..PluginHostSettings::default() };
    let host = PluginHost::start(settings).map_err(|error| BuildError::Host(error.to_string()))?;
    Ok(pack::rebuild_folder(dir, base, &host)?)
}

/// Checks a folder; returns its number of codes.
///
/// # Errors
/// All problems.
pub fn check(dir: &Path) -> Result<usize, PackErrors> {
    let source = pack::check(dir)?;
    Ok(source.contents.vocabularies.iter().map(|(_, concepts)| concepts.len()).sum())
}

/// Reads a publisher's file and writes the source of a pack, completely or not at all.
///
/// # Errors
/// All problems; nothing is written then.
pub fn import(
    format: ImportFormat,
    file: &Path,
    folder: &Path,
    options: &ImportOptions,
    is_replacing: bool,
    progress: &mut dyn Progress,
) -> Result<ImportReport, ImportFailure> {
    let failed = |source| ImportFailure::Write { path: folder.to_owned(), source };
    let is_taken = is_taken(folder).map_err(failed)?;
    if is_taken && !(is_replacing && folder.join("pack.toml").is_file()) {
        return Err(ImportFailure::Taken(folder.to_owned()));
    }
    let would_lose = |names: Vec<String>| {
        if names.is_empty() { Ok(()) } else { Err(ImportFailure::WouldLose { folder: folder.to_owned(), names }) }
    };
    let mut stored = HandWritten::default();
    if is_taken {
        would_lose(other_files_of(folder).map_err(failed)?)?;
        let settings = std::fs::read_to_string(folder.join("pack.toml")).map_err(failed)?;
        stored =
            HandWritten::of(&settings).map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
    }
    // Checked before a large file is read; an interruption leaves no files.
    drop(temporary_next_to(folder).map_err(failed)?);
    let import = publisher_files::read(format, file, options, progress)?;
    let temporary = temporary_next_to(folder).map_err(failed)?;
    let new = temporary.path().join("new");
    std::fs::create_dir(&new).map_err(failed)?;
    would_lose(import.vocabularies_gone(&stored))?;
    import.write(&stored, &new)?;
    pack::check(&new)?;
    if is_taken {
        would_lose(missing_from(&new, folder).map_err(failed)?)?;
        copy_folder(&folder.join(CASES), &new.join(CASES)).map_err(failed)?;
        swap(temporary, &new, folder).map_err(failed)?;
    } else {
        std::fs::rename(&new, folder).map_err(failed)?;
    }
    let mut report = import.report;
    if !stored.names().is_empty() {
        report.notes.push(format!("manual additions to `pack.toml` were kept: {}", listed(&stored.names())));
    }
    Ok(report)
}

/// Creates a temporary folder beside another one, so that it can replace the other by a move.
fn temporary_next_to(folder: &Path) -> io::Result<tempfile::TempDir> {
    let parent = folder_of(folder);
    if !parent.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no folder `{}`", parent.display())));
    }
    tempfile::Builder::new().prefix(".daftar-import-").tempdir_in(parent)
}

/// Returns true if the path exists and is not an empty folder.
fn is_taken(folder: &Path) -> io::Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a file completely or not at all. It is durable when this returns, if the folder can be synced.
///
/// # Errors
/// If the folder cannot be written.
pub fn write_file(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = NamedTempFile::new_in(folder_of(file))?;
    temporary.write_all(bytes)?;
    persist(temporary, file, true)
}

/// Gives a complete file its name, in place of another file only if `is_replacing`. It is durable when this returns, if
/// the folder can be synced.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if another file has the name; if the folder cannot be written.
pub fn persist(complete: NamedTempFile, file: &Path, is_replacing: bool) -> io::Result<()> {
    complete.as_file().sync_all()?;
    let named = if is_replacing { complete.persist(file) } else { complete.persist_noclobber(file) };
    named.map_err(|refused| refused.error)?;
    folders::sync_where_possible(folder_of(file))
}

/// Files that an import writes and may replace.
const WRITTEN: [&str; 4] = ["pack.toml", "LICENSE-DATA.md", "codes", "labels"];

/// The folder of the cases of `plugin test`, which an import retains.
const CASES: &str = "tests";

/// Number of names a message lists.
const NAMES_MAX: usize = 20;

/// Returns other files in the folder of a pack's source, sorted.
///
/// # Errors
/// The folder cannot be read.
fn other_files_of(folder: &Path) -> io::Result<Vec<String>> {
    let names = names(folder)?;
    Ok(names.into_iter().filter(|name| !WRITTEN.contains(&name.as_str()) && name != CASES).collect())
}

/// Returns the languages (`labels/fr`) and tables of the old source that the new one does not have, sorted.
///
/// # Errors
/// One of the folders cannot be read.
fn missing_from(new: &Path, old: &Path) -> io::Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut folders = vec!["codes".to_owned(), "labels".to_owned()];
    while let Some(folder) = folders.pop() {
        if !old.join(&folder).is_dir() {
            continue;
        }
        for name in names(&old.join(&folder))? {
            let path = format!("{folder}/{name}");
            let (was, will_be) = (old.join(&path), new.join(&path));
            if was.is_dir() && will_be.is_dir() {
                folders.push(path);
            } else if was.is_dir() != will_be.is_dir() || !will_be.exists() {
                missing.push(path);
            }
        }
    }
    missing.sort_unstable();
    Ok(missing)
}

/// Formats a list of names for a message.
fn listed(names: &[String]) -> String {
    let mut reported: Vec<String> =
        names.iter().take(NAMES_MAX).map(|name| format!("`{}`", name.escape_debug())).collect();
    if let Some(more) = names.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        reported.push(format!("and {more} more"));
    }
    reported.join(", ")
}

/// Moves `new`, which is in `temporary`, to the path of `folder`. If that fails, the old folder is restored; if that
/// fails as well, the old folder remains in the temporary path, which the error contains.
///
/// # Errors
/// One of the folders cannot be moved.
fn swap(temporary: TempDir, new: &Path, folder: &Path) -> io::Result<()> {
    let old = temporary.path().join("old");
    fs::rename(folder, &old)?;
    let Err(error) = fs::rename(new, folder) else { return Ok(()) };
    let Err(back) = fs::rename(&old, folder) else { return Err(error) };
    let stored: PathBuf = temporary.keep().join("old");
    let reason =
        format!("{error}; the folder that was there could not be put back ({back}): it is `{}`", stored.display());
    Err(io::Error::new(error.kind(), reason))
}

/// Copies a folder with its content, if there is one.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir(to)?;
    for name in names(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn names(folder: &Path) -> io::Result<BTreeSet<String>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::path::Path;

    use tempfile::NamedTempFile;

    use super::{listed, missing_from, other_files_of, persist, swap, write_file};

    fn write(folder: &Path, names: &[&str]) {
        for name in names {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        }
    }

    #[test]
    fn what_a_replacement_would_delete_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let both = ["pack.toml", "LICENSE-DATA.md", "codes/tools.tsv", "labels/en/tools.tsv"];
        write(&old, &both);
        write(&new, &both);
        write(&new, &["labels/es/tools.tsv"]);
        assert_eq!(other_files_of(&old).unwrap(), [""; 0]);
        assert_eq!(missing_from(&new, &old).unwrap(), [""; 0]);
        write(
            &old,
            &[
                "tests/cases.toml",
                ".git/config",
                "README.md",
                "codes/own.tsv",
                "labels/en/own.tsv",
                "labels/fr/tools.tsv",
            ],
        );
        assert_eq!(other_files_of(&old).unwrap(), [".git", "README.md"]);
        let missing = missing_from(&new, &old).unwrap();
        assert_eq!(missing, ["codes/own.tsv", "labels/en/own.tsv", "labels/fr"]);
        assert_eq!(listed(&missing), "`codes/own.tsv`, `labels/en/own.tsv`, `labels/fr`");
        let names = |count: usize| vec!["x".to_owned(); count];
        assert!(listed(&names(20)).ends_with("`x`") && listed(&names(21)).ends_with("`x`, and 1 more"));
    }

    #[test]
    fn a_complete_file_replaces_another_one_only_if_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let complete = || {
            let mut complete = NamedTempFile::new_in(folder.path()).unwrap();
            complete.write_all(b"new").unwrap();
            complete
        };
        write_file(&file, b"old").unwrap();
        assert_eq!(persist(complete(), &file, false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"old");
        persist(complete(), &file, true).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn the_old_folder_is_put_back_when_the_new_one_cannot_be_moved() {
        let parent = tempfile::tempdir().unwrap();
        let temporary = || tempfile::Builder::new().tempdir_in(parent.path()).unwrap();
        let folder = parent.path().join("pack");
        write(&folder, &["pack.toml"]);
        let place = temporary();
        let new = place.path().join("new");
        assert!(swap(place, &new, &folder).is_err(), "there is no new folder");
        assert_eq!(fs::read_to_string(folder.join("pack.toml")).unwrap(), "pack.toml");

        let place = temporary();
        let new = place.path().join("new");
        write(&new, &["codes/tools.tsv"]);
        swap(place, &new, &folder).unwrap();
        assert!(folder.join("codes/tools.tsv").is_file() && !folder.join("pack.toml").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing else is left");
    }
}
