//! The set of installed plugins, on disk and in memory, and how a plugin gets into it.
//!
//! The folder holds a file `<digest>.wasm` for each plugin, and `installed.json`, which says which of them count.
//!
//! **Invariant:** a crash at any point leaves the old set or the new one: a plugin's file is on disk before the list names it,
//! and the list is replaced whole.
//! **Invariant:** whoever took the current set keeps it: a plugin that is replaced or removed ends with the last call in it.
//! **Invariant:** a plugin that fails an install leaves the installed one in place.
//! **Invariant:** a set never changes; whoever took it keeps the plugins that it had.

mod archive;
mod records;
mod sync;

use std::collections::BTreeMap;
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
use super::pool::Priority;
use super::rule::{EligibilityEngine, EngineError, RuleRequest, RuleTask};
use super::signature::{Signer, UnsignedPlugins};
use crate::install::LoadedPlugin;
use crate::{MachineCode, PackContents};
use daftar_domain::context::Cancellation;
use daftar_domain::manifest::{PluginKind, PluginManifest, PluginName};

const LIST_FILE: &str = "installed.json";

/// Why the folder of installed plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The folder cannot be made or read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Another process uses it.
    #[error("the plugin folder {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// Nothing of that name is installed.
    #[error("no plugin `{0}` is installed")]
    NotInstalled(PluginName),
}

/// The installed plugins.
pub struct PluginLibrary {
    host: Arc<PluginHost>,
    folder: PathBuf,
    records: Mutex<PluginList>,
    /// What could not be loaded when the library was opened.
    refused: Vec<InstallError>,
    current: ArcSwap<PluginSet>,
    /// Held open: the lock ends with it.
    _lock: File,
}

impl PluginLibrary {
    /// Opens the library in `folder` and loads what is installed. `engine` names the eligibility engine to use, where several
    /// may be installed. Takes as long as compiling does: not for async code.
    ///
    /// # Errors
    /// The folder cannot be used, or its list is damaged. A plugin that cannot be loaded is no error: it stays installed, is among
    /// [`Self::unloaded`], and is tried again at the next start.
    pub fn open(host: Arc<PluginHost>, folder: &Path, engine: Option<PluginName>) -> Result<Self, LibraryError> {
        private_folder(folder)?;
        let lock = locked(folder)?;
        remove_unfinished(folder);
        let list = folder.join(LIST_FILE);
        let records = PluginList::read(&list).map_err(|error| FolderError::new(&list, error))?;
        let mut set = PluginSet { plugins: BTreeMap::new(), wanted_engine: engine };
        let mut refused = Vec::new();
        for (name, record) in &records.installed {
            match load_recorded(&host, folder, name, record) {
                Ok(plugin) => drop(set.plugins.insert(name.clone(), plugin)),
                Err(error) => refused.push(error),
            }
        }
        let current = ArcSwap::from_pointee(set);
        let (folder, records) = (folder.to_owned(), Mutex::new(records));
        let library = Self { host, folder, records, refused, current, _lock: lock };
        library.sweep(&library.lock(), None);
        Ok(library)
    }

    /// Removes the compiled code of plugins that are not installed. Done once those of a folder are: their code may be there already, as after
    /// a restore.
    pub fn forget_unused_code(&self) {
        self.host.compiler.keep_only(&self.lock().installed.values().map(|record| record.digest).collect());
    }

    /// The plugins installed now. The set never changes; ask again to see changes.
    #[must_use]
    pub fn current(&self) -> Arc<PluginSet> {
        self.current.load_full()
    }

    /// The installed plugins, by name.
    #[must_use]
    pub fn list(&self) -> Vec<InstalledPlugin> {
        self.current().iter().cloned().collect()
    }

    /// What is installed and could not be loaded, with the reason.
    #[must_use]
    pub fn unloaded(&self) -> Vec<InstallError> {
        let (records, current) = (self.lock(), self.current());
        let is_unloaded = |name: &PluginName| records.installed.contains_key(name) && current.get(name).is_none();
        self.refused.iter().filter(|refused| refused.plugin.as_ref().is_some_and(is_unloaded)).cloned().collect()
    }

