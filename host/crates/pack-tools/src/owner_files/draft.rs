//! A pack in the making: what a reader found in its file, and the checks that are common to all formats.
//!
//! **Invariant:** what [`DraftPack::finish`] gives back is what a pack's source may hold: sound codes that occur once, parents
//! that exist and make no cycle, a label in the default language for each.

mod check;

use crate::owner_files::about::About;
use crate::owner_files::owner::Owner;
use crate::owner_files::problem::ImportError;
use crate::owner_files::tally::Tally;
use crate::owner_files::{ImportOptions, limits};
use daftar_domain::code::Namespace;
use daftar_domain::manifest::PluginVersion;

/// The version of a pack whose file tells none: above those of the packs that are shipped, so that a server does not put the
/// shipped pack in its place at the next start.
const UNTOLD_VERSION: &str = "2.0.0";

/// A pack in the making.
#[derive(Debug)]
pub struct DraftPack {
    /// What it says about itself.
    pub owner: Owner,
    /// Its version, as far as the file tells one.
    pub version: Option<String>,
    /// Its vocabularies, at least one.
    pub vocabularies: Vec<DraftVocabulary>,
}

/// A vocabulary in the making.
#[derive(Debug)]
pub struct DraftVocabulary {
    /// The URI that its codes live under.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The field it belongs to.
    pub domain: String,
    /// The version that records keep.
    pub edition: String,
    /// Which release of which publication.
    pub source: String,
    /// The name of its tables, without `.tsv`.
    pub table: String,
    /// The languages, the default one first.
    pub languages: Vec<String>,
    /// Whether the file holds every code of its source.
    pub completeness: DraftCompleteness,
    /// How codes hang below each other.
    pub hierarchy: DraftHierarchy,
    /// Its codes, in the order in which they are listed.
    pub codes: Vec<DraftCode>,
}

/// How much of its source a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftCompleteness {
    /// Every code.
    Full,
    /// Some codes.
    Fragment,
}

/// How the parents of codes are written down. A rule is the owner's own and needs no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftHierarchy {
    /// In a column.
    Parents,
    /// By the rule of that name in `pack.toml`.
    Rule(&'static str),
}

/// A code in the making.
#[derive(Debug, Clone)]
pub struct DraftCode {
    /// The code.
    pub code: String,
    /// The line that it was found on.
    pub line: Option<u64>,
    /// The codes one level up, the primary one first.
    pub parents: Vec<String>,
    /// Whether it may be used in new records.
    pub is_active: bool,
    /// False for a heading that only groups others.
    pub is_selectable: bool,
    /// The successor of an inactive code.
    pub replaced_by: Option<String>,
    /// Other spellings that look-ups accept.
    pub aliases: Vec<String>,
    /// The owner's URI.
    pub uri: Option<String>,
    /// Other facts.
    pub properties: Vec<(String, String)>,
    /// What it is called.
    pub labels: Vec<DraftLabel>,
}

/// A label, and possibly a definition, in one language.
#[derive(Debug, Clone)]
pub struct DraftLabel {
    /// BCP 47 tag.
    pub language: String,
    /// The label.
    pub text: String,
    /// The definition; empty where there is none.
    pub definition: String,
}

impl DraftCode {
    /// An active, selectable code at the top.
    pub fn new(code: impl Into<String>, line: Option<u64>) -> Self {
        Self {
            code: code.into(),
            line,
            parents: Vec::new(),
            is_active: true,
            is_selectable: true,
            replaced_by: None,
            aliases: Vec::new(),
            uri: None,
            properties: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// The code with a label.
    pub fn labelled(mut self, language: &str, text: impl Into<String>) -> Self {
        self.labels.push(DraftLabel { language: language.to_owned(), text: text.into(), definition: String::new() });
        self
    }

    /// The code with a fact, where there is one.
    pub fn with_property(mut self, key: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.properties.push((key.to_owned(), value.to_owned()));
        }
        self
    }

    /// The label in a language.
    pub fn label(&self, language: &str) -> Option<&DraftLabel> {
        self.labels.iter().find(|label| label.language == language)
    }
}

impl DraftPack {
    /// A pack with one vocabulary, its version made of the vocabulary's edition.
    pub fn of(owner: Owner, vocabularies: Vec<DraftVocabulary>) -> Self {
        let version = vocabularies.first().and_then(|first| version_of(&first.edition));
        Self { owner, version, vocabularies }
    }

