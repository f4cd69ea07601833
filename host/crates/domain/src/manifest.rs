//! The manifest of a plugin, read before any of its code runs.
//!
//! The manifest is stored as JSON inside the component, where `plugin::pack::section` reads and writes it.
//!
//! **Invariant:** every manifest is well-formed: names, versions and paths are checked on construction.
//! **Invariant:** a manifest grants nothing. Rights come from the imports that the host links, limits from its
//! configuration; the manifest only states wishes and reasons.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The manifest of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginManifest {
    /// Name, for installing, replacing and removing.
    pub name: PluginName,
    /// Version of the plugin.
    pub version: PluginVersion,
    /// Kind.
    pub kind: PluginKind,
    /// Version of the plugin interface, such as `0.1.0`.
    pub interface: PluginVersion,
    /// Description, in one English sentence.
    pub description: String,
    /// SPDX expression of the licence of its content, or the licence's name if there is none.
    pub licence: String,
    /// The acknowledgement required by the publisher of its data; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub attribution: String,
    /// Source: a publication, a release or a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Requested limits, if the defaults are too low.
    #[serde(default, skip_serializing_if = "WantedLimits::is_empty")]
    pub limits: WantedLimits,
    /// The fields that it adds to records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_fields: Vec<ExtensionField>,
}

named_enum! {
    /// The kind of a plugin, named after the WIT world that it implements.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum PluginKind {
        /// Provides code lists.
        VocabularyPack = "vocabulary-pack",
        /// Decides eligibility.
        EligibilityEngine = "eligibility-engine",
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A field that a plugin adds to records, below `extension`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtensionField {
    /// Its path, such as `farmer.crops` for `extension.farmer.crops`.
    pub path: ExtensionPath,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ExtensionFieldKind,
    /// True if it may have several values.
    #[serde(default)]
    pub repeated: bool,
    /// The namespace of its codes; only for coded fields.
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

/// Limits that differ from the host's defaults. If absent, the default is sufficient.
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
    /// Output of one call, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<WantedLimit>,
}

/// A requested limit with its reason, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedLimit {
    /// The limit, in the unit in the suffix of the field's name.
    pub value: u64,
    /// The reason why the default is insufficient, in one English sentence.
    pub reason: String,
}

impl WantedLimits {
    /// True if no limits are requested.
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

/// Error: a text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a version: three whole numbers without leading zeros, joined with dots, such as 1.0.0")]
pub struct InvalidVersion {
    text: String,
}

impl PluginVersion {
    /// Creates a version from three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Parses a version.
    ///
    /// # Errors
    /// The text is not three numbers of at most 32 bits in canonical form.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let mut numbers = text.split('.').map(number);
        match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => Ok(Self { major, minor, patch }),
            _ => Err(InvalidVersion { text: text.chars().take(80).collect() }),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would accept `+1` and `01`, so that one version would have several spellings.
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

/// Error: a text is not a valid plugin name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a plugin name: 1 to {max} lower-case letters, digits and hyphens, not beginning with a hyphen", max = PluginName::LENGTH_MAX)]
pub struct InvalidPluginName {
    text: String,
}

impl PluginName {
    /// Maximum length, in bytes.
    pub const LENGTH_MAX: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, too long, or contains an invalid character.
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

/// Error: a text is not a valid path of an extension field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the path of an extension field: two or more keys of lower-case letters, digits and underscores, joined with dots, at most {max} bytes", max = ExtensionPath::LENGTH_MAX)]
pub struct InvalidExtensionPath {
    text: String,
}

impl ExtensionPath {
    /// Maximum length, in bytes.
    pub const LENGTH_MAX: usize = 128;

    /// Checks a path.
    ///
    /// # Errors
    /// It is too long, has fewer than two keys, or a key does not begin with a letter or contains an invalid character.
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

/// Returns the text, truncated for an error message.
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
    fn rejects_other_texts() {
        for text in
            ["", "1", "1.0", "1.0.0.0", "01.0.0", "1.0.+1", "1.0.-1", "v1.0.0", "1.0.0-beta", "1.0.4294967296", "1..0"]
        {
            assert!(PluginVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn orders_numerically() {
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
    fn rejects_other_names() {
        for name in ["", "-a", "Gender", "a b", "a/b", "..", "é", &"x".repeat(PluginName::LENGTH_MAX + 1)] {
            assert!(PluginName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn truncates_a_long_text() {
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
    fn reads_a_minimal_manifest() {
        let manifest = manifest(LEAST).unwrap();
        assert_eq!(manifest.name.as_str(), "gender");
        assert_eq!(manifest.version, PluginVersion::new(1, 0, 0));
        assert_eq!(manifest.kind, PluginKind::VocabularyPack);
        assert!(manifest.limits.is_empty());
        assert!(manifest.extension_fields.is_empty());
    }

    #[test]
    fn round_trips() {
        let json = r#"{"name":"farmer","version":"2.1.0","kind":"vocabulary-pack","interface":"0.1.0","description":"Crops.","licence":"CC-BY-4.0","attribution":"FAO","source":"AGROVOC 2026-01","limits":{"memory_bytes":{"value":33554432,"reason":"many codes"}},"extension_fields":[{"path":"farmer.crops","type":"coded","repeated":true,"vocabulary":"urn:fao:agrovoc"}]}"#;
        assert_eq!(serde_json::to_string(&manifest(json).unwrap()).unwrap(), json);
    }

    #[test]
    fn rejects_an_unknown_key() {
        let error = manifest(&LEAST.replacen('{', r#"{"capabilities":["network"],"#, 1)).unwrap_err();
        assert!(error.to_string().contains("unknown field `capabilities`"), "{error}");
    }

    #[test]
    fn rejects_an_unknown_kind() {
        let error = manifest(&LEAST.replace("vocabulary-pack", "protocol-adapter")).unwrap_err();
        assert!(error.to_string().contains("unknown variant `protocol-adapter`"), "{error}");
    }
}
