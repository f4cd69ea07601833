//! Numbers for the codes of packs, and the packs that come into force with them.
//!
//! **Invariant:** a number is never taken back, so none is given before a generation could be made.

use std::sync::Arc;

use super::PluginAdministration;
use super::packs::{Packs, build, told, unnumbered};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_vocabulary::{CodeTable, Generation};

/// The numbers of codes, with those that codes without one would get.
pub(super) struct TrialTable {
    pub table: Arc<CodeTable>,
    /// Whether the store has all of them already.
    pub is_stored: bool,
}

impl PluginAdministration {
    /// The packs with a generation of all of them, whose codes are numbered durably; or what is wrong with them, in one line,
    /// and then nothing is numbered: a number is never taken back.
    pub(super) async fn numbered(
        &self,
        packs: Packs,
        deployment: &Deployment,
    ) -> Result<Result<(Packs, Generation), String>, AppError> {
        let trial = self.trial_table(&packs, deployment).await?;
        let generation = match build(&packs, deployment, trial.table) {
            Ok(generation) => generation,
            Err(problems) => return Ok(Err(told(&problems))),
        };
        if trial.is_stored {
            return Ok(Ok((packs, generation)));
        }
        let table = self.number(&packs, deployment).await?;
        Ok(build(&packs, deployment, table).map(|generation| (packs, generation)).map_err(|problems| told(&problems)))
    }

    /// The table as it would be if all codes and versions of these packs were numbered.
    pub(super) async fn trial_table(&self, packs: &Packs, deployment: &Deployment) -> Result<TrialTable, AppError> {
        let mut stored = self.registry.store.code_table().await?;
        let table = code_table(&stored.codes, &stored.editions)?;
        let (codes, editions) = unnumbered(packs, deployment, &table);
        if codes.is_empty() && editions.is_empty() {
            return Ok(TrialTable { table: Arc::new(table), is_stored: true });
        }
        stored.codes.extend(codes);
        stored.editions.extend(editions);
        Ok(TrialTable { table: Arc::new(code_table(&stored.codes, &stored.editions)?), is_stored: false })
    }

    /// Gives numbers to all codes and versions that have none, and returns the whole table.
    pub(super) async fn number(&self, packs: &Packs, deployment: &Deployment) -> Result<Arc<CodeTable>, AppError> {
        let stored = self.registry.store.code_table().await?;
        let table = code_table(&stored.codes, &stored.editions)?;
        let (codes, editions) = unnumbered(packs, deployment, &table);
        if codes.is_empty() && editions.is_empty() {
            return Ok(Arc::new(table));
        }
        self.registry.store.number_codes(codes, editions).await?;
        let stored = self.registry.store.code_table().await?;
        Ok(Arc::new(code_table(&stored.codes, &stored.editions)?))
    }

    /// Puts packs in force that were left out, as far as they go with those in force now. What is in force stays so.
    pub(super) async fn readmit(&self) -> Result<(), AppError> {
        loop {
            let (packs, left_out, deployment) = {
                let in_force = self.in_force();
                (in_force.packs.clone(), in_force.left_out.clone(), in_force.deployment.clone())
            };
            let mut is_changed = false;
            for (name, pack) in left_out {
                let mut with_it = packs.clone();
                with_it.insert(name.clone(), pack);
                match self.numbered(with_it, &deployment).await? {
                    Ok((packs, generation)) => {
                        tracing::info!(plugin = %name, "a pack that did not go with the others does now and is in force");
                        self.forget_reasons(&name);
                        self.publish(packs, generation).await?;
                        is_changed = true;
                        break;
                    }
                    Err(reason) => drop(self.in_force().unloaded.insert(name, reason)),
                }
            }
            if !is_changed {
                return Ok(());
            }
        }
    }

    /// As [`Self::readmit`], after a change that is done: that it fails does not undo the change.
    pub(super) async fn readmit_or_say(&self) {
        if let Err(error) = self.readmit().await {
            tracing::error!(error = %error, "packs that were left out could not be tried again; the next start tries them");
        }
    }
}

pub(super) fn code_table(codes: &[CodeUri], editions: &[(Namespace, String)]) -> Result<CodeTable, AppError> {
    CodeTable::new(codes, editions).map_err(|error| AppError::Internal(error.into()))
}
