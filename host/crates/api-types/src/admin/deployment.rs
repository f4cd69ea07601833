//! Keyed lists of what a deployment decides about codes and identifiers: local codes, concept groups, identifier
//! systems.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change;

/// Adds a local code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLocalCode {
    /// The code, written `<namespace>#<code>`.
    pub code: String,
    /// The code of the same vocabulary that it is a kind of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialises: Option<String>,
    /// Everything that can be changed later.
    #[serde(flatten)]
    pub details: LocalCodeChange,
}

/// Changes a local code: an absent member stays, `null` removes the value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalCodeChange {
    /// Its labels, by language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// The URI of a description.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Option<String>>,
    /// For an ID type: the regular expression that values match as a whole.
    #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
    pub value_pattern: Option<Option<String>>,
    /// The pattern in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_pattern_description: Option<String>,
    /// For an ID type: the records that carry it, `individual`, `group` or `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_type: Option<String>,
}

/// Deprecates a local code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalCodeDeprecation {
    /// The code to use in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// A local code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalCodeBody {
    /// The code, written `<namespace>#<code>`.
    pub uri: String,
    /// The namespace of its vocabulary.
    pub namespace: String,
    /// The code within its vocabulary.
    pub code: String,
    /// True if the deployment added it; `false` of a code of a starter set.
    pub local: bool,
    /// `active` or `deprecated`.
    pub status: String,
    /// The code to use in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// The code that it is a kind of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specialises: Option<String>,
    /// Its labels, by language.
    pub labels: BTreeMap<String, String>,
    /// The URI of a description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// For an ID type: the regular expression that values match as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_pattern: Option<String>,
    /// The pattern in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_pattern_description: Option<String>,
    /// For an ID type: the records that carry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_type: Option<String>,
    /// True if its vocabulary is active and has it.
    pub active: bool,
    /// Number of records that have it in a coded field; absent for an ID type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Time at which it was added.
    pub created_at: String,
    /// Time at which it was last changed.
    pub updated_at: String,
}

/// Defines a concept group for the deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewConceptGroup {
    /// Its content, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The codes that belong to it.
    pub includes: Vec<Selection>,
    /// The codes that do not, although `includes` has them.
    #[serde(default)]
    pub excludes: Vec<Selection>,
}

/// Codes of a concept group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// One code.
    Code(String),
    /// A code with everything below it.
    DescendantsOf(String),
}

/// A concept group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConceptGroupBody {
    /// Its name.
    pub name: String,
    /// Its content, in one sentence.
    pub description: String,
    /// Origin of the active definition: `none`, `deployment` or `plugin`.
    pub defined_by: String,
    /// The plugin that defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// True if it has a definition.
    pub is_set: bool,
    /// The codes that belong to it.
    pub includes: Vec<Selection>,
    /// The codes that do not, although `includes` has them.
    pub excludes: Vec<Selection>,
    /// Number of codes that belong to it.
    pub members: usize,
}

/// Registers an identifier system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewIdentifierSystem {
    /// Its URI.
    pub uri: String,
}

/// An identifier system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentifierSystemBody {
    /// Its URI.
    pub uri: String,
    /// `id_type` for a code of the ID types, or `registered`.
    pub origin: String,
    /// Time at which it was registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}
