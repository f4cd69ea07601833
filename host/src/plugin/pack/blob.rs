//! Writes the blob that the generic pack reads. Its format is described in the documentation of `plugins/codelist`, which
//! shares no code with this module; a file of example bytes, checked on both sides, holds the two together.

use super::limits::BLOB_BYTES_MAX;
use super::source::{
    Completeness, ConceptGroupSource, ConceptSource, PackSource, Selection, TextSource, VocabularySource,
};

const MAGIC: &[u8; 8] = b"DFTRCODE";
const FORMAT: u32 = 1;

/// Where the frame has the length of the blob, and the offset of the concept groups.
const LENGTH_POSITION: usize = 12;
const GROUPS_POSITION: usize = 16;

/// Bits of a vocabulary's flags. Bit 2, open, is never set: the codes of a pack made of files are all listed.
const HIERARCHICAL: u32 = 1;
const SYSTEM: u32 = 4;
const EXTENSIBLE: u32 = 8;

/// Bits of a concept's flags.
const ACTIVE: u32 = 1;
const SELECTABLE: u32 = 2;

/// The codes of a source take more room than a pack may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobTooLarge {
    /// The room they take, in bytes.
    pub bytes: usize,
}

/// The blob of a checked source.
///
/// # Errors
/// It is larger than packs may be.
pub fn write(source: &PackSource) -> Result<Vec<u8>, BlobTooLarge> {
    let mut blob = Writer { bytes: Vec::new() };
    blob.bytes.extend_from_slice(MAGIC);
    blob.fixed(FORMAT);
    blob.fixed(0); // the length
    blob.fixed(0); // the offset of the concept groups
    blob.fixed(small(source.vocabularies.len()));
    let directory = blob.bytes.len();
    for _ in &source.vocabularies {
        blob.fixed(0);
    }
    for (index, vocabulary) in source.vocabularies.iter().enumerate() {
        blob.patch_to_here(directory + 4 * index);
        blob.vocabulary(vocabulary);
    }
    blob.patch_to_here(GROUPS_POSITION);
    blob.list(&source.concept_groups, Writer::concept_group);
    blob.patch_to_here(LENGTH_POSITION);
    // Numbers that do not fit into 32 bits were cut above, but then the blob is too large by far.
    if blob.bytes.len() > BLOB_BYTES_MAX { Err(BlobTooLarge { bytes: blob.bytes.len() }) } else { Ok(blob.bytes) }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn fixed(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes the present end of the blob into four bytes kept free earlier.
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

    fn option(&mut self, text: Option<&String>) {
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

    fn vocabulary(&mut self, vocabulary: &VocabularySource) {
        self.fixed(small(vocabulary.concepts.len()));
        let offsets = self.bytes.len();
        for _ in &vocabulary.concepts {
            self.fixed(0);
        }
        self.text(&vocabulary.namespace);
        self.text(&vocabulary.name);
        self.text(&vocabulary.domain);
        self.text(&vocabulary.version);
        self.text(&vocabulary.source);
        self.text(&vocabulary.licence);
        self.text(&vocabulary.attribution);
        self.texts(&vocabulary.languages);
        self.number(match vocabulary.completeness {
            Completeness::Full => 0,
            Completeness::Fragment => 1,
            Completeness::Empty => 2,
        });
        let hierarchical = if vocabulary.is_hierarchical { HIERARCHICAL } else { 0 };
        let system = if vocabulary.is_system { SYSTEM } else { 0 };
        let extensible = if vocabulary.is_extensible { EXTENSIBLE } else { 0 };
        self.number(hierarchical | system | extensible);
        for (index, concept) in vocabulary.concepts.iter().enumerate() {
            self.patch_to_here(offsets + 4 * index);
            self.concept(concept);
        }
    }

    fn concept(&mut self, concept: &ConceptSource) {
        self.text(&concept.code);
        let active = if concept.is_active { ACTIVE } else { 0 };
        let selectable = if concept.is_selectable { SELECTABLE } else { 0 };
        self.number(active | selectable);
        self.texts(&concept.parents);
        self.option(concept.replaced_by.as_ref());
        self.list(&concept.labels, Self::localized_text);
        self.list(&concept.definitions, Self::localized_text);
        self.texts(&concept.aliases);
        self.option(concept.uri.as_ref());
        self.list(&concept.properties, |writer, (key, value)| {
            writer.text(key);
            writer.text(value);
        });
    }

    fn localized_text(&mut self, text: &TextSource) {
        self.number(text.language);
        self.text(&text.value);
    }

    fn concept_group(&mut self, group: &ConceptGroupSource) {
        self.text(&group.name);
        self.text(&group.description);
        self.list(&group.includes, Self::selection);
        self.list(&group.excludes, Self::selection);
    }

    fn selection(&mut self, selection: &Selection) {
        match selection {
            Selection::Code(uri) => {
                self.number(0);
                self.text(uri);
            }
            Selection::DescendantsOf(uri) => {
                self.number(1);
                self.text(uri);
            }
        }
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
