//! Removing a plugin, and what stands against it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::report::Carriers;
use super::{PluginAdministration, blocking, kept};
use crate::client::to_the_end;
use crate::vocabulary_publisher::{Publishable, publishable};
use daftar_domain::audit::AuditOutcome;
use daftar_domain::code::{CodeNumber, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::local_code::LocalCode;
use daftar_domain::manifest::{PluginKind, PluginName};
use daftar_domain::vocabulary::{ID_TYPE_NAMESPACE, Selection};
use daftar_sandbox::LibraryError;
use daftar_vocabulary::{CheckedPack, Generation, Vocabulary};

impl PluginAdministration {
    /// Removes a plugin; it stays removed when the server starts again.
    ///
    /// # Errors
    /// [`AppError::UnknownPlugin`]; [`AppError::Conflict`] when `is_forced` is false and records use its codes, or it is not
    /// loaded and they cannot be counted, or local codes, concept groups or another pack need it.
    pub async fn remove(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let (this, ctx, name) = (self.clone(), ctx.clone(), name.clone());
        to_the_end(async move { this.remove_audited(&ctx, &name, is_forced).await }).await
    }

    async fn remove_audited(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let _changing = self.publisher.exclusive().await;
        let _lock = self.publisher.cluster_lock(ctx.now).await?;
        match self.remove_alone(ctx, name, is_forced).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.audit(ctx, AuditOutcome::Refused, name.to_string(), error.to_string()).await?;
                Err(error)
            }
        }
    }

    async fn remove_alone(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let kind = self.library.kind_of(name).ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?;
        let note = match self.uses_of(name, kind).await? {
            Some(uses) if uses > 0 && !is_forced => {
                let message = format!(
                    "{uses} records use codes of `{name}`; they stay as they are when it is removed by force, and show codes without displays"
                );
                return Err(AppError::Conflict(ErrorCode::PluginInUse, message));
            }
            Some(uses) => format!("removes it; {uses} records use its codes"),
            None if !is_forced => {
                let message = format!("`{name}` is not loaded, so its uses cannot be counted; remove it by force");
                return Err(AppError::Conflict(ErrorCode::PluginInUse, message));
            }
            None => "removes it; it was not loaded, so its uses were not counted".to_owned(),
        };
        let (before, deployment) = self.publisher.decided();
        let mut packs = before.clone();
        let removed = packs.remove(name);
        if let Some((_, pack)) = removed.as_ref().filter(|_| !is_forced) {
            refuse_with_local_codes(name, pack, &deployment)?;
            refuse_with_groups(name, pack, &deployment)?;
        }
        let changed = match &removed {
            None => None,
            Some(_) => Some(publishable(packs, &deployment, self.registry.vocabularies.current().table())?),
        };
        if let Some(changed) = changed.as_ref().filter(|changed| !changed.reasons.is_empty() && !is_forced) {
            let reasons: Vec<&str> = changed.reasons.values().map(String::as_str).collect();
            let message = format!("other packs need `{name}` and go out of force when it is removed by force: ");
            return Err(AppError::Conflict(ErrorCode::PluginInUse, message + &reasons.join("; ")));
        }
        let with_it = self.registry.vocabularies.current();
        let mut left_behind = None;
        if let Some(Publishable { packs, generation, left_out, reasons }) = changed {
            // From here on no request begins with its codes, so that what is counted next stays true.
            self.publisher.publish(packs, generation).await?;
            left_behind = Some((left_out, reasons));
        }
        let pack = removed.as_ref().map(|(_, pack)| &**pack);
        if let Err(error) = self.take_away(ctx, (name, is_forced), pack, (&with_it, &deployment), note).await {
            if left_behind.is_some() {
                let back =
                    publishable(before, &self.publisher.deployment(), self.registry.vocabularies.current().table())?;
                self.publisher.publish(back.packs, back.generation).await?;
            }
            return Err(error);
        }
        self.publisher.forget_reasons(name);
        if let Some((left_out, reasons)) = left_behind {
            let mut published = self.publisher.published();
            published.unloaded.extend(reasons);
            published.left_out.extend(left_out);
        }
        self.publisher.retry_excluded_packs_or_log().await;
        Ok(())
    }

    /// Takes a plugin whose codes nobody is given any more off the disk, unless a record took one of them up while its uses were
    /// counted.
    async fn take_away(
        &self,
        ctx: &OpContext,
        (name, is_forced): (&PluginName, bool),
        pack: Option<&CheckedPack>,
        (generation, deployment): (&Generation, &Deployment),
        note: String,
    ) -> Result<(), AppError> {
        if let Some(pack) = pack {
            let uses = self.records_using(pack.vocabularies()).await?;
            if uses > 0 && !is_forced {
                let message = format!("{uses} records took up codes of `{name}` while it was being removed; it stays");
                return Err(AppError::Conflict(ErrorCode::PluginInUse, message));
            }
            let held = self.held_codes(pack.vocabularies()).await?;
            let kept = kept::of_removed(pack.vocabularies(), deployment, generation, &held);
            let deployment = kept::joined(deployment, &kept);
            self.publisher.store_settings(ctx.now, kept, deployment).await?;
        }
        // Before it is gone, as with an install.
        self.audit(ctx, AuditOutcome::Allowed, name.to_string(), note).await?;
        self.tell_removed(name).await?;
        let (library, removed) = (self.library.clone(), name.clone());
        blocking(move || library.remove(&removed)).await?.map_err(|error| match error {
            LibraryError::NotInstalled(name) => AppError::UnknownPlugin(name.to_string()),
            LibraryError::Folder(_) | LibraryError::InUse(_) => {
                // The others have heard of it and remove theirs.
                self.note_out_of_line(name, error.to_string());
                AppError::Unavailable(error.into())
            }
        })
    }

    /// How many uses records make of the codes of a plugin; none where it is a pack that is not loaded.
    pub(super) async fn uses_of(&self, name: &PluginName, kind: PluginKind) -> Result<Option<u64>, AppError> {
        if kind != PluginKind::VocabularyPack {
            return Ok(Some(0));
        }
        let Some((_, pack)) = self.publisher.published().packs.get(name).cloned() else { return Ok(None) };
        self.records_using(pack.vocabularies()).await.map(Some)
    }

    /// How many records hold each code of vocabularies that any holds.
    pub(super) async fn held_codes(
        &self,
        vocabularies: &[Arc<Vocabulary>],
    ) -> Result<BTreeMap<CodeNumber, u64>, AppError> {
        let generation = self.registry.vocabularies.current();
        let numbers = numbers_of(&generation, vocabularies.iter().map(|vocabulary| vocabulary.namespace()));
        Ok(self.registry.index.records_by_code(&numbers).await?)
    }

    /// How many uses records make of the codes of vocabularies.
    pub(super) async fn records_using(&self, vocabularies: &[Arc<Vocabulary>]) -> Result<u64, AppError> {
        let generation = self.registry.vocabularies.current();
        let numbers = numbers_of(&generation, vocabularies.iter().map(|vocabulary| vocabulary.namespace()));
        let held = self.registry.index.records_using(&numbers).await?;
        // ID types stand in no coded field: records use them as the systems of their identifiers.
        let uris = numbers.iter().filter_map(|number| generation.table().uri(*number));
        let id_types = uris.filter(|uri| uri.namespace.as_str() == ID_TYPE_NAMESPACE).map(|uri| uri.to_string());
        let carriers = Carriers::find(&self.registry, &id_types.collect()).await?;
        Ok(held.saturating_add(carriers.total()))
    }
}

