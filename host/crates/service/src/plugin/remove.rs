//! Removal of a plugin, the conditions that prevent it, and the codes of a vocabulary retained when its pack is removed
//! or replaced.
//!
//! **Invariant:** an upgrade removes no vocabulary that a removal without force would not remove: vocabularies that
//! records or local codes use stay active until the administrator removes the plugin by force.
//!
//! **Invariant:** the set of retained codes only grows, and is on disk before the pack changes: whenever the server
//! stops, every code that a record may contain has its labels in the installed version or among the retained codes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::report::{self, Carriers};
use super::{PluginAdministration, blocking};
use crate::client::spawn_uncancellable;
use crate::vocabulary_publisher::{Packs, Publishable, publishable};
use daftar_domain::audit::AuditOutcome;
use daftar_domain::code::{Code, CodeNumber, Namespace};
use daftar_domain::context::OpContext;
use daftar_domain::deployment::{Deployment, EarlierVersion, RetainedConcepts, Setting, SettingKey};
use daftar_domain::error::AppError;
use daftar_domain::error_code::ErrorCode;
use daftar_domain::local_code::LocalCode;
use daftar_domain::manifest::{PluginKind, PluginName};
use daftar_domain::program::ENGINE;
use daftar_domain::vocabulary::{Concept, ID_TYPE_NAMESPACE, Selection};
use daftar_sandbox::LibraryError;
use daftar_vocabulary::{CheckedPack, ConceptRef, Generation, Vocabulary};

/// Number of records that the rejection of a removal names.
const NAMED_MAX: usize = 3;

impl PluginAdministration {
    /// Removes a plugin; it stays removed when the server starts again.
    ///
    /// # Errors
    /// [`AppError::UnknownPlugin`]; [`AppError::Conflict`] when `is_forced` is false and records use its codes, or it
    /// is not loaded and they cannot be counted, or local codes, concept groups or another pack need it.
    pub async fn remove(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let (this, ctx, name) = (self.clone(), ctx.clone(), name.clone());
        let removing = async move {
            let _requested = this.requested_change.lock().await;
            let _changing = this.publisher.exclusive().await;
            let _lock = this.publisher.cluster_lock(ctx.now).await?;
            let removed = this.remove_alone(&ctx, &name, is_forced).await;
            if let Err(error) = &removed {
                this.audit(&ctx, AuditOutcome::Refused, name.to_string(), error.to_string()).await?;
            }
            match removed {
                // The audit log has the names of the records as targets, not in its notes.
                Err(AppError::Conflict(ErrorCode::PluginInUse, message)) => {
                    let users = this.some_users(&ctx, &name).await?;
                    let message = format!("{message}{users}; `daftar plugin remove {name} --force` removes it");
                    Err(AppError::Conflict(ErrorCode::PluginInUse, message))
                }
                removed => removed,
            }
        };
        spawn_uncancellable(removing).await
    }

    /// Names some of the records that use codes of a plugin; empty if there are none. The audit log records the naming.
    async fn some_users(&self, ctx: &OpContext, name: &PluginName) -> Result<String, AppError> {
        let generation = self.registry.vocabularies.current();
        let numbers = {
            let published = self.publisher.published();
            let vocabularies = published.packs.get(name).into_iter().flat_map(|(_, pack)| pack.vocabularies());
            numbers_of(&generation, vocabularies.map(|vocabulary| vocabulary.namespace()))
        };
        let carriers = Carriers::find(&self.registry, &id_types(&generation, &numbers)).await?;
        let used = (&numbers.into_iter().collect(), &carriers);
        let named = report::records(ctx, &self.registry, &generation, used, NAMED_MAX).await?;
        let named: Vec<String> = named.into_iter().map(|record| format!("`{}`", record.reference)).collect();
        Ok(if named.is_empty() { String::new() } else { format!("; among them {}", named.join(", ")) })
    }

