//! Plugins that other processes of the register changed, and the list that announces plugins installed here.
//!
//! **Invariant:** a plugin is in the store before the list names it, and in the list before it runs here.
//!
//! **Invariant:** each process checks a plugin against its own policy, regardless of the list, and writes the outcome
//! into the audit log.
//!
//! **Invariant:** if a plugin cannot be applied, the running version with its name stays active, and the plugin is
//! reported as not active.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{COMPILING, PluginAdministration, blocking, load_packs, signed_by};
use crate::vocabulary_publisher::{PackFollower, Reasons};
use daftar_domain::audit::{Actor, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::context::audit_context::AuditContext;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
use daftar_sandbox::{Digest, Downgrade, PluginList, PluginOffer, Prepared, RecordedPlugin};
use daftar_store::shared::{Shared, StoredList};

/// The list of plugins that all processes share, as last read.
#[derive(Debug, Clone, Default)]
pub(super) struct Common {
    stored: StoredList,
    pub(super) plugins: PluginList,
    /// The plugins that could not be applied here, with the reason.
    pub(super) failed: Reasons,
    /// True if it changed plugins here since the last time that packs were read and published.
    must_load: bool,
    /// True while the server starts: engines that must be compiled are applied later.
    pub(super) is_starting: bool,
}

/// Plugins that passed the steps of an install, by the digests of their files.
pub(super) type Ahead = BTreeMap<Digest, Prepared>;

/// This server, as the actor.
fn system(now: Timestamp) -> OpContext {
    OpContext::unbound(Actor::System, "follow".into(), now, AuditContext::default())
}

#[async_trait]
impl PackFollower for PluginAdministration {
    async fn follow(&self, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        self.follow_alone(&**shared, Ahead::new(), now).await
    }
}

impl PluginAdministration {
    /// Applies plugins that other processes installed, replaced or removed: missing files are fetched, checked,
    /// compiled and tested as in an installation, which takes the same time.
    ///
    /// # Errors
    /// If the store fails; active plugins stay active.
    pub async fn apply_plugins(&self, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let ahead = self.prepared_ahead(&**shared).await?;
        let _changing = self.publisher.exclusive().await;
        self.follow_alone(&**shared, ahead, now).await
    }

    /// As [`Self::apply_plugins`], if the list of plugins has changed since it was applied here.
    ///
    /// # Errors
    /// As [`Self::apply_plugins`].
    pub(super) async fn apply_changed_plugins(&self, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let stored = shared.plugin_list().await?;
        let is_applied = stored == self.common().stored;
        if is_applied { Ok(()) } else { self.apply_plugins(now).await }
    }

    /// Number of plugins of other processes that could not be applied here.
    #[must_use]
    pub fn pending_changes(&self) -> usize {
        self.common().failed.len()
    }

    /// True if changed plugins are not active yet, because the store failed in between: [`Self::apply_plugins`]
    /// continues.
    #[must_use]
    pub fn must_load(&self) -> bool {
        self.common().must_load
    }

    /// Marks a plugin that differs from the list that this process has just written: it is applied again like a plugin
    /// of another process.
    pub(super) fn record_divergence(&self, name: &PluginName, reason: String) {
        if self.shared.is_none() {
            return;
        }
        tracing::error!(plugin.name = %name, reason, "a change of a plugin counts for all processes and could not be made here; it is tried again");
        self.publisher.published().unloaded.insert(name.clone(), reason.clone());
        self.common().failed.insert(name.clone(), reason);
    }

    /// Passes missing plugins through the steps of an installation, without blocking changes by requests of this
    /// process.
    async fn prepared_ahead(&self, shared: &dyn Shared) -> Result<Ahead, AppError> {
        let stored = shared.plugin_list().await?;
        let mut ahead = Ahead::new();
        if stored.revision == 0 {
            return Ok(ahead);
        }
        let plugins = PluginList::parse(&stored.bytes).map_err(|error| AppError::Internal(error.into()))?;
        for wanted in self.library.wanted(&plugins) {
            let digest = wanted.1.digest;
            // A plugin may be rejected because it requires another plugin that is later in the list.
            if let Ok(prepared) = self.prepare_wanted(shared, wanted).await? {
                ahead.insert(digest, prepared);
            }
        }
        Ok(ahead)
    }

    async fn follow_alone(&self, shared: &dyn Shared, ahead: Ahead, now: Timestamp) -> Result<(), AppError> {
        self.bring_in_line(shared, ahead, now).await?;
        // Includes changes that an earlier attempt made and did not load.
        if self.must_load() { self.reload().await } else { Ok(()) }
    }

    /// Synchronizes the library with the list of all processes, as far as this server's policy accepts its entries. If
    /// anything changed, packs must be loaded. If no list exists, the plugins installed here become the list.
    pub(super) async fn bring_in_line(
        &self,
        shared: &dyn Shared,
        mut ahead: Ahead,
        now: Timestamp,
    ) -> Result<(), AppError> {
        let known = self.common().clone();
        let stored = shared.plugin_list().await?;
        if stored.revision == 0 {
            return self.put_up(shared).await;
        }
        // Compares the content as well: if the database was restored, another list may have the same revision.
        if stored == known.stored && known.failed.is_empty() {
            return Ok(());
        }
        let plugins = PluginList::parse(&stored.bytes).map_err(|error| AppError::Internal(error.into()))?;
        for name in self.library.unwanted(&plugins) {
            let (library, gone) = (self.library.clone(), name.clone());
            // Runs first: if a later step fails, the active plugins already differ from the library.
            self.common().must_load = true;
            blocking(move || library.remove(&gone)).await?.map_err(|error| AppError::Unavailable(error.into()))?;
            tracing::info!(plugin.name = %name, "a plugin that another process removed is removed here");
        }
        let mut failed = Reasons::new();
        for wanted in self.library.wanted(&plugins) {
            let name = wanted.0.clone();
            if known.is_starting && self.library.is_left_for_later(&wanted.1) {
                self.library.leave_for_later(name.clone());
                failed.insert(name, COMPILING.to_owned());
                continue;
            }
            let prepared = ahead.remove(&wanted.1.digest);
            match self.apply_plugin(shared, wanted, prepared, now).await? {
                Ok(()) => {
                    self.common().must_load = true;
                    tracing::info!(plugin.name = %name, "plugin of another process loaded");
                }
                // The next start applies it.
                Err(_) if self.library.is_stopping() => return Ok(()),
                Err(reason) => {
                    if known.failed.get(&name) != Some(&reason) {
                        tracing::error!(plugin.name = %name, reason, "a plugin that another process installed cannot be applied; the running version stays active");
                        let note = format!("not taken over from the database by this server: {reason}");
                        self.audit(&system(now), AuditOutcome::Refused, name.to_string(), note).await?;
                    }
                    failed.insert(name, reason);
                }
            }
        }
        let (library, list) = (self.library.clone(), plugins.clone());
        let removed = blocking(move || library.apply_removed(&list)).await?;
        removed.map_err(|error| AppError::Unavailable(error.into()))?;
        {
            let mut published = self.publisher.published();
            for name in known.failed.keys() {
                published.unloaded.remove(name);
            }
            published.unloaded.extend(failed.clone());
        }
        let mut common = self.common();
        let Common { must_load, is_starting, .. } = *common;
        *common = Common { stored, plugins, failed, must_load, is_starting };
        Ok(())
    }

    /// Fetches a plugin and passes it through the steps of an installation; returns the reason if one of them rejects
    /// it.
    async fn apply_plugin(
        &self,
        shared: &dyn Shared,
        wanted: (PluginName, RecordedPlugin),
        prepared: Option<Prepared>,
        now: Timestamp,
    ) -> Result<Result<(), String>, AppError> {
        let installed_at = wanted.1.installed_at;
        let prepared = match prepared {
            Some(prepared) => prepared,
            None => match self.prepare_wanted(shared, wanted).await? {
                Ok(prepared) => prepared,
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let older = self.library.newer_than(prepared.manifest()).map_or("", |_| ", which is older than what ran here");
        let note =
            format!("takes it over from the database{older}; {}", signed_by(&prepared, "[plugins] allow_unsigned"));
        // As in an installation, the entry is written before the plugin is on disk.
        self.audit(&system(now), AuditOutcome::Allowed, prepared.reference(), note).await?;
        let library = self.library.clone();
        let committed = blocking(move || library.commit(prepared, installed_at)).await?;
        Ok(committed.map(drop).map_err(|error| error.to_string()))
    }

    /// Fetches a plugin, then checks, compiles and tests it; returns the reason if it is rejected.
    async fn prepare_wanted(
        &self,
        shared: &dyn Shared,
        wanted: (PluginName, RecordedPlugin),
    ) -> Result<Result<Prepared, String>, AppError> {
        let (name, RecordedPlugin { digest, signature, .. }) = wanted;
        let Some(bytes) = shared.plugin_file(*digest.as_bytes()).await? else {
            return Ok(Err(format!("its file {digest} is not in the store")));
        };
        let library = self.library.clone();
        blocking(move || {
            let found = Digest::of(&bytes);
            if found != digest {
                return Err(format!("its file in the store has the digest {found}; {digest} was installed"));
            }
            // An unsigned plugin that another server allowed is subject to that server's policy only. An older version
            // is the choice of an administrator.
            let prepared = library.prepare(PluginOffer { signature, downgrade: Downgrade::Allowed, ..bytes.into() });
            let prepared = prepared.map_err(|error| error.to_string())?;
            let found = &prepared.manifest().name;
            if *found == name { Ok(prepared) } else { Err(format!("its file is of the plugin `{found}`")) }
        })
        .await
    }

    /// Reads every pack again and activates the packs that are compatible.
    pub(super) async fn reload(&self) -> Result<(), AppError> {
        let deployment = Arc::new(Deployment::of(self.registry.store.settings().await?));
        let (host, library, decided) = (self.host.clone(), self.library.clone(), deployment.clone());
        let (packs, mut reasons) = blocking(move || load_packs(&host, &library, &decided)).await?;
        reasons.extend(self.common().failed.clone());
        {
            let mut published = self.publisher.published();
            published.deployment = deployment;
            published.left_out.clear();
            published.unloaded = reasons;
        }
        self.publisher.publish_compatible(packs).await?;
        self.common().must_load = false;
        Ok(())
    }

    /// Stores the plugins installed here, for all processes, unless another process has stored a list already.
    async fn put_up(&self, shared: &dyn Shared) -> Result<(), AppError> {
        let plugins = self.library.for_all();
        for digest in plugins.digests() {
            let library = self.library.clone();
            match blocking(move || library.file_of(digest)).await? {
                Ok(bytes) => shared.put_plugin_file(*digest.as_bytes(), bytes).await?,
                Err(reason) => return Err(AppError::internal(format!("the file of an installed plugin: {reason}"))),
            }
        }
        self.replace_list(shared, 0, plugins).await
    }

    /// Announces to all processes a plugin that is about to be installed here.
    pub(super) async fn log_installed(&self, prepared: &Prepared, now: Timestamp) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        shared.put_plugin_file(*prepared.digest().as_bytes(), prepared.bytes().to_vec()).await?;
        let Common { stored, plugins, .. } = self.common().clone();
        self.replace_list(&**shared, stored.revision, plugins.with(prepared, now)).await
    }

    /// Announces to all processes that a plugin is about to be removed here.
    pub(super) async fn log_removed(&self, name: &PluginName) -> Result<(), AppError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let Common { stored, plugins, .. } = self.common().clone();
        self.replace_list(&**shared, stored.revision, plugins.without(name)).await
    }

    async fn replace_list(&self, shared: &dyn Shared, seen: u64, plugins: PluginList) -> Result<(), AppError> {
        let bytes = plugins.to_bytes().map_err(|error| AppError::Internal(error.into()))?;
        let named: Vec<[u8; 32]> = plugins.digests().iter().map(|digest| *digest.as_bytes()).collect();
        let revision = shared.replace_plugin_list(seen, &bytes, &named).await?;
        let mut common = self.common();
        common.stored = StoredList { revision, bytes };
        common.plugins = plugins;
        Ok(())
    }
}
