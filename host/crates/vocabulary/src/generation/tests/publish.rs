use super::*;
use crate::check::check;
use crate::testing::{builder_of, concept_group, generation, generation_of, origin, registry_pack, table_of};
use daftar_domain::manifest::ExtensionField;

fn texts(problems: Vec<PublishProblem>) -> Vec<String> {
    problems.iter().map(PublishProblem::to_string).collect()
}

#[test]
fn two_packs_cannot_bring_one_vocabulary() {
    let mut builder = builder_of([occupations().pack()]);
    let twin = check(with_groups(occupations().version("2"), [concept_group("twins", &[], &[])])).unwrap();
    let problems = builder.add(origin("twin"), &twin).unwrap_err();
    insta::assert_snapshot!(texts(problems).join("\n"), @"pack `twin`: the vocabulary `urn:ilo:isco-08` is already there from `pack-0`; remove that pack first");
    let generation = builder.build(table_of(&builder)).unwrap();
    assert_eq!(generation.packs().len(), 1);
    assert!(generation.concept_group("twins").is_none(), "nothing of a refused pack is published");
}

#[test]
fn two_packs_may_share_a_group_only_with_one_meaning() {
    let includes = ["urn:test:a#1", "below urn:test:a#2"];
    let reversed = ["below urn:test:a#2", "urn:test:a#1"];
    let mut builder = builder_of([with_groups(occupations(), [concept_group("shared", &includes, &[])])]);
    let same = check(with_groups(activities(), [concept_group("shared", &reversed, &[])])).unwrap();
    builder.add(origin("same"), &same).unwrap();
    let other = VocabularyBuilder::new("urn:test:other").concepts([("x", "X")]);
    let other = check(with_groups(other, [concept_group("shared", &["urn:test:a#2"], &[])])).unwrap();
    let problems = builder.add(origin("other"), &other).unwrap_err();
    insta::assert_snapshot!(texts(problems).join("\n"), @"pack `other`: the concept group `shared` is already there from `pack-0` with another definition; name it otherwise");
}

#[test]
fn a_group_may_not_select_codes_that_another_pack_lacks() {
    let list = || VocabularyBuilder::new("urn:test:list").concepts([("x", "X")]);
    let typo = concept_group("growers", &["urn:ilo:isco-08#6111", "below urn:who:icf:d#d999"], &["urn:test:absent#1"]);
    let builder = builder_of([occupations().pack(), activities().pack(), with_groups(list(), [typo])]);
    let problems = builder.build(table_of(&builder)).unwrap_err();
    insta::assert_snapshot!(texts(problems).join("\n"), @"pack `pack-2`: the concept group `growers` selects `urn:ilo:isco-08#6111`, which its vocabulary does not have; perhaps `urn:ilo:isco-08#611` (Crop growers) is meant");
    let mut builder = builder_of([occupations().pack()]);
    builder.define(concept_group("growers", &["urn:ilo:isco-08#x"], &[]));
    let problems = builder.build(table_of(&builder)).unwrap_err();
    insta::assert_snapshot!(texts(problems).join("\n"), @"the deployment's definitions: the concept group `growers` selects `urn:ilo:isco-08#x`, which its vocabulary does not have; perhaps `urn:ilo:isco-08#9` (Elementary occupations) is meant");
}

#[test]
fn everything_must_have_a_number_first() {
    let builder = builder_of([occupations().pack()]);
    let problems = texts(builder.build(Arc::default()).unwrap_err());
    insta::assert_snapshot!(problems.join("\n"), @"pack `pack-0`: version `1` of `urn:ilo:isco-08` has no number; number everything that `unnumbered` lists before building");
    let (codes, editions) = builder.unnumbered(&CodeTable::default());
    assert_eq!((codes.len(), editions.len()), (8, 1));
    let in_preorder: Vec<&str> = codes.iter().map(|uri| uri.code.as_str()).collect();
    assert_eq!(in_preorder, ["6", "61", "611", "612", "613", "614", "9", "921"]);
    let half = CodeTable::new(&codes[..4], &editions).unwrap();
    let (rest, no_edition) = builder.unnumbered(&half);
    assert_eq!((rest, no_edition.len()), (codes[4..].to_vec(), 0));
    assert!(builder.build(Arc::new(half)).is_err());
    let upgraded = builder_of([occupations().version("2").pack()]);
    let (no_codes, editions) = upgraded.unnumbered(&table_of(&builder));
    assert_eq!((no_codes.len(), editions.len()), (0, 1));
}