    async fn remove_alone(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let kind = self.library.recorded(name).ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?.kind;
        let note = match self.uses_of(name, kind).await? {
            Some(uses) if uses > 0 && !is_forced => {
                let effect = if kind == PluginKind::EligibilityEngine {
                    format!("programs name the engine `{name}`, and their rules cannot be evaluated without it")
                } else {
                    format!("records use codes of `{name}`, which stay in them without displays if it is removed")
                };
                return Err(AppError::Conflict(ErrorCode::PluginInUse, format!("{uses} {effect}")));
            }
            Some(uses) => format!("removes it; {uses} records use it"),
            None if !is_forced => {
                let message = format!("`{name}` is not loaded, so its uses cannot be counted");
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
            let message = format!("other packs need `{name}` and become inactive if it is removed: ");
            return Err(AppError::Conflict(ErrorCode::PluginInUse, message + &reasons.join("; ")));
        }
        let with_it = self.registry.vocabularies.current();
        let mut left_behind = None;
        if let Some(Publishable { packs, generation, left_out, reasons }) = changed {
            // From here on, no request begins with its codes, so that the count below stays correct.
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

    /// Deletes a plugin whose codes are no longer assigned, unless a record adopted one of them while its uses were
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
                let message = format!("{uses} records adopted codes of `{name}` while it was being removed; it stays");
                return Err(AppError::Conflict(ErrorCode::PluginInUse, message));
            }
            let held = self.held_codes(pack.vocabularies()).await?;
            let retained = of_removed(pack.vocabularies(), deployment, generation, &held);
            let deployment = joined(deployment, &retained);
            self.publisher.store_settings(ctx.now, retained, deployment).await?;
        }
        // Before the deletion, as with an install.
        self.audit(ctx, AuditOutcome::Allowed, name.to_string(), note).await?;
        self.log_removed(name).await?;
        let (library, removed) = (self.library.clone(), name.clone());
        blocking(move || library.remove(&removed)).await?.map_err(|error| match error {
            LibraryError::NotInstalled(name) => AppError::UnknownPlugin(name.to_string()),
            LibraryError::Folder(_) | LibraryError::InUse(_) => {
                // The other processes have been notified and remove their copies.
                self.record_divergence(name, error.to_string());
                AppError::Unavailable(error.into())
            }
        })
    }

    /// Number of records that use the codes of a pack, none if it is not loaded; or of programs that name an engine.
    pub(super) async fn uses_of(&self, name: &PluginName, kind: PluginKind) -> Result<Option<u64>, AppError> {
        if kind == PluginKind::EligibilityEngine {
            let programs = self.registry.index.current().await.programs().await?;
            let naming = programs.iter().filter(|program| program.details.get(ENGINE) == Some(name.as_str()));
            return Ok(Some(naming.count() as u64));
        }
        if kind != PluginKind::VocabularyPack {
            return Ok(Some(0));
        }
        let Some((_, pack)) = self.publisher.published().packs.get(name).cloned() else { return Ok(None) };
        self.records_using(pack.vocabularies()).await.map(Some)
    }

    /// Number of records per code of the vocabularies, for codes in records.
    pub(super) async fn held_codes(
        &self,
        vocabularies: &[Arc<Vocabulary>],
    ) -> Result<BTreeMap<CodeNumber, u64>, AppError> {
        let generation = self.registry.vocabularies.current();
        let numbers = numbers_of(&generation, vocabularies.iter().map(|vocabulary| vocabulary.namespace()));
        Ok(self.registry.index.current().await.records_by_code(&numbers).await?)
    }

    /// Number of uses of the codes of vocabularies in records.
    pub(super) async fn records_using(&self, vocabularies: &[Arc<Vocabulary>]) -> Result<u64, AppError> {
        let generation = self.registry.vocabularies.current();
        let numbers = numbers_of(&generation, vocabularies.iter().map(|vocabulary| vocabulary.namespace()));
        let held = self.registry.index.current().await.records_using(&numbers).await?;
        let carriers = Carriers::find(&self.registry, &id_types(&generation, &numbers)).await?;
        Ok(held.saturating_add(carriers.total()))
    }
}

/// Returns every code that vocabularies ever had here, including the deployment's own.
pub(super) fn numbers_of<'a>(
    generation: &Generation,
    namespaces: impl Iterator<Item = &'a Namespace>,
) -> Vec<CodeNumber> {
    namespaces.flat_map(|namespace| generation.table().numbers_in(namespace)).copied().collect()
}

/// The ID types among codes: records use them as the systems of their identifiers, no coded field contains them.
fn id_types(generation: &Generation, numbers: &[CodeNumber]) -> BTreeSet<String> {
    let uris = numbers.iter().filter_map(|number| generation.table().uri(*number));
    uris.filter(|uri| uri.namespace.as_str() == ID_TYPE_NAMESPACE).map(|uri| uri.to_string()).collect()
}

