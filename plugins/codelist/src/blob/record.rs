//! The records of the blob: one function for each, in the order of the format.

use daftar_sdk::vocabulary::{
    Completeness, Concept, ConceptGroup, ConceptStatus, LocalizedText, Property, Selection, VocabularyDescription,
};

use super::BlobError;
use super::reader::Reader;

const HIERARCHICAL: u32 = 1;
const OPEN: u32 = 2;
const SYSTEM: u32 = 4;
const EXTENSIBLE: u32 = 8;

const ACTIVE: u32 = 1;
const SELECTABLE: u32 = 2;

/// A vocabulary's description; its concept count is stored elsewhere.
pub fn description(reader: &mut Reader<'_>, concept_count: u32) -> Result<VocabularyDescription, BlobError> {
    let namespace = reader.text()?;
    let name = reader.text()?;
    let domain = reader.text()?;
    let version = reader.text()?;
    let source = reader.text()?;
    let licence = reader.text()?;
    let attribution = reader.text()?;
    let languages = reader.list(Reader::text)?;
    let default_language = languages.first().ok_or(BlobError::Malformed)?.clone();
    let completeness = match reader.number()? {
        0 => Completeness::Full,
        1 => Completeness::Fragment,
        2 => Completeness::Empty,
        _ => return Err(BlobError::Malformed),
    };
    let flags = reader.number()?;
    Ok(VocabularyDescription {
        namespace,
        name,
        domain,
        version,
        source,
        licence,
        attribution,
        default_language,
        languages,
        hierarchical: flags & HIERARCHICAL != 0,
        completeness,
        open: flags & OPEN != 0,
        system: flags & SYSTEM != 0,
        extensible: flags & EXTENSIBLE != 0,
        concept_count,
    })
}

/// A concept of a vocabulary with these languages.
pub fn concept(reader: &mut Reader<'_>, languages: &[String]) -> Result<Concept, BlobError> {
    let code = reader.text()?;
    let flags = reader.number()?;
    let status = if flags & ACTIVE != 0 { ConceptStatus::Active } else { ConceptStatus::Inactive };
    Ok(Concept {
        code,
        status,
        selectable: flags & SELECTABLE != 0,
        parents: reader.list(Reader::text)?,
        replaced_by: reader.option(Reader::text)?,
        labels: reader.list(|reader| localized_text(reader, languages))?,
        definitions: reader.list(|reader| localized_text(reader, languages))?,
        aliases: reader.list(Reader::text)?,
        uri: reader.option(Reader::text)?,
        properties: reader.list(property)?,
    })
}

/// A concept group.
pub fn concept_group(reader: &mut Reader<'_>) -> Result<ConceptGroup, BlobError> {
    Ok(ConceptGroup {
        name: reader.text()?,
        description: reader.text()?,
        includes: reader.list(selection)?,
        excludes: reader.list(selection)?,
    })
}

fn localized_text(reader: &mut Reader<'_>, languages: &[String]) -> Result<LocalizedText, BlobError> {
    let index = usize::try_from(reader.number()?).map_err(|_| BlobError::Malformed)?;
    let language = languages.get(index).ok_or(BlobError::Malformed)?.clone();
    Ok(LocalizedText { language, value: reader.text()? })
}

fn property(reader: &mut Reader<'_>) -> Result<Property, BlobError> {
    Ok(Property { key: reader.text()?, value: reader.text()? })
}

fn selection(reader: &mut Reader<'_>) -> Result<Selection, BlobError> {
    match reader.number()? {
        0 => reader.text().map(Selection::Code),
        1 => reader.text().map(Selection::DescendantsOf),
        _ => Err(BlobError::Malformed),
    }
}
