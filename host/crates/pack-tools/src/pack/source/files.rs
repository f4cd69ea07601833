//! The files of a pack's folder, read within bounds.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::pack::limits::FILES_MAX;
use crate::pack::problem::{PackErrors, PackProblemKind};

/// The folder. Names of files are relative to it, with `/`.
pub struct PackFiles {
    folder: PathBuf,
}

impl PackFiles {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The bytes of a file of at most `bytes_max`; what goes wrong is reported.
    pub fn read(&self, file: &str, bytes_max: usize, errors: &mut PackErrors) -> Option<Vec<u8>> {
        match read_bounded(&self.folder.join(file), bytes_max) {
            Ok(bytes) if bytes.len() <= bytes_max => Some(bytes),
            Ok(bytes) => {
                let kind = PackProblemKind::TooMany { what: "bytes or more", actual: bytes.len(), max: bytes_max };
                errors.push(file, None, None, kind);
                None
            }
            Err(error) => {
                errors.push(file, None, None, PackProblemKind::Unreadable(error));
                None
            }
        }
    }

    /// The names in a folder, sorted; none when there is no such folder. Hidden files do not count.
    pub fn list(&self, folder: &str, errors: &mut PackErrors) -> Vec<String> {
        match list_bounded(&self.folder.join(folder)) {
            Ok(names) if names.len() <= FILES_MAX => names,
            Ok(names) => {
                let kind = PackProblemKind::TooMany { what: "files or more", actual: names.len(), max: FILES_MAX };
                errors.push(folder, None, None, kind);
                Vec::new()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                errors.push(folder, None, None, PackProblemKind::Unreadable(error));
                Vec::new()
            }
        }
    }
}

/// Reads up to one byte more than the bound, so that the caller can tell.
fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
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
