//! `pack.toml`: its schema, and the checks that need no other file.
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
//! open = false                     # a pack built from files has only listed codes
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

use std::collections::HashSet;

use serde::Deserialize;

use super::SourceReader;
use crate::pack::problem::{PackErrors, too_many};
use crate::source_rules::{HierarchyRule, LANGUAGES_MAX, is_key, is_language_tag, is_text};
use daftar_domain::code::{CodeUri, Namespace};
use daftar_domain::manifest::{ExtensionField, PluginKind, PluginManifest, PluginName, PluginVersion, WantedLimits};
use daftar_domain::vocabulary::{Completeness, Concept, ConceptGroup, Selection, VocabularyDescription};

/// The file's name.
pub const SETTINGS_FILE: &str = "pack.toml";

/// The largest `pack.toml`, in bytes.
const SETTINGS_BYTES_MAX: usize = 256 * 1024;

/// The most vocabularies of one pack.
const VOCABULARIES_MAX: usize = 64;

/// The most concept groups of one pack.
const CONCEPT_GROUPS_MAX: usize = 1_000;

/// The most selections in one concept group.
const SELECTIONS_MAX: usize = 10_000;

/// The plugin interface of the generic pack, and therefore of every pack.
const INTERFACE: PluginVersion = PluginVersion::new(0, 1, 0);

/// The content of `pack.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackSettings {
    name: PluginName,
    version: PluginVersion,
    description: String,
    pub licence: String,
    #[serde(default)]
    pub attribution: String,
    source: Option<String>,
    #[serde(default = "yes")]
    pub default: bool,
    #[serde(default)]
    pub vocabulary: Vec<VocabularySettings>,
    #[serde(default)]
    concept_group: Vec<ConceptGroupSettings>,
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
    #[serde(default = "full", with = "CompletenessSetting")]
    pub completeness: Completeness,
    #[serde(default)]
    open: bool,
    #[serde(default = "yes")]
    pub system: bool,
    #[serde(default)]
    pub extensible: bool,
}

/// The completeness of a vocabulary in `pack.toml`.
#[derive(Deserialize)]
#[serde(remote = "Completeness", rename_all = "snake_case")]
enum CompletenessSetting {
    Full,
    Fragment,
    Empty,
}

/// A `[[concept_group]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConceptGroupSettings {
    name: String,
    description: String,
    include: Vec<SelectionSetting>,
    #[serde(default)]
    exclude: Vec<SelectionSetting>,
}

/// A selection from a vocabulary, by the URI of a code.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SelectionSetting {
    /// A single code.
    Code(String),
    /// A code and its descendants.
    DescendantsOf(String),
}

impl SelectionSetting {
    /// The URI.
    fn uri(&self) -> &str {
        match self {
            Self::Code(uri) | Self::DescendantsOf(uri) => uri,
        }
    }
}

fn yes() -> bool {
    true
}

fn full() -> Completeness {
    Completeness::Full
}

impl PackSettings {
    /// The manifest of the pack.
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

    /// The concept groups; problems are reported.
    ///
    /// A group may refer to codes of another pack, which cannot be checked here: the host resolves them when it is
    /// published.
    pub fn concept_groups(
        &self,
        vocabularies: &[(VocabularyDescription, Vec<Concept>)],
        errors: &mut PackErrors,
    ) -> Vec<ConceptGroup> {
        let mut checker = Checker { errors };
        let groups = &self.concept_group;
        if groups.len() > CONCEPT_GROUPS_MAX {
            checker.push(too_many("concept groups", groups.len(), CONCEPT_GROUPS_MAX));
        }
        let codes = PackCodes::of(vocabularies);
        let mut names = HashSet::new();
        let group = |group: &ConceptGroupSettings| {
            checker.concept_group(group);
            if !names.insert(group.name.clone()) {
                checker.push(format!("the concept group `{}` occurs again", group.name));
            }
            let mut selections = |settings: &[SelectionSetting]| {
                let selections = settings.iter().filter_map(|setting| checker.selection(&group.name, setting, &codes));
                selections.collect()
            };
            ConceptGroup {
                name: group.name.clone(),
                description: group.description.clone(),
                includes: selections(&group.include),
                excludes: selections(&group.exclude),
            }
        };
        groups.iter().map(group).collect()
    }
}

/// The codes of a pack, for checking concept groups.
pub struct PackCodes<'a> {
    namespaces: HashSet<&'a str>,
    codes: HashSet<(&'a str, &'a str)>,
}

impl<'a> PackCodes<'a> {
    /// All codes of these vocabularies.
    pub fn of(vocabularies: &'a [(VocabularyDescription, Vec<Concept>)]) -> Self {
        let mut all = Self { namespaces: HashSet::new(), codes: HashSet::new() };
        for (description, concepts) in vocabularies {
            let namespace = description.namespace.as_str();
            all.namespaces.insert(namespace);
            all.codes.extend(concepts.iter().map(|concept| (namespace, concept.code.as_str())));
        }
        all
    }

    /// Returns true if one of the vocabularies should have the code, and does not.
    pub fn lack(&self, uri: &CodeUri) -> bool {
        let (namespace, code) = (uri.namespace.as_str(), uri.code.as_str());
        self.namespaces.contains(namespace) && !self.codes.contains(&(namespace, code))
    }
}

