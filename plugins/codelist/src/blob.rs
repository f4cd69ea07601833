//! Reads the blob: locates the data of a call by offsets and converts only that part to the interface's types.

mod reader;
mod record;

use daftar_sdk::vocabulary::{ConceptGroup, ConceptPage, PageError, VocabularyDescription};

use reader::Reader;

const MAGIC: &[u8; 8] = b"DFTRCODE";
const FORMAT: u32 = 1;

/// The reason why a blob cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobError {
    /// It does not start with the magic bytes: the module has no data, or other data.
    NoBlob,
    /// Its format is not supported; contains the format.
    UnknownFormat(u32),
    /// It is truncated, or an offset is out of range.
    Truncated,
    /// A number, a text or a flag is invalid in the format.
    Malformed,
}

/// A blob in memory.
#[derive(Debug, Clone, Copy)]
pub struct Blob<'a> {
    bytes: &'a [u8],
    groups_offset: u32,
    vocabulary_count: u32,
}

/// The position of the vocabulary offsets.
const DIRECTORY: u32 = 24;

impl<'a> Blob<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// See [`BlobError`].
    pub fn open(bytes: &'a [u8]) -> Result<Self, BlobError> {
        if bytes.get(..MAGIC.len()) != Some(MAGIC.as_slice()) {
            return Err(BlobError::NoBlob);
        }
        let mut frame = Reader::at(bytes, 8)?;
        let format = frame.fixed()?;
        if format != FORMAT {
            return Err(BlobError::UnknownFormat(format));
        }
        let length = frame.fixed()?;
        if usize::try_from(length).ok() != Some(bytes.len()) {
            return Err(BlobError::Truncated);
        }
        Ok(Self { bytes, groups_offset: frame.fixed()?, vocabulary_count: frame.fixed()? })
    }

    /// Every vocabulary's description.
    ///
    /// # Errors
    /// The blob is invalid.
    pub fn descriptions(&self) -> Result<Vec<VocabularyDescription>, BlobError> {
        (0..self.vocabulary_count).map(|index| self.vocabulary(index)?.description()).collect()
    }

    /// The concept groups.
    ///
    /// # Errors
    /// The blob is invalid.
    pub fn concept_groups(&self) -> Result<Vec<ConceptGroup>, BlobError> {
        Reader::at(self.bytes, self.groups_offset)?.list(record::concept_group)
    }

    /// A page of a vocabulary's concepts; the cursor is the index of the next one.
    ///
    /// # Errors
    /// The outer error: the blob is invalid. The inner one: the vocabulary or cursor does not exist.
    pub fn page(&self, namespace: &str, cursor: u32, limit: u32) -> Result<Result<ConceptPage, PageError>, BlobError> {
        for index in 0..self.vocabulary_count {
            let vocabulary = self.vocabulary(index)?;
            let description = vocabulary.description()?;
            if description.namespace == namespace {
                return vocabulary.page(&description.languages, cursor, limit);
            }
        }
        Ok(Err(PageError::UnknownNamespace))
    }

    fn vocabulary(&self, index: u32) -> Result<VocabularyPart<'a>, BlobError> {
        let offset = fixed_at(self.bytes, DIRECTORY, index)?;
        let concept_count = Reader::at(self.bytes, offset)?.fixed()?;
        let concepts = offset.checked_add(4).ok_or(BlobError::Truncated)?;
        Ok(VocabularyPart { bytes: self.bytes, concept_count, concepts })
    }
}

/// The `u32` at an index after `start`.
fn fixed_at(bytes: &[u8], start: u32, index: u32) -> Result<u32, BlobError> {
    let position = index.checked_mul(4).and_then(|distance| start.checked_add(distance)).ok_or(BlobError::Truncated)?;
    Reader::at(bytes, position)?.fixed()
}

/// One vocabulary of a blob.
struct VocabularyPart<'a> {
    bytes: &'a [u8],
    concept_count: u32,
    /// The position of the concept offsets.
    concepts: u32,
}

impl VocabularyPart<'_> {
    fn description(&self) -> Result<VocabularyDescription, BlobError> {
        let distance = self.concept_count.checked_mul(4).ok_or(BlobError::Truncated)?;
        let position = self.concepts.checked_add(distance).ok_or(BlobError::Truncated)?;
        record::description(&mut Reader::at(self.bytes, position)?, self.concept_count)
    }

    fn page(&self, languages: &[String], cursor: u32, limit: u32) -> Result<Result<ConceptPage, PageError>, BlobError> {
        if cursor > 0 && cursor >= self.concept_count {
            return Ok(Err(PageError::InvalidCursor));
        }
        // An empty page would never end.
        let end = cursor.saturating_add(limit.max(1)).min(self.concept_count);
        let concepts = (cursor..end)
            .map(|index| {
                let offset = fixed_at(self.bytes, self.concepts, index)?;
                record::concept(&mut Reader::at(self.bytes, offset)?, languages)
            })
            .collect::<Result<_, _>>()?;
        Ok(Ok(ConceptPage { concepts, next: (end < self.concept_count).then_some(end) }))
    }
}
