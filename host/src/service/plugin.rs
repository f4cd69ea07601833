//! What the administrator does with plugins, and how what packs bring is published.
//!
//! **Invariant:** a plugin is installed only after everything it brings was checked and a generation could be made with it;
//! until then what ran before runs on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use super::audit;
use super::registry::Registry;
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::code::CodeNumber;
use crate::domain::manifest::{PluginKind, PluginName};
use crate::domain::vocabulary::PackContents;
use crate::error::AppError;
use crate::plugin::{InstallError, LibraryError, PluginHost, PluginLibrary, Prepared, SyncReport, SyncedFile};
pub use crate::plugin::{InstalledPlugin, PACKAGE_BYTES_MAX};
use crate::vocab::{CheckedPack, CodeTable, Generation, GenerationBuilder, PackOrigin, PublishProblem, check};

/// The most problems of a pack that one message tells.
const PROBLEMS_TOLD_MAX: usize = 20;

/// What plugins are administered with.
#[derive(Clone)]
pub struct PluginAdministration {
    registry: Registry,
    host: Arc<PluginHost>,
    library: Arc<PluginLibrary>,
    /// The packs in force, by plugin.
    packs: Arc<Mutex<Packs>>,
    /// Held while a plugin is installed or removed: one at a time.
    changing: Arc<AsyncMutex<()>>,
}

/// Checked packs with where they came from, by plugin.
type Packs = BTreeMap<PluginName, (PackOrigin, Arc<CheckedPack>)>;

impl PluginAdministration {
    /// Administers a library; nothing is published before [`Self::start`].
    #[must_use]
    pub fn new(registry: Registry, host: Arc<PluginHost>, library: Arc<PluginLibrary>) -> Self {
        Self { registry, host, library, packs: Arc::default(), changing: Arc::default() }
    }

    /// Publishes what is installed, then installs what is absent or newer from a folder. A pack that is not sound is logged
    /// with its name and the reason, and the rest is served.
    ///
    /// # Errors
    /// When the store fails or the folder cannot be read.
    pub async fn start(&self, folder: Option<PathBuf>, now: Timestamp) -> Result<(), AppError> {
        let _changing = self.changing.lock().await;
        let (host, library) = (self.host.clone(), self.library.clone());
        let loaded = blocking(move || load_packs(&host, &library)).await?;
        *self.packs() = loaded;
        if let Some(folder) = folder {
            let (library, packs) = (self.library.clone(), self.packs.clone());
            let report = blocking(move || {
                library.sync_from(&folder, now, &|prepared| {
                    let mut packs = packs.lock().unwrap_or_else(PoisonError::into_inner);
                    accept(&mut packs, prepared)
                })
            });
            let report = report.await?.map_err(|error| AppError::Unavailable(error.into()))?;
            tell(&report);
            self.forget_uninstalled();
        }
        let packs = self.packs().clone();
        let table = self.number(&packs).await?;
        let generation = self.build(table)?;
        self.registry.vocabularies.publish(generation);
        Ok(())
    }

    /// Installs a plugin, or replaces the one of its name. Calls in flight end on the old one.
    ///
    /// # Errors
    /// [`AppError::Plugin`] with the step that refused it and why; what was installed is as before.
    pub async fn install(&self, ctx: &OpContext, bytes: Vec<u8>) -> Result<InstalledPlugin, AppError> {
        let _changing = self.changing.lock().await;
        let result = self.install_alone(ctx, bytes).await;
        let (target, outcome, note) = match &result {
            Ok(plugin) => (plugin.loaded().reference(), AuditOutcome::Allowed, "installed".to_owned()),
            Err(error) => ("unknown".to_owned(), AuditOutcome::Refused, error.to_string()),
        };
        let mut entry = audit::entry(ctx, AuditAction::Plugin, outcome, vec![target]);
        entry.note = Some(note);
        self.registry.audit.record(entry).await?;
        result
    }

