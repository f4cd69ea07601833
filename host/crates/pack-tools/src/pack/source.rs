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
//! order that the codes are listed in. Where `hierarchy` in `pack.toml` names a rule, there is no column `parents`: each code
//! is below the one that the rule says.
//!
//! **Invariant:** a [`PackSource`] is sound: codes are unique, parents exist and make no cycle, every code has a label in the
//! default language, every text is within bounds and in normal form C.

mod codes;
mod files;
mod groups;
mod hierarchy;
mod labels;
mod rule;
mod settings;
mod table;
mod vocabulary;

use std::path::Path;

use super::problem::PackErrors;
use daftar_domain::manifest::PluginManifest;
use daftar_domain::vocabulary::PackContents;

/// A checked source, ready to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSource {
    /// What the pack will say about itself.
    pub manifest: PluginManifest,
    /// Whether a server loads it without being asked to.
    pub is_default: bool,
    /// Its vocabularies and concept groups, in the order of `pack.toml`; codes in the order of their table, labels and
    /// definitions in the order of the vocabulary's languages, the default one first.
    pub contents: PackContents,
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
    let contents = PackContents { vocabularies, concept_groups };
    Ok(PackSource { manifest: settings.manifest(), is_default: settings.default, contents })
}
