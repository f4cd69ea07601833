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

mod about;
mod cells;
mod draft;
mod fhir;
mod input;
mod isco;
mod iso_json;
mod json_items;
mod limits;
mod owner;
mod plain_tsv;
mod problem;
mod progress;
mod rdf;
mod report;
mod sil_tab;
mod six_xml;
mod skos;
mod tally;
mod who;
mod write;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use about::About;
pub use problem::{ImportError, Refusal};
pub use progress::{NoProgress, Progress};
pub use report::{ImportReport, LeftOut, VocabularyReport};

use draft::DraftPack;
use input::Input;
use tally::Tally;

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
    /// Writes the source of a pack into `folder`, which exists and is empty.
    ///
    /// # Errors
    /// Something cannot be written. The folder's content is of no meaning then.
    pub fn write(&self, folder: &Path) -> Result<(), ImportError> {
        write::folder(&self.draft, &self.report.sha256, folder)
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
    let options = options.checked()?;
    let mut input = Input::open(file, format.bytes_max(), progress)?;
    let mut tally = Tally::of(&input, options.leave_out_refused);
    let read = format.read(&mut input, &options, &mut tally);
    let draft = match read {
        Ok(draft) => draft,
        // What was refused before is told together with what ended the reading.
        Err(error) => return Err(tally.with(error)),
    };
    let draft = draft.finish(&options, &mut tally)?;
    let digest = input.digest()?;
    let report = report::of(&draft, digest, tally);
    Ok(Import { draft, report })
}

impl ImportFormat {
    /// The largest file that is read, in bytes after unpacking.
    fn bytes_max(self) -> u64 {
        match self {
            Self::SkosNTriples | Self::SkosTurtle => limits::RDF_BYTES_MAX,
            Self::WhoTabulation | Self::IscoCsv | Self::SilTab | Self::Tsv | Self::Csv => limits::TABLE_BYTES_MAX,
            Self::SixXml | Self::IsoJson | Self::Fhir => limits::DOCUMENT_BYTES_MAX,
        }
    }

    fn read(self, input: &mut Input<'_>, options: &ImportOptions, tally: &mut Tally) -> Result<DraftPack, ImportError> {
        match self {
            Self::WhoTabulation => who::read(input, options, tally),
            Self::IscoCsv => isco::read(input, tally),
            Self::SkosNTriples => skos::read(input, rdf::Syntax::NTriples, options, tally),
            Self::SkosTurtle => skos::read(input, rdf::Syntax::Turtle, options, tally),
            Self::SixXml => six_xml::read(input, tally),
            Self::IsoJson => iso_json::read(input, tally),
            Self::SilTab => sil_tab::read(input, tally),
            Self::Fhir => fhir::read(input, options, tally),
            Self::Tsv => plain_tsv::read(input, plain_tsv::Separated::Tabs, options, tally),
            Self::Csv => plain_tsv::read(input, plain_tsv::Separated::Csv, options, tally),
        }
    }
}

impl ImportOptions {
    /// The options, when each of them can be used.
    fn checked(&self) -> Result<Self, ImportError> {
        self.about.check()?;
        for language in &self.languages {
            if !about::is_language_tag(language) {
                return Err(ImportError::option("--language", language, "a BCP 47 tag, such as en or pt-BR"));
            }
        }
        Ok(self.clone())
    }
}