    async fn install_alone(&self, ctx: &OpContext, bytes: Vec<u8>) -> Result<InstalledPlugin, AppError> {
        let library = self.library.clone();
        let prepared = blocking(move || library.prepare(bytes)).await?.map_err(refusal)?;
        let mut packs = self.packs().clone();
        accept(&mut packs, &prepared).map_err(|reason| refusal(prepared.refuse(reason)))?;
        let table = self.number(&packs).await?;
        let generation = build(&packs, table).map_err(|problems| refusal(prepared.refuse(told(&problems))))?;
        let (library, now) = (self.library.clone(), ctx.now);
        let installed = blocking(move || library.commit(prepared, now)).await?.map_err(refusal)?;
        *self.packs() = packs;
        self.registry.vocabularies.publish(generation);
        Ok(installed)
    }

    /// Removes a plugin; it stays removed when the server starts again.
    ///
    /// # Errors
    /// [`AppError::UnknownPlugin`]; [`AppError::Conflict`] when records use its codes and `is_forced` is false, with how many.
    pub async fn remove(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let _changing = self.changing.lock().await;
        let uses = self.uses_of(name);
        if uses > 0 && !is_forced {
            let message = format!(
                "{uses} records use codes of `{name}`; they stay as they are when it is removed by force, and show codes without displays"
            );
            return Err(AppError::Conflict(message));
        }
        let (library, removed) = (self.library.clone(), name.clone());
        blocking(move || library.remove(&removed)).await?.map_err(|error| match error {
            LibraryError::NotInstalled(name) => AppError::UnknownPlugin(name.to_string()),
            LibraryError::Folder(_) | LibraryError::InUse(_) => AppError::Unavailable(error.into()),
        })?;
        self.packs().remove(name);
        let table = self.registry.vocabularies.current().table().clone();
        let generation = self.build(table)?;
        self.registry.vocabularies.publish(generation);
        let mut entry = audit::entry(ctx, AuditAction::Plugin, AuditOutcome::Allowed, vec![name.to_string()]);
        entry.note = Some(format!("removed; {uses} records use its codes"));
        self.registry.audit.record(entry).await
    }

    /// What is installed, by name.
    #[must_use]
    pub fn list(&self) -> Vec<InstalledPlugin> {
        self.library.list()
    }

    /// How many uses records make of the codes of a pack.
    fn uses_of(&self, name: &PluginName) -> u64 {
        let generation = self.registry.vocabularies.current();
        let Some((_, pack)) = self.packs().get(name).cloned() else { return 0 };
        let concepts = pack.vocabularies().iter().flat_map(|vocabulary| vocabulary.concepts());
        let numbers: Vec<CodeNumber> =
            concepts.filter_map(|concept| concept.uri().ok()).filter_map(|uri| generation.number_of(&uri)).collect();
        self.registry.columns.snapshot().records_using(&numbers)
    }

    /// Drops packs that were accepted and could then not be kept.
    fn forget_uninstalled(&self) {
        let current = self.library.current();
        self.packs().retain(|name, (origin, _)| {
            current.get(name).is_some_and(|installed| installed.loaded().digest().to_string() == origin.digest)
        });
    }

    /// Gives numbers to all codes and versions that have none, and returns the whole table.
    async fn number(&self, packs: &Packs) -> Result<Arc<CodeTable>, AppError> {
        let stored = self.registry.store.code_table().await?;
        let table = code_table(&stored.codes, &stored.editions)?;
        let (builder, _) = gather(packs);
        let (codes, editions) = builder.unnumbered(&table);
        if codes.is_empty() && editions.is_empty() {
            return Ok(Arc::new(table));
        }
        self.registry.store.number_codes(codes, editions).await?;
        let stored = self.registry.store.code_table().await?;
        Ok(Arc::new(code_table(&stored.codes, &stored.editions)?))
    }

    /// The generation of the packs in force. One that cannot be published with the others is logged and left out.
    fn build(&self, table: Arc<CodeTable>) -> Result<Generation, AppError> {
        let mut packs = self.packs();
        loop {
            let problems = match build(&packs, table.clone()) {
                Ok(generation) => return Ok(generation),
                Err(problems) => problems,
            };
            tracing::error!(reason = %told(&problems), "a pack cannot be published, the rest is served");
            let before = packs.len();
            packs.retain(|name, _| !problems.iter().any(|problem| problem.plugin.as_deref() == Some(name.as_str())));
            if packs.len() == before {
                return Err(AppError::internal(told(&problems)));
            }
        }
    }

