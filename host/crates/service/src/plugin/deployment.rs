//! Changes of what the deployment decided: local codes and concept groups.
//!
//! **Invariant:** a decision and its line in the audit log are one write, made after a generation could be built with it; the
//! generation is published right after. A server that stops in between publishes it when it starts.

use std::sync::Arc;

use jiff::Timestamp;

use super::packs::{build, told};
use super::{Packs, PluginAdministration};
use crate::audit;
use crate::client::to_the_end;
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, Setting, SettingKey};
use daftar_domain::error::AppError;
use daftar_store::{Operation, Write};
use daftar_vocabulary::Generation;

/// A change of what the deployment decided.
#[derive(Debug, Clone)]
pub(crate) enum Decision {
    /// Decides something, or decides it anew.
    Put(Box<Setting>),
    /// Decides nothing about it any more.
    Remove(SettingKey),
}

impl PluginAdministration {
    /// What the deployment decided.
    #[must_use]
    pub fn deployment(&self) -> Arc<Deployment> {
        self.in_force().deployment.clone()
    }

    /// Changes what the deployment decided and publishes it. `decide` sees what is decided and in force, with no other change
    /// under way; `target` and `note` are for the audit log, which also hears of refusals.
    ///
    /// # Errors
    /// What `decide` refuses, [`AppError::Conflict`] when no generation can be made with it, or when the store fails.
    pub(crate) async fn decide(
        &self,
        ctx: &OpContext,
        target: String,
        note: &'static str,
        decide: impl FnOnce(&Deployment, &Generation) -> Result<Decision, AppError> + Send + 'static,
    ) -> Result<(), AppError> {
        let (this, ctx) = (self.clone(), ctx.clone());
        let change = async move {
            let _changing = this.changing.lock().await;
            let _turn = this.turn(ctx.now).await?;
            let result = this.decide_alone(&ctx, &target, note, decide).await;
            if let Err(error) = &result {
                let mut entry = audit::entry(&ctx, AuditAction::Administer, AuditOutcome::Refused, vec![target]);
                entry.note = Some(format!("{note}: {error}"));
                this.registry.audit.record(&ctx, entry).await?;
            }
            result
        };
        to_the_end(change).await
    }

    async fn decide_alone(
        &self,
        ctx: &OpContext,
        target: &str,
        note: &str,
        decide: impl FnOnce(&Deployment, &Generation) -> Result<Decision, AppError> + Send,
    ) -> Result<(), AppError> {
        let (packs, deployment) = self.decided();
        let decision = decide(&deployment, &self.registry.vocabularies.current())?;
        let mut decided = Deployment::clone(&deployment);
        let operation = match decision {
            Decision::Put(setting) => {
                decided.put(Setting::clone(&setting));
                Operation::PutSetting(*setting)
            }
            Decision::Remove(key) => {
                decided.remove(&key);
                Operation::RemoveSetting(key)
            }
        };
        let table = self.number(&packs, &decided).await?;
        let generation = build(&packs, &decided, table).map_err(|problems| AppError::Conflict(told(&problems)))?;
        let mut entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, vec![target.to_owned()]);
        entry.note = Some(note.to_owned());
        let write =
            Write { at: ctx.now, source: None, operations: vec![operation], audit: vec![entry], rests_on: Vec::new() };
        self.registry.store.commit(write).await?;
        self.in_force().deployment = Arc::new(decided);
        self.publish(packs, generation).await?;
        Ok(())
    }

    /// Brings to disk what is to be kept of a pack that changes.
    pub(super) async fn keep(
        &self,
        now: Timestamp,
        kept: Vec<Setting>,
        deployment: Arc<Deployment>,
    ) -> Result<(), AppError> {
        if kept.is_empty() {
            return Ok(());
        }
        let operations = kept.into_iter().map(Operation::PutSetting).collect();
        self.registry
            .store
            .commit(Write { at: now, source: None, operations, audit: Vec::new(), rests_on: Vec::new() })
            .await?;
        self.in_force().deployment = deployment;
        Ok(())
    }

    /// The packs in force and what the deployment decided.
    pub(super) fn decided(&self) -> (Packs, Arc<Deployment>) {
        let in_force = self.in_force();
        (in_force.packs.clone(), in_force.deployment.clone())
    }
}
