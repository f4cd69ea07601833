//! The installed plugins as files, as a backup takes them and a restore puts them back.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::folder::file_of;
use super::records::Records;
use super::{LIST_FILE, PluginLibrary};
use crate::plugin::files::{private_folder, write_whole};
use crate::plugin::package::Digest;

/// What is installed: the list, and the files that it names. The files are open: what is installed or removed meanwhile does not
/// change them.
#[derive(Debug)]
pub struct ArchivedPlugins {
    /// The list, as its file holds it.
    pub list: Vec<u8>,
    /// The files, with their digests.
    pub files: Vec<(Digest, File)>,
}

impl PluginLibrary {
    /// What is installed now. A plugin whose file is gone is left out: it could not be loaded either.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub fn archived(&self) -> io::Result<ArchivedPlugins> {
        let mut records = self.lock().clone();
        let mut files = Vec::new();
        records.installed.retain(|name, record| match File::open(self.path_of(record.digest)) {
            Ok(file) => {
                files.push((record.digest, file));
                true
            }
            Err(error) => {
                tracing::warn!(plugin.name = %name, error = %error, "the file of an installed plugin is left out of a backup");
                false
            }
        });
        Ok(ArchivedPlugins { list: records.to_bytes()?, files })
    }

    /// The digests of the files that a list names.
    ///
    /// # Errors
    /// When it is no list that this daftar reads.
    pub fn digests_listed(list: &[u8]) -> io::Result<Vec<Digest>> {
        Ok(Records::parse(list)?.installed.values().map(|record| record.digest).collect())
    }
}

/// A folder of plugins that is being filled. It has no list before the end, so that nothing of it counts.
#[derive(Debug)]
pub struct LibraryRefill {
    folder: PathBuf,
    open: Option<(Digest, File)>,
    list: Option<Vec<u8>>,
}

impl LibraryRefill {
    /// Makes the folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        private_folder(folder).map_err(io::Error::other)?;
        Ok(Self { folder: folder.to_owned(), open: None, list: None })
    }

    /// Keeps the list for the end.
    pub fn put_list(&mut self, list: Vec<u8>) {
        self.list = Some(list);
    }

    /// Adds bytes to the file of that digest, whose parts follow one another.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub fn put(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let file = match self.open.take() {
            Some((of, file)) if of == digest => file,
            before => {
                sync(before)?;
                let mut options = OpenOptions::new();
                options.create_new(true).write(true).mode(0o600).open(file_of(&self.folder, digest))?
            }
        };
        (&file).write_all(bytes)?;
        self.open = Some((digest, file));
        Ok(())
    }

    /// Writes the list: from now on the files count.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn finish(mut self) -> io::Result<()> {
        sync(self.open.take())?;
        if let Some(list) = &self.list {
            Records::parse(list)?;
            write_whole(&self.folder.join(LIST_FILE), list)?;
        }
        File::open(&self.folder)?.sync_all()
    }
}

fn sync(file: Option<(Digest, File)>) -> io::Result<()> {
    file.map_or(Ok(()), |(_, file)| file.sync_all())
}
