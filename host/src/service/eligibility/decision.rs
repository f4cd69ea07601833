//! What is needed to repeat an answer.

use jiff::civil::Date;
use sha2::{Digest, Sha256};

use crate::domain::record::VersionId;

/// Everything that an answer depended on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Digest of the expression's text.
    pub expression_digest: String,
    /// Name, version and digest of the engine.
    pub engine: String,
    /// Namespace and version of every vocabulary in force.
    pub vocabularies: Vec<(String, String)>,
    /// Digest of the concept groups in force.
    pub concept_groups: String,
    /// Digest of the schema.
    pub schema: String,
    /// The day that was asked about.
    pub as_of: Date,
    /// Every record read, by reference, with its version.
    pub versions: Vec<(String, VersionId)>,
    /// Whether only what is consented to was seen.
    pub is_by_consent: bool,
}

/// The digest of an expression.
#[must_use]
pub fn expression_digest(expression: &str) -> String {
    format!("sha256:{}", hexadecimal(&Sha256::digest(expression.as_bytes())))
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
