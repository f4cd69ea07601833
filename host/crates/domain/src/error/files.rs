//! What the system says of files, in words that say what to do.

use std::io;

/// Why a file cannot be read, and what to do.
#[must_use]
pub fn why_not_read(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; check the path".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this account may not read it; run the command as its owner, or change its permissions".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder; name a file".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text; name another file".to_owned(),
        _ => error.to_string(),
    }
}

/// Why a file cannot be written, and what to do.
#[must_use]
pub fn why_not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its folder is not there; make the folder first, or name another".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is a file; name another path".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "this account may not write there; name another folder, or change its permissions".to_owned()
        }
        io::ErrorKind::IsADirectory => "it is a folder; name a file".to_owned(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; make room, or name a file on another disk".to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only; name a file on another disk".to_owned(),
        _ => error.to_string(),
    }
}
