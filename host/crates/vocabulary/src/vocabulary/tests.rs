use super::*;
use crate::language::LanguagePreference;
use crate::testing::{TestConcept, VocabularyBuilder};
use daftar_domain::code::CodeUri;
use daftar_domain::vocabulary::{Concept, ConceptStatus, VocabularyDescription};

fn housing() -> VocabularyBuilder {
    VocabularyBuilder::new("urn:test:housing")
        .concept(TestConcept::new("1", "Housing units").label("fr", "Logements").heading())
        .concept(TestConcept::new("1.2", "Other housing units").parent("1"))
        .concept(TestConcept::new("1.1", "Conventional dwellings").parent("1").alias("dwelling").alias("house"))
        .concept(
            TestConcept::new("1.2.1", "Semi-permanent")
                .label("sw", "Nusu kudumu")
                .definition("fr", "Fait de matériaux locaux.")
                .parent("1.2")
                .property("rooms", "2")
                .uri("http://example.org/121"),
        )
        .concept(TestConcept::new("9", "Old").replaced_by("8"))
        .concept(TestConcept::new("8", "Older").replaced_by("1.1"))
}

fn codes<'a>(concepts: impl IntoIterator<Item = ConceptRef<'a>>) -> Vec<&'a str> {
    concepts.into_iter().map(ConceptRef::code).collect()
}

#[test]
fn finds_by_exact_code_and_by_alias() {
    let vocabulary = housing().vocabulary();
    assert_eq!(vocabulary.find("1.2").map(|concept| concept.default_label()), Some("Other housing units"));
    assert_eq!(vocabulary.find("1.3"), None);
    assert_eq!(vocabulary.find(""), None);
    assert_eq!(vocabulary.find("house"), None);
    assert_eq!(vocabulary.find_alias("house"), vocabulary.find("1.1"));
    assert_eq!(vocabulary.find_alias("1.1"), None);
    assert_eq!(codes(vocabulary.concepts()), ["1", "1.1", "1.2", "1.2.1", "8", "9"]);
    assert_eq!(vocabulary.concept(ConceptIndex(6)), None);
}

#[test]
fn returns_every_property_of_a_concept() {
    let vocabulary = housing().vocabulary();
    let concept = vocabulary.find("1.2.1").unwrap();
    assert_eq!(concept.uri().unwrap(), CodeUri::parse("urn:test:housing#1.2.1").unwrap());
    assert_eq!(concept.labels().collect::<Vec<_>>(), [("en", "Semi-permanent"), ("sw", "Nusu kudumu")]);
    assert_eq!(concept.property("rooms"), Some("2"));
    assert_eq!(concept.property("doors"), None);
    assert_eq!(concept.owner_uri(), Some("http://example.org/121"));
    assert!(concept.is_usable());
    assert_eq!(vocabulary.find("1.1").unwrap().aliases().collect::<Vec<_>>(), ["dwelling", "house"]);
    assert!(!vocabulary.find("1").unwrap().is_selectable());
    assert_eq!(vocabulary.find("1").unwrap().owner_uri(), None);
}

#[test]
fn walks_the_hierarchy() {
    let vocabulary = housing().vocabulary();
    let (top, middle, leaf) = ["1", "1.2", "1.2.1"].map(|code| vocabulary.find(code).unwrap()).into();
    assert_eq!(codes(top.children()), ["1.1", "1.2"]);
    assert_eq!(codes(top.descendants()), ["1.1", "1.2", "1.2.1"]);
    assert_eq!(codes(leaf.parents()), ["1.2"]);
    assert_eq!(codes(leaf.ancestors()), ["1.2", "1"]);
    assert_eq!(codes(vocabulary.roots()), ["1", "8", "9"]);
    assert_eq!((leaf.level(), top.level()), (3, 1));
    assert!(leaf.is_below(top) && !top.is_below(leaf) && !middle.is_below(middle));
    let same_codes = housing().vocabulary();
    assert!(!leaf.is_below(same_codes.find("1").unwrap()), "concepts of two vocabulary values are not related");
}

#[test]
fn an_inactive_code_leads_to_the_active_one_at_the_end() {
    let vocabulary = housing().vocabulary();
    let old = vocabulary.find("9").unwrap();
    assert_eq!(old.status(), ConceptStatus::Inactive);
    assert_eq!(old.replaced_by().map(ConceptRef::code), Some("8"));
    assert_eq!(old.active_successor().map(ConceptRef::code), Some("1.1"));
    assert_eq!(vocabulary.find("1.1").unwrap().active_successor(), None);
}

#[test]
fn a_label_reports_its_language_and_any_fallback() {
    let vocabulary = housing().vocabulary();
    let leaf = vocabulary.find("1.2.1").unwrap();
    let wanted = |header: &str| {
        let label = leaf.label(&LanguagePreference::parse(header));
        (label.text, label.language, label.is_fallback)
    };
    assert_eq!(wanted("sw-KE"), ("Nusu kudumu", "sw", false));
    assert_eq!(wanted("fr"), ("Semi-permanent", "en", true));
    assert_eq!(wanted("fr, en;q=0.1"), ("Semi-permanent", "en", false));
    assert_eq!(wanted(""), ("Semi-permanent", "en", false));
    let definition = leaf.definition(&LanguagePreference::parse("en")).unwrap();
    assert_eq!((definition.language, definition.is_fallback), ("fr", true));
    assert_eq!(vocabulary.find("1").unwrap().definition(&LanguagePreference::none()), None);
}

