//! What a plugin says about itself before anything of it is run.
//!
//! The manifest is stored as JSON inside the component; reading and writing it there is `plugin::pack::section`'s work.
//!
//! **Invariant:** a manifest that exists is well-formed: names, versions and paths are checked when they are made.
//! **Invariant:** a manifest grants nothing. Rights come from what the host links, limits from its configuration; the manifest
//! only says what would be wanted and why.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a plugin says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginManifest {
    /// Its name, by which it is installed, replaced and removed.
    pub name: PluginName,
    /// Its own version.
    pub version: PluginVersion,
    /// What it is for.
    pub kind: PluginKind,
    /// The version of the plugin interface that it was made for, such as `0.1.0`.
    pub interface: PluginVersion,
    /// What it brings, in one English sentence.
    pub description: String,
    /// SPDX expression of the licence of what it brings, or the licence's name where there is none.
    pub licence: String,
    /// The acknowledgement that the owner of its data asks for; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub attribution: String,
    /// Where it comes from: a publication, a release or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The limits it would like, where the defaults are too tight.
    #[serde(default, skip_serializing_if = "WantedLimits::is_empty")]
    pub limits: WantedLimits,
    /// The fields that it adds to records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_fields: Vec<ExtensionField>,
}

/// What a plugin is for: the world that it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginKind {
    /// It brings code lists.
    VocabularyPack,
    /// It decides eligibility.
    EligibilityEngine,
}

impl PluginKind {
    /// The name used in manifests and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VocabularyPack => "vocabulary-pack",
            Self::EligibilityEngine => "eligibility-engine",
        }
    }
}

impl std::fmt::Display for PluginKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A field that a plugin adds to records, below `extension`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtensionField {
    /// Where it is, such as `farmer.crops` for `extension.farmer.crops`.
    pub path: ExtensionPath,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ExtensionFieldKind,
    /// Whether there may be several values.
    #[serde(default)]
    pub repeated: bool,
    /// The namespace that its codes come from; only for coded fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<String>,
}

named_enum! {
    /// The type of one value of an extension field.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ExtensionFieldKind {
        /// True or false.
        Boolean = "boolean",
        /// A whole number of 64 bits.
        Integer = "integer",
        /// A number of 64 bits with a fraction.
        Number = "number",
        /// Text.
        Text = "text",
        /// A calendar day.
        Date = "date",
        /// A code of a vocabulary.
        Coded = "coded",
    }
}

/// Limits that differ from the host's defaults. What is absent is well served by the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WantedLimits {
    /// Linear memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<WantedLimit>,
    /// Work of one call, in units of fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<WantedLimit>,
    /// Time of one call, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<WantedLimit>,
    /// Stack of one call, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<WantedLimit>,
    /// What one call may give back, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<WantedLimit>,
}

/// A wanted limit and why it is wanted, for the operator who decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedLimit {
    /// The limit, in the unit that the field's name ends with.
    pub value: u64,
    /// Why the default does not do, in one English sentence.
    pub reason: String,
}

