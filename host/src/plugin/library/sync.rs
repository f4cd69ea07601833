//! Installing from a folder of plugins, such as the one beside the binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{Accept, PluginLibrary, read_file};
use crate::domain::manifest::PluginName;
use crate::plugin::files::FolderError;
use crate::plugin::install::InstallError;
use crate::plugin::package::manifest_of;

/// What became of one file of a folder of plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncedFile {
    /// It was absent or newer, and is installed now.
    Installed(PluginName),
    /// The same or a newer version is installed already.
    Kept(PluginName),
    /// It was removed by hand and stays removed.
    RemainsRemoved(PluginName),
    /// It was refused.
    Refused(InstallError),
}

/// What became of the files of a folder of plugins, by path.
pub type SyncReport = BTreeMap<PathBuf, SyncedFile>;

impl PluginLibrary {
    /// Installs the plugins of a folder that are absent or newer than what is installed. One that was removed by hand stays
    /// removed; a broken file is reported and skipped.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn sync_from(&self, folder: &Path, now: Timestamp, accept: &Accept<'_>) -> Result<SyncReport, FolderError> {
        let failed = |error| FolderError::new(folder, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "wasm") {
                paths.push(path);
            }
        }
        paths.sort();
        let sync = |path: PathBuf| {
            let outcome = self.sync_file(&path, now, accept).unwrap_or_else(SyncedFile::Refused);
            (path, outcome)
        };
        Ok(paths.into_iter().map(sync).collect())
    }

    fn sync_file(&self, path: &Path, now: Timestamp, accept: &Accept<'_>) -> Result<SyncedFile, InstallError> {
        let bytes = read_file(path)?;
        let manifest = manifest_of(&bytes)?;
        let name = manifest.name;
        if self.lock().removed.contains(&name) {
            return Ok(SyncedFile::RemainsRemoved(name));
        }
        // What is recorded and could not be loaded is not in the current set, and is mended from here.
        let is_newer =
            self.current().get(&name).is_none_or(|installed| installed.manifest().version < manifest.version);
        if !is_newer {
            return Ok(SyncedFile::Kept(name));
        }
        self.install(bytes, now, accept).map(|_| SyncedFile::Installed(name))
    }
}