#[test]
fn the_digest_follows_the_meaning_and_not_the_order_or_the_numbers() {
    let packs = || [registry_pack(), occupations().pack()];
    let digest = |packs: Vec<PackContents>| *generation_of(packs).digest();
    let unchanged = digest(packs().to_vec());
    let mut reversed = packs().to_vec();
    reversed.reverse();
    assert_eq!(unchanged, digest(reversed));

    let without_one = digest(vec![registry_pack()]);
    let newer = digest(vec![registry_pack(), occupations().version("2").pack()]);
    let longer = digest(vec![registry_pack(), occupations().concept(TestConcept::new("8", "Operators")).pack()]);
    let grouped = digest(vec![registry_pack(), with_groups(occupations(), [concept_group("old", &[], &[])])]);
    let mut other_group = registry_pack();
    other_group.concept_groups[0].includes = concept_group("x", &["urn:iso:std:iso:5218#9"], &[]).includes;
    let regrouped = digest(vec![other_group, occupations().pack()]);
    let mut digests = [unchanged, without_one, newer, longer, grouped, regrouped];
    digests.sort_unstable();
    assert!(digests.array_windows().all(|[one, other]| one != other));
}

#[test]
fn the_digest_follows_the_declared_extension_fields() {
    let field = |json: &str| serde_json::from_str::<ExtensionField>(json).unwrap();
    let digest = |fields: &[&str]| {
        let fields: Vec<ExtensionField> = fields.iter().copied().map(field).collect();
        let pack = check(occupations().pack()).unwrap().with_extension_fields(&fields);
        let mut builder = GenerationBuilder::new();
        builder.add(origin("occupations"), &pack).unwrap();
        *builder.build(table_of(&builder)).unwrap().digest()
    };
    let (area, note) = (r#"{"path":"farm.area","type":"number"}"#, r#"{"path":"farm.note","type":"text"}"#);
    assert_eq!(digest(&[area, note]), digest(&[note, area]));
    let mut digests = [
        digest(&[]),
        digest(&[area]),
        digest(&[area, note]),
        digest(&[r#"{"path":"farm.area","type":"integer"}"#]),
        digest(&[r#"{"path":"farm.area","type":"number","repeated":true}"#]),
        digest(&[r#"{"path":"farm.area","type":"coded","vocabulary":"urn:ilo:isco-08"}"#]),
        digest(&[r#"{"path":"farm.area","type":"coded","vocabulary":"urn:fao:agrovoc"}"#]),
    ];
    digests.sort_unstable();
    assert!(digests.array_windows().all(|[one, other]| one != other));
}

#[test]
fn a_request_keeps_the_generation_it_began_with() {
    let vocabularies = Vocabularies::new(generation());
    let mine = vocabularies.current();
    let published = vocabularies.publish(generation_of([occupations().pack()]));
    assert_eq!(mine.vocabularies().len(), 6);
    assert_eq!(vocabularies.current().digest(), published.digest());
    assert_eq!(published.vocabularies().len(), 1);
}

#[test]
fn names_the_pack_of_each_vocabulary() {
    let generation = generation_of([registry_pack(), occupations().pack()]);
    let namespace = uri("urn:ilo:isco-08#9").namespace;
    assert_eq!(generation.pack_of(&namespace).unwrap().plugin, "pack-1");
    assert_eq!(generation.vocabulary(&namespace).unwrap().concept_count(), 8);
    let namespaces: Vec<&str> = generation.vocabularies().map(|vocabulary| vocabulary.namespace().as_str()).collect();
    assert!(namespaces.is_sorted());
    assert_eq!(namespaces.len(), 7);
}
