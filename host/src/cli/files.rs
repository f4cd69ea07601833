//! Files that a command writes next to a named file.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::CliError;
use crate::app::packs::write_file;
use daftar_domain::hexadecimal;

/// Size of a read from the disk, in bytes.
pub const BUFFER_BYTES: usize = 1 << 18;

/// Appends a suffix to the name of a file.
pub fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    file.with_file_name(name)
}

/// Writes the progress of a command atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn save(path: &Path, progress: &impl Serialize) -> io::Result<()> {
    write_file(path, &serde_json::to_vec_pretty(progress).map_err(io::Error::other)?)
}

/// Returns the contents of a file; none if the file does not exist.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Removes a file that is no longer required.
///
/// # Errors
/// If the file cannot be removed.
pub fn remove(path: &Path) -> Result<(), CliError> {
    std::fs::remove_file(path).map_err(|error| CliError::output(format!("cannot remove `{}`: {error}", path.display())))
}

/// Returns the SHA-256 of all bytes of a reader, in hexadecimal.
///
/// # Errors
/// If the reader fails.
pub fn digest(mut reader: impl Read) -> io::Result<String> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            return Ok(hexadecimal::encode(&hasher.finalize()));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}
