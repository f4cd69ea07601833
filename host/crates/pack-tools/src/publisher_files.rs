//! Importers of published vocabularies: read the files of their publishers and write the source of a pack, for `daftar
//! pack import`.
//!
//! Each format has a reader, which converts its file to a draft and classifies every row as accepted, left out by a
//! rule, or rejected. The steps common to all formats (limits, texts, duplicates, parents, cycles, the written folder)
//! run once, after the reader. This module handles code lists only, no records of people.
//!
//! It is independent of components and of the sandbox, so that a reader of untrusted files cannot reach the sandbox,
//! and the sandbox needs no RDF, XML or CSV. The `daftar` program combines the two: it checks a written source like any
//! other source of a pack before it replaces the previous one.
//!
//! **Invariant:** memory and input are limited, regardless of the file.
//! **Invariant:** the output is reproducible from the file and the options: no clock, no file name, no hash map order.
//! **Invariant:** all problems are reported together, with line and code, up to a limit; then nothing is written.

mod cells;
mod counts;
mod draft;
mod fhir;
mod input;
mod isco;
mod iso;
mod json_items;
mod plain_tsv;
mod problem;
mod publications;
mod rdf;
mod six_xml;
mod skos;
mod who;
mod write;

pub use write::HandWritten;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use counts::{ImportReport, LeftOut, VocabularyReport};
pub use problem::{ImportError, Refusal};

use crate::source_rules::{is_language_tag, is_text};
use counts::Counts;
use daftar_domain::code::Namespace;
use daftar_domain::manifest::{PluginName, PluginVersion};
use draft::DraftPack;
use input::Input;

/// The largest RDF file, in bytes after decompression. AGROVOC has 1 GB. It is streamed, so only time grows with it.
const RDF_BYTES_MAX: u64 = 16 << 30;

/// The largest table, in bytes after decompression. ICD-11 has 7 MB.
const TABLE_BYTES_MAX: u64 = 256 << 20;

/// The largest JSON or XML document, in bytes after decompression; it is held in memory as a whole. The largest known
/// has 30 MB.
const DOCUMENT_BYTES_MAX: u64 = 128 << 20;

/// Receives the progress of reading a file.
pub trait Progress {
    /// Reading starts at the beginning; the file has `bytes` on disk.
    fn begin(&mut self, bytes: u64);
    /// Another `bytes` bytes were read.
    fn advance(&mut self, bytes: u64);
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&mut self, _bytes: u64) {}
    fn advance(&mut self, _bytes: u64) {}
}

/// A published file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// WHO SimpleTabulation or LinearizationMiniOutput, of ICD-11 or ICF.
    WhoTabulation,
    /// ILO ISCO-08, one row a unit group, or the sheet "Structure and definitions" saved as CSV.
    IscoCsv,
    /// SKOS or SKOS-XL as N-Triples.
    SkosNTriples,
    /// SKOS or SKOS-XL as Turtle.
    SkosTurtle,
    /// SIX list one, the current currencies of ISO 4217.
    SixXml,
    /// A list of the iso-codes project: 3166-1, 639-2, 639-3 or 4217.
    IsoJson,
    /// The table of SIL, `iso-639-3.tab`.
    SilTab,
    /// A FHIR CodeSystem, R4 or R5, as JSON.
    Fhir,
    /// Our own table format: `code`, `parents`, `label[en]`, `uri`, `status` and more.
    Tsv,
    /// The same, saved as CSV by a spreadsheet.
    Csv,
}

/// The metadata of a pack that overrides the defaults of its format.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The pack's name.
    pub pack_name: Option<String>,
    /// The pack's version.
    pub pack_version: Option<String>,
    /// A description of the pack, in one sentence.
    pub description: Option<String>,
    /// The namespace URI of the codes.
    pub namespace: Option<String>,
    /// The vocabulary's name.
    pub title: Option<String>,
    /// The subject area, such as `Health`.
    pub domain: Option<String>,
    /// The version that records store beside a code.
    pub edition: Option<String>,
    /// The publication and its release.
    pub source: Option<String>,
    /// The licence of the data.
    pub licence: Option<String>,
    /// The acknowledgement that the publisher requires.
    pub attribution: Option<String>,
}

/// The options of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The metadata of the pack that overrides the defaults of its format.
    pub about: About,
    /// The languages of labels, the default one first; if empty, those of the format.
    pub languages: Vec<String>,
    /// SKOS: the codes that are imported with their descendants; if empty, all codes.
    pub roots: Vec<String>,
    /// Formats with several vocabularies: the namespaces to import; if empty, all.
    pub only: Vec<String>,
    /// ICD-11: leaves out the chapter of extension codes.
    pub without_extension_codes: bool,
    /// Leaves out rejected rows instead of failing.
    pub leave_out_refused: bool,
}

