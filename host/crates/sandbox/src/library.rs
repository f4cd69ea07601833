//! The set of installed plugins, on disk and in memory, and the steps of an install.
//!
//! The folder contains a file `<digest>.wasm` for each plugin, and `installed.json`, the list of the active ones.
//!
//! **Invariant:** a crash at any point leaves the old set or the new one: a plugin's file is on disk before the list
//! names it, and the list is replaced atomically.
//! **Invariant:** a replaced or removed plugin is unloaded after the last call in it.
//! **Invariant:** a failed install leaves the installed version active.
//! **Invariant:** a [`PluginSet`] is immutable: a caller keeps the plugins that it contained when it was returned.

mod archive;
mod engines;
mod pending;
mod records;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use arc_swap::ArcSwap;
use jiff::Timestamp;

pub use self::archive::{ArchivedPlugins, LibraryRefill, RefusedPlugin};
pub(super) use self::records::{InstalledFile, installed_files};
pub use self::records::{PluginList, RecordedPlugin, is_in_use};
use self::records::{file_of, load_recorded, locked};
pub use self::sync::{SyncReport, SyncedFile};
use super::PluginHost;
use super::files::{FolderError, crash_point, private_folder, remove_unfinished, write_whole};
use super::install::{InstallError, InstallStep};
use super::package::{Candidate, Digest};
use super::signature::{Signer, UnsignedPlugins};
use crate::install::LoadedPlugin;
use crate::{MachineCode, PackContents};
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};

const LIST_FILE: &str = "installed.json";

/// The reason why the folder of installed plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The folder cannot be created or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Another process uses the folder.
    #[error("the plugin folder {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// No plugin of that name is installed.
    #[error("no plugin `{0}` is installed")]
    NotInstalled(PluginName),
}

/// The installed plugins.
pub struct PluginLibrary {
    pub(crate) host: Arc<PluginHost>,
    folder: PathBuf,
    records: Mutex<PluginList>,
    /// The plugins that could not be loaded since the library was opened.
    refused: Mutex<Vec<InstallError>>,
    /// The engines that are compiled after the library was opened.
    pending: Mutex<BTreeSet<PluginName>>,
    current: ArcSwap<PluginSet>,
    /// Holds the file lock as long as the library exists.
    _lock: File,
}

impl PluginLibrary {
    /// Opens the library in `folder` and loads the installed plugins, except the engines that
    /// [`PluginHostSettings::compiles_engines_later`](crate::PluginHostSettings::compiles_engines_later) leaves to
    /// [`Self::load_pending`]. `engine` names the eligibility engine to use if several are installed. May compile: not
    /// for async code.
    ///
    /// # Errors
    /// The folder cannot be used, or its list is corrupt. A plugin that cannot be loaded is not an error: it stays
    /// installed, is listed by [`Self::unloaded`], and is retried at the next start.
    pub fn open(host: Arc<PluginHost>, folder: &Path, engine: Option<PluginName>) -> Result<Self, LibraryError> {
        private_folder(folder)?;
        let lock = locked(folder)?;
        remove_unfinished(folder);
        let list = folder.join(LIST_FILE);
        let mut records = PluginList::read(&list).map_err(|error| FolderError::new(&list, error))?;
        for record in records.installed.values_mut() {
            record.earlier.retain(|earlier| file_of(folder, earlier.digest).is_file());
        }
        let mut set = PluginSet { plugins: BTreeMap::new(), wanted_engine: engine };
        let mut refused = Vec::new();
        let mut pending = BTreeSet::new();
        for (name, record) in &records.installed {
            if pending::is_left_for_later(&host, record.kind, record.digest) {
                pending.insert(name.clone());
                continue;
            }
            match load_recorded(&host, folder, name, record) {
                Ok(plugin) => drop(set.plugins.insert(name.clone(), plugin)),
                Err(error) => refused.push(error),
            }
        }
        let current = ArcSwap::from_pointee(set);
        let (folder, records) = (folder.to_owned(), Mutex::new(records));
        let (refused, pending) = (Mutex::new(refused), Mutex::new(pending));
        let library = Self { host, folder, records, refused, pending, current, _lock: lock };
        library.sweep(&library.lock());
        Ok(library)
    }

    /// Removes the cached code of plugins that are not installed. Called after the plugins of a folder are installed:
    /// their code may already be in the cache, for example after a restore.
    pub fn forget_unused_code(&self) {
        let mut used: BTreeSet<Digest> = self.lock().digests().into_iter().collect();
        used.extend(self.current().iter().map(|plugin| plugin.loaded().code.digest));
        self.host.compiler.retain(&used);
    }