/// Rejects the removal of a vocabulary that contains codes of the deployment.
fn refuse_with_local_codes(name: &PluginName, pack: &CheckedPack, deployment: &Deployment) -> Result<(), AppError> {
    let count = active_local_codes(pack.vocabularies(), deployment);
    if count == 0 {
        return Ok(());
    }
    let message = format!(
        "{count} active local codes belong to vocabularies of `{name}`; they become inactive if it is removed, and active again with it"
    );
    Err(AppError::Conflict(ErrorCode::PluginInUse, message))
}

/// Rejects the removal of a vocabulary whose codes concept groups of the deployment select.
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
        "concept groups of the deployment select codes of `{name}`: {}; set them again without these codes or reset them first; if it is removed, rules that use them are undetermined",
        names.join(", ")
    );
    Err(AppError::Conflict(ErrorCode::PluginInUse, message))
}

/// Number of active codes of the deployment that belong to vocabularies.
pub(super) fn active_local_codes(vocabularies: &[Arc<Vocabulary>], deployment: &Deployment) -> usize {
    let is_of_them = |code: &&LocalCode| vocabularies.iter().any(|one| *one.namespace() == code.uri.namespace);
    deployment.local_codes().filter(|code| code.is_active()).filter(is_of_them).count()
}

impl PluginAdministration {
    /// The vocabularies of an installed plugin that no remaining pack would provide.
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

    /// The reason why a new version of a plugin may not drop vocabularies; none if they are not used.
    ///
    /// # Errors
    /// If the store fails.
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
            "it no longer contains {needed}; if that is intended, remove the plugin first: `daftar plugin remove {name} --force`"
        )))
    }
}

/// Maximum text of one stored part, in bytes: a quarter of the maximum value of the store.
const PART_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of codes of one stored part.
const PART_CONCEPTS_MAX: usize = 500;
/// Maximum text of a version that is retained completely, in bytes: some ten times the text of ICD-11.
const WHOLE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum text of a code that is retained with its definitions, in bytes.
const DEFINED_BYTES_MAX: usize = 64 * 1024;

/// Codes to retain of active vocabularies of which a new pack provides another version, and all retained codes then:
/// the codes that the new version lacks, permanently, and the complete previous version, until the next version is
/// installed.
pub(super) fn of_replaced(packs: &Packs, new: &CheckedPack, deployment: &Deployment) -> (Vec<Setting>, Deployment) {
    let mut settings = Vec::new();
    for newer in new.vocabularies() {
        let present = packs.values().flat_map(|(_, pack)| pack.vocabularies());
        for older in present.filter(|older| older.namespace() == newer.namespace()) {
            // Unlisted codes of an open vocabulary are resolved by its pack.
            if !newer.description().is_open {
                let gone = not_stored(older.namespace(), older.gone_in(newer), deployment);
                settings.extend(parts(older.namespace(), gone, deployment));
            }
            if older.description().version != newer.description().version {
                settings.extend(whole(older));
            }
        }
    }
    let joined = Deployment::clone(&joined(deployment, &settings));
    (settings, joined)
}

/// Codes to retain of removed vocabularies: the codes in records (`held`), or with local codes below them, and
/// their ancestors. A code that was retained of an earlier version is retained again if the removed version contains it
/// itself.
pub(super) fn of_removed(
    vocabularies: &[Arc<Vocabulary>],
    deployment: &Deployment,
    generation: &Generation,
    held: &BTreeMap<CodeNumber, u64>,
) -> Vec<Setting> {
    let mut settings = Vec::new();
    for vocabulary in vocabularies {
        let namespace = vocabulary.namespace();
        let retained: BTreeSet<&Code> = deployment.retained_of(namespace).map(|concept| &concept.code).collect();
        let is_own = |code: &Code| vocabulary.find(code.as_str()).is_some_and(|concept| !concept.is_only_retained());
        let mut new = needed(vocabulary, deployment, generation, held);
        new.retain(|concept| is_own(&concept.code) || !retained.contains(&concept.code));
        settings.extend(parts(namespace, not_stored(namespace, new, deployment), deployment));
    }
    settings
}