/// The result of reading a file, before it is written.
#[derive(Debug)]
pub struct Import {
    draft: DraftPack,
    /// The report of the import.
    pub report: ImportReport,
}

impl Import {
    /// Writes the source of a pack into `folder`, which exists and is empty, with the manual additions to an earlier
    /// import.
    ///
    /// # Errors
    /// A file cannot be written. The folder's content is undefined then.
    pub fn write(&self, retained: &HandWritten, folder: &Path) -> Result<(), ImportError> {
        write::folder(&self.draft, &self.report.sha256, retained, folder)
    }

    /// The namespaces of an earlier import that are missing from this one.
    #[must_use]
    pub fn vocabularies_gone(&self, earlier: &HandWritten) -> Vec<String> {
        earlier.missing_from(&self.draft)
    }
}

/// Reads a file without writing anything.
///
/// # Errors
/// All problems of the file, or the reason why it is unusable.
pub fn read(
    format: ImportFormat,
    file: &Path,
    options: &ImportOptions,
    progress: &mut dyn Progress,
) -> Result<Import, ImportError> {
    options.check()?;
    let input = Input::open(file, format.bytes_max(), progress)?;
    let mut counts = Counts::of(&input, options.leave_out_refused);
    // Earlier rejections are reported together with the error that ended the reading.
    let draft = format.read(&input, options, &mut counts).map_err(|error| counts.with(error))?;
    let draft = draft.finish(options, &mut counts)?;
    let report = counts.report(&draft, input.digest()?);
    Ok(Import { draft, report })
}

impl ImportFormat {
    /// The size limit of the format, in bytes after decompression.
    fn bytes_max(self) -> u64 {
        match self {
            Self::SkosNTriples | Self::SkosTurtle => RDF_BYTES_MAX,
            Self::WhoTabulation | Self::IscoCsv | Self::SilTab | Self::Tsv | Self::Csv => TABLE_BYTES_MAX,
            Self::SixXml | Self::IsoJson | Self::Fhir => DOCUMENT_BYTES_MAX,
        }
    }

    fn read(self, input: &Input<'_>, options: &ImportOptions, counts: &mut Counts) -> Result<DraftPack, ImportError> {
        match self {
            Self::WhoTabulation => who::read(input, options, counts),
            Self::IscoCsv => isco::read(input, counts),
            Self::SkosNTriples => skos::read(input, rdf::Syntax::NTriples, options, counts),
            Self::SkosTurtle => skos::read(input, rdf::Syntax::Turtle, options, counts),
            Self::SixXml => six_xml::read(input, counts),
            Self::IsoJson => iso::read_iso_codes(input, counts),
            Self::SilTab => iso::read_sil(input, counts),
            Self::Fhir => fhir::read(input, options, counts),
            Self::Tsv => plain_tsv::read(input, plain_tsv::Separated::Tabs, options, counts),
            Self::Csv => plain_tsv::read(input, plain_tsv::Separated::Csv, options, counts),
        }
    }
}

impl About {
    /// Checks that all metadata is valid.
    ///
    /// # Errors
    /// The first invalid option.
    fn check(&self) -> Result<(), ImportError> {
        if let Some(name) = &self.pack_name {
            PluginName::parse(name).map_err(|_| {
                ImportError::option("--name", name, "a pack's name: lower-case letters, digits and hyphens")
            })?;
        }
        if let Some(version) = &self.pack_version {
            PluginVersion::parse(version)
                .map_err(|_| ImportError::option("--pack-version", version, "a version, such as 1.0.0"))?;
        }
        if let Some(namespace) = &self.namespace {
            Namespace::parse(namespace).map_err(|error| ImportError::option("--namespace", namespace, error))?;
        }
        for (option, value) in [
            ("--description", &self.description),
            ("--title", &self.title),
            ("--domain", &self.domain),
            ("--edition", &self.edition),
            ("--source", &self.source),
            ("--licence", &self.licence),
            ("--attribution", &self.attribution),
        ] {
            if let Some(value) = value
                && !is_text(value)
            {
                let wanted = "a trimmed text of one line in Unicode normal form C, at most 2,048 bytes";
                return Err(ImportError::option(option, value, wanted));
            }
        }
        Ok(())
    }
}

impl ImportOptions {
    /// Checks each of the options.
    fn check(&self) -> Result<(), ImportError> {
        self.about.check()?;
        for language in &self.languages {
            if !is_language_tag(language) {
                return Err(ImportError::option("--language", language, "a BCP 47 tag, such as en or pt-BR"));
            }
        }
        Ok(())
    }
}
