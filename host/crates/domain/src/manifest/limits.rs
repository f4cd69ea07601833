//! The limits that a plugin would like to have.

use serde::{Deserialize, Serialize};

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