    /// The plugins installed now. The set is immutable; call again to see changes.
    #[must_use]
    pub fn current(&self) -> Arc<PluginSet> {
        self.current.load_full()
    }

    /// The installed plugins, by name.
    #[must_use]
    pub fn list(&self) -> Vec<InstalledPlugin> {
        self.current().iter().cloned().collect()
    }

    /// The installed plugins that could not be loaded, with the reason.
    #[must_use]
    pub fn unloaded(&self) -> Vec<InstallError> {
        let (records, current) = (self.lock(), self.current());
        let is_unloaded = |name: &PluginName| records.installed.contains_key(name) && current.get(name).is_none();
        self.refused().iter().filter(|refused| refused.plugin.as_ref().is_some_and(is_unloaded)).cloned().collect()
    }

    /// The list entry of an installed plugin, even if it could not be loaded.
    #[must_use]
    pub fn recorded(&self, name: &PluginName) -> Option<RecordedPlugin> {
        self.lock().installed.get(name).cloned()
    }

    /// Aborts a running compilation and starts no other: the server stops.
    pub fn stop_compiling(&self) {
        self.host.compiler.stop();
    }

    /// Runs every step of an install except the last, which is [`Self::commit`]. May compile: not for async code.
    ///
    /// # Errors
    /// The step that failed.
    pub fn prepare(&self, offer: impl Into<PluginOffer>) -> Result<Prepared, InstallError> {
        let PluginOffer { bytes, signature, unsigned, downgrade, .. } = offer.into();
        if let Some(signature) = &signature {
            self.host.check_signature(&bytes, signature)?;
        }
        let candidate = Candidate::read(bytes)?;
        let signer = self.host.signer_of(&candidate, signature.as_deref(), unsigned)?;
        let is_unsigned_allowed = signer == Signer::Unsigned && unsigned == UnsignedPlugins::Allowed;
        if downgrade == Downgrade::Refused
            && let Some(reason) = self.newer_than(&candidate.manifest)
        {
            return Err(InstallError::of(&candidate.manifest.name, InstallStep::Downgrade, reason));
        }
        if downgrade == Downgrade::Refused
            && let Some(reason) = self.other_content_than(&candidate)
        {
            return Err(InstallError::of(&candidate.manifest.name, InstallStep::Downgrade, reason));
        }
        self.refuse_second_engine(&candidate.manifest)?;
        let package = candidate.check()?;
        let (loaded, code) = self.host.load_new(&package)?;
        let loaded = Arc::new(loaded);
        let contents = self.host.try_out(&loaded)?;
        Ok(Prepared { loaded, signer, signature, is_unsigned_allowed, contents, bytes: package.candidate.bytes, code })
    }

    /// Rejects an engine beside another one, if the configuration names none of them.
    ///
    /// # Errors
    /// An error at step `content`.
    pub fn refuse_second_engine(&self, manifest: &PluginManifest) -> Result<(), InstallError> {
        let installed = self.current().engine_displaced_by(manifest).cloned();
        let Some(serving) = installed.or_else(|| self.pending_engine_displaced_by(manifest)) else { return Ok(()) };
        let reason = format!(
            "the eligibility engine `{serving}` is already installed, and with two engines rules that name none have none; set `engine` in `[plugins]` to the one that decides them, or remove `{serving}` first"
        );
        Err(InstallError::of(&manifest.name, InstallStep::Content, reason))
    }

    /// The reason why installing a plugin would be a downgrade: a newer version of it is installed, loaded or not.
    #[must_use]
    pub fn newer_than(&self, manifest: &PluginManifest) -> Option<String> {
        let installed = self.recorded(&manifest.name)?.version;
        (installed > manifest.version).then(|| {
            format!(
                "version {installed} is installed, and {} is older: use `--allow-downgrade` to install it anyway",
                manifest.version
            )
        })
    }

    /// The reason why installing a plugin would replace the content of a version: the same version is active with other
    /// bytes.
    fn other_content_than(&self, candidate: &Candidate) -> Option<String> {
        let manifest = &candidate.manifest;
        let current = self.current();
        let active = current.get(&manifest.name)?;
        let is_replaced = active.manifest().version == manifest.version && active.loaded().digest() != candidate.digest;
        is_replaced.then(|| {
            format!(
                "version {} is installed with other content: raise the version, or use `--allow-downgrade` to replace it",
                manifest.version
            )
        })
    }

    /// Installs a prepared plugin: on disk first, then for all calls that begin from now on. Its machine code is cached
    /// last, because nothing depends on it.
    ///
    /// # Errors
    /// An error at step `store`: the disk failed, and the installed set is unchanged.
    pub fn commit(&self, mut prepared: Prepared, now: Timestamp) -> Result<InstalledPlugin, InstallError> {
        let code = prepared.code.take();
        let installed = self.record(prepared, now)?;
        self.host.compiler.cache(self.host.engine.wasmtime(), code.as_ref());
        Ok(installed)
    }

