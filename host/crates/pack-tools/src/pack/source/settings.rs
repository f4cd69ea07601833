//! `pack.toml`: its shape, and the checks that need no other file.
//!
//! ```toml
//! name = "gender"                  # the plugin's name
//! version = "1.0.0"                # the plugin's version
//! description = "Gender codes of ISO/IEC 5218."
//! licence = "CC0-1.0"
//! attribution = "ISO/IEC 5218"     # may be left out, like source
//! default = true                   # false: built as an optional module
//!
//! [[vocabulary]]
//! namespace = "urn:iso:std:iso:5218"
//! name = "Gender"
//! domain = "Core"
//! version = "2022"                 # the version that records keep
//! source = "ISO/IEC 5218:2022"
//! default_language = "en"
//! languages = ["en", "fr"]         # each has its folder under labels/
//! codes = "gender.tsv"             # codes/gender.tsv and labels/<language>/gender.tsv
//! count = 4                        # checked when given
//! hierarchical = false             # this and the following are the defaults
//! hierarchy = "parents"            # or a rule instead of that column: "prefix", "dotted", "first-digit", "icf"
//! completeness = "full"            # or "fragment", or "empty" (then without `codes`)
//! open = false                     # a pack made of files only has codes that are listed
//! system = true
//! extensible = false
//! # licence and attribution here, where they differ from the pack's
//!
//! [[concept_group]]
//! name = "feminine_gender"
//! description = "Genders that count as feminine."
//! include = [{ code = "urn:iso:std:iso:5218#2" }]
//! exclude = []                     # also { descendants_of = "…" }
//! ```

use serde::Deserialize;

use super::files::PackFiles;
use super::rule::HierarchyRule;
use crate::pack::limits::{LABEL_BYTES_MAX, LANGUAGES_MAX, SETTINGS_BYTES_MAX, VOCABULARIES_MAX};
use crate::pack::problem::{PackErrors, PackProblemKind};
use daftar_domain::code::Namespace;
use daftar_domain::manifest::{ExtensionField, PluginKind, PluginManifest, PluginName, PluginVersion, WantedLimits};
use daftar_domain::vocabulary::Completeness;

/// The file's name.
pub const SETTINGS_FILE: &str = "pack.toml";

/// The plugin interface that the generic guest, hence every pack, is built for.
const INTERFACE: PluginVersion = PluginVersion::new(0, 1, 0);

/// The whole of `pack.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackSettings {
    name: PluginName,
    version: PluginVersion,
    description: String,
    licence: String,
    #[serde(default)]
    attribution: String,
    source: Option<String>,
    #[serde(default = "yes")]
    pub default: bool,
    #[serde(default)]
    pub vocabulary: Vec<VocabularySettings>,
    #[serde(default)]
    pub concept_group: Vec<ConceptGroupSettings>,
    #[serde(default)]
    extension_field: Vec<ExtensionField>,
}

/// A `[[vocabulary]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabularySettings {
    pub namespace: String,
    pub name: String,
    pub domain: String,
    pub version: String,
    pub source: String,
    pub licence: Option<String>,
    pub attribution: Option<String>,
    pub default_language: String,
    pub languages: Vec<String>,
    pub codes: Option<String>,
    pub count: Option<u32>,
    #[serde(default)]
    pub hierarchical: bool,
    #[serde(default)]
    pub hierarchy: HierarchyRule,
    #[serde(default)]
    pub completeness: CompletenessSetting,
    #[serde(default)]
    open: bool,
    #[serde(default = "yes")]
    pub system: bool,
    #[serde(default)]
    pub extensible: bool,
}

/// How much of its source a vocabulary holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletenessSetting {
    /// Every code of the source.
    #[default]
    Full,
    /// Some codes.
    Fragment,
    /// None: the owner's file has to be imported first.
    Empty,
}

