//! The packs of this repository: all sound, all as large as their source says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::domain::vocabulary::Concept;
use crate::plugin::pack::section::read_manifest;
use crate::plugin::pack::{PackSource, build_folder, check};

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vocab-packs");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders
}

fn source(name: &str) -> PackSource {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../vocab-packs").join(name)).unwrap()
}

fn concepts(source: &PackSource) -> &[Concept] {
    &source.contents.vocabularies[0].1
}

fn concept<'a>(source: &'a PackSource, code: &str) -> &'a Concept {
    concepts(source).iter().find(|concept| concept.code.as_str() == code).unwrap()
}

#[test]
fn every_pack_is_sound_and_as_large_as_its_source() {
    let mut counts = BTreeMap::new();
    for folder in folders() {
        let source = check(&folder).unwrap_or_else(|errors| panic!("{}: {errors}", folder.display()));
        for (description, concepts) in &source.contents.vocabularies {
            counts.insert(description.namespace.to_string(), concepts.len());
        }
    }
    let expected = [
        ("urn:ilo:isco-08", 619),
        ("urn:iso:std:iso:3166-1", 249),
        ("urn:iso:std:iso:5218", 4),
        ("urn:svc:vocab:group-type", 2),
        ("urn:svc:vocab:id-type", 4),
        ("urn:svc:vocab:relationship", 15),
        ("urn:un:unsd:pop-census:marital-status", 6),
    ];
    assert_eq!(counts, expected.map(|(namespace, count)| (namespace.to_owned(), count)).into());
}

#[test]
fn every_pack_can_be_built_under_its_own_name() {
    let mut names: Vec<String> = Vec::new();
    for folder in folders() {
        let component = build_folder(&folder).unwrap_or_else(|errors| panic!("{}: {errors}", folder.display()));
        names.push(read_manifest(&component).unwrap().name.to_string());
    }
    names.sort();
    assert_eq!(names, ["country", "gender", "group-type", "id-type", "isco-08", "marital-status", "relationship"]);
}

#[test]
fn every_pack_says_under_which_licence_its_data_are() {
    for folder in folders() {
        assert!(folder.join("LICENSE-DATA.md").is_file(), "{}", folder.display());
    }
}

#[test]
fn only_occupations_are_not_loaded_unasked() {
    let optional: Vec<String> = folders()
        .iter()
        .map(|folder| check(folder).unwrap())
        .filter(|source| !source.is_default)
        .map(|source| source.manifest.name.to_string())
        .collect();
    assert_eq!(optional, ["isco-08"]);
}

#[test]
fn countries_are_found_by_their_other_codes_and_named_in_eleven_languages() {
    let countries = source("country");
    assert_eq!(concept(&countries, "FR").aliases, ["FRA", "250"]);
    assert_eq!(concept(&countries, "AF").aliases, ["AFG", "004"]);
    assert!(concepts(&countries).iter().all(|country| country.labels.len() == 11 && country.aliases.len() == 2));
    let bolivia = &concept(&countries, "BO").labels;
    assert!(bolivia.iter().any(|label| label.language == "en" && label.value == "Bolivia"));
}

#[test]
fn occupations_keep_leading_zeros_and_hang_by_their_digits() {
    let occupations = source("occupation");
    let mut by_length = [0; 5];
    for occupation in concepts(&occupations) {
        let code = occupation.code.as_str();
        by_length[code.len()] += 1;
        let parents: Vec<&str> = occupation.parents.iter().map(|parent| parent.as_str()).collect();
        if code.len() == 1 {
            assert!(parents.is_empty(), "{code}");
        } else {
            assert_eq!(parents, [&code[..code.len() - 1]]);
        }
    }
    assert_eq!(by_length, [0, 10, 43, 130, 436]);
    assert_eq!(concept(&occupations, "0110").labels[0].value, "Commissioned Armed Forces Officers");
}

#[test]
fn relations_say_whether_they_are_for_people_or_for_groups() {
    let relations = source("relationship");
    let kind = |code: &str| {
        let properties = &concept(&relations, code).properties;
        properties.iter().find(|(key, _)| key == "kind").map(|(_, value)| value.clone())
    };
    assert_eq!(kind("head").as_deref(), Some("individual"));
    assert_eq!(kind("subsidiary").as_deref(), Some("group"));
    assert!(concepts(&relations).iter().all(|relation| kind(relation.code.as_str()).is_some()));
}

#[test]
fn the_groups_that_rules_speak_of_are_brought() {
    let names: Vec<String> = folders()
        .iter()
        .flat_map(|folder| check(folder).unwrap().contents.concept_groups)
        .map(|group| group.name)
        .collect();
    for name in ["feminine_gender", "masculine_gender", "head_of_household", "agricultural_workers"] {
        assert!(names.iter().any(|brought| brought == name), "{name}");
    }
}
