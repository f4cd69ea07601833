//! Installing a plugin: the steps behind those of the sandbox.
//!
//! **Invariant:** a plugin is installed only after everything it brings was checked and a generation could be made with it;
//! until then what ran before runs on.
//! **Invariant:** who vouches for it is in the audit log before it is on disk.

use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::packs::with;
use super::{PluginAdministration, blocking, kept};
use crate::client::to_the_end;
use daftar_domain::audit::AuditOutcome;
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_sandbox::{InstallError, InstallStep, InstalledPlugin, PluginOffer, Prepared, Signer, UnsignedPlugins};

/// Why a prepared plugin was not installed; with it, where another try may end otherwise.
pub(super) type NotInstalled = (InstallError, Option<Box<Prepared>>);

impl PluginAdministration {
    /// Installs a plugin, or replaces the one of its name. Calls in flight end on the old one.
    ///
    /// # Errors
    /// [`AppError::Plugin`] with the step that refused it and why; what was installed is as before.
    pub async fn install(&self, ctx: &OpContext, offer: impl Into<PluginOffer>) -> Result<InstalledPlugin, AppError> {
        let (this, ctx, offer) = (self.clone(), ctx.clone(), offer.into());
        let span = tracing::info_span!("plugin.install", otel.status_code = Empty);
        let installing = async move {
            let installed = this.install_audited(&ctx, offer).await;
            if installed.is_err() {
                Span::current().record("otel.status_code", "ERROR");
            }
            installed
        };
        to_the_end(installing.instrument(span)).await
    }

    async fn install_audited(&self, ctx: &OpContext, offer: PluginOffer) -> Result<InstalledPlugin, AppError> {
        let _changing = self.publisher.exclusive().await;
        let _lock = self.publisher.cluster_lock(ctx.now).await?;
        let allowed_by = match offer.unsigned {
            UnsignedPlugins::Allowed => "--allow-unsigned",
            UnsignedPlugins::Refused => "[plugins] allow_unsigned",
        };
        match self.install_alone(ctx, offer, allowed_by).await? {
            Ok(plugin) => Ok(plugin),
            Err(error) => {
                let target = error.plugin.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
                self.audit(ctx, AuditOutcome::Refused, target, error.to_string()).await?;
                Err(refusal(error))
            }
        }
    }

    /// Writes down who vouches for what is installed next.
    async fn audit_install(
        &self,
        ctx: &OpContext,
        prepared: &Prepared,
        unsigned_allowed_by: &str,
    ) -> Result<(), AppError> {
        let note = format!("installs it; {}", vouched_for(prepared, unsigned_allowed_by));
        self.audit(ctx, AuditOutcome::Allowed, prepared.reference(), note).await
    }

    async fn install_alone(
        &self,
        ctx: &OpContext,
        offer: PluginOffer,
        unsigned_allowed_by: &str,
    ) -> Result<Result<InstalledPlugin, InstallError>, AppError> {
        let library = self.library.clone();
        let prepared = match blocking(move || library.prepare(offer)).await? {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        let installed = self.install_prepared(ctx, prepared, unsigned_allowed_by).await?.map_err(|(error, _)| error);
        if installed.is_ok() {
            self.publisher.retry_excluded_packs_or_log().await;
        }
        Ok(installed)
    }

    /// Takes a prepared plugin through the steps that are left: a generation is tried with it, its codes are numbered, then
    /// disk, packs and generation change.
    pub(super) async fn install_prepared(
        &self,
        ctx: &OpContext,
        prepared: Prepared,
        unsigned_allowed_by: &str,
    ) -> Result<Result<InstalledPlugin, NotInstalled>, AppError> {
        let now = ctx.now;
        let (packs, deployment) = self.publisher.decided();
        let changed = match with(&packs, &deployment, &prepared) {
            Ok(None) => None,
            Ok(Some((packs, mut kept))) => {
                let dropped = self.dropped(&prepared.manifest().name, &packs);
                if let Some(reason) = self.why_still_needed(&prepared.manifest().name, &dropped, &deployment).await? {
                    return Ok(Err((prepared.refuse(reason), Some(Box::new(prepared)))));
                }
                let (generation, held) = (self.registry.vocabularies.current(), self.held_codes(&dropped).await?);
                kept.extend(kept::of_removed(&dropped, &deployment, &generation, &held));
                let deployment = kept::joined(&deployment, &kept);
                match self.publisher.numbered(packs, &deployment).await? {
                    Ok(changed) => {
                        // Before the plugin: what it no longer has must be there when the server stops in between.
                        self.publisher.store_settings(now, kept, deployment).await?;
                        Some(changed)
                    }
                    Err(problems) => return Ok(Err((prepared.refuse(problems), Some(Box::new(prepared))))),
                }
            }
            Err(error) => return Ok(Err((error, Some(Box::new(prepared))))),
        };
        // Before it is on disk: no plugin runs of which the audit log knows nothing. That the disk failed is a line of its own.
        self.audit_install(ctx, &prepared, unsigned_allowed_by).await?;
        self.tell_installed(&prepared, now).await?;
        let (library, name) = (self.library.clone(), prepared.manifest().name.clone());
        let installed = match blocking(move || library.commit(prepared, now)).await? {
            Ok(installed) => installed,
            Err(error) => {
                // The others have heard of it: this process must not be the one that never has it.
                self.note_out_of_line(&name, error.to_string());
                return Ok(Err((error, None)));
            }
        };
        self.publisher.forget_reasons(&name);
        self.common().note_in_line(&name);
        if let Some((packs, generation)) = changed {
            self.publisher.publish(packs, generation).await?;
        }
        Ok(Ok(installed))
    }
}

/// Who vouches for a plugin, for the audit log.
pub(super) fn vouched_for(prepared: &Prepared, unsigned_allowed_by: &str) -> String {
    match prepared.signer() {
        Signer::Key(key) => format!("signed by key {key}"),
        Signer::Pinned => "this program was built with it".to_owned(),
        Signer::Unsigned | Signer::Unrecorded => format!("nobody vouches for it, allowed by {unsigned_allowed_by}"),
    }
}

pub(super) fn refusal(error: InstallError) -> AppError {
    match error.step {
        // The disk's failing, not the plugin's.
        InstallStep::Store => AppError::Unavailable(error.into()),
        InstallStep::Unreadable
        | InstallStep::NotAComponent
        | InstallStep::Manifest
        | InstallStep::Signature
        | InstallStep::Downgrade
        | InstallStep::InterfaceVersion
        | InstallStep::Imports
        | InstallStep::TooLarge
        | InstallStep::Compile
        | InstallStep::CompileBudget
        | InstallStep::Smoke
        | InstallStep::Content => AppError::Plugin(error.to_string()),
    }
}
