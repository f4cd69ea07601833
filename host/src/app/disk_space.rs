//! Free and used space of disks.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the free space of the disk of a folder.
pub(super) fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns the size of the files in a folder; unreadable ones count zero.
pub(super) fn bytes_in(folder: &Path) -> u64 {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut sum = 0_u64;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => sum = sum.saturating_add(metadata.len()),
                Err(_) => {}
            }
        }
    }
    sum
}
