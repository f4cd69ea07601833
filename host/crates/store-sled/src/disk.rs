//! Makes what the database has written survive a power cut.
//!
//! The database's own `flush` hands its buffers to the kernel (`sync_file_range`) and no further: neither the file's length nor
//! the drive's cache is covered. So the file is held open a second time here and `fdatasync`ed. Values too large for the
//! database's log go to files of their own, which it does not sync at all: they are synced here when they appear.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The files of one database.
#[derive(Debug)]
pub(super) struct Disk {
    log: File,
    large_values: PathBuf,
    synced: HashSet<OsString>,
}

impl Disk {
    /// Opens the files of the database in that folder, which must be open already.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { log: File::open(folder.join("db"))?, large_values: folder.join("blobs"), synced: HashSet::new() })
    }

    /// Returns when everything that was flushed before is on disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        // First the large values, then the log that points to them.
        self.sync_large_values()?;
        Ok(rustix::fs::fdatasync(&self.log)?)
    }

    /// Normally reads an empty folder, in a few microseconds.
    fn sync_large_values(&mut self) -> io::Result<()> {
        let mut present = HashSet::new();
        let mut is_changed = false;
        for entry in fs::read_dir(&self.large_values)? {
            let entry = entry?;
            let name = entry.file_name();
            if !self.synced.contains(&name) {
                match File::open(entry.path()) {
                    Ok(file) => rustix::fs::fdatasync(&file)?,
                    // The database has removed it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                is_changed = true;
            }
            present.insert(name);
        }
        self.synced = present;
        if is_changed { sync_folder(&self.large_values) } else { Ok(()) }
    }
}

/// Returns when the names in a folder are on disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
