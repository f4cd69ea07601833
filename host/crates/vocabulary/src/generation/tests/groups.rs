use std::collections::BTreeSet;

use super::*;
use crate::testing::{builder_of, concept_group, generation_of, registry_pack, table_of};
use daftar_domain::code::Code;
use daftar_domain::deployment::{Deployment, Setting};
use daftar_domain::local_code::{LocalCode, LocalOrigin, LocalStanding};
use daftar_domain::vocabulary::LocalizedText;

fn codes(generation: &Generation, numbers: impl Iterator<Item = CodeNumber>) -> Vec<String> {
    let mut codes: Vec<String> = numbers.map(|number| generation.table().name(number).unwrap().1.to_owned()).collect();
    codes.sort_unstable();
    codes
}

fn members(generation: &Generation, name: &str) -> Vec<String> {
    codes(generation, generation.concept_group(name).unwrap().members())
}

fn undecided(generation: &Generation, name: &str) -> Vec<String> {
    codes(generation, generation.concept_group(name).unwrap().undecided())
}

#[test]
fn a_group_contains_its_includes_without_its_excludes() {
    let farmers = concept_group("farmers", &["below urn:ilo:isco-08#61"], &["urn:ilo:isco-08#612"]);
    let growers = concept_group("growers", &["below urn:ilo:isco-08#6"], &["below urn:ilo:isco-08#9"]);
    let only = concept_group("only", &["urn:ilo:isco-08#61", "urn:ilo:isco-08#9"], &["urn:ilo:isco-08#9"]);
    let generation = generation_of([with_groups(occupations(), [farmers, growers, only])]);
    assert_eq!(members(&generation, "farmers"), ["61", "611", "613", "614", "921"]);
    assert_eq!(members(&generation, "growers"), ["6", "61", "611", "612", "613", "614"]);
    assert_eq!(members(&generation, "only"), ["61"]);
    assert_eq!(undecided(&generation, "farmers"), [""; 0]);
    let group = generation.concept_group("farmers").unwrap();
    assert_eq!(group.defined_by(), &DefinedBy::Plugin("pack-0".to_owned()));
}

#[test]
fn a_group_over_several_vocabularies_has_members_of_each() {
    let mobile = concept_group("mobile", &["below urn:ilo:isco-08#9", "urn:iso:std:iso:5218#1"], &[]);
    let generation = generation_of([registry_pack(), with_groups(occupations(), [mobile])]);
    assert_eq!(members(&generation, "mobile"), ["1", "9", "921"]);
}

#[test]
fn what_cannot_be_followed_is_undecided() {
    let farmers = concept_group("farmers", &["below urn:ilo:isco-08#61"], &["below urn:ilo:isco-08#612"]);
    let with_vocabulary = builder_of([with_groups(occupations(), [farmers.clone()])]);
    let table = table_of(&with_vocabulary);
    // The vocabulary is removed; the deployment's group and the numbers stay.
    let mut without = builder_of([]);
    without.define(farmers);
    let generation = without.build(Arc::clone(&table)).unwrap();
    // 612 is certainly excluded. All other codes are unknown, even 61, which could be below 612.
    assert_eq!(members(&generation, "farmers"), [""; 0]);
    assert_eq!(undecided(&generation, "farmers"), ["6", "61", "611", "613", "614", "9", "921"]);
}

#[test]
fn a_code_alone_needs_no_vocabulary() {
    let group = concept_group("growers", &["urn:ilo:isco-08#611"], &[]);
    let table = table_of(&builder_of([occupations().pack()]));
    let mut without = builder_of([]);
    without.define(group);
    let generation = without.build(table).unwrap();
    assert_eq!((members(&generation, "growers"), undecided(&generation, "growers").len()), (vec!["611".to_owned()], 0));
}

/// Returns an active local code of occupations that specializes another code.
fn local(code: &str, specialises: &str) -> Setting {
    Setting::LocalCode(LocalCode {
        uri: uri(&format!("urn:ilo:isco-08#{code}")),
        origin: LocalOrigin::Deployment,
        specialises: Some(Code::parse(specialises).unwrap()),
        labels: vec![LocalizedText { language: "en".to_owned(), value: code.to_owned() }],
        reference: None,
        id_type: None,
        standing: LocalStanding::Active,
        created_at: Default::default(),
        updated_at: Default::default(),
    })
}

#[test]
fn a_code_alone_includes_its_local_codes_and_not_those_of_other_codes_below_it() {
    let farmers = concept_group("farmers", &["urn:ilo:isco-08#61"], &[]);
    let mut contents = with_groups(occupations(), [farmers]);
    contents.vocabularies[0].0.is_extensible = true;
    let mut builder = builder_of([contents]);
    let local = [("own", "61"), ("own_small", "own"), ("rice", "611"), ("rice_small", "rice")]
        .map(|(code, specialises)| local(code, specialises));
    builder.deploy(&Deployment::of(local));
    let generation = builder.build(table_of(&builder)).unwrap();
    assert_eq!(members(&generation, "farmers"), ["61", "own", "own_small"]);
}