    fn record(&self, prepared: Prepared, now: Timestamp) -> Result<InstalledPlugin, InstallError> {
        let name = prepared.manifest().name.clone();
        let failed = |error: io::Error| InstallError::of(&name, InstallStep::Store, error);

        let mut records = self.lock();
        write_whole(&self.path_of(prepared.digest()), &prepared.bytes).map_err(failed)?;
        let changed = records.clone().with(&prepared, now);
        self.replace_list(&mut records, changed).map_err(failed)?;
        let Prepared { loaded, signer, .. } = prepared;
        let installed = InstalledPlugin { loaded, signer, installed_at: now };
        self.publish(|plugins| drop(plugins.insert(name.clone(), installed.clone())));
        self.settle(&name);
        self.sweep(&records);
        Ok(installed)
    }

    /// Replaces the active list. If that fails, the old list is written again: the new file may have its name already.
    fn replace_list(&self, records: &mut PluginList, changed: PluginList) -> io::Result<()> {
        let path = self.folder.join(LIST_FILE);
        changed.write(&path).inspect_err(|_| drop(records.write(&path)))?;
        *records = changed;
        Ok(())
    }

    /// Unloads the plugins that this server's policy no longer accepts, and returns the reason for each: other servers
    /// write the shared list too. They stay recorded. Plugins that were pinned at their install, and plugins that were
    /// installed here with `--allow-unsigned`, stay loaded. Reads files: not for async code.
    #[must_use]
    pub fn unload_refused(&self) -> Vec<InstallError> {
        let records = self.lock();
        let mut refused = Vec::new();
        for (name, record) in &records.installed {
            if self.current().get(name).is_some()
                && record.signer != Signer::Pinned
                && let Err(error) = records::read_verified(&self.host, &self.folder, name, record)
            {
                self.publish(|plugins| drop(plugins.remove(name)));
                refused.push(error);
            }
        }
        refused
    }

    /// Installs a plugin if `accept` approves its contents.
    ///
    /// # Errors
    /// The step that failed; the installed set is unchanged.
    pub fn install(
        &self,
        offer: impl Into<PluginOffer>,
        now: Timestamp,
        accept: &Accept<'_>,
    ) -> Result<InstalledPlugin, InstallError> {
        let prepared = self.prepare(offer)?;
        accept(&prepared).map_err(|reason| prepared.refuse(reason))?;
        self.commit(prepared, now)
    }

    /// Removes a plugin and records that it was removed by hand. Running calls complete on it.
    ///
    /// # Errors
    /// No plugin of that name is installed, or the disk failed and it is still installed.
    pub fn remove(&self, name: &PluginName) -> Result<(), LibraryError> {
        let mut records = self.lock();
        if !records.installed.contains_key(name) {
            return Err(LibraryError::NotInstalled(name.clone()));
        }
        let changed = records.clone().without(name);
        let replaced = self.replace_list(&mut records, changed);
        replaced.map_err(|error| FolderError::new(&self.folder.join(LIST_FILE), error))?;
        self.publish(|plugins| drop(plugins.remove(name)));
        self.settle(name);
        self.sweep(&records);
        Ok(())
    }

    fn publish(&self, change: impl FnOnce(&mut BTreeMap<PluginName, InstalledPlugin>)) {
        let mut set = PluginSet::clone(&self.current.load());
        change(&mut set.plugins);
        self.current.store(Arc::new(set));
    }

    /// Removes files that the list does not name, with their compiled code: those of the plugin just removed, and those
    /// of installs that a crash interrupted.
    fn sweep(&self, records: &PluginList) {
        let stored: Vec<_> = records.digests().into_iter().map(|digest| self.path_of(digest)).collect();
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let is_plugin = path.extension().is_some_and(|extension| extension == "wasm");
            if is_plugin && !stored.contains(&path) {
                let _ = fs::remove_file(&path);
                crash_point();
                let digest = path.file_stem().and_then(|stem| Digest::from_hex(stem.to_str()?));
                digest.into_iter().for_each(|digest| self.host.compiler.forget(digest));
            }
        }
    }

    fn path_of(&self, digest: Digest) -> PathBuf {
        file_of(&self.folder, digest)
    }

    fn lock(&self) -> MutexGuard<'_, PluginList> {
        // The records are replaced as a whole, so they are valid after a panic.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PluginLibrary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PluginLibrary").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// An installed plugin.
