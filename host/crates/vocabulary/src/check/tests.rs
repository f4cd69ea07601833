use super::problem::{PackProblem, TextFault};
use super::*;
use crate::testing::{TestConcept, VocabularyBuilder, concept_group, registry_pack};
use daftar_domain::code::CodeUri;
use daftar_domain::vocabulary::{Completeness, LocalizedText};

fn list() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:test:list")
        .concept(TestConcept::new("a", "Alpha").label("fr", "Alfa"))
        .concept(TestConcept::new("b", "Beta"))
}

fn code(text: &str) -> Code {
    Code::parse(text).unwrap()
}

/// Returns the faults of a vocabulary, each with its code.
fn faults(builder: VocabularyBuilder) -> Vec<(Option<String>, PackFault)> {
    faults_of(builder.pack())
}

fn faults_of(contents: PackContents) -> Vec<(Option<String>, PackFault)> {
    let problems = check(contents).err().map(|problems| problems.problems().to_vec()).unwrap_or_default();
    let code_of = |place| match place {
        Place::Concept(_, code) => Some(code.to_string()),
        Place::Pack | Place::Vocabulary(_) | Place::ConceptGroup(_) => None,
    };
    problems.into_iter().map(|problem| (code_of(problem.place), problem.fault)).collect()
}

/// Returns the faults after a change to the description.
fn described(change: impl FnOnce(&mut VocabularyDescription)) -> Vec<PackFault> {
    let mut contents = list().pack();
    change(&mut contents.vocabularies[0].0);
    faults_of(contents).into_iter().map(|(_, fault)| fault).collect()
}

/// Returns the faults after a change to the first concept.
fn changed(change: impl FnOnce(&mut Concept)) -> Vec<(Option<String>, PackFault)> {
    let mut contents = list().pack();
    change(&mut contents.vocabularies[0].1[0]);
    faults_of(contents)
}

/// Returns one fault of the first concept.
fn of_a(fault: PackFault) -> Vec<(Option<String>, PackFault)> {
    vec![(Some("a".to_owned()), fault)]
}

#[test]
fn a_sound_pack_is_indexed() {
    let pack = check(registry_pack()).unwrap();
    assert_eq!(pack.vocabularies().len(), 6);
    assert_eq!(pack.concept_groups().len(), 3);
    assert_eq!(pack.vocabularies()[0].concept_count(), 4);
}

#[test]
fn refuses_a_code_that_stands_twice() {
    let twice = list().concept(TestConcept::new("a", "Again")).concept(TestConcept::new("a", "And again"));
    assert_eq!(faults(twice), of_a(PackFault::CodeTwice { times: 3 }));
}

#[test]
fn refuses_wrong_parents() {
    let parent = |parent: &str| list().concept(TestConcept::new("c", "Gamma").parent(parent));
    let of_c = |fault| vec![(Some("c".to_owned()), fault)];
    assert_eq!(faults(parent("x")), of_c(PackFault::UnknownParent(code("x"))));
    assert_eq!(faults(parent("c")), of_c(PackFault::SelfParent));
    let twice = list().concept(TestConcept::new("c", "Gamma").parent("a").parent("a"));
    assert_eq!(faults(twice), of_c(PackFault::ParentTwice(code("a"))));
    assert_eq!(faults(parent("a")), []);
}

#[test]
fn refuses_a_cycle_and_shows_it() {
    let builder = VocabularyBuilder::new("urn:test:list")
        .concept(TestConcept::new("a", "Alpha").parent("b"))
        .concept(TestConcept::new("b", "Beta").parent("c"))
        .concept(TestConcept::new("c", "Gamma").parent("a"));
    let problems = check(builder.pack()).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "code `urn:test:list#a`: it is above itself: `a` → `b` → `c` → `a`; take one of these links out"
    );
}