    /// What the list says of an installed plugin, also of one that could not be loaded.
    #[must_use]
    pub fn recorded(&self, name: &PluginName) -> Option<RecordedPlugin> {
        self.lock().installed.get(name).cloned()
    }

    /// Ends a compilation that is going on, and lets none begin: the server stops.
    pub fn stop_compiling(&self) {
        self.host.compiler.stop();
    }

    /// Takes a plugin through every step of an install but the last, which is [`Self::commit`]. Takes as long as compiling
    /// does: not for async code.
    ///
    /// # Errors
    /// The step that refused it.
    pub fn prepare(&self, offer: impl Into<PluginOffer>) -> Result<Prepared, InstallError> {
        let PluginOffer { bytes, signature, unsigned, downgrade, .. } = offer.into();
        if let Some(signature) = &signature {
            self.host.check_signature(&bytes, signature)?;
        }
        let candidate = Candidate::read(bytes)?;
        let signer = self.host.judge(&candidate, signature.as_deref(), unsigned)?;
        let is_excused = signer == Signer::Unsigned && unsigned == UnsignedPlugins::Allowed;
        if downgrade == Downgrade::Refused
            && let Some(reason) = self.newer_than(&candidate.manifest)
        {
            return Err(InstallError::of(&candidate.manifest.name, InstallStep::Downgrade, reason));
        }
        if let Some(serving) = self.current().engine_put_aside_by(&candidate.manifest) {
            let reason = format!(
                "the eligibility engine `{serving}` is installed, and of two neither would serve; name the one that is to serve with `engine` in `[plugins]`, or remove `{serving}` first"
            );
            return Err(InstallError::of(&candidate.manifest.name, InstallStep::Content, reason));
        }
        let package = candidate.check()?;
        let (loaded, code) = self.host.load_new(&package)?;
        let loaded = Arc::new(loaded);
        let contents = self.host.try_out(&loaded)?;
        Ok(Prepared { loaded, signer, signature, is_excused, contents, bytes: package.candidate.bytes, code })
    }

    /// Why a plugin would be a downgrade: a newer version of it is installed, loaded or not.
    #[must_use]
    pub fn newer_than(&self, manifest: &PluginManifest) -> Option<String> {
        let installed = self.recorded(&manifest.name)?.version;
        (installed > manifest.version).then(|| {
            format!(
                "version {installed} is installed, and {} is older: install it with `--allow-downgrade` where that is meant",
                manifest.version
            )
        })
    }

    /// Installs what was prepared: on disk first, then for all calls that begin from now on; its machine code is kept last, as
    /// nothing depends on it.
    ///
    /// # Errors
    /// A refusal at `store`: the disk failed, and what was installed is as before.
    pub fn commit(&self, mut prepared: Prepared, now: Timestamp) -> Result<InstalledPlugin, InstallError> {
        let code = prepared.code.take();
        let installed = self.record(prepared, now)?;
        self.host.compiler.keep(self.host.engine.wasmtime(), installed.loaded().digest(), code.as_ref());
        Ok(installed)
    }

    fn record(&self, prepared: Prepared, now: Timestamp) -> Result<InstalledPlugin, InstallError> {
        let name = prepared.manifest().name.clone();
        let failed = |error: io::Error| InstallError::of(&name, InstallStep::Store, error);

        let mut records = self.lock();
        write_whole(&self.path_of(prepared.digest()), &prepared.bytes).map_err(failed)?;
        let replaced = records.installed.get(&name).cloned();
        let changed = records.clone().with(&prepared, now);
        self.replace_list(&mut records, changed).map_err(failed)?;
        let Prepared { loaded, signer, .. } = prepared;
        let installed = InstalledPlugin { loaded, signer, installed_at: now };
        self.publish(|plugins| drop(plugins.insert(name.clone(), installed.clone())));
        self.sweep(&records, replaced);
        Ok(installed)
    }

    /// Puts another list in place of the one that counts.
    fn replace_list(&self, records: &mut PluginList, changed: PluginList) -> io::Result<()> {
        changed.write(&self.folder.join(LIST_FILE))?;
        *records = changed;
        Ok(())
    }