#[derive(Debug, Clone)]
pub struct InstalledPlugin {
    loaded: Arc<LoadedPlugin>,
    /// The signer at its install.
    pub signer: Signer,
    /// The time of its install.
    pub installed_at: Timestamp,
}

impl InstalledPlugin {
    /// The loaded plugin.
    #[must_use]
    pub fn loaded(&self) -> &Arc<LoadedPlugin> {
        &self.loaded
    }

    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.loaded.manifest()
    }
}

/// An immutable snapshot of the installed plugins.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    plugins: BTreeMap<PluginName, InstalledPlugin>,
    /// The engine that the configuration names, if any.
    wanted_engine: Option<PluginName>,
}

impl PluginSet {
    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &InstalledPlugin> {
        self.plugins.values()
    }

    /// The one of that name.
    #[must_use]
    pub fn get(&self, name: &PluginName) -> Option<&InstalledPlugin> {
        self.plugins.get(name)
    }

    /// The vocabulary packs, by name.
    pub fn packs(&self) -> impl Iterator<Item = &InstalledPlugin> {
        self.iter().filter(|plugin| plugin.manifest().kind == PluginKind::VocabularyPack)
    }
}

/// Policy for a version that is older than the installed one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Downgrade {
    /// It is rejected.
    #[default]
    Refused,
    /// It is installed.
    Allowed,
}

/// Policy for a version that lacks fields or concept groups of the installed one; decided by the server that publishes
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Loss {
    /// It is rejected.
    #[default]
    Refused,
    /// It is installed.
    Accepted,
}

/// A plugin file submitted for installation.
#[derive(Debug, Clone)]
pub struct PluginOffer {
    /// The file.
    pub bytes: Vec<u8>,
    /// The line of its `.sig` file, if there is one.
    pub signature: Option<String>,
    /// True if an unsigned plugin is accepted, regardless of the configuration.
    pub unsigned: UnsignedPlugins,
    /// True if a version older than the installed one is accepted.
    pub downgrade: Downgrade,
    /// True if a version that lacks fields or concept groups of the installed one is accepted.
    pub loss: Loss,
}

impl From<Vec<u8>> for PluginOffer {
    /// A file without a signature.
    fn from(bytes: Vec<u8>) -> Self {
        let (unsigned, downgrade, loss) = (UnsignedPlugins::Refused, Downgrade::Refused, Loss::Refused);
        Self { bytes, signature: None, unsigned, downgrade, loss }
    }
}

/// A plugin that passed every step before the commit.
#[derive(Debug)]
pub struct Prepared {
    loaded: Arc<LoadedPlugin>,
    signer: Signer,
    signature: Option<String>,
    /// True if it is unsigned and was submitted with `--allow-unsigned`.
    is_unsigned_allowed: bool,
    contents: Option<PackContents>,
    bytes: Vec<u8>,
    /// Its machine code, if it is to be cached after the install.
    code: Option<MachineCode>,
}

impl Prepared {
    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.loaded.manifest()
    }

    /// The loaded plugin.
    #[must_use]
    pub fn loaded(&self) -> &Arc<LoadedPlugin> {
        &self.loaded
    }

    /// Digest of its file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.loaded.digest()
    }

    /// Its name, version and digest, as in the audit log.
    #[must_use]
    pub fn reference(&self) -> String {
        self.loaded.reference()
    }

    /// Its signer.
    #[must_use]
    pub fn signer(&self) -> Signer {
        self.signer
    }

    /// Its entry in the list of installed plugins.
    fn record(&self, now: Timestamp) -> RecordedPlugin {
        let manifest = self.manifest();
        RecordedPlugin {
            version: manifest.version,
            kind: manifest.kind,
            digest: self.digest(),
            signer: self.signer,
            signature: self.signature.clone(),
            is_unsigned_allowed: self.is_unsigned_allowed,
            installed_at: now,
            earlier: Vec::new(),
        }
    }

    /// Its file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The contents of a pack: read, not validated.
    #[must_use]
    pub fn contents(&self) -> Option<&PackContents> {
        self.contents.as_ref()
    }

    /// An error at step `downgrade`: a newer version is installed.
    #[must_use]
    pub fn refuse_downgrade(&self, reason: impl std::fmt::Display) -> InstallError {
        InstallError::of(&self.manifest().name, InstallStep::Downgrade, reason)
    }

    /// An error at step `content`.
    #[must_use]
    pub fn refuse(&self, reason: impl std::fmt::Display) -> InstallError {
        InstallError::of(&self.manifest().name, InstallStep::Content, reason)
    }
}

/// Approves the contents of a plugin before it is installed; the error is the reason for a rejection.
pub type Accept<'a> = dyn Fn(&Prepared) -> Result<(), String> + 'a;