#[test]
fn rejects_too_deep_hierarchies() {
    let chain = |levels: usize| {
        let concept = |level: usize| {
            let concept = TestConcept::new(&format!("c{level:03}"), "Level");
            if level == 0 { concept } else { concept.parent(&format!("c{:03}", level - 1)) }
        };
        (0..levels).map(concept).fold(VocabularyBuilder::new("urn:test:deep"), VocabularyBuilder::concept)
    };
    assert_eq!(faults(chain(DEPTH_MAX)), []);
    assert_eq!(faults(chain(DEPTH_MAX + 3)), [(Some("c064".to_owned()), PackFault::TooDeep { max: DEPTH_MAX })]);
}

#[test]
fn refuses_wrong_successors() {
    assert_eq!(changed(|a| a.replaced_by = Some(code("b"))), of_a(PackFault::ActiveReplaced(code("b"))));
    let unknown = list().concept(TestConcept::new("c", "Gamma").replaced_by("x"));
    assert_eq!(faults(unknown), [(Some("c".to_owned()), PackFault::UnknownSuccessor(code("x")))]);
    let circle = list()
        .concept(TestConcept::new("c", "Gamma").replaced_by("d"))
        .concept(TestConcept::new("d", "Delta").replaced_by("e"))
        .concept(TestConcept::new("e", "Epsilon").replaced_by("d"));
    let shown = PackFault::SuccessorCircle(vec![code("d"), code("e"), code("d")]);
    assert_eq!(faults(circle), [(Some("d".to_owned()), shown)]);
    assert_eq!(faults(list().concept(TestConcept::new("c", "Gamma").replaced_by("a"))), []);
}

#[test]
fn refuses_wrong_labels() {
    let label = |language: &str, value: &str| LocalizedText { language: language.to_owned(), value: value.to_owned() };
    assert_eq!(changed(|a| a.labels = vec![label("fr", "x")]), of_a(PackFault::NoDefaultLabel("en".to_owned())));
    let two = of_a(PackFault::TextTwice { what: "labels", language: "fr".to_owned() });
    assert_eq!(changed(|a| a.labels.push(label("fr", "x"))), two);
    let unlisted = of_a(PackFault::UnlistedLanguage { what: "label", language: "de".to_owned() });
    assert_eq!(changed(|a| a.labels.push(label("de", "x"))), unlisted);
    let text = |fault| of_a(PackFault::Text { what: "label in fr".to_owned(), fault });
    let with = |value: &str| changed(|a| a.labels[1].value = value.to_owned());
    assert_eq!(with(""), text(TextFault::Empty));
    assert_eq!(with("a\tb"), text(TextFault::ControlCharacter));
    assert_eq!(with("e\u{301}"), text(TextFault::NotNormalized));
    assert_eq!(with(&"x".repeat(limits::LABEL_BYTES_MAX)), []);
    let (bytes, max) = (limits::LABEL_BYTES_MAX + 1, limits::LABEL_BYTES_MAX);
    assert_eq!(with(&"x".repeat(bytes)), text(TextFault::TooLong { bytes, max }));
}

#[test]
fn a_definition_may_have_lines_and_one_a_language() {
    let text = |value: &str| LocalizedText { language: "en".to_owned(), value: value.to_owned() };
    assert_eq!(changed(|a| a.definitions = vec![text("one\ntwo")]), []);
    let two = of_a(PackFault::TextTwice { what: "definitions", language: "en".to_owned() });
    assert_eq!(changed(|a| a.definitions = vec![text("one"), text("two")]), two);
}

#[test]
fn refuses_aliases_that_are_ambiguous() {
    let alias = |alias: &str| changed(|a| a.aliases.push(alias.to_owned()));
    assert_eq!(alias("b"), of_a(PackFault::AliasIsCode("b".to_owned())));
    assert_eq!(alias("a"), of_a(PackFault::AliasIsCode("a".to_owned())));
    assert_eq!(alias("x y"), of_a(PackFault::MalformedAlias("x y".to_owned())));
    let twice =
        list().concept(TestConcept::new("c", "Gamma").alias("x")).concept(TestConcept::new("d", "Delta").alias("x"));
    let fault = PackFault::AliasTwice { alias: "x".to_owned(), other: code("c") };
    assert_eq!(faults(twice), [(Some("d".to_owned()), fault)]);
}

