//! What installing a plugin would mean for the records there are.
//!
//! **Invariant:** a report changes nothing: no number is given, nothing is stored, nothing is published.

use std::sync::Arc;

use super::packs::{Packs, build, checked_pack, told, unnumbered, with};
use super::{PluginAdministration, blocking, code_table, refusal};
use crate::columns::Snapshot;
use crate::domain::code::CodeNumber;
use crate::domain::deployment::Deployment;
use crate::domain::vocabulary::ConceptStatus;
use crate::error::AppError;
use crate::plugin::Prepared;
use crate::vocab::{CodeTable, ConceptRef, Generation, Vocabulary};

/// The most codes that one report names for one vocabulary; the rest is counted.
pub const CODES_TOLD_MAX: usize = 1_000;

/// What installing a plugin would mean.
#[derive(Debug)]
pub struct UpgradeReport {
    /// The plugin.
    pub plugin: String,
    /// The version that is installed.
    pub from: Option<String>,
    /// The version that would be.
    pub to: String,
    /// Why it would be refused.
    pub refusal: Option<String>,
    /// What would become of each vocabulary that it brings or would take away.
    pub vocabularies: Vec<VocabularyChange>,
}

/// What would become of a vocabulary.
#[derive(Debug)]
pub struct VocabularyChange {
    /// The vocabulary.
    pub namespace: String,
    /// Its version in force.
    pub from: Option<String>,
    /// Its version then; none when no pack would bring it.
    pub to: Option<String>,
    /// How many codes would be new.
    pub added: usize,
    /// How many codes would be gone: kept for the records that hold them, and refused in new ones.
    pub gone: usize,
    /// How many codes would no longer be in use, or be headings.
    pub retired: usize,
    /// How many codes would be called something else in the default language.
    pub relabelled: usize,
    /// How many records hold at least one code that would be gone or no longer in use.
    pub records: u64,
    /// The codes that records hold and that would change, the most used first.
    pub touched: Vec<TouchedCode>,
    /// How many such codes are not named.
    pub untold: usize,
    /// Local codes that the new version brings itself.
    pub local_codes: Vec<String>,
}

/// A code that records hold and that would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedCode {
    /// `<namespace>#<code>`
    pub uri: String,
    /// What it is called now.
    pub display: String,
    /// What would become of it.
    pub change: CodeChange,
    /// How many records hold it.
    pub records: u64,
    /// The code to use in its place, and what that is called.
    pub successor: Option<(String, String)>,
}

/// What would become of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeChange {
    /// The new version does not have it.
    Gone,
    /// The new version no longer lets new records hold it.
    Retired,
    /// The new version calls it something else.
    Relabelled {
        /// What it is called then.
        display: String,
    },
}

impl PluginAdministration {
    /// Says what installing a plugin would mean, without installing it.
    ///
    /// # Errors
    /// [`AppError::Plugin`] when the file is no plugin that can be read and tried out.
    pub async fn report(&self, bytes: Vec<u8>) -> Result<UpgradeReport, AppError> {
        let library = self.library.clone();
        let prepared = blocking(move || library.prepare(bytes)).await?.map_err(refusal)?;
        let (packs, deployment) = self.decided();
        let manifest = prepared.manifest();
        let stored = self.registry.store.code_table().await?;
        let table = code_table(&stored.codes, &stored.editions)?;
        let refusal = match with(&packs, &deployment, &prepared) {
            Ok(Some((changed, kept))) => {
                let deployment = super::kept::joined(&deployment, &kept);
                would_be_refused(&changed, &deployment, &table)?
            }
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        };
        Ok(UpgradeReport {
            plugin: manifest.name.to_string(),
            from: self.library.current().get(&manifest.name).map(|present| present.manifest().version.to_string()),
            to: manifest.version.to_string(),
            refusal,
            vocabularies: self.changes(&packs, &deployment, &prepared),
        })
    }

    fn changes(&self, packs: &Packs, deployment: &Deployment, prepared: &Prepared) -> Vec<VocabularyChange> {
        let generation = self.registry.vocabularies.current();
        let snapshot = self.registry.columns.snapshot();
        let new = prepared.contents().and_then(|contents| checked_pack(contents.clone(), prepared.manifest()));
        let newer: Vec<Arc<Vocabulary>> = new.iter().flat_map(|pack| pack.vocabularies()).cloned().collect();
        let own = packs.get(&prepared.manifest().name);
        let gone = own.iter().flat_map(|(_, pack)| pack.vocabularies());
        let gone = gone.filter(|older| newer.iter().all(|newer| newer.namespace() != older.namespace()));
        let change = |older, newer| change(older, newer, deployment, &generation, &snapshot);
        let mut changes: Vec<VocabularyChange> = newer
            .iter()
            .filter_map(|newer| change(generation.vocabulary(newer.namespace()).map(Arc::as_ref), Some(newer)))
            .collect();
        changes.extend(gone.filter_map(|older| change(Some(older), None)));
        changes
    }
}