/// The codes without those that the last stored part with them describes in the same way.
fn not_stored(namespace: &Namespace, mut concepts: Vec<Concept>, deployment: &Deployment) -> Vec<Concept> {
    let stored = deployment.retained_of(namespace).map(|concept| (&concept.code, concept));
    let last: BTreeMap<&Code, &Concept> = stored.collect();
    concepts.retain(|concept| last.get(&concept.code).copied() != Some(concept));
    concepts
}

/// The decision when these settings are added.
pub(super) fn joined(deployment: &Deployment, settings: &[Setting]) -> Arc<Deployment> {
    let mut joined = deployment.clone();
    settings.iter().for_each(|setting| joined.put(setting.clone()));
    Arc::new(joined)
}

fn needed(
    vocabulary: &Vocabulary,
    deployment: &Deployment,
    generation: &Generation,
    held: &BTreeMap<CodeNumber, u64>,
) -> Vec<Concept> {
    let specialised: BTreeSet<&str> = deployment
        .local_codes()
        .filter(|code| code.uri.namespace == *vocabulary.namespace())
        .filter_map(|code| code.specialises.as_ref().map(Code::as_str))
        .collect();
    let is_needed = |concept: &ConceptRef<'_>| {
        let number = concept.uri().ok().and_then(|uri| generation.number_of(&uri));
        specialised.contains(concept.code()) || number.is_some_and(|number| held.contains_key(&number))
    };
    let mut seen = BTreeSet::new();
    let mut concepts = Vec::new();
    for concept in vocabulary.concepts().filter(is_needed) {
        for one in [concept].into_iter().chain(concept.ancestors()) {
            if seen.insert(one.index()) {
                concepts.extend(vocabulary.retained(one));
            }
        }
    }
    concepts
}

/// Codes in parts, numbered after the stored parts.
fn parts(namespace: &Namespace, concepts: Vec<Concept>, deployment: &Deployment) -> Vec<Setting> {
    let numbers = deployment.retained_parts_of(namespace).filter_map(|key| match key {
        SettingKey::RetainedConcepts(_, part) => Some(part.saturating_add(1)),
        _ => None,
    });
    let numbered = (numbers.max().unwrap_or(0)..).zip(bounded(concepts));
    numbered
        .map(|(part, concepts)| {
            Setting::RetainedConcepts(RetainedConcepts { namespace: namespace.clone(), part, concepts })
        })
        .collect()
}

/// A complete version, without the codes retained of earlier versions. A version with too much text is stored as
/// empty, which replaces the previous one.
fn whole(version: &Vocabulary) -> Vec<Setting> {
    let own = version.concepts().filter(|concept| !concept.is_only_retained());
    let concepts: Vec<Concept> = own.filter_map(ConceptRef::to_concept).collect();
    if concepts.iter().map(text_bytes).sum::<usize>() > WHOLE_BYTES_MAX {
        let description = version.description();
        tracing::warn!(namespace = %description.namespace, version = description.version, "the version before is too large to be retained");
        return vec![Setting::EarlierVersion(Arc::new(EarlierVersion {
            description: description.clone(),
            part: 0,
            parts: 0,
            concepts: Vec::new(),
        }))];
    }
    let bounded = bounded(concepts);
    let parts = u32::try_from(bounded.len()).unwrap_or(u32::MAX);
    let numbered = (0..).zip(bounded);
    numbered
        .map(|(part, concepts)| {
            let description = version.description().clone();
            Setting::EarlierVersion(Arc::new(EarlierVersion { description, part, parts, concepts }))
        })
        .collect()
}

/// Codes in parts that fit the store, none of them empty.
fn bounded(concepts: Vec<Concept>) -> Vec<Vec<Concept>> {
    let mut parts = Vec::new();
    let mut waiting = Vec::new();
    let mut bytes = 0;
    for mut concept in concepts {
        if text_bytes(&concept) > DEFINED_BYTES_MAX {
            concept.definitions.clear();
        }
        let size = text_bytes(&concept);
        if !waiting.is_empty() && (bytes + size > PART_BYTES_MAX || waiting.len() >= PART_CONCEPTS_MAX) {
            parts.push(std::mem::take(&mut waiting));
            bytes = 0;
        }
        bytes += size;
        waiting.push(concept);
    }
    if !waiting.is_empty() {
        parts.push(waiting);
    }
    parts
}