#[test]
fn refuses_properties_that_are_not_named_once() {
    let property = |key: &str| (key.to_owned(), "1".to_owned());
    assert_eq!(changed(|a| a.properties = vec![property("Kind")]), of_a(PackFault::PropertyKey("Kind".to_owned())));
    let twice = of_a(PackFault::PropertyTwice("kind".to_owned()));
    assert_eq!(changed(|a| a.properties = vec![property("kind"), property("kind")]), twice);
}

#[test]
fn refuses_lists_that_are_too_long() {
    let max = limits::LIST_ITEMS_MAX;
    let aliases = |count: usize| changed(|a| a.aliases = (0..count).map(|alias| format!("alias{alias}")).collect());
    assert_eq!(aliases(max), []);
    assert_eq!(aliases(max + 1), of_a(PackFault::TooMany { what: "aliases", actual: max + 1, max }));
}

#[test]
fn refuses_a_description_that_is_not_true() {
    let count = PackFault::Count { promised: 3, actual: 2 };
    assert_eq!(described(|description| description.concept_count = 3), [count]);
    assert_eq!(described(|description| description.is_hierarchical = true), [PackFault::NotHierarchical]);
    assert_eq!(described(|description| description.completeness = Completeness::Empty), [PackFault::NotEmpty]);
    let (mut description, concepts) = list().concept(TestConcept::new("c", "Gamma").parent("a")).contents();
    description.is_hierarchical = false;
    let contents = PackContents { vocabularies: vec![(description, concepts)], concept_groups: Vec::new() };
    assert_eq!(faults_of(contents), [(None, PackFault::NotFlat)]);
    assert_eq!(faults(VocabularyBuilder::new("urn:test:none")), [(None, PackFault::Empty)]);
    assert_eq!(faults(VocabularyBuilder::new("urn:test:none").completeness(Completeness::Empty)), []);
}

#[test]
fn rejects_an_invalid_description() {
    let wrong_version = |version: &str| described(|description| description.version = version.to_owned());
    assert_eq!(wrong_version(""), [PackFault::Version(String::new())]);
    assert_eq!(wrong_version("2024 a"), [PackFault::Version("2024 a".to_owned())]);
    let name = PackFault::Text { what: "name".to_owned(), fault: TextFault::Empty };
    assert_eq!(described(|description| description.name.clear()), [name]);
    assert_eq!(
        described(|description| description.languages.extend(["EN".to_owned(), "not_a_tag".to_owned()])),
        [PackFault::LanguageTwice("EN".to_owned()), PackFault::LanguageTag("not_a_tag".to_owned())]
    );
    let missing = described(|description| description.default_language = "sw".to_owned());
    assert_eq!(missing.first(), Some(&PackFault::DefaultLanguageNotListed("sw".to_owned())));
    let (actual, max) = (limits::LANGUAGES_MAX + 1, limits::LANGUAGES_MAX);
    let many = described(|description| description.languages = vec!["en".to_owned(); actual]);
    assert_eq!(many, [PackFault::TooMany { what: "languages", actual, max }]);
}

#[test]
fn refuses_two_vocabularies_of_one_namespace() {
    let mut contents = list().pack();
    contents.vocabularies.push(list().contents());
    assert_eq!(faults_of(contents), [(None, PackFault::VocabularyTwice)]);
    assert_eq!(faults_of(PackContents::default()), [(None, PackFault::Nothing)]);
}

