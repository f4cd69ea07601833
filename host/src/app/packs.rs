//! Making packs, for the command line.

mod replace;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use daftar_pack_tools::owner_files::{
    About, ImportError, ImportFormat, ImportOptions, ImportReport, NoProgress, Progress, Refusal,
};
pub use daftar_pack_tools::pack::{PackErrors, PackProblem};

use daftar_pack_tools::owner_files;
use daftar_pack_tools::pack;
use daftar_sandbox::{CompileIn, PluginHost, PluginHostSettings};

/// Why no pack was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something is wrong with the folder or the base.
    #[error("{0}")]
    Source(#[from] PackErrors),
    /// This machine cannot run the base.
    #[error("the base cannot be run here: {0}")]
    Host(String),
}

/// Why no source of a pack was written.
#[derive(Debug, thiserror::Error)]
pub enum ImportFailure {
    /// Something is wrong with the owner's file.
    #[error("{0}")]
    File(#[from] ImportError),
    /// What was made of the file is no sound pack.
    #[error("what the file holds makes no pack:\n{0}")]
    Source(#[from] PackErrors),
    /// There is something where the source should go.
    #[error("`{0}` is there already and is not empty; name another folder, or replace a pack's source with --replace")]
    Taken(PathBuf),
    /// There is something in the folder that would be deleted and not written anew.
    #[error(
        "--replace would delete from `{folder}` what this import does not write: {}; move it away, or name another folder",
        replace::told(.names)
    )]
    WouldLose {
        /// The folder.
        folder: PathBuf,
        /// What is in it, below the folder.
        names: Vec<String>,
    },
    /// The folder cannot be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Makes a pack from a folder, or an existing pack with the folder's data.
///
/// # Errors
/// All problems.
pub fn build(dir: &Path, base: Option<&Path>) -> Result<Vec<u8>, BuildError> {
    let Some(base) = base else { return Ok(pack::build_folder(dir)?) };
    let settings = PluginHostSettings { compile_in: CompileIn::this_program(), ..PluginHostSettings::default() };
    let host = PluginHost::start(settings).map_err(|error| BuildError::Host(error.to_string()))?;
    Ok(pack::rebuild_folder(dir, base, &host)?)
}

/// Checks a folder; returns how many codes it holds.
///
/// # Errors
/// All problems.
pub fn check(dir: &Path) -> Result<usize, PackErrors> {
    let source = pack::check(dir)?;
    Ok(source.contents.vocabularies.iter().map(|(_, concepts)| concepts.len()).sum())
}

/// Reads an owner's file and writes the source of a pack, whole or not at all.
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
    if is_taken {
        would_lose(replace::beside_source(folder).map_err(failed)?)?;
    }
    // Whether it can be written is known before a large file is read; nothing is left behind when the reading is broken off.
    drop(beside(folder).map_err(failed)?);
    let import = owner_files::read(format, file, options, progress)?;
    let temporary = beside(folder).map_err(failed)?;
    let new = temporary.path().join("new");
    std::fs::create_dir(&new).map_err(failed)?;
    import.write(&new)?;
    pack::check(&new)?;
    if is_taken {
        would_lose(replace::missing_from(&new, folder).map_err(failed)?)?;
        replace::swap(temporary, &new, folder).map_err(failed)?;
    } else {
        std::fs::rename(&new, folder).map_err(failed)?;
    }
    Ok(import.report)
}

/// A temporary folder beside another one, so that the one can be moved into the place of the other.
fn beside(folder: &Path) -> io::Result<tempfile::TempDir> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no folder `{}`", parent.display())));
    }
    tempfile::Builder::new().prefix(".daftar-import-").tempdir_in(parent)
}

/// Whether there is anything but an empty folder.
fn is_taken(folder: &Path) -> io::Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_file(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}