/// Reads and checks `pack.toml`; returns none if it cannot be parsed.
pub fn read(reader: &mut SourceReader<'_>) -> Option<PackSettings> {
    let bytes = reader.read(SETTINGS_FILE, SETTINGS_BYTES_MAX)?;
    let settings: PackSettings = match toml::from_slice(&bytes) {
        Ok(settings) => settings,
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let line = bytes.iter().take(start).filter(|byte| **byte == b'\n').count() + 1;
            reader.errors.push(SETTINGS_FILE, Some(line), None, error.message());
            return None;
        }
    };
    let mut checker = Checker { errors: &mut reader.errors };
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
    fn push(&mut self, reason: String) {
        self.errors.push(SETTINGS_FILE, None, None, reason);
    }

    fn require(&mut self, holds: bool, key: &str, value: &str, wanted: &str) {
        if !holds {
            let value: String = value.chars().take(80).collect();
            self.push(format!("`{key}` is `{value}`, which is not {wanted}"));
        }
    }

    fn text(&mut self, key: &str, value: &str) {
        self.require(
            is_text(value),
            key,
            value,
            "a trimmed text of one line in Unicode normal form C, at most 2,048 bytes",
        );
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
            self.push(too_many("vocabularies", count, VOCABULARIES_MAX));
        }
        self.require(count > 0, "vocabulary", "", "a list of at least one vocabulary");
        for (index, vocabulary) in settings.vocabulary.iter().enumerate() {
            let mut before = settings.vocabulary.iter().take(index);
            if before.clone().any(|other| other.namespace == vocabulary.namespace) {
                self.push(format!("the namespace `{}` occurs again", vocabulary.namespace));
            }
            if let Some(codes) = &vocabulary.codes
                && before.any(|other| other.codes.as_ref() == Some(codes))
            {
                self.push(format!("the table of codes `{codes}` occurs again"));
            }
        }
    }

    fn vocabulary(&mut self, vocabulary: &VocabularySettings) {
        if let Err(error) = Namespace::parse(&vocabulary.namespace) {
            self.push(format!("`namespace` is `{}`: {error}", vocabulary.namespace.escape_debug()));
        }
        for (key, value) in [
            ("name", Some(&vocabulary.name)),
            ("domain", Some(&vocabulary.domain)),
            ("version", Some(&vocabulary.version)),
            ("source", Some(&vocabulary.source)),
            ("licence", vocabulary.licence.as_ref()),
            ("attribution", vocabulary.attribution.as_ref()),
        ] {
            if let Some(value) = value {
                self.text(key, value);
            }
        }
        self.languages(vocabulary);
        if let Some(codes) = &vocabulary.codes {
            self.require(is_table_name(codes), "codes", codes, "the name of a .tsv file in the folder codes");
        }
        let is_empty = vocabulary.completeness == Completeness::Empty;
        if is_empty == vocabulary.codes.is_some() {
            let value = vocabulary.codes.as_deref().unwrap_or_default();
            self.require(
                false,
                "codes",
                value,
                "consistent with `completeness`: it is required unless that is \"empty\"",
            );
        }
        self.require(
            !vocabulary.open,
            "open",
            "true",
            "possible for a pack built from files, whose codes are all listed",
        );
    }

    fn languages(&mut self, vocabulary: &VocabularySettings) {
        let languages = &vocabulary.languages;
        if languages.len() > LANGUAGES_MAX {
            self.push(too_many("languages", languages.len(), LANGUAGES_MAX));
        }
        for (index, language) in languages.iter().enumerate() {
            let wanted = "a BCP 47 language tag, such as en or pt-BR";
            self.require(is_language_tag(language), "languages", language, wanted);
            if languages.iter().take(index).any(|other| other == language) {
                self.push(format!("the language `{language}` occurs again"));
            }
        }
        let default = &vocabulary.default_language;
        self.require(languages.contains(default), "default_language", default, "among `languages`");
    }

    fn concept_group(&mut self, group: &ConceptGroupSettings) {
        let name = &group.name;
        if !is_key(name) {
            self.push(format!(
                "`concept_group.name` is `{name}`, which is not 1 to 64 lower-case letters, digits and underscores, \
                 beginning with a letter"
            ));
        }
        if !is_text(&group.description) {
            self.push(format!(
                "`description of the concept group {name}` is `{}`, which is not a sentence that describes \
                 the group",
                group.description
            ));
        }
        if group.include.is_empty() {
            let key = format!("include of the concept group {name}");
            self.require(false, &key, "", "a list of at least one selection");
        }
        let count = group.include.len() + group.exclude.len();
        if count > SELECTIONS_MAX {
            self.push(too_many("selections", count, SELECTIONS_MAX));
        }
    }

    /// Converts the selection of a concept group; returns none, and reports it, if it is invalid or its code is missing
    /// from the pack.
    fn selection(&mut self, group: &str, setting: &SelectionSetting, codes: &PackCodes<'_>) -> Option<Selection> {
        let wanted = match CodeUri::parse(setting.uri()) {
            Ok(uri) if !codes.lack(&uri) => {
                return Some(match setting {
                    SelectionSetting::Code(_) => Selection::Code(uri),
                    SelectionSetting::DescendantsOf(_) => Selection::DescendantsOf(uri),
                });
            }
            Ok(_) => "a code of that vocabulary",
            Err(_) => "the URI of a code, <namespace>#<code>",
        };
        let value = setting.uri().escape_debug();
        self.push(format!("`selection of the concept group {group}` is `{value}`, which is not {wanted}"));
        None
    }
}

fn is_table_name(text: &str) -> bool {
    let stem = text.strip_suffix(".tsv").unwrap_or_default();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !stem.is_empty() && !stem.starts_with('.') && text.len() <= 100 && stem.bytes().all(is_allowed)
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
}
