//! Removing a plugin, what stands against it, and what is kept of a vocabulary's codes when its pack is removed or replaced.
//!
//! **Invariant:** an upgrade takes no vocabulary away that a removal without force would not take: what records or local codes
//! use stays active until the administrator removes the plugin by force.
//!
//! **Invariant:** what is kept of codes that are gone only grows, and is on disk before the pack changes: whenever the server stops, every code that a
//! record may hold has its labels in the installed version or among what is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::report::Carriers;
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
use daftar_domain::vocabulary::{Concept, ID_TYPE_NAMESPACE, Selection};
use daftar_sandbox::LibraryError;
use daftar_vocabulary::{CheckedPack, ConceptRef, Generation, Vocabulary};

impl PluginAdministration {
    /// Removes a plugin; it stays removed when the server starts again.
    ///
    /// # Errors
    /// [`AppError::UnknownPlugin`]; [`AppError::Conflict`] when `is_forced` is false and records use its codes, or it is not
    /// loaded and they cannot be counted, or local codes, concept groups or another pack need it.
    pub async fn remove(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let (this, ctx, name) = (self.clone(), ctx.clone(), name.clone());
        let removing = async move {
            let _changing = this.publisher.exclusive().await;
            let _lock = this.publisher.cluster_lock(ctx.now).await?;
            let removed = this.remove_alone(&ctx, &name, is_forced).await;
            if let Err(error) = &removed {
                this.audit(&ctx, AuditOutcome::Refused, name.to_string(), error.to_string()).await?;
            }
            removed
        };
        spawn_uncancellable(removing).await
    }

    async fn remove_alone(&self, ctx: &OpContext, name: &PluginName, is_forced: bool) -> Result<(), AppError> {
        let kind = self.library.recorded(name).ok_or_else(|| AppError::UnknownPlugin(name.to_string()))?.kind;
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
            let kept = of_removed(pack.vocabularies(), deployment, generation, &held);
            let deployment = joined(deployment, &kept);
            self.publisher.store_settings(ctx.now, kept, deployment).await?;
        }
        // Before it is gone, as with an install.
        self.audit(ctx, AuditOutcome::Allowed, name.to_string(), note).await?;
        self.log_removed(name).await?;
        let (library, removed) = (self.library.clone(), name.clone());
        blocking(move || library.remove(&removed)).await?.map_err(|error| match error {
            LibraryError::NotInstalled(name) => AppError::UnknownPlugin(name.to_string()),
            LibraryError::Folder(_) | LibraryError::InUse(_) => {
                // The others have heard of it and remove theirs.
                self.record_divergence(name, error.to_string());
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
            "it no longer brings {needed}; where that is meant, remove the plugin by force first: `daftar plugin remove {name} --force`"
        )))
    }
}

/// How much text one kept part holds, in bytes: a quarter of what the store takes as one value.
const PART_BYTES_MAX: usize = 256 * 1024;
/// The most codes of one kept part.
const PART_CONCEPTS_MAX: usize = 500;
/// A version with more text than this is not kept whole, in bytes: some ten times what ICD-11 has.
const WHOLE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A code with more text than this is kept without its definitions, in bytes.
const DEFINED_BYTES_MAX: usize = 64 * 1024;

/// What is to be kept of vocabularies active that a new pack brings in another version, and what is kept then in all: the
/// codes that the new one has not, for good, and the version before it whole, until the next one comes.
pub(super) fn of_replaced(packs: &Packs, new: &CheckedPack, deployment: &Deployment) -> (Vec<Setting>, Deployment) {
    let mut settings = Vec::new();
    for newer in new.vocabularies() {
        let present = packs.values().flat_map(|(_, pack)| pack.vocabularies());
        for older in present.filter(|older| older.namespace() == newer.namespace()) {
            // Of what an open vocabulary does not list, its pack says whether it is a code.
            if !newer.description().is_open {
                settings.extend(parts(older.namespace(), older.gone_in(newer), deployment));
            }
            if older.description().version != newer.description().version {
                settings.extend(whole(older));
            }
        }
    }
    let joined = Deployment::clone(&joined(deployment, &settings));
    (settings, joined)
}

/// What is to be kept of vocabularies that go: the codes that records hold, which are `held`, or local codes specialise, and what is
/// above them.
pub(super) fn of_removed(
    vocabularies: &[Arc<Vocabulary>],
    deployment: &Deployment,
    generation: &Generation,
    held: &BTreeMap<CodeNumber, u64>,
) -> Vec<Setting> {
    let mut settings = Vec::new();
    for vocabulary in vocabularies {
        let namespace = vocabulary.namespace();
        let kept: BTreeSet<&Code> = deployment.kept_of(namespace).map(|concept| &concept.code).collect();
        let concepts = needed(vocabulary, deployment, generation, held);
        let new = concepts.into_iter().filter(|concept| !kept.contains(&concept.code)).collect();
        settings.extend(parts(namespace, new, deployment));
    }
    settings
}

/// What is decided when these settings are added.
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
                concepts.extend(vocabulary.kept(one));
            }
        }
    }
    concepts
}

/// Codes in parts, numbered after those that are kept already.
fn parts(namespace: &Namespace, concepts: Vec<Concept>, deployment: &Deployment) -> Vec<Setting> {
    let numbers = deployment.kept_parts_of(namespace).filter_map(|key| match key {
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

/// A version whole, without what was kept of versions before it. One with too much text is kept as nothing, which takes the
/// place of the one before.
fn whole(version: &Vocabulary) -> Vec<Setting> {
    let own = version.concepts().filter(|concept| !concept.is_only_kept());
    let concepts: Vec<Concept> = own.filter_map(ConceptRef::to_concept).collect();
    if concepts.iter().map(text_bytes).sum::<usize>() > WHOLE_BYTES_MAX {
        let description = version.description();
        tracing::warn!(namespace = %description.namespace, version = description.version, "the version before is too large to be kept whole");
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

/// Codes in parts that the store takes, none of them empty.
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
    fn parts_are_bounded_and_numbered_after_what_is_kept() {
        let namespace = Namespace::parse("urn:x").unwrap();
        let deployment = Deployment::default();
        assert!(parts(&namespace, Vec::new(), &deployment).is_empty());
        let counts = |settings: &[Setting]| -> Vec<(u32, usize)> {
            settings
                .iter()
                .map(|setting| match setting {
                    Setting::RetainedConcepts(kept) => (kept.part, kept.concepts.len()),
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
    fn a_code_with_too_much_text_is_kept_without_definitions() {
        let namespace = Namespace::parse("urn:x").unwrap();
        let mut all = concepts(1);
        for (length, is_kept) in [(DEFINED_BYTES_MAX - 5, true), (DEFINED_BYTES_MAX - 4, false)] {
            all[0].definitions =
                vec![daftar_domain::vocabulary::LocalizedText { language: "en".into(), value: "x".repeat(length) }];
            let settings = parts(&namespace, all.clone(), &Deployment::default());
            let [Setting::RetainedConcepts(kept)] = settings.as_slice() else { panic!("{settings:?}") };
            assert_eq!(!kept.concepts[0].definitions.is_empty(), is_kept, "{length}");
        }
    }

    #[test]
    fn a_version_is_kept_whole_without_what_was_kept_before_it() {
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
        assert_eq!(earlier.concepts.len(), 2, "not what is only kept");
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
            let kept = settings.iter().filter(|setting| matches!(setting, Setting::RetainedConcepts(_)));
            assert_eq!(kept.count(), expected, "open: {is_open}");
        }
    }
}