/// Why no generation could be made, with numbers as they would be given.
fn would_be_refused(packs: &Packs, deployment: &Deployment, table: &CodeTable) -> Result<Option<String>, AppError> {
    let (new_codes, new_editions) = unnumbered(packs, deployment, table);
    let numbered = (0..).map_while(|number| table.uri(CodeNumber(number)));
    let codes: Vec<_> = numbered.chain(new_codes).collect();
    let editions = (0..).map_while(|number| table.edition(crate::domain::code::EditionNumber(number)));
    let editions = editions.map(|(namespace, version)| (namespace.clone(), version.to_owned()));
    let editions: Vec<_> = editions.chain(new_editions).collect();
    let table = Arc::new(code_table(&codes, &editions)?);
    Ok(build(packs, deployment, table).err().map(|problems| told(&problems)))
}

fn change(
    older: Option<&Vocabulary>,
    newer: Option<&Arc<Vocabulary>>,
    deployment: &Deployment,
    generation: &Generation,
    snapshot: &Snapshot,
) -> Option<VocabularyChange> {
    let namespace = older.map(Vocabulary::namespace).or_else(|| newer.map(|newer| newer.namespace()))?;
    let mut report = VocabularyChange {
        namespace: namespace.to_string(),
        from: older.map(|older| older.description().version.clone()),
        to: newer.map(|newer| newer.description().version.clone()),
        added: 0,
        gone: 0,
        retired: 0,
        relabelled: 0,
        records: 0,
        touched: Vec::new(),
        untold: 0,
        local_codes: Vec::new(),
    };
    let new_codes = newer.iter().flat_map(|newer| newer.concepts());
    report.added = new_codes.filter(|concept| older.is_none_or(|older| older.find(concept.code()).is_none())).count();
    let brings = |code: &str| newer.is_some_and(|newer| newer.find(code).is_some());
    let local = deployment.local_codes().filter(|local| local.uri.namespace == *namespace && local.is_active());
    report.local_codes =
        local.filter(|local| brings(local.uri.code.as_str())).map(|local| local.uri.to_string()).collect();
    let mut lost = Vec::new();
    for concept in older.iter().flat_map(|older| older.concepts()).filter(|concept| !concept.is_local()) {
        let counterpart = newer.and_then(|newer| newer.find(concept.code()));
        let Some(becomes) = becomes(concept, counterpart) else { continue };
        match &becomes {
            CodeChange::Gone => report.gone += 1,
            CodeChange::Retired => report.retired += 1,
            CodeChange::Relabelled { .. } => report.relabelled += 1,
        }
        let number = concept.uri().ok().and_then(|uri| generation.number_of(&uri));
        let Some(number) = number else { continue };
        let records = snapshot.records_using(&[number]);
        if records == 0 {
            continue;
        }
        if !matches!(becomes, CodeChange::Relabelled { .. }) {
            lost.push(number);
        }
        let successor = counterpart.and_then(ConceptRef::active_successor);
        report.touched.push(TouchedCode {
            uri: concept.uri_text(),
            display: concept.default_label().to_owned(),
            change: becomes,
            records,
            successor: successor.map(|successor| (successor.uri_text(), successor.default_label().to_owned())),
        });
    }
    report.records = snapshot.records_using(&lost);
    report.touched.sort_by(|one, other| other.records.cmp(&one.records).then_with(|| one.uri.cmp(&other.uri)));
    report.untold = report.touched.len().saturating_sub(CODES_TOLD_MAX);
    report.touched.truncate(CODES_TOLD_MAX);
    Some(report)
}

/// What becomes of a code; none where it stays as it is.
fn becomes(concept: ConceptRef<'_>, counterpart: Option<ConceptRef<'_>>) -> Option<CodeChange> {
    let Some(counterpart) = counterpart else {
        // What was kept of an earlier version is gone already.
        return concept.property("last_version").is_none().then_some(CodeChange::Gone);
    };
    if concept.is_usable() && !counterpart.is_usable() {
        return Some(CodeChange::Retired);
    }
    let is_same = concept.default_label() == counterpart.default_label();
    let is_active = counterpart.status() == ConceptStatus::Active;
    (!is_same && is_active).then(|| CodeChange::Relabelled { display: counterpart.default_label().to_owned() })
}
