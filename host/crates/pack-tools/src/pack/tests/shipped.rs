//! The packs of this repository: all valid, complete as their source states, and under a named licence.

mod icf_reference;
mod rules;
mod spots;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::pack::{PackSource, build_folder, check};
use daftar_domain::module::PROJECT_MODULES;
use daftar_domain::vocabulary::{Completeness, Concept, ConceptStatus, VocabularyDescription};
use daftar_sandbox::section::read_manifest;

/// Every pack by its folder's name, read and checked once.
static PACKS: LazyLock<BTreeMap<String, PackSource>> = LazyLock::new(|| {
    let named = |folder: PathBuf| (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder);
    let checked = |(name, folder): (String, PathBuf)| {
        let pack = check(&folder).unwrap_or_else(|errors| panic!("{}: {errors}", folder.display()));
        (name, pack)
    };
    folders().into_iter().map(named).map(checked).collect()
});

fn folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(workspace().join("vocab-packs")).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders
}

/// The root folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

fn vocabularies() -> impl Iterator<Item = (&'static VocabularyDescription, &'static [Concept])> {
    let all = PACKS.values().flat_map(|pack| &pack.contents.vocabularies);
    all.map(|(description, concepts)| (description, concepts.as_slice()))
}

fn concepts(namespace: &str) -> &'static [Concept] {
    let (_, concepts) = vocabularies().find(|(description, _)| description.namespace.as_str() == namespace).unwrap();
    concepts
}

fn concept<'a>(concepts: &'a [Concept], code: &str) -> &'a Concept {
    concepts.iter().find(|concept| concept.code.as_str() == code).unwrap_or_else(|| panic!("{code}"))
}

fn parents(concept: &Concept) -> Vec<&str> {
    concept.parents.iter().map(|parent| parent.as_str()).collect()
}

fn label<'a>(concept: &'a Concept, language: &str) -> Option<&'a str> {
    concept.labels.iter().find(|label| label.language == language).map(|label| label.value.as_str())
}

fn property<'a>(concept: &'a Concept, key: &str) -> Option<&'a str> {
    concept.properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// The number of codes at each depth, by the primary parent.
fn levels(concepts: &[Concept]) -> Vec<usize> {
    let parent_of: HashMap<&str, Option<&str>> =
        concepts.iter().map(|concept| (concept.code.as_str(), parents(concept).first().copied())).collect();
    let mut levels = Vec::new();
    for concept in concepts {
        let mut level = 0;
        let mut code = concept.code.as_str();
        while let Some(parent) = parent_of[code] {
            level += 1;
            code = parent;
        }
        levels.resize(levels.len().max(level + 1), 0);
        levels[level] += 1;
    }
    levels
}

/// The languages, with the number of labels if it differs from that of the codes.
fn languages(description: &VocabularyDescription, concepts: &[Concept]) -> String {
    let mut text = String::new();
    for language in &description.languages {
        let labels = concepts.iter().filter(|concept| label(concept, language).is_some()).count();
        write!(text, " {language}").unwrap();
        if labels != concepts.len() {
            write!(text, ":{labels}").unwrap();
        }
    }
    text
}