fn text_bytes(concept: &Concept) -> usize {
    let localized = concept.labels.iter().chain(&concept.definitions).map(|text| text.value.len());
    let properties = concept.properties.iter().map(|(key, value)| key.len() + value.len());
    let others = concept.aliases.iter().chain(&concept.uri).map(String::len);
    localized.chain(properties).chain(others).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::manifest::PluginName;
    use daftar_vocabulary::testing::{TestConcept, VocabularyBuilder, origin};

    fn concepts(count: usize) -> Vec<Concept> {
        let builder = (0..count).fold(VocabularyBuilder::new("urn:x"), |builder, at| {
            builder.concept(TestConcept::new(&format!("c{at:05}"), "label"))
        });
        builder.contents().1
    }

    #[test]
    fn parts_are_bounded_and_numbered_after_the_stored_ones() {
        let namespace = Namespace::parse("urn:x").unwrap();
        let deployment = Deployment::default();
        assert!(parts(&namespace, Vec::new(), &deployment).is_empty());
        let counts = |settings: &[Setting]| -> Vec<(u32, usize)> {
            settings
                .iter()
                .map(|setting| match setting {
                    Setting::RetainedConcepts(retained) => (retained.part, retained.concepts.len()),
                    other => panic!("{other:?}"),
                })
                .collect()
        };
        let first = parts(&namespace, concepts(PART_CONCEPTS_MAX + 1), &deployment);
        assert_eq!(counts(&first), [(0, PART_CONCEPTS_MAX), (1, 1)]);
        let next = parts(&namespace, concepts(PART_CONCEPTS_MAX), &joined(&deployment, &first));
        assert_eq!(counts(&next), [(2, PART_CONCEPTS_MAX)]);
    }

    #[test]
    fn a_code_with_too_much_text_is_retained_without_definitions() {
        let namespace = Namespace::parse("urn:x").unwrap();
        let mut all = concepts(1);
        for (length, is_stored) in [(DEFINED_BYTES_MAX - 5, true), (DEFINED_BYTES_MAX - 4, false)] {
            all[0].definitions =
                vec![daftar_domain::vocabulary::LocalizedText { language: "en".into(), value: "x".repeat(length) }];
            let settings = parts(&namespace, all.clone(), &Deployment::default());
            let [Setting::RetainedConcepts(retained)] = settings.as_slice() else { panic!("{settings:?}") };
            assert_eq!(!retained.concepts[0].definitions.is_empty(), is_stored, "{length}");
        }
    }

    #[test]
    fn a_version_is_retained_without_the_codes_retained_before_it() {
        let vocabulary = VocabularyBuilder::new("urn:x").version("2").concepts([("a", "A"), ("b", "B")]).vocabulary();
        let settings = whole(&vocabulary);
        let [Setting::EarlierVersion(earlier)] = settings.as_slice() else { panic!("{settings:?}") };
        assert_eq!((earlier.part, earlier.parts, earlier.description.version.as_str()), (0, 1, "2"));
        assert_eq!(earlier.concepts.len(), 2);
        let (_, mut concepts) = VocabularyBuilder::new("urn:x").concepts([("gone", "Gone")]).contents();
        concepts[0].properties.push(("last_version".into(), "1".into()));
        let gone = Setting::RetainedConcepts(RetainedConcepts {
            namespace: vocabulary.namespace().clone(),
            part: 0,
            concepts,
        });
        let contents = VocabularyBuilder::new("urn:x").version("2").concepts([("a", "A"), ("b", "B")]).pack();
        let pack = daftar_vocabulary::check(contents).unwrap().with_retained(&Deployment::of([gone]));
        let [longer] = pack.vocabularies() else { panic!("one vocabulary") };
        assert_eq!(longer.concept_count(), 3);
        assert_eq!(whole(longer).len(), 1);
        let settings = whole(longer);
        let [Setting::EarlierVersion(earlier)] = settings.as_slice() else { panic!("{settings:?}") };
        assert_eq!(earlier.concepts.len(), 2, "without the retained codes");
    }

    /// A version with the code `a` and other codes with their labels, and with the retained codes.
    fn version(version: &str, others: &[(&str, &str)], deployment: &Deployment) -> CheckedPack {
        let concepts = [("a", "A")].into_iter().chain(others.iter().copied());
        let contents = VocabularyBuilder::new("urn:x").version(version).concepts(concepts).pack();
        daftar_vocabulary::check(contents).unwrap().with_retained(deployment)
    }

    /// The label of a code, and the last version that contained it if it is retained.
    fn described(pack: &CheckedPack, code: &str) -> Option<(String, Option<String>)> {
        let concept = pack.vocabularies().first()?.find(code)?;
        Some((concept.default_label().to_owned(), concept.property("last_version").map(str::to_owned)))
    }

    fn retained_parts(deployment: &Deployment) -> usize {
        deployment.retained_parts_of(&Namespace::parse("urn:x").unwrap()).count()
    }

    #[test]
    fn a_code_that_is_removed_again_is_retained_with_its_last_description() {
        let (mut packs, mut deployment) = (Packs::new(), Deployment::default());
        for (number, others, label, last, parts) in [
            ("1", Some("First"), "First", None, 0),
            ("2", None, "First", Some("1"), 1),
            ("3", Some("Third"), "Third", None, 1),
            ("4", None, "Third", Some("3"), 2),
            ("5", None, "Third", Some("3"), 2),
            // Back, and forth again: the same description is not stored twice.
            ("3", Some("Third"), "Third", None, 2),
            ("4", None, "Third", Some("3"), 2),
        ] {
            let others: Vec<(&str, &str)> = others.map(|label| ("x", label)).into_iter().collect();
            let new = version(number, &others, &deployment);
            deployment = of_replaced(&packs, &new, &deployment).1;
            let new = new.with_retained(&deployment);
            let expected = (label.to_owned(), last.map(str::to_owned));
            assert_eq!((described(&new, "x"), retained_parts(&deployment)), (Some(expected), parts), "{number}");
            packs = Packs::from([(PluginName::parse("x").unwrap(), (origin("x"), Arc::new(new)))]);
        }
    }

    #[test]
    fn a_removed_vocabulary_replaces_the_retained_description_of_a_code_that_it_contains_itself() {
        let first = version("1", &[("x", "First")], &Deployment::default());
        let packs = Packs::from([(PluginName::parse("x").unwrap(), (origin("x"), Arc::new(first)))]);
        let without = version("2", &[], &Deployment::default());
        let (_, deployment) = of_replaced(&packs, &without, &Deployment::default());
        let contents = VocabularyBuilder::new("urn:x").version("3").concepts([("a", "A"), ("x", "Third")]).pack();
        let generation = daftar_vocabulary::testing::generation_of([contents]);
        let used = generation.number_of(&daftar_domain::code::CodeUri::parse("urn:x#x").unwrap()).unwrap();
        let held = BTreeMap::from([(used, 1)]);
        let removed = |pack: &CheckedPack, deployment: &Deployment| {
            let settings = of_removed(pack.vocabularies(), deployment, &generation, &held);
            Deployment::clone(&joined(deployment, &settings))
        };
        let without = without.with_retained(&deployment);
        assert_eq!(removed(&without, &deployment), deployment, "it contains the code only as retained");
        let third = version("3", &[("x", "Third")], &deployment);
        let deployment = removed(&third, &deployment);
        let again = version("4", &[], &deployment);
        let expected = Some(("Third".to_owned(), Some("3".to_owned())));
        assert_eq!((described(&again, "x"), retained_parts(&deployment)), (expected, 2));
        assert_eq!(removed(&third, &deployment), deployment, "the same description is not stored twice");
    }

    #[test]
    fn nothing_is_gone_of_an_open_vocabulary_whose_pack_reads_what_it_does_not_list() {
        let pack = |version: &str, codes: &[&str], is_open: bool| {
            let concepts = codes.iter().map(|code| (*code, *code));
            let mut contents = VocabularyBuilder::new("urn:x").version(version).concepts(concepts).pack();
            contents.vocabularies[0].0.is_open = is_open;
            daftar_vocabulary::check(contents).unwrap()
        };
        for (is_open, expected) in [(false, 1), (true, 0)] {
            let older = Arc::new(pack("1", &["a", "b"], is_open));
            let packs = Packs::from([(PluginName::parse("x").unwrap(), (origin("x"), older))]);
            let (settings, _) = of_replaced(&packs, &pack("2", &["a"], is_open), &Deployment::default());
            let retained = settings.iter().filter(|setting| matches!(setting, Setting::RetainedConcepts(_)));
            assert_eq!(retained.count(), expected, "open: {is_open}");
        }
    }
}
