//! Vocabularies that would go with a new version of their plugin, which does not bring them any more.
//!
//! **Invariant:** an upgrade takes no vocabulary away that a removal without force would not take: what records or local codes
//! use stays in force until the administrator removes the plugin by force.

use std::sync::Arc;

use super::PluginAdministration;
use super::remove::active_local_codes;
use crate::vocabulary_publisher::Packs;
use daftar_domain::deployment::Deployment;
use daftar_domain::error::AppError;
use daftar_domain::manifest::PluginName;
use daftar_vocabulary::Vocabulary;

impl PluginAdministration {
    /// The vocabularies of an installed plugin that none of the packs would bring any more.
    pub(super) fn dropped(&self, name: &PluginName, after: &Packs) -> Vec<Arc<Vocabulary>> {
        let published = self.publisher.published();
        let present = published.packs.get(name).or_else(|| published.left_out.get(name));
        let older = present.into_iter().flat_map(|(_, pack)| pack.vocabularies());
        let is_brought = |older: &Vocabulary| {
            let mut brought = after.values().flat_map(|(_, pack)| pack.vocabularies());
            brought.any(|newer| newer.namespace() == older.namespace())
        };
        older.filter(|older| !is_brought(older)).cloned().collect()
    }

    /// Why vocabularies may not go with a new version of their plugin; none where nothing uses them.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn why_still_needed(
        &self,
        name: &PluginName,
        dropped: &[Arc<Vocabulary>],
        deployment: &Deployment,
    ) -> Result<Option<String>, AppError> {
        let mut needed = Vec::new();
        for vocabulary in dropped {
            let namespace = vocabulary.namespace();
            let records = self.records_using(std::slice::from_ref(vocabulary)).await?;
            let local_codes = active_local_codes(std::slice::from_ref(vocabulary), deployment);
            if records > 0 || local_codes > 0 {
                needed.push(format!(
                    "`{namespace}` ({records} records use its codes, {local_codes} active local codes belong to it)"
                ));
            }
        }
        if needed.is_empty() {
            return Ok(None);
        }
        let needed = needed.join(" and ");
        Ok(Some(format!(
            "it no longer brings {needed}; where that is meant, remove the plugin by force first: `daftar plugin remove {name} --force`"
        )))
    }
}