#[test]
fn every_vocabulary_is_as_large_as_its_source() {
    let mut lines: Vec<String> = Vec::new();
    for (description, concepts) in vocabularies() {
        let inactive = concepts.iter().filter(|concept| concept.status == ConceptStatus::Inactive).count();
        let headings = concepts.iter().filter(|concept| !concept.is_selectable).count();
        let aliases: usize = concepts.iter().map(|concept| concept.aliases.len()).sum();
        lines.push(format!(
            "{} [{}] {} codes, {inactive} inactive, {headings} headings, {aliases} aliases; levels {:?};{}",
            description.namespace,
            description.domain,
            concepts.len(),
            levels(concepts),
            languages(description, concepts),
        ));
    }
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @r"
    urn:fao:agrovoc [Agriculture] 1440 codes, 0 inactive, 0 headings, 0 aliases; levels [5, 56, 326, 226, 213, 126, 427, 61]; en fr:1317 es:1313 ar:928 zh:1021 ru:952
    urn:ilo:icse-93 [Labor] 6 codes, 0 inactive, 0 headings, 0 aliases; levels [6]; en fr es ar pt ru zh sw hi
    urn:ilo:isco-08 [Labor] 619 codes, 0 inactive, 0 headings, 0 aliases; levels [10, 43, 130, 436]; en fa:568
    urn:iso:std:iso:3166-1 [Geographic] 249 codes, 0 inactive, 0 headings, 498 aliases; levels [249]; en fr es ar pt ru zh sw hi bn am
    urn:iso:std:iso:4217 [Geographic] 209 codes, 31 inactive, 0 headings, 207 aliases; levels [209]; en fr es ar pt ru zh sw hi bn:199 am:167
    urn:iso:std:iso:5218 [Core] 4 codes, 0 inactive, 0 headings, 0 aliases; levels [4]; en fr es ar pt ru zh sw hi
    urn:iso:std:iso:639 [Geographic] 184 codes, 1 inactive, 0 headings, 204 aliases; levels [184]; en fr es ar pt ru zh sw hi bn am:181
    urn:svc:vocab:ethnocultural [Core] 6 codes, 0 inactive, 0 headings, 0 aliases; levels [6]; en fr es ar pt ru zh sw hi
    urn:svc:vocab:group-type [Core] 2 codes, 0 inactive, 0 headings, 0 aliases; levels [2]; en fr es ar pt ru zh sw hi
    urn:svc:vocab:id-type [Core] 4 codes, 0 inactive, 0 headings, 0 aliases; levels [4]; en fr es ar pt ru zh sw hi
    urn:svc:vocab:relationship [Core] 15 codes, 0 inactive, 0 headings, 0 aliases; levels [15]; en fr es ar pt ru zh sw hi
    urn:un:unsd:pop-census:housing-type [Core] 12 codes, 0 inactive, 0 headings, 0 aliases; levels [2, 5, 5]; en fr es ar pt ru zh sw hi
    urn:un:unsd:pop-census:marital-status [Core] 6 codes, 0 inactive, 0 headings, 0 aliases; levels [6]; en fr es ar pt ru zh sw hi
    urn:un:unsd:pop-census:religion [Core] 12 codes, 0 inactive, 0 headings, 0 aliases; levels [12]; en fr es ar pt ru zh sw hi
    urn:unesco:isced:2011 [Education] 29 codes, 0 inactive, 0 headings, 0 aliases; levels [9, 20]; en fr es ar pt ru zh sw hi
    urn:who:icd-11 [Health] 17574 codes, 0 inactive, 28 headings, 0 aliases; levels [28, 4891, 8574, 4081]; en
    urn:who:icf:b [Disability] 512 codes, 0 inactive, 0 headings, 0 aliases; levels [8, 115, 335, 54]; en
    urn:who:icf:d [Disability] 459 codes, 0 inactive, 0 headings, 0 aliases; levels [9, 127, 323]; en
    ");
}

#[test]
fn all_but_the_icf_are_complete_and_two_allow_local_codes() {
    let with = |holds: fn(&VocabularyDescription) -> bool| -> Vec<&str> {
        vocabularies()
            .map(|(description, _)| description)
            .filter(|description| holds(description))
            .map(|description| description.namespace.as_str())
            .collect()
    };
    assert_eq!(with(|description| description.completeness != Completeness::Full), ["urn:who:icf:b", "urn:who:icf:d"]);
    assert_eq!(with(|description| description.is_extensible), ["urn:svc:vocab:ethnocultural", "urn:svc:vocab:id-type"]);
    assert_eq!(with(|description| !description.is_system || description.is_open), [""; 0]);
}

#[test]
fn only_the_farmer_registry_is_not_loaded_by_default() {
    let optional: Vec<&str> =
        PACKS.values().filter(|pack| !pack.is_default).map(|pack| pack.manifest.name.as_str()).collect();
    assert_eq!(optional, ["farmer-registry"]);
}