    /// Unloads what this server's policy does not accept now, and says why of each: the list of installed plugins is not its own alone. It
    /// stays recorded. What this program was built with when it was installed, and what was installed here although it is unsigned, stays.
    /// Reads files: not for async code.
    #[must_use]
    pub fn unload_refused(&self) -> Vec<InstallError> {
        let records = self.lock();
        let mut refused = Vec::new();
        for (name, record) in &records.installed {
            if self.current().get(name).is_some()
                && record.signer != Signer::Pinned
                && let Err(error) = records::judged(&self.host, &self.folder, name, record)
            {
                self.publish(|plugins| drop(plugins.remove(name)));
                refused.push(error);
            }
        }
        refused
    }

    /// Installs a plugin, if `accept` has nothing against what it brings.
    ///
    /// # Errors
    /// The step that refused it; what was installed is as before.
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

    /// Removes a plugin and remembers that it was removed by hand. Calls in flight end on it.
    ///
    /// # Errors
    /// Nothing of that name is installed, or the disk failed and it still is.
    pub fn remove(&self, name: &PluginName) -> Result<(), LibraryError> {
        let mut records = self.lock();
        let Some(removed) = records.installed.get(name).cloned() else {
            return Err(LibraryError::NotInstalled(name.clone()));
        };
        let changed = records.clone().without(name);
        let replaced = self.replace_list(&mut records, changed);
        replaced.map_err(|error| FolderError::new(&self.folder.join(LIST_FILE), error))?;
        self.publish(|plugins| drop(plugins.remove(name)));
        self.sweep(&records, Some(removed));
        Ok(())
    }

    fn publish(&self, change: impl FnOnce(&mut BTreeMap<PluginName, InstalledPlugin>)) {
        let mut set = PluginSet::clone(&self.current.load());
        change(&mut set.plugins);
        self.current.store(Arc::new(set));
    }

    /// Removes files that the list does not name: of the plugin that has just gone, and of installs that a crash ended.
    fn sweep(&self, records: &PluginList, gone: Option<RecordedPlugin>) {
        let kept: Vec<_> = records.installed.values().map(|record| self.path_of(record.digest)).collect();
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            let is_plugin = path.extension().is_some_and(|extension| extension == "wasm");
            if is_plugin && !kept.contains(&path) {
                let _ = fs::remove_file(&path);
                crash_point();
            }
        }
        if let Some(gone) = gone.filter(|gone| !kept.contains(&self.path_of(gone.digest))) {
            self.host.compiler.forget(gone.digest);
        }
    }

    fn path_of(&self, digest: Digest) -> PathBuf {
        file_of(&self.folder, digest)
    }

    fn lock(&self) -> MutexGuard<'_, PluginList> {
        // The records are replaced whole, so a panic leaves them sound.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EligibilityEngine for PluginLibrary {
    fn submit(
        &self,
        priority: Priority,
        request: RuleRequest,
        cancellation: Cancellation,
        task: RuleTask,
    ) -> Result<(), EngineError> {
        let set = self.current.load();
        let engine = set.engine().ok_or(EngineError::NoEngine)?;
        self.host.submit_rule(priority, engine.loaded(), request, cancellation, task)
    }

    fn background_threads(&self) -> usize {
        self.host.pool_usage().background_threads_max
    }

    fn engine_name(&self) -> Option<String> {
        self.current.load().engine().map(|engine| engine.loaded().reference())
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
    /// Who vouched for it when it was installed.
    pub signer: Signer,
    /// When it was installed.
    pub installed_at: Timestamp,
}

impl InstalledPlugin {
    /// The plugin, ready to be called.
    #[must_use]
    pub fn loaded(&self) -> &Arc<LoadedPlugin> {
        &self.loaded
    }

    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.loaded.manifest()
    }
}

/// The plugins installed at one moment.
#[derive(Debug, Clone, Default)]
pub struct PluginSet {
    plugins: BTreeMap<PluginName, InstalledPlugin>,
    /// The engine that the configuration names, if it names one.
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