    fn packs(&self) -> MutexGuard<'_, Packs> {
        // Replaced whole or by single entries, so a panic leaves it sound.
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs what compiles, waits for plugin threads or touches files, away from the threads that serve requests.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, AppError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| AppError::Internal(error.into()))
}

fn refusal(error: InstallError) -> AppError {
    AppError::Plugin(error.to_string())
}

/// Reads and checks every installed pack; one that is not sound is logged and left out.
fn load_packs(host: &PluginHost, library: &PluginLibrary) -> Packs {
    let mut packs = Packs::new();
    for installed in library.current().packs() {
        let origin = origin(installed);
        let checked = match host.load_pack(installed) {
            Ok(contents) => checked(contents),
            Err(error) => Err(error.to_string()),
        };
        match checked {
            Ok(checked) => drop(packs.insert(installed.manifest().name.clone(), (origin, checked))),
            Err(reason) => {
                tracing::error!(plugin = %installed.manifest().name, reason, "an installed pack is not sound, the rest is served");
            }
        }
    }
    packs
}

fn origin(installed: &InstalledPlugin) -> PackOrigin {
    let manifest = installed.manifest();
    PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: installed.loaded().digest().to_string(),
    }
}

fn checked(contents: PackContents) -> Result<Arc<CheckedPack>, String> {
    check(contents).map(Arc::new).map_err(|problems| {
        let mut lines: Vec<String> =
            problems.problems().iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string).collect();
        let untold = problems.count().saturating_sub(lines.len());
        if untold > 0 {
            lines.push(format!("and {untold} more"));
        }
        lines.join("; ")
    })
}

/// Adds what a prepared plugin brings to the packs, if it is sound and clashes with none of them.
fn accept(packs: &mut Packs, prepared: &Prepared) -> Result<(), String> {
    let manifest = prepared.manifest();
    let Some(contents) = prepared.contents() else {
        debug_assert!(manifest.kind != PluginKind::VocabularyPack);
        return Ok(());
    };
    let checked = checked(contents.clone())?;
    let origin = PackOrigin {
        plugin: manifest.name.to_string(),
        version: manifest.version.to_string(),
        digest: prepared.digest().to_string(),
    };
    let mut changed = packs.clone();
    changed.insert(manifest.name.clone(), (origin, checked));
    let (_, problems) = gather(&changed);
    if problems.is_empty() {
        *packs = changed;
        return Ok(());
    }
    Err(told(&problems))
}

/// A builder with all packs that do not clash, and the clashes.
fn gather(packs: &Packs) -> (GenerationBuilder, Vec<PublishProblem>) {
    let mut builder = GenerationBuilder::new();
    let mut problems = Vec::new();
    for (origin, pack) in packs.values() {
        if let Err(found) = builder.add(origin.clone(), pack) {
            problems.extend(found);
        }
    }
    (builder, problems)
}

fn build(packs: &Packs, table: Arc<CodeTable>) -> Result<Generation, Vec<PublishProblem>> {
    let (builder, problems) = gather(packs);
    if problems.is_empty() { builder.build(table) } else { Err(problems) }
}

fn told(problems: &[PublishProblem]) -> String {
    problems.iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn code_table(
    codes: &[crate::domain::code::CodeUri],
    editions: &[(crate::domain::code::Namespace, String)],
) -> Result<CodeTable, AppError> {
    CodeTable::new(codes, editions).map_err(|error| AppError::Internal(error.into()))
}

/// Logs what became of a folder of plugins.
fn tell(report: &SyncReport) {
    for (path, outcome) in report {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match outcome {
            SyncedFile::Installed(name) => tracing::info!(file, plugin = %name, "plugin installed"),
            SyncedFile::Kept(name) => tracing::debug!(file, plugin = %name, "plugin is installed already"),
            SyncedFile::RemainsRemoved(name) => {
                tracing::info!(file, plugin = %name, "plugin was removed by hand and stays removed");
            }
            SyncedFile::Refused(error) => tracing::error!(file, error = %error, "plugin refused, the rest is served"),
        }
    }
}
