//! Reads the files that the owners of vocabularies publish, and writes the source of a pack: `daftar pack import`.
//!
//! Each format has its reader, which makes a draft of its file and says of every row whether it is kept, left out by a
//! rule, or refused. What is common to all (bounds, texts, duplicates, parents, cycles, the written folder) is done once,
//! behind the readers. Records of people are none of this module's business: it knows code lists only.
//!
//! It stands outside `plugin`: nothing here knows of components, so a reader of an untrusted file cannot come near the
//! sandbox, and `plugin` need not know RDF, XML or CSV. `app` joins the two: what is written here is checked there, as any
//! other source of a pack, before it takes its place.
//!
//! **Invariant:** memory and input are bounded, whatever the file holds.
//! **Invariant:** the same file and options give the same bytes: no clock, no file name, no order of a hash map.
//! **Invariant:** all that is wrong is told at once, with line and code, up to a bound; nothing is written then.

mod cells;
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
mod counts;
mod who;
mod write;

pub use write::HandWritten;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use problem::{ImportError, Refusal};
pub use counts::{ImportReport, LeftOut, VocabularyReport};

use crate::source_rules::{is_language_tag, is_text};
use daftar_domain::code::Namespace;
use daftar_domain::manifest::{PluginName, PluginVersion};
use draft::DraftPack;
use input::Input;
use counts::Counts;

/// A file of RDF, in bytes after unpacking. AGROVOC has 1 GB. It is streamed, so only time grows with it.
const RDF_BYTES_MAX: u64 = 16 << 30;

/// A table, in bytes after unpacking. ICD-11 has 7 MB.
const TABLE_BYTES_MAX: u64 = 256 << 20;

/// A JSON or XML document, in bytes after unpacking; it is kept whole while it is read. The largest known has 30 MB.
const DOCUMENT_BYTES_MAX: u64 = 128 << 20;

/// Receives how far the reading of a file is.
pub trait Progress {
    /// The file is read from its beginning; `bytes` of it will be read, as they are on disk.
    fn begin(&mut self, bytes: u64);
    /// So many more bytes were read.
    fn advance(&mut self, bytes: u64);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&mut self, _bytes: u64) {}
    fn advance(&mut self, _bytes: u64) {}
}

/// A layout in which an owner publishes codes.
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
    /// A table of our own: `code`, `parents`, `label[en]`, `uri`, `status` and more.
    Tsv,
    /// The same, as a spreadsheet saves it as CSV.
    Csv,
}

/// What a pack says about itself; each where it differs from what its owner's format says.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The pack's name.
    pub pack_name: Option<String>,
    /// The pack's version.
    pub pack_version: Option<String>,
    /// What the pack brings, in one sentence.
    pub description: Option<String>,
    /// The URI that the codes live under.
    pub namespace: Option<String>,
    /// The vocabulary's name.
    pub title: Option<String>,
    /// The field it belongs to, such as `Health`.
    pub domain: Option<String>,
    /// The version that records keep beside a code.
    pub edition: Option<String>,
    /// Which release of which publication.
    pub source: Option<String>,
    /// The licence of the data.
    pub licence: Option<String>,
    /// The acknowledgement its owner asks for.
    pub attribution: Option<String>,
}

/// What is asked of an import beside its file.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// What the pack says about itself, where it differs from what its owner's format says.
    pub about: About,
    /// The languages that labels are taken in, the default one first; what the format says where empty.
    pub languages: Vec<String>,
    /// SKOS: the codes whose descendants are taken, themselves included; everything where empty.
    pub roots: Vec<String>,
    /// Formats with several vocabularies: the namespaces that are taken; all where empty.
    pub only: Vec<String>,
    /// ICD-11: leave the chapter of extension codes out.
    pub without_extension_codes: bool,
    /// Leave what is refused out, instead of writing nothing.
    pub leave_out_refused: bool,
}

/// What was made of a file, before it is written.
#[derive(Debug)]
pub struct Import {
    draft: DraftPack,
    /// What became of the file.
    pub report: ImportReport,
}

impl Import {
    /// Writes the source of a pack into `folder`, which exists and is empty, with what was added by hand to an earlier import.
    ///
    /// # Errors
    /// Something cannot be written. The folder's content is of no meaning then.
    pub fn write(&self, kept: &HandWritten, folder: &Path) -> Result<(), ImportError> {
        write::folder(&self.draft, &self.report.sha256, kept, folder)
    }

    /// The namespaces of vocabularies that an earlier import has and this one has not.
    #[must_use]
    pub fn vocabularies_gone(&self, earlier: &HandWritten) -> Vec<String> {
        earlier.missing_from(&self.draft)
    }
}

/// Reads a file; nothing is written yet.
///
/// # Errors
/// Everything that is wrong with the file, or why it cannot be used at all.
pub fn read(
    format: ImportFormat,
    file: &Path,
    options: &ImportOptions,
    progress: &mut dyn Progress,
) -> Result<Import, ImportError> {
    options.check()?;
    let input = Input::open(file, format.bytes_max(), progress)?;
    let mut counts = Counts::of(&input, options.leave_out_refused);
    // What was refused before is reported together with what ended the reading.
    let draft = format.read(&input, options, &mut counts).map_err(|error| counts.with(error))?;
    let draft = draft.finish(options, &mut counts)?;
    let report = counts.report(&draft, input.digest()?);
    Ok(Import { draft, report })
}

impl ImportFormat {
    /// The largest file that is read, in bytes after unpacking.
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
    /// Whether everything that was said can be used.
    ///
    /// # Errors
    /// The first option that cannot.
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
    /// Whether each of the options can be used.
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