    /// The engine that serves as the only one, and would not beside a plugin of that manifest.
    fn engine_put_aside_by(&self, manifest: &PluginManifest) -> Option<&PluginName> {
        let is_unnamed_engine = manifest.kind == PluginKind::EligibilityEngine && self.wanted_engine.is_none();
        let serving = &self.engine()?.manifest().name;
        (is_unnamed_engine && *serving != manifest.name).then_some(serving)
    }

    /// The active eligibility engine: the one that the configuration names, else the only one.
    #[must_use]
    pub fn engine(&self) -> Option<&InstalledPlugin> {
        let mut engines = self.iter().filter(|plugin| plugin.manifest().kind == PluginKind::EligibilityEngine);
        if let Some(wanted) = &self.wanted_engine {
            return engines.find(|plugin| plugin.manifest().name == *wanted);
        }
        let first = engines.next();
        if engines.next().is_some() { None } else { first }
    }
}

/// Whether an older version than the installed one is installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Downgrade {
    /// It is refused.
    #[default]
    Refused,
    /// It is installed.
    Allowed,
}

/// Whether a version is installed that lacks fields or concept groups of the installed one. Judged by the one who publishes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Loss {
    /// It is refused.
    #[default]
    Refused,
    /// It is installed.
    Accepted,
}

/// A plugin's file as it is handed in.
#[derive(Debug, Clone)]
pub struct PluginOffer {
    /// The file.
    pub bytes: Vec<u8>,
    /// The line of its `.sig` file, if there is one.
    pub signature: Option<String>,
    /// Whether it is installed when nobody vouches for it, whatever the configuration says.
    pub unsigned: UnsignedPlugins,
    /// Whether it is installed when it is older than the installed version.
    pub downgrade: Downgrade,
    /// Whether it is installed when it lacks fields or concept groups of the installed version.
    pub loss: Loss,
}

impl From<Vec<u8>> for PluginOffer {
    /// A file without a signature.
    fn from(bytes: Vec<u8>) -> Self {
        let (unsigned, downgrade, loss) = (UnsignedPlugins::Refused, Downgrade::Refused, Loss::Refused);
        Self { bytes, signature: None, unsigned, downgrade, loss }
    }
}

/// A plugin that passed every step and is not installed yet.
#[derive(Debug)]
pub struct Prepared {
    loaded: Arc<LoadedPlugin>,
    signer: Signer,
    signature: Option<String>,
    /// Whether it is unsigned, and was handed in with the permission for that.
    is_excused: bool,
    contents: Option<PackContents>,
    bytes: Vec<u8>,
    /// Its machine code, where it is to be kept once the plugin is installed.
    code: Option<MachineCode>,
}

impl Prepared {
    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        self.loaded.manifest()
    }

    /// Digest of its file.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.loaded.digest()
    }

    /// Its name, version and digest, as the audit log names it.
    #[must_use]
    pub fn reference(&self) -> String {
        self.loaded.reference()
    }

    /// Who vouches for it.
    #[must_use]
    pub fn signer(&self) -> Signer {
        self.signer
    }

    /// What the list of installed plugins records of it.
    fn record(&self, now: Timestamp) -> RecordedPlugin {
        let manifest = self.manifest();
        RecordedPlugin {
            version: manifest.version,
            kind: manifest.kind,
            digest: self.digest(),
            signer: self.signer,
            signature: self.signature.clone(),
            is_excused: self.is_excused,
            installed_at: now,
        }
    }

    /// Its file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it brings, if it is a pack: read from it, not yet checked against anything.
    #[must_use]
    pub fn contents(&self) -> Option<&PackContents> {
        self.contents.as_ref()
    }

    /// Refuses it for being older than what is installed.
    #[must_use]
    pub fn refuse_downgrade(&self, reason: impl std::fmt::Display) -> InstallError {
        InstallError::of(&self.manifest().name, InstallStep::Downgrade, reason)
    }

    /// Refuses it for what it brings.
    #[must_use]
    pub fn refuse(&self, reason: impl std::fmt::Display) -> InstallError {
        InstallError::of(&self.manifest().name, InstallStep::Content, reason)
    }
}

/// Has its say on what a plugin brings before it is installed; the error is the reason for a refusal.
pub type Accept<'a> = dyn Fn(&Prepared) -> Result<(), String> + 'a;
