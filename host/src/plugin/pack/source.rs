//! A pack's source: a folder of plain files, read and checked.
//!
//! ```text
//! pack.toml                     what the pack is, its vocabularies and concept groups (see `settings`)
//! codes/<table>.tsv             code | parents | status | replaced_by | aliases | uri | selectable | prop:<key> …
//! labels/<language>/<table>.tsv code | label | definition
//! ```
//! Tables are UTF-8 in normal form C, one header line, cells separated by tabs, no quoting. Columns go by the header's names
//! and only `code` (and `label`) must be there. Several parents or aliases are joined with `|`, the primary parent first.
//! `status` is `active` (or empty) or `inactive`, `selectable` is `yes` (or empty) or `no`. The order of the lines is the
//! order that the codes are listed in.
//!
//! **Invariant:** a [`PackSource`] is sound: codes are unique, parents exist and make no cycle, every code has a label in the
//! default language, every text is within bounds and in normal form C.

mod codes;
mod files;
mod groups;
mod hierarchy;
mod labels;
mod settings;
mod table;
mod vocabulary;

use std::path::Path;

use super::problem::PackErrors;
use crate::domain::manifest::PluginManifest;

pub use settings::{Completeness, Selection};

/// A checked source, ready to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSource {
    /// What the pack will say about itself.
    pub manifest: PluginManifest,
    /// Whether a server loads it without being asked to.
    pub is_default: bool,
    /// Its vocabularies, in the order of `pack.toml`.
    pub vocabularies: Vec<VocabularySource>,
    /// Its concept groups, in the order of `pack.toml`.
    pub concept_groups: Vec<ConceptGroupSource>,
}

/// One vocabulary with its codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabularySource {
    /// The URI that its codes live under.
    pub namespace: String,
    /// Its name in English.
    pub name: String,
    /// The field it belongs to.
    pub domain: String,
    /// The version that records keep beside a code.
    pub version: String,
    /// Which release of which publication the codes were taken from.
    pub source: String,
    /// The licence of the data.
    pub licence: String,
    /// The acknowledgement that the owner asks for.
    pub attribution: String,
    /// The languages of its labels, the default one first.
    pub languages: Vec<String>,
    /// Whether codes have parents.
    pub is_hierarchical: bool,
    /// How much of its source is here.
    pub completeness: Completeness,
    /// Whether its codes are read-only.
    pub is_system: bool,
    /// Whether a deployment may add local codes.
    pub is_extensible: bool,
    /// Its codes, in the order of the table.
    pub concepts: Vec<ConceptSource>,
}

/// One code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConceptSource {
    /// The code.
    pub code: String,
    /// Whether it may be used in new records.
    pub is_active: bool,
    /// False for a heading.
    pub is_selectable: bool,
    /// Codes one level up, the primary one first.
    pub parents: Vec<String>,
    /// The successor of an inactive code.
    pub replaced_by: Option<String>,
    /// Labels, in the order of the vocabulary's languages.
    pub labels: Vec<TextSource>,
    /// Definitions, likewise.
    pub definitions: Vec<TextSource>,
    /// Other spellings.
    pub aliases: Vec<String>,
    /// The owner's own URI.
    pub uri: Option<String>,
    /// Key and value of everything else, in the order of the columns.
    pub properties: Vec<(String, String)>,
}

/// A text in one of the vocabulary's languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSource {
    /// Index into the vocabulary's languages.
    pub language: u32,
    /// The text.
    pub value: String,
}

/// A concept group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConceptGroupSource {
    /// Its name.
    pub name: String,
    /// What belongs to it.
    pub description: String,
    /// What is in it.
    pub includes: Vec<Selection>,
    /// What is taken out again.
    pub excludes: Vec<Selection>,
}

/// Reads a pack's folder and checks everything in it.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn check(folder: &Path) -> Result<PackSource, PackErrors> {
    let mut errors = PackErrors::none();
    let files = files::PackFiles::new(folder);
    let Some(settings) = settings::read(&files, &mut errors) else { return Err(errors) };
    let vocabularies = vocabulary::read_all(&settings, &files, &mut errors);
    let concept_groups = groups::check(&settings.concept_group, &vocabularies, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(PackSource { manifest: settings.manifest(), is_default: settings.default, vocabularies, concept_groups })
}