/// A `[[concept_group]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConceptGroupSettings {
    pub name: String,
    pub description: String,
    pub include: Vec<SelectionSetting>,
    #[serde(default)]
    pub exclude: Vec<SelectionSetting>,
}

/// A part of a vocabulary, by the URI of a code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectionSetting {
    /// That code alone.
    Code(String),
    /// That code and everything below it.
    DescendantsOf(String),
}

impl From<CompletenessSetting> for Completeness {
    fn from(setting: CompletenessSetting) -> Self {
        match setting {
            CompletenessSetting::Full => Self::Full,
            CompletenessSetting::Fragment => Self::Fragment,
            CompletenessSetting::Empty => Self::Empty,
        }
    }
}

impl SelectionSetting {
    /// The URI.
    pub fn uri(&self) -> &str {
        match self {
            Self::Code(uri) | Self::DescendantsOf(uri) => uri,
        }
    }
}

fn yes() -> bool {
    true
}

impl PackSettings {
    /// What the pack will say about itself.
    pub fn manifest(&self) -> PluginManifest {
        PluginManifest {
            name: self.name.clone(),
            version: self.version,
            kind: PluginKind::VocabularyPack,
            interface: INTERFACE,
            description: self.description.clone(),
            licence: self.licence.clone(),
            attribution: self.attribution.clone(),
            source: self.source.clone(),
            limits: WantedLimits::default(),
            extension_fields: self.extension_field.clone(),
        }
    }

    /// The licence of a vocabulary of this pack.
    pub fn licence_of(&self, vocabulary: &VocabularySettings) -> String {
        vocabulary.licence.clone().unwrap_or_else(|| self.licence.clone())
    }

    /// The acknowledgement for a vocabulary of this pack.
    pub fn attribution_of(&self, vocabulary: &VocabularySettings) -> String {
        vocabulary.attribution.clone().unwrap_or_else(|| self.attribution.clone())
    }
}

/// Reads and checks `pack.toml`; none when it is not of the right shape.
pub fn read(files: &PackFiles, errors: &mut PackErrors) -> Option<PackSettings> {
    let bytes = files.read(SETTINGS_FILE, SETTINGS_BYTES_MAX, errors)?;
    let settings: PackSettings = match toml::from_slice(&bytes) {
        Ok(settings) => settings,
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let line = bytes.iter().take(start).filter(|byte| **byte == b'\n').count() + 1;
            let message = error.message().to_owned();
            errors.push(SETTINGS_FILE, Some(line), None, PackProblemKind::Settings(message));
            return None;
        }
    };
    let mut checker = Checker { errors };
    checker.pack(&settings);
    for vocabulary in &settings.vocabulary {
        checker.vocabulary(vocabulary);
    }
    Some(settings)
}

struct Checker<'a> {
    errors: &'a mut PackErrors,
}