#[test]
fn codes_of_a_version_before_are_undecided_below_anything() {
    let older = builder_of([occupations().concept(TestConcept::new("615", "Gone").parent("61")).pack()]);
    let growers = concept_group("growers", &["below urn:ilo:isco-08#61"], &["urn:ilo:isco-08#612"]);
    let newer = builder_of([with_groups(occupations(), [growers])]);
    let generation = newer.build(table_of(&older)).unwrap();
    assert_eq!(undecided(&generation, "growers"), ["615"]);
    assert_eq!(members(&generation, "growers"), ["61", "611", "613", "614", "921"]);
}

#[test]
fn a_code_that_a_fragment_lacks_leaves_its_vocabulary_undecided() {
    let walking = concept_group("moving", &["below urn:who:icf:d#d9", "urn:who:icf:d#d450"], &[]);
    let builder = builder_of([activities().pack()]);
    let table = table_of(&builder);
    let mut builder = builder;
    builder.define(walking);
    let generation = builder.build(table).unwrap();
    assert_eq!(members(&generation, "moving"), ["d450"]);
    assert_eq!(undecided(&generation, "moving"), ["d4"]);
}

#[test]
fn the_well_known_groups_are_always_there() {
    let generation = builder_of([]).build(Arc::default()).unwrap();
    for (name, _) in WELL_KNOWN_CONCEPT_GROUPS {
        let group = generation.concept_group(name).unwrap();
        assert!(group.is_unset());
        assert_eq!(group.defined_by(), &DefinedBy::None);
    }
    let generation = generation_of([registry_pack()]);
    assert_eq!(members(&generation, "feminine_gender"), ["2"]);
    assert_eq!(members(&generation, "head_of_household"), ["head"]);
    assert!(generation.concept_group("pregnant_eligible").unwrap().is_unset());
}

#[test]
fn the_deployment_has_the_last_word() {
    let mut builder = builder_of([registry_pack()]);
    builder.define(concept_group("feminine_gender", &["urn:iso:std:iso:5218#2", "urn:iso:std:iso:5218#9"], &[]));
    let generation = builder.build(table_of(&builder)).unwrap();
    assert_eq!(members(&generation, "feminine_gender"), ["2", "9"]);
    assert_eq!(generation.concept_group("feminine_gender").unwrap().defined_by(), &DefinedBy::Deployment);
}

proptest::proptest! {
    #[test]
    fn agrees_with_sets_made_by_hand(
        parents in proptest::collection::vec(proptest::collection::vec(proptest::num::usize::ANY, 0..3), 1..25),
        includes in proptest::collection::vec((proptest::bool::ANY, proptest::num::usize::ANY), 1..6),
        excludes in proptest::collection::vec((proptest::bool::ANY, proptest::num::usize::ANY), 0..6),
    ) {
        let count = parents.len();
        let code = |place: usize| format!("c{place:02}");
        // Parents precede their children, so that no cycle can exist.
        let parents: Vec<BTreeSet<usize>> = (0..count)
            .map(|place| parents[place].iter().filter_map(|pick| pick.checked_rem(place)).collect())
            .collect();
        let concepts = parents.iter().enumerate().map(|(place, parents)| {
            let concept = TestConcept::new(&code(place), "Concept");
            parents.iter().fold(concept, |concept, parent| concept.parent(&code(*parent)))
        });
        let vocabulary = concepts.fold(VocabularyBuilder::new("urn:test:any"), VocabularyBuilder::concept);
        let texts = |selections: &[(bool, usize)]| -> Vec<String> {
            let prefix = |takes_descendants: bool| if takes_descendants { "below " } else { "" };
            selections.iter().map(|(below, pick)| format!("{}urn:test:any#{}", prefix(*below), code(pick % count))).collect()
        };
        let (include_texts, exclude_texts) = (texts(&includes), texts(&excludes));
        fn as_texts(texts: &[String]) -> Vec<&str> {
            texts.iter().map(String::as_str).collect()
        }
        let group = concept_group("any", &as_texts(&include_texts), &as_texts(&exclude_texts));
        let generation = generation_of([with_groups(vocabulary, [group])]);

        let selected = |selections: &[(bool, usize)]| {
            let mut selected: BTreeSet<usize> = selections.iter().map(|(_, pick)| pick % count).collect();
            let mut below: BTreeSet<usize> =
                selections.iter().filter(|(takes_descendants, _)| *takes_descendants).map(|(_, pick)| pick % count).collect();
            for (place, parents) in parents.iter().enumerate() {
                if parents.iter().any(|parent| below.contains(parent)) {
                    below.insert(place);
                }
            }
            selected.extend(below);
            selected
        };
        let expected: Vec<String> = selected(&includes).difference(&selected(&excludes)).map(|place| code(*place)).collect();
        proptest::prop_assert_eq!(members(&generation, "any"), expected);
        proptest::prop_assert!(undecided(&generation, "any").is_empty());
    }
}
