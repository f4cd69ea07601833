//! Systems of identifiers that the administrator registered, beside the codes of the ID types vocabulary.

use jiff::Timestamp;

use super::identifier::SystemUri;

/// The most systems that a deployment registers.
pub const IDENTIFIER_SYSTEMS_MAX: usize = 1_000;

/// A system that identifiers may be of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentifierSystem {
    /// Its URI.
    pub uri: SystemUri,
    /// When it was registered.
    pub created_at: Timestamp,
}
