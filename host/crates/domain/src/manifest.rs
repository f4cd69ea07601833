//! What a plugin says about itself before anything of it is run.
//!
//! The manifest is stored as JSON inside the component; reading and writing it there is `plugin::pack::section`'s work.
//!
//! **Invariant:** a manifest that exists is well-formed: names, versions and paths are checked when they are made.
//! **Invariant:** a manifest grants nothing. Rights come from what the host links, limits from its configuration; the manifest
//! only says what would be wanted and why.

mod limits;
mod name;
mod version;

use serde::{Deserialize, Serialize};

pub use limits::{WantedLimit, WantedLimits};
pub use name::{ExtensionPath, InvalidExtensionPath, InvalidPluginName, PluginName};
pub use version::{InvalidVersion, PluginVersion};

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

/// The type of one value of an extension field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtensionFieldKind {
    /// True or false.
    Boolean,
    /// A whole number of 64 bits.
    Integer,
    /// A number of 64 bits with a fraction.
    Number,
    /// Text.
    Text,
    /// A calendar day.
    Date,
    /// A code of a vocabulary.
    Coded,
}

impl ExtensionFieldKind {
    /// Its name in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Date => "date",
            Self::Coded => "coded",
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
