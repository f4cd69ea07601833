//! Reads the example bytes of the blob's format, which the pack builder must write.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails there")]

use daftar_codelist::blob::{Blob, BlobError};
use daftar_sdk::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptPage, LocalizedText, PageError, Selection, VocabularyDescription,
};

/// Parses the file: pairs of hexadecimal digits, and comments from `#` to the end of a line.
fn example() -> Vec<u8> {
    let text = include_str!("data/sample.hex");
    let digits = text.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn page(blob: &Blob<'_>, namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
    blob.page(namespace, cursor, limit).unwrap()
}

#[test]
fn reads_the_descriptions() {
    let bytes = example();
    let first = VocabularyDescription::new("urn:ex:a", "A", "D", "1", "en")
        .with_source("S")
        .with_licence("CC0-1.0", "Nobody")
        .with_language("fr")
        .with_completeness(Completeness::Fragment)
        .hierarchical()
        .with_concept_count(3);
    let mut second = VocabularyDescription::new("urn:ex:b", "B", "D", "2", "en")
        .with_source("T")
        .with_licence("MIT", "Some")
        .with_completeness(Completeness::Empty)
        .extensible();
    second.system = false;
    assert_eq!(Blob::open(&bytes).unwrap().descriptions(), Ok(vec![first, second]));
}

#[test]
fn reads_the_concepts() {
    let bytes = example();
    let concepts = page(&Blob::open(&bytes).unwrap(), "urn:ex:a", 0, 10).unwrap().concepts;
    let mut other = Concept::new("o", "en", "O").with_parent("t").with_parent("é1").retired(Some("é1".to_owned()));
    other.selectable = true;
    let expected = [
        Concept::new("t", "en", "T").heading(),
        Concept::new("é1", "en", "E")
            .with_parent("t")
            .with_label("fr", "É")
            .with_definition("en", "Def")
            .with_definition("fr", "Déf")
            .with_alias("x")
            .with_alias("y")
            .with_uri("u:1")
            .with_property("k", "v"),
        other,
    ];
    assert_eq!(concepts, expected);
    assert_eq!(concepts[1].labels[1], LocalizedText::new("fr", "É"));
}

#[test]
fn reads_the_concept_groups() {
    let bytes = example();
    let group = ConceptGroup::new("g", "G.")
        .including(Selection::DescendantsOf("urn:ex:a#t".to_owned()))
        .excluding(Selection::Code("urn:ex:a#o".to_owned()));
    assert_eq!(Blob::open(&bytes).unwrap().concept_groups(), Ok(vec![group]));
}

#[test]
fn pages_cover_the_codes_once_and_end() {
    let bytes = example();
    let blob = Blob::open(&bytes).unwrap();
    let first = page(&blob, "urn:ex:a", 0, 2).unwrap();
    assert_eq!((first.concepts.len(), first.next), (2, Some(2)));
    let last = page(&blob, "urn:ex:a", 2, 2).unwrap();
    assert_eq!((last.concepts.len(), last.next), (1, None));
    let empty = page(&blob, "urn:ex:b", 0, 2).unwrap();
    assert_eq!((empty.concepts.len(), empty.next), (0, None));
    assert_eq!(page(&blob, "urn:ex:a", 0, 0).unwrap().next, Some(1));
}

#[test]
fn refuses_other_namespaces_and_cursors() {
    let bytes = example();
    let blob = Blob::open(&bytes).unwrap();
    assert_eq!(page(&blob, "urn:ex:c", 0, 1), Err(PageError::UnknownNamespace));
    assert_eq!(page(&blob, "urn:ex:a", 3, 1), Err(PageError::InvalidCursor));
    assert_eq!(page(&blob, "urn:ex:a", u32::MAX, u32::MAX), Err(PageError::InvalidCursor));
}

#[test]
fn refuses_what_is_no_blob() {
    assert_eq!(Blob::open(&[]).unwrap_err(), BlobError::NoBlob);
    assert_eq!(Blob::open(b"something else altogether").unwrap_err(), BlobError::NoBlob);
    let mut later = example();
    later[8] = 2;
    assert_eq!(Blob::open(&later).unwrap_err(), BlobError::UnknownFormat(2));
    let mut cut = example();
    cut.pop();
    assert_eq!(Blob::open(&cut).unwrap_err(), BlobError::Truncated);
}

#[test]
fn no_byte_out_of_place_makes_it_panic() {
    let example = example();
    for position in 0..example.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, example[position] ^ 1] {
            let mut bytes = example.clone();
            bytes[position] = value;
            let Ok(blob) = Blob::open(&bytes) else { continue };
            let _ = blob.descriptions();
            let _ = blob.concept_groups();
            let _ = blob.page("urn:ex:a", 0, 10);
            let _ = blob.page("urn:ex:b", 0, 10);
        }
    }
}