    /// The pack with what the operator says put in place, everything in it checked.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn finish(mut self, options: &ImportOptions, tally: &mut Tally) -> Result<Self, ImportError> {
        self.take_only(&options.only)?;
        self.apply(&options.about)?;
        if self.version.is_none() {
            tally.notes.push(format!(
                "the file tells no date or version, so the pack's is {UNTOLD_VERSION}; say another one with --pack-version"
            ));
        }
        for vocabulary in &mut self.vocabularies {
            check::vocabulary(vocabulary, tally);
        }
        tally.settle()?;
        for vocabulary in &mut self.vocabularies {
            vocabulary.drop_unused_languages();
            if vocabulary.codes.is_empty() {
                let namespace = &vocabulary.namespace;
                return Err(tally.unusable(format_args!("no code of `{namespace}` is left of this file")));
            }
            if vocabulary.codes.len() > limits::CODES_MAX {
                let reason = format_args!(
                    "it holds {} codes of `{}`; a vocabulary has at most {}",
                    vocabulary.codes.len(),
                    vocabulary.namespace,
                    limits::CODES_MAX
                );
                return Err(tally.unusable(reason));
            }
        }
        Ok(self)
    }

    /// The version that is written.
    pub fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(UNTOLD_VERSION)
    }

    fn take_only(&mut self, only: &[String]) -> Result<(), ImportError> {
        let known: Vec<String> = self.vocabularies.iter().map(|vocabulary| vocabulary.namespace.clone()).collect();
        for namespace in only {
            if !known.contains(namespace) {
                let wanted = format!("a vocabulary of this file: {}", known.join(", "));
                return Err(ImportError::option("--only", namespace, wanted));
            }
        }
        if !only.is_empty() {
            self.vocabularies.retain(|vocabulary| only.contains(&vocabulary.namespace));
        }
        Ok(())
    }

    fn apply(&mut self, about: &About) -> Result<(), ImportError> {
        let put = |place: &mut String, value: &Option<String>| {
            if let Some(value) = value {
                place.clone_from(value);
            }
        };
        if let (Some(namespace), true) = (&about.namespace, self.vocabularies.len() > 1) {
            let wanted = "of use for a file with several vocabularies; choose one with --only";
            return Err(ImportError::option("--namespace", namespace, wanted));
        }
        for vocabulary in &mut self.vocabularies {
            put(&mut vocabulary.namespace, &about.namespace);
            put(&mut vocabulary.name, &about.title);
            put(&mut vocabulary.domain, &about.domain);
            put(&mut vocabulary.edition, &about.edition);
            put(&mut vocabulary.source, &about.source);
            Namespace::parse(&vocabulary.namespace)
                .map_err(|error| ImportError::option("--namespace", &vocabulary.namespace, error))?;
        }
        if about.edition.is_some()
            && let Some(version) = self.vocabularies.first().and_then(|first| version_of(&first.edition))
        {
            self.version = Some(version);
        }
        if about.pack_version.is_some() {
            self.version.clone_from(&about.pack_version);
        }
        put(&mut self.owner.pack_name, &about.pack_name);
        put(&mut self.owner.description, &about.description);
        put(&mut self.owner.licence, &about.licence);
        put(&mut self.owner.attribution, &about.attribution);
        put(&mut self.owner.source, &about.source);
        Ok(())
    }
}

impl DraftVocabulary {
    /// Languages that no code has a label in are none of the vocabulary's. The default one stays.
    fn drop_unused_languages(&mut self) {
        let codes = &self.codes;
        let mut is_first = true;
        self.languages.retain(|language| {
            std::mem::take(&mut is_first) || codes.iter().any(|code| code.label(language).is_some())
        });
    }
}

/// A pack's version for an edition that begins with a year and a month, and possibly a day: 2024.1.0 for 2024-01.
fn version_of(edition: &str) -> Option<String> {
    let mut parts = edition.split('-').map(|part| part.parse::<u32>().ok());
    let (year, month) = (parts.next()??, parts.next()??);
    let day = parts.next().flatten().unwrap_or(0);
    let is_date = (1000..10_000).contains(&year) && (1..=12).contains(&month) && day <= 31;
    is_date.then(|| PluginVersion::new(year, month, day).to_string())
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn an_edition_that_is_a_date_gives_the_pack_its_version() {
        assert_eq!(version_of("2024-01").as_deref(), Some("2024.1.0"));
        assert_eq!(version_of("2026-01-01").as_deref(), Some("2026.1.1"));
        for edition in ["08", "2024", "2024-13", "reconstructed", ""] {
            assert_eq!(version_of(edition), None, "{edition}");
        }
    }
}