impl Checker<'_> {
    fn push(&mut self, kind: PackProblemKind) {
        self.errors.push(SETTINGS_FILE, None, None, kind);
    }

    fn require(&mut self, holds: bool, key: &str, value: &str, wanted: &'static str) {
        if !holds {
            let value = value.chars().take(80).collect();
            self.push(PackProblemKind::Setting { key: key.to_owned(), value, wanted });
        }
    }

    fn text(&mut self, key: &str, value: &str) {
        let holds = !value.is_empty() && is_sound_text(value);
        self.require(holds, key, value, "a trimmed text of one line in Unicode normal form C, at most 2,048 bytes");
    }

    fn pack(&mut self, settings: &PackSettings) {
        self.text("description", &settings.description);
        self.text("licence", &settings.licence);
        for (key, value) in [("attribution", Some(&settings.attribution)), ("source", settings.source.as_ref())] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.text(key, value);
            }
        }
        let count = settings.vocabulary.len();
        if count > VOCABULARIES_MAX {
            self.push(PackProblemKind::TooMany { what: "vocabularies", actual: count, max: VOCABULARIES_MAX });
        }
        self.require(count > 0, "vocabulary", "", "a list of at least one vocabulary");
        for (index, vocabulary) in settings.vocabulary.iter().enumerate() {
            let before = settings.vocabulary.iter().take(index);
            if before.clone().any(|other| other.namespace == vocabulary.namespace) {
                self.push(PackProblemKind::Repeated { what: "the namespace", value: vocabulary.namespace.clone() });
            }
            if let Some(codes) = &vocabulary.codes
                && before.clone().any(|other| other.codes.as_ref() == Some(codes))
            {
                self.push(PackProblemKind::Repeated { what: "the table of codes", value: codes.clone() });
            }
        }
    }

    fn vocabulary(&mut self, vocabulary: &VocabularySettings) {
        if let Err(error) = Namespace::parse(&vocabulary.namespace) {
            let message = format!("`namespace` is `{}`: {error}", vocabulary.namespace.escape_debug());
            self.push(PackProblemKind::Settings(message));
        }
        for (key, value) in [
            ("name", &vocabulary.name),
            ("domain", &vocabulary.domain),
            ("version", &vocabulary.version),
            ("source", &vocabulary.source),
        ] {
            self.text(key, value);
        }
        for (key, value) in [("licence", &vocabulary.licence), ("attribution", &vocabulary.attribution)] {
            if let Some(value) = value {
                self.text(key, value);
            }
        }
        self.languages(vocabulary);
        if let Some(codes) = &vocabulary.codes {
            self.require(is_table_name(codes), "codes", codes, "the name of a .tsv file in the folder codes");
        }
        let is_empty = vocabulary.completeness == CompletenessSetting::Empty;
        if is_empty == vocabulary.codes.is_some() {
            let value = vocabulary.codes.as_deref().unwrap_or_default();
            self.require(false, "codes", value, "there exactly when `completeness` is not \"empty\"");
        }
        self.require(!vocabulary.open, "open", "true", "possible for a pack made of files, whose codes are all listed");
    }

    fn languages(&mut self, vocabulary: &VocabularySettings) {
        let languages = &vocabulary.languages;
        if languages.len() > LANGUAGES_MAX {
            self.push(PackProblemKind::TooMany { what: "languages", actual: languages.len(), max: LANGUAGES_MAX });
        }
        for (index, language) in languages.iter().enumerate() {
            self.require(
                is_language_tag(language),
                "languages",
                language,
                "a BCP 47 language tag, such as en or pt-BR",
            );
            if languages.iter().take(index).any(|other| other == language) {
                self.push(PackProblemKind::Repeated { what: "the language", value: language.clone() });
            }
        }
        let default = &vocabulary.default_language;
        self.require(languages.contains(default), "default_language", default, "among `languages`");
    }
}

/// Whether a text is one trimmed line in normal form C within bounds.
pub fn is_sound_text(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX
        && !text.chars().any(char::is_control)
        && text.trim() == text
        && unicode_normalization::is_nfc(text)
}

fn is_table_name(text: &str) -> bool {
    let stem = text.strip_suffix(".tsv").unwrap_or_default();
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !stem.is_empty() && !stem.starts_with('.') && text.len() <= 100 && stem.bytes().all(is_sound)
}

fn is_language_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_primary = |part: &str| (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_further =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 35 && parts.next().is_some_and(is_primary) && parts.all(is_further)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_stays_in_its_folder() {
        assert!(is_table_name("isco-08.tsv"));
        for name in ["", ".tsv", "a", "../a.tsv", "a/b.tsv", "/a.tsv", "..tsv", "a\\b.tsv"] {
            assert!(!is_table_name(name), "{name}");
        }
    }

    #[test]
    fn knows_language_tags() {
        for tag in ["en", "fil", "pt-BR", "zh-Hant-TW"] {
            assert!(is_language_tag(tag), "{tag}");
        }
        for tag in ["", "e", "EN", "en_GB", "en-", "english", "..", "en/.."] {
            assert!(!is_language_tag(tag), "{tag}");
        }
    }
}
