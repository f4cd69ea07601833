//! Making packs, for the command line.

use std::io::Write;
use std::path::Path;

use crate::plugin::pack;

/// Makes a pack from a folder.
///
/// # Errors
/// All problems, a line each.
pub fn build(dir: &Path) -> Result<Vec<u8>, String> {
    pack::build_folder(dir).map_err(|errors| errors.to_string())
}

/// Checks a folder; returns how many codes it holds.
///
/// # Errors
/// All problems, a line each.
pub fn check(dir: &Path) -> Result<usize, String> {
    let source = pack::check(dir).map_err(|errors| errors.to_string())?;
    Ok(source.contents.vocabularies.iter().map(|(_, concepts)| concepts.len()).sum())
}

/// Writes a file whole or not at all.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_file(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}
