//! Writes the blob that the generic pack reads. `plugins/codelist` documents its format and shares no code with this
//! module; both are tested against the same example bytes.

use super::build::{BLOB_BYTES_MAX, PackBuildError};
use super::source::PackSource;
use daftar_domain::code::Code;
use daftar_domain::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Selection, VocabularyDescription,
};

const MAGIC: &[u8; 8] = b"DFTRCODE";
const FORMAT: u32 = 1;

/// The offsets of the blob's length and of the concept groups in the header.
const LENGTH_POSITION: usize = 12;
const GROUPS_POSITION: usize = 16;

/// The flag bits of a vocabulary.
const HIERARCHICAL: u32 = 1;
const OPEN: u32 = 2;
const SYSTEM: u32 = 4;
const EXTENSIBLE: u32 = 8;

/// The flag bits of a concept.
const ACTIVE: u32 = 1;
const SELECTABLE: u32 = 2;

/// Encodes a checked source.
///
/// # Errors
/// It exceeds the size limit of packs.
pub fn write(source: &PackSource) -> Result<Vec<u8>, PackBuildError> {
    let mut blob = Writer { bytes: Vec::new() };
    blob.bytes.extend_from_slice(MAGIC);
    blob.fixed(FORMAT);
    blob.fixed(0); // the length
    blob.fixed(0); // the offset of the concept groups
    blob.fixed(small(source.contents.vocabularies.len()));
    let directory = blob.bytes.len();
    for _ in &source.contents.vocabularies {
        blob.fixed(0);
    }
    for (index, (description, concepts)) in source.contents.vocabularies.iter().enumerate() {
        blob.patch_to_here(directory + 4 * index);
        blob.vocabulary(description, concepts);
    }
    blob.patch_to_here(GROUPS_POSITION);
    blob.list(&source.contents.concept_groups, Writer::concept_group);
    blob.patch_to_here(LENGTH_POSITION);
    // Numbers beyond 32 bits were truncated above, but then the blob exceeds its limit too.
    let bytes = blob.bytes.len();
    if bytes > BLOB_BYTES_MAX { Err(PackBuildError::TooLarge { bytes }) } else { Ok(blob.bytes) }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn flag(is_set: bool, bit: u32) -> u32 {
    if is_set { bit } else { 0 }
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn fixed(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes the current end of the blob into four bytes reserved earlier.
    fn patch_to_here(&mut self, position: usize) {
        let here = small(self.bytes.len()).to_le_bytes();
        for (slot, byte) in self.bytes.iter_mut().skip(position).zip(here) {
            *slot = byte;
        }
    }

    fn number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(small(text.len()));
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn option(&mut self, text: Option<&str>) {
        match text {
            None => self.number(0),
            Some(text) => {
                self.number(1);
                self.text(text);
            }
        }
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.number(small(items.len()));
        for item in items {
            write(self, item);
        }
    }

    fn texts(&mut self, texts: &[String]) {
        self.list(texts, |writer, text| writer.text(text));
    }

    fn codes(&mut self, codes: &[Code]) {
        self.list(codes, |writer, code| writer.text(code.as_str()));
    }

    fn vocabulary(&mut self, description: &VocabularyDescription, concepts: &[Concept]) {
        self.fixed(small(concepts.len()));
        let offsets = self.bytes.len();
        for _ in concepts {
            self.fixed(0);
        }
        self.text(description.namespace.as_str());
        self.text(&description.name);
        self.text(&description.domain);
        self.text(&description.version);
        self.text(&description.source);
        self.text(&description.licence);
        self.text(&description.attribution);
        self.texts(&description.languages);
        self.number(match description.completeness {
            Completeness::Full => 0,
            Completeness::Fragment => 1,
            Completeness::Empty => 2,
        });
        self.number(
            flag(description.is_hierarchical, HIERARCHICAL)
                | flag(description.is_open, OPEN)
                | flag(description.is_system, SYSTEM)
                | flag(description.is_extensible, EXTENSIBLE),
        );
        for (index, concept) in concepts.iter().enumerate() {
            self.patch_to_here(offsets + 4 * index);
            self.concept(concept, &description.languages);
        }
    }

    fn concept(&mut self, concept: &Concept, languages: &[String]) {
        self.text(concept.code.as_str());
        self.number(flag(concept.status == ConceptStatus::Active, ACTIVE) | flag(concept.is_selectable, SELECTABLE));
        self.codes(&concept.parents);
        self.option(concept.replaced_by.as_ref().map(Code::as_str));
        self.localized_texts(&concept.labels, languages);
        self.localized_texts(&concept.definitions, languages);
        self.texts(&concept.aliases);
        self.option(concept.uri.as_deref());
        self.list(&concept.properties, |writer, (key, value)| {
            writer.text(key);
            writer.text(value);
        });
    }

    fn localized_texts(&mut self, texts: &[LocalizedText], languages: &[String]) {
        self.list(texts, |writer, text| {
            // An unknown language would get an index past the end, which the reader rejects.
            let index = languages.iter().position(|language| *language == text.language);
            writer.number(small(index.unwrap_or(languages.len())));
            writer.text(&text.value);
        });
    }

    fn concept_group(&mut self, group: &ConceptGroup) {
        self.text(&group.name);
        self.text(&group.description);
        self.list(&group.includes, Self::selection);
        self.list(&group.excludes, Self::selection);
    }

    fn selection(&mut self, selection: &Selection) {
        let (kind, uri) = match selection {
            Selection::Code(uri) => (0, uri),
            Selection::DescendantsOf(uri) => (1, uri),
        };
        self.number(kind);
        self.text(&uri.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: u32) -> Vec<u8> {
        let mut writer = Writer { bytes: Vec::new() };
        writer.number(value);
        writer.bytes
    }

    #[test]
    fn numbers_are_unsigned_leb128() {
        assert_eq!(number(0), [0]);
        assert_eq!(number(127), [0x7f]);
        assert_eq!(number(128), [0x80, 0x01]);
        assert_eq!(number(u32::MAX), [0xff, 0xff, 0xff, 0xff, 0x0f]);
    }
}