#[test]
fn refuses_too_many_of_anything() {
    let (description, concepts) = list().contents();
    let many = |count: usize| {
        let namespace = |place: usize| daftar_domain::code::Namespace::parse(&format!("urn:test:{place}")).unwrap();
        let vocabulary =
            |place| (VocabularyDescription { namespace: namespace(place), ..description.clone() }, concepts.clone());
        faults_of(PackContents { vocabularies: (0..count).map(vocabulary).collect(), concept_groups: Vec::new() })
    };
    let (actual, max) = (VOCABULARIES_MAX + 1, VOCABULARIES_MAX);
    assert_eq!(many(max), []);
    assert_eq!(many(actual), [(None, PackFault::TooMany { what: "vocabularies", actual, max })]);

    let (actual, max) = (CONCEPTS_MAX + 1, CONCEPTS_MAX);
    let (mut description, concepts) = list().contents();
    description.concept_count = u32::try_from(actual).unwrap();
    let concepts = vec![concepts[0].clone(); actual];
    let contents = PackContents { vocabularies: vec![(description, concepts)], concept_groups: Vec::new() };
    assert_eq!(faults_of(contents), [(None, PackFault::TooMany { what: "concepts", actual, max })]);
}

#[test]
fn refuses_concept_groups_that_cannot_be() {
    let with = |groups: Vec<ConceptGroup>| {
        let mut contents = list().pack();
        contents.concept_groups = groups;
        check(contents).err().map(|problems| problems.problems().to_vec()).unwrap_or_default()
    };
    let of = |name: &str, fault| PackProblem { place: Place::ConceptGroup(name.to_owned()), fault };
    for name in ["", "Old", "9th", "a-b", &"a".repeat(65)] {
        let shown: String = name.chars().take(64).collect();
        assert_eq!(with(vec![concept_group(name, &[], &[])]), [of(&shown, PackFault::ConceptGroupName)]);
    }
    let twice = with(vec![concept_group("old", &[], &[]), concept_group("old", &[], &[])]);
    assert_eq!(twice, [of("old", PackFault::ConceptGroupTwice)]);
    let unknown = PackFault::UnknownSelection(CodeUri::parse("urn:test:list#x").unwrap());
    assert_eq!(with(vec![concept_group("old", &["below urn:test:list#x"], &[])]), [of("old", unknown.clone())]);
    assert_eq!(with(vec![concept_group("old", &["urn:test:list#a"], &["urn:test:list#x"])]), [of("old", unknown)]);
    assert_eq!(with(vec![concept_group("old", &["urn:test:other#x", "urn:test:list#a"], &[])]), []);
    let (actual, max) = (limits::SELECTIONS_MAX + 1, limits::SELECTIONS_MAX);
    let many = with(vec![concept_group("old", &vec!["urn:test:list#a"; actual], &[])]);
    assert_eq!(many, [of("old", PackFault::TooMany { what: "selections", actual, max })]);
}

#[test]
fn reports_all_problems_together_and_counts_omitted_ones() {
    let builder = VocabularyBuilder::new("urn:test:list")
        .concept(TestConcept::new("a", "Alpha").parent("x").alias("b"))
        .concept(TestConcept::new("b", "Beta").parent("c"))
        .concept(TestConcept::new("c", "").parent("b"));
    let text = check(builder.pack()).unwrap_err().to_string();
    insta::assert_snapshot!(text, @"
    code `urn:test:list#a`: its parent `x` is not in the vocabulary; add it or name another
    code `urn:test:list#a`: its alias `b` is a code of this vocabulary; an alias leads to one code only
    code `urn:test:list#c`: its label in en is empty; leave it out or fill it
    code `urn:test:list#b`: it is above itself: `b` → `c` → `b`; take one of these links out
    ");

    let invalid = (0..limits::PROBLEMS_MAX + 7).map(|place| TestConcept::new(&format!("c{place}"), ""));
    let problems = check(invalid.fold(VocabularyBuilder::new("urn:test:many"), VocabularyBuilder::concept).pack());
    let problems = problems.unwrap_err();
    assert_eq!((problems.problems().len(), problems.left_out()), (limits::PROBLEMS_MAX, 7));
    assert!(problems.to_string().ends_with("\nand 7 more problems"));
}