impl WantedLimits {
    /// Whether the defaults will do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A version `major.minor.patch`. Later versions compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

/// A text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a version: three whole numbers without leading zeros, joined with dots, such as 1.0.0")]
pub struct InvalidVersion {
    text: String,
}

impl PluginVersion {
    /// A version of these three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads a version.
    ///
    /// # Errors
    /// It is not three numbers of at most 32 bits, written in the one way there is.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let mut numbers = text.split('.').map(number);
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => Ok(Self { major, minor, patch }),
            _ => Err(InvalidVersion { text: text.chars().take(80).collect() }),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would take `+1` and `01`, and one version would have several spellings.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

impl fmt::Display for PluginVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl From<PluginVersion> for String {
    fn from(version: PluginVersion) -> Self {
        version.to_string()
    }
}

/// The name of a plugin: 1 to 64 lower-case ASCII letters, digits and hyphens, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginName(String);

/// A text that cannot be the name of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a plugin name: 1 to {max} lower-case letters, digits and hyphens, not beginning with a hyphen", max = PluginName::LENGTH_MAX)]
pub struct InvalidPluginName {
    text: String,
}

impl PluginName {
    /// The greatest length, in bytes.
    pub const LENGTH_MAX: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, too long, or holds a character that names do not have.
    pub fn parse(text: &str) -> Result<Self, InvalidPluginName> {
        let is_made_right = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if text.is_empty() || text.len() > Self::LENGTH_MAX || text.starts_with('-') || !is_made_right {
            return Err(InvalidPluginName { text: excerpt(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

/// The path of a field below `extension`: two or more keys joined with dots, such as `farmer.crops`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExtensionPath(String);

/// A text that cannot be the path of an extension field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the path of an extension field: two or more keys of lower-case letters, digits and underscores, joined with dots, at most {max} bytes", max = ExtensionPath::LENGTH_MAX)]
pub struct InvalidExtensionPath {
    text: String,
}

impl ExtensionPath {
    /// The greatest length, in bytes.
    pub const LENGTH_MAX: usize = 128;

    /// Checks a path.
    ///
    /// # Errors
    /// It is too long, has fewer than two keys, or a key that begins with no letter or holds a character that keys do not have.
    pub fn parse(text: &str) -> Result<Self, InvalidExtensionPath> {
        let is_key = |key: &str| {
            key.starts_with(|first: char| first.is_ascii_lowercase())
                && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        if text.len() > Self::LENGTH_MAX || !text.contains('.') || !text.split('.').all(is_key) {
            return Err(InvalidExtensionPath { text: excerpt(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

/// As much of a text as an error message should repeat.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

texts!(PluginName, ExtensionPath);
read_by_parse!(
    PluginName or InvalidPluginName,
    ExtensionPath or InvalidExtensionPath,
    PluginVersion or InvalidVersion
);

#[cfg(test)]
mod version_tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in ["0.1.0", "1.0.0", "10.20.4294967295"] {
            assert_eq!(PluginVersion::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in
            ["", "1", "1.0", "1.0.0.0", "01.0.0", "1.0.+1", "1.0.-1", "v1.0.0", "1.0.0-beta", "1.0.4294967296", "1..0"]
        {
            assert!(PluginVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn orders_by_number_and_not_by_letter() {
        assert!(PluginVersion::parse("1.10.0").unwrap() > PluginVersion::parse("1.9.9").unwrap());
    }
}

#[cfg(test)]
mod name_tests {
    use super::*;

    #[test]
    fn accepts_names_up_to_the_greatest_length() {
        for name in ["a", "isco-08", "3166-1", &"x".repeat(PluginName::LENGTH_MAX)] {
            assert_eq!(PluginName::parse(name).map(String::from).as_deref(), Ok(name));
        }
    }

    #[test]
    fn refuses_other_names() {
        for name in ["", "-a", "Gender", "a b", "a/b", "..", "é", &"x".repeat(PluginName::LENGTH_MAX + 1)] {
            assert!(PluginName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn repeats_only_the_beginning_of_a_long_text() {
        let error = PluginName::parse(&"X".repeat(10_000)).unwrap_err();
        assert!(error.to_string().len() < 300);
    }

    #[test]
    fn extension_paths_have_two_keys_or_more() {
        assert!(ExtensionPath::parse("farmer.crops").is_ok());
        assert!(ExtensionPath::parse("farmer.land.area_ha").is_ok());
        for path in ["farmer", "", ".crops", "farmer.", "Farmer.crops", "farmer.1crop", "farmer..crops"] {
            assert!(ExtensionPath::parse(path).is_err(), "{path}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(json: &str) -> Result<PluginManifest, serde_json::Error> {
        serde_json::from_str(json)
    }

    const LEAST: &str = r#"{"name":"gender","version":"1.0.0","kind":"vocabulary-pack","interface":"0.1.0",
        "description":"Sex of a person.","licence":"CC0-1.0"}"#;

    #[test]
    fn reads_the_least_that_a_plugin_must_say() {
        let manifest = manifest(LEAST).unwrap();
        assert_eq!(manifest.name.as_str(), "gender");
        assert_eq!(manifest.version, PluginVersion::new(1, 0, 0));
        assert_eq!(manifest.kind, PluginKind::VocabularyPack);
        assert!(manifest.limits.is_empty());
        assert!(manifest.extension_fields.is_empty());
    }

    #[test]
    fn writes_what_it_read() {
        let json = r#"{"name":"farmer","version":"2.1.0","kind":"vocabulary-pack","interface":"0.1.0","description":"Crops.","licence":"CC-BY-4.0","attribution":"FAO","source":"AGROVOC 2026-01","limits":{"memory_bytes":{"value":33554432,"reason":"many codes"}},"extension_fields":[{"path":"farmer.crops","type":"coded","repeated":true,"vocabulary":"urn:fao:agrovoc"}]}"#;
        assert_eq!(serde_json::to_string(&manifest(json).unwrap()).unwrap(), json);
    }

    #[test]
    fn refuses_a_key_that_it_does_not_know() {
        let error = manifest(&LEAST.replacen('{', r#"{"capabilities":["network"],"#, 1)).unwrap_err();
        assert!(error.to_string().contains("unknown field `capabilities`"), "{error}");
    }

    #[test]
    fn refuses_a_kind_that_it_does_not_know() {
        let error = manifest(&LEAST.replace("vocabulary-pack", "protocol-adapter")).unwrap_err();
        assert!(error.to_string().contains("unknown variant `protocol-adapter`"), "{error}");
    }
}
