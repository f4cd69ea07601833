//! The installed plugins as files, for backup and restore.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::records::{PluginList, file_of, read_file};
use super::{LIST_FILE, PluginLibrary};
use crate::files::private_folder;
use crate::package::{Digest, manifest_of};
use crate::signature::{Signer, TrustPolicy, UnsignedPlugins};
use daftar_domain::manifest::{PluginName, PluginVersion};

/// The installed plugins: the list, and open handles of the files that it names, so that concurrent installs and
/// removals have no effect on them.
#[derive(Debug)]
pub struct ArchivedPlugins {
    /// The content of the list file.
    pub list: Vec<u8>,
    /// The files, with their digests.
    pub files: Vec<(Digest, File)>,
}

impl PluginLibrary {
    /// Opens the currently installed plugins. A plugin whose file is missing is omitted: it could not be loaded either.
    ///
    /// # Errors
    /// The list cannot be serialized.
    pub fn archived(&self) -> io::Result<ArchivedPlugins> {
        let mut records = self.lock().clone();
        let mut files = Vec::new();
        records.installed.retain(|name, record| match File::open(self.path_of(record.digest)) {
            Ok(file) => {
                files.push((record.digest, file));
                record.earlier.retain(|earlier| match File::open(self.path_of(earlier.digest)) {
                    Ok(file) => {
                        files.push((earlier.digest, file));
                        true
                    }
                    Err(_) => false,
                });
                true
            }
            Err(error) => {
                tracing::warn!(plugin.name = %name, error = %error, "plugin file missing, omitted from backup");
                false
            }
        });
        Ok(ArchivedPlugins { list: records.to_bytes()?, files })
    }
}

/// A plugin of a backup that the policy of the restoring server does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPlugin {
    /// Its name.
    pub name: PluginName,
    /// Its version.
    pub version: PluginVersion,
    /// Its file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// A folder of plugins that is being restored. Its list is written last, so that a partial restore has no effect.
#[derive(Debug)]
pub struct LibraryRefill {
    folder: PathBuf,
    open: Option<(Digest, File)>,
    list: Option<Vec<u8>>,
}

impl LibraryRefill {
    /// Creates the folder.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new(folder: &Path) -> io::Result<Self> {
        private_folder(folder).map_err(io::Error::other)?;
        Ok(Self { folder: folder.to_owned(), open: None, list: None })
    }

    /// Stores the list until [`Self::finish`].
    pub fn put_list(&mut self, list: Vec<u8>) {
        self.list = Some(list);
    }

    /// Appends bytes to the file of that digest.
    ///
    /// # Errors
    /// The disk failed.
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

    /// Verifies every plugin by `trust` and writes the list, which makes the files active. A plugin that the policy
    /// does not accept is recorded as unverified, and is loaded only once it is accepted; these are returned. The
    /// permission for an unsigned plugin is restored only if the list `is_authentic`.
    ///
    /// # Errors
    /// The disk failed.
    pub fn finish(mut self, trust: &TrustPolicy, is_authentic: bool) -> io::Result<Vec<RefusedPlugin>> {
        sync(self.open.take())?;
        let mut refused = Vec::new();
        if let Some(list) = &self.list {
            let mut records = PluginList::parse(list)?;
            for (name, record) in &mut records.installed {
                record.is_unsigned_allowed &= is_authentic;
                for earlier in &mut record.earlier {
                    earlier.is_unsigned_allowed &= is_authentic;
                }
                let path = file_of(&self.folder, record.digest);
                let bytes = read_file(&path).map_err(|error| io::Error::other(error.to_string()))?;
                let unsigned =
                    if record.is_unsigned_allowed { UnsignedPlugins::Allowed } else { UnsignedPlugins::Refused };
                let signature = record.signature.as_deref();
                // The name and kind of the file's own manifest: the list may be forged.
                let judged = manifest_of(&bytes).map_err(|error| error.to_string()).and_then(|manifest| {
                    let judged =
                        trust.signer_of((&manifest.name, manifest.kind), &bytes, record.digest, signature, unsigned);
                    judged.map_err(|problem| problem.to_string())
                });
                match judged {
                    Ok(signer) => record.signer = signer,
                    Err(reason) => {
                        record.signer = Signer::Unrecorded;
                        refused.push(RefusedPlugin { name: name.clone(), version: record.version, path, reason });
                    }
                }
            }
            records.write(&self.folder.join(LIST_FILE))?;
        }
        Ok(refused)
    }
}

fn sync(file: Option<(Digest, File)>) -> io::Result<()> {
    file.map_or(Ok(()), |(_, file)| file.sync_all())
}