#[test]
fn every_pack_can_be_built_under_its_own_name_and_always_to_the_same_bytes() {
    let mut names: Vec<String> = Vec::new();
    for folder in folders() {
        let build = || build_folder(&folder).unwrap_or_else(|errors| panic!("{}: {errors}", folder.display()));
        let component = build();
        assert!(component == build(), "{}", folder.display());
        let manifest = read_manifest(&component).unwrap();
        assert_eq!(manifest, PACKS[folder.file_name().unwrap().to_str().unwrap()].manifest);
        names.push(manifest.name.to_string());
    }
    names.sort();
    let expected = [
        "country",
        "currency",
        "economic-activity",
        "education",
        "ethnocultural",
        "farmer-registry",
        "gender",
        "group-type",
        "housing-type",
        "icd-11",
        "icf",
        "id-type",
        "isco-08",
        "language",
        "marital-status",
        "relationship",
        "religion",
    ];
    assert_eq!(names, expected);
}

#[test]
fn errors_can_name_the_pack_of_a_missing_vocabulary() {
    let brought: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = PACKS
        .values()
        .map(|pack| {
            let vocabularies = pack.contents.vocabularies.iter();
            let namespaces = vocabularies.map(|(description, _)| description.namespace.as_str()).collect();
            let fields = pack.manifest.extension_fields.iter().map(|field| field.path.as_str()).collect();
            (pack.manifest.name.as_str(), (namespaces, fields))
        })
        .collect();
    let known =
        PROJECT_MODULES.iter().map(|(name, namespaces, fields)| (*name, (namespaces.to_vec(), fields.to_vec())));
    // A pack with code of its own has its sources elsewhere.
    let known: BTreeMap<_, _> = known.filter(|(name, _)| *name != "language-tag").collect();
    assert_eq!(known, brought);
}

#[test]
fn every_pack_states_its_data_licence_and_attribution() {
    for folder in folders() {
        let note = std::fs::read_to_string(folder.join("LICENSE-DATA.md")).unwrap();
        assert!(note.starts_with("# Licence of the data\n"), "{}", folder.display());
    }
    for (description, _) in vocabularies() {
        for text in [&description.licence, &description.attribution, &description.source, &description.version] {
            assert!(!text.is_empty(), "{}", description.namespace);
        }
    }
}

#[test]
fn publishers_are_attributed_as_their_terms_require() {
    let attribution = |namespace: &str| {
        let (description, _) =
            vocabularies().find(|(description, _)| description.namespace.as_str() == namespace).unwrap();
        (description.licence.as_str(), description.attribution.as_str())
    };
    for (namespace, work) in [
        ("urn:who:icd-11", "International Classification of Diseases, Eleventh Revision (ICD-11)"),
        ("urn:who:icf:b", "International Classification of Functioning, Disability and Health (ICF)"),
        ("urn:who:icf:d", "International Classification of Functioning, Disability and Health (ICF)"),
    ] {
        let (licence, reported) = attribution(namespace);
        assert!(licence.contains("CC-BY-ND-3.0-IGO"), "{licence}");
        assert!(
            reported.starts_with(work) && reported.ends_with("NoDerivatives 3.0 IGO licence (CC BY-ND 3.0 IGO)."),
            "{reported}"
        );
    }
    assert!(attribution("urn:who:icd-11").0.contains("GPL-3.0-or-later"));
    let (licence, reported) = attribution("urn:fao:agrovoc");
    assert!(licence == "CC-BY-4.0" && reported.contains("© FAO") && reported.contains("changed: subset"), "{reported}");
    let (_, reported) = attribution("urn:ilo:isco-08");
    assert!(reported.starts_with("International Labour Organization"), "{reported}");
}

#[test]
fn the_concept_groups_of_rules_exist() {
    let names: Vec<&str> =
        PACKS.values().flat_map(|pack| &pack.contents.concept_groups).map(|group| group.name.as_str()).collect();
    for name in ["feminine_gender", "masculine_gender", "head_of_household", "agricultural_workers", "cereal_crops"] {
        assert!(names.contains(&name), "{name}");
    }
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "{names:?}");
}
