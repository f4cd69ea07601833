//! What is kept of a vocabulary's codes when the pack that brought them goes or brings another version.
//!
//! **Invariant:** what is kept of codes that are gone only grows, and is on disk before the pack changes: whenever the server stops, every code that a
//! record may hold has its labels in the installed version or among what is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use daftar_domain::code::{Code, CodeNumber, Namespace};
use daftar_domain::deployment::{Deployment, EarlierVersion, KeptConcepts, Setting, SettingKey};
use daftar_domain::vocabulary::Concept;
use daftar_vocabulary::{CheckedPack, ConceptRef, Generation, Vocabulary};

use crate::vocabulary_publisher::Packs;

/// How much text one kept part holds, in bytes: a quarter of what the store takes as one value.
const PART_BYTES_MAX: usize = 256 * 1024;
/// The most codes of one kept part.
const PART_CONCEPTS_MAX: usize = 500;
/// A version with more text than this is not kept whole, in bytes: some ten times what ICD-11 has.
const WHOLE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A code with more text than this is kept without its definitions, in bytes.
const DEFINED_BYTES_MAX: usize = 64 * 1024;

/// What is to be kept of vocabularies in force that a new pack brings in another version, and what is kept then in all: the
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
        SettingKey::KeptConcepts(_, part) => Some(part.saturating_add(1)),
        _ => None,
    });
    let numbered = (numbers.max().unwrap_or(0)..).zip(bounded(concepts));
    numbered
        .map(|(part, concepts)| Setting::KeptConcepts(KeptConcepts { namespace: namespace.clone(), part, concepts }))
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
                    Setting::KeptConcepts(kept) => (kept.part, kept.concepts.len()),
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
            let [Setting::KeptConcepts(kept)] = settings.as_slice() else { panic!("{settings:?}") };
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
        let gone = Setting::KeptConcepts(KeptConcepts { namespace: vocabulary.namespace().clone(), part: 0, concepts });
        let contents = VocabularyBuilder::new("urn:x").version("2").concepts([("a", "A"), ("b", "B")]).pack();
        let pack = daftar_vocabulary::check(contents).unwrap().with_kept(&Deployment::of([gone]));
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
            let kept = settings.iter().filter(|setting| matches!(setting, Setting::KeptConcepts(_)));
            assert_eq!(kept.count(), expected, "open: {is_open}");
        }
    }
}
