//! Files that are written only when their content changes, so that nothing is built again for their date.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// Writes a file and the folders above it, unless it already is so.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    fs::write(path, bytes).map_err(|error| Failure::file(path, error))
}

/// A SHA-256 digest in hexadecimal.
pub fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies a file, with its permissions, unless the copy is equal already.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let permissions = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.permissions());
    let is_equal = || fs::read(to).is_ok_and(|present| fs::read(from).is_ok_and(|bytes| bytes == present));
    if permissions(to) == permissions(from) && is_equal() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        create_folder(folder)?;
    }
    fs::copy(from, to).map_err(|error| Failure::file(from, error)).map(|_| ())
}

/// Every file below a folder by its path there, sorted, except below entries with one of the names in `skipped`.
pub fn all_below(folder: &Path, skipped: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let path = folder.join(&below);
        for entry in fs::read_dir(&path).map_err(|cause| Failure::file(&path, cause))? {
            let entry = entry.map_err(|cause| Failure::file(&path, cause))?;
            if skipped.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            let name = below.join(entry.file_name());
            if entry.path().is_dir() { folders.push(name) } else { found.push(name) }
        }
    }
    found.sort();
    Ok(found)
}

pub fn create_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, error))
}

pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::file(path, error))
}

pub fn read_text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::file(path, error))
}

/// When a file, or the latest file of a folder and the folders in it, was changed. None where there is nothing.
pub fn changed(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    let own = metadata.modified().ok();
    if !metadata.is_dir() {
        return own;
    }
    let inside = fs::read_dir(path).ok()?.filter_map(|entry| changed(&entry.ok()?.path()));
    inside.chain(own).max()
}
