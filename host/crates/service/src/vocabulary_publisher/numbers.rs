//! Numbers for the codes of packs.

use std::sync::Arc;

use super::VocabularyPublisher;
use super::publishable::{Packs, build, in_one_line, unnumbered};
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

impl VocabularyPublisher {
    /// The packs with a generation of all of them, whose codes are numbered durably; or the problems with them, in one line,
    /// and then nothing is numbered: a number is never taken back.
    pub(crate) async fn numbered(
        &self,
        packs: Packs,
        deployment: &Deployment,
    ) -> Result<Result<(Packs, Generation), String>, AppError> {
        let trial = self.trial_table(&packs, deployment).await?;
        let generation = match build(&packs, deployment, trial.table) {
            Ok(generation) => generation,
            Err(problems) => return Ok(Err(in_one_line(&problems))),
        };
        if trial.is_stored {
            return Ok(Ok((packs, generation)));
        }
        let table = self.number(&packs, deployment).await?;
        Ok(build(&packs, deployment, table)
            .map(|generation| (packs, generation))
            .map_err(|problems| in_one_line(&problems)))
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
}

/// A table of codes and versions with their numbers.
pub(crate) fn code_table(codes: &[CodeUri], editions: &[(Namespace, String)]) -> Result<CodeTable, AppError> {
    CodeTable::new(codes, editions).map_err(|error| AppError::Internal(error.into()))
}