#[test]
fn the_digest_follows_the_meaning_and_not_the_order() {
    type Change<'a> = &'a dyn Fn(&mut VocabularyDescription, &mut Vec<Concept>);
    let digest = |change: Change<'_>| {
        let (mut description, mut concepts) = housing().contents();
        change(&mut description, &mut concepts);
        concepts.sort_by(|one, other| one.code.cmp(&other.code));
        *Vocabulary::build(description, &concepts).unwrap().digest()
    };
    let unchanged = digest(&|_, _| ());
    assert_eq!(unchanged, digest(&|_, concepts| concepts.reverse()));
    assert_eq!(unchanged, digest(&|_, concepts| concepts.iter_mut().for_each(|one| one.aliases.reverse())));
    assert_eq!(unchanged, digest(&|description, _| description.languages.reverse()));
    let changes: [Change<'_>; 9] = [
        &|description, _| description.version.push('x'),
        &|description, _| description.is_extensible = true,
        &|_, concepts| concepts[0].labels[0].value.push('x'),
        &|_, concepts| concepts[0].labels[1].language = "pt".to_owned(),
        &|_, concepts| concepts[0].is_selectable = true,
        &|_, concepts| concepts[1].parents.clear(),
        &|_, concepts| concepts[2].aliases.truncate(1),
        &|_, concepts| concepts[3].properties[0].1.push('x'),
        &|_, concepts| concepts[4].replaced_by = None,
    ];
    let mut digests: Vec<ContentDigest> = changes.iter().map(|change| digest(change)).chain([unchanged]).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), changes.len() + 1);
}

/// Builds a vocabulary of the size of ICD-11, in chapters, blocks and two levels of codes. Titles and URIs have the
/// length of those of ICD-11.
fn large() -> VocabularyBuilder {
    let mut builder = VocabularyBuilder::new("urn:test:large");
    let mut count = 0;
    for chapter in 0..28 {
        let chapter_code = format!("{chapter:02}");
        builder = builder.concept(TestConcept::new(&chapter_code, "A chapter of the classification").heading());
        count += 1;
        for stem in 0..105 {
            let stem_code = format!("{chapter:02}{stem:03}");
            if count == 17_546 {
                break;
            }
            builder = builder.concept(titled(&stem_code, stem).parent(&chapter_code));
            count += 1;
            for detail in 0..5 {
                if count < 17_546 {
                    builder = builder.concept(titled(&format!("{stem_code}.{detail}"), detail).parent(&stem_code));
                    count += 1;
                }
            }
        }
    }
    builder
}

fn titled(code: &str, number: usize) -> TestConcept {
    TestConcept::new(code, &format!("A disease of the body with a title of usual length, number {number}"))
        .uri(&format!("http://example.org/classification/entity/{code}"))
}

fn vector_bytes<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

fn list_bytes<T>(lists: &Lists<T>) -> usize {
    vector_bytes(&lists.starts) + vector_bytes(&lists.items)
}

/// Returns the heap size of a vocabulary that was not searched, in bytes.
fn heap_bytes(vocabulary: &Vocabulary) -> usize {
    let hierarchy = &vocabulary.hierarchy;
    vocabulary.texts.all.capacity()
        + vector_bytes(&vocabulary.codes)
        + vector_bytes(&vocabulary.flags)
        + list_bytes(&vocabulary.labels)
        + list_bytes(&vocabulary.definitions)
        + list_bytes(&vocabulary.aliases)
        + vector_bytes(&vocabulary.alias_owners)
        + list_bytes(&vocabulary.properties)
        + vector_bytes(&vocabulary.uris)
        + vector_bytes(&vocabulary.successors)
        + vector_bytes(&vocabulary.local)
        + list_bytes(&hierarchy.parents)
        + list_bytes(&hierarchy.children)
        + list_bytes(&hierarchy.extras)
        + vector_bytes(&hierarchy.intervals)
        + vector_bytes(&hierarchy.preorder)
}

#[test]
fn a_classification_of_17546_codes_takes_a_few_megabytes() {
    let vocabulary = large().vocabulary();
    assert_eq!(vocabulary.concept_count(), 17_546);
    let bytes = heap_bytes(&vocabulary);
    assert!(bytes < 5 * 1024 * 1024, "{bytes} bytes");
    let chapter = vocabulary.find("07").unwrap();
    assert_eq!(chapter.descendant_count(), 105 * 6);
    assert_eq!(chapter.descendants().count(), 105 * 6);
    let leaf = vocabulary.find("07103.4").unwrap();
    assert!(leaf.is_below(chapter));
    assert_eq!(leaf.level(), 3);
}