/// Every code that vocabularies ever had here, the deployment's own among them.
pub(super) fn numbers_of<'a>(
    generation: &Generation,
    namespaces: impl Iterator<Item = &'a Namespace>,
) -> Vec<CodeNumber> {
    namespaces.flat_map(|namespace| generation.table().numbers_in(namespace)).copied().collect()
}

/// Refuses to take away a vocabulary that holds codes of the deployment's own.
fn refuse_with_local_codes(name: &PluginName, pack: &CheckedPack, deployment: &Deployment) -> Result<(), AppError> {
    let count = active_local_codes(pack.vocabularies(), deployment);
    if count == 0 {
        return Ok(());
    }
    let message = format!(
        "{count} active local codes belong to vocabularies of `{name}`; they go out of force when it is removed by force, and come back with it"
    );
    Err(AppError::Conflict(ErrorCode::PluginInUse, message))
}

/// Refuses to take away a vocabulary that concept groups of the deployment select codes of.
fn refuse_with_groups(name: &PluginName, pack: &CheckedPack, deployment: &Deployment) -> Result<(), AppError> {
    let is_of_pack = |selection: &Selection| {
        let (Selection::Code(uri) | Selection::DescendantsOf(uri)) = selection;
        pack.vocabularies().iter().any(|one| *one.namespace() == uri.namespace)
    };
    let groups = deployment.concept_groups();
    let selecting = groups.filter(|group| group.includes.iter().chain(&group.excludes).any(is_of_pack));
    let names: Vec<String> = selecting.map(|group| format!("`{}`", group.name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "concept groups of the deployment select codes of `{name}`: {}; set them anew without these codes or reset them first; when it is removed by force, rules that ask for them are undetermined",
        names.join(", ")
    );
    Err(AppError::Conflict(ErrorCode::PluginInUse, message))
}

/// How many of the deployment's own codes that are in use belong to vocabularies.
pub(super) fn active_local_codes(vocabularies: &[Arc<Vocabulary>], deployment: &Deployment) -> usize {
    let is_of_them = |code: &&LocalCode| vocabularies.iter().any(|one| *one.namespace() == code.uri.namespace);
    deployment.local_codes().filter(|code| code.is_active()).filter(is_of_them).count()
}
