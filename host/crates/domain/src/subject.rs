//! Whom a program, a rule or a consent is about: a person or a group.

use serde::{Deserialize, Serialize};

use super::record::{RecordId, RecordKind};

/// The two kinds of records that programs, rules and consents are about. The serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Subject {
    /// A person.
    Individual,
    /// A household or another group.
    Group,
}

impl Subject {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Individual, Self::Group];

    /// The name in bodies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Individual => "individual",
            Self::Group => "group",
        }
    }

    /// The kind of its records.
    #[must_use]
    pub fn record_kind(self) -> RecordKind {
        match self {
            Self::Individual => RecordKind::Individual,
            Self::Group => RecordKind::Group,
        }
    }
}

/// One person or group: by key in the register, by identifier in a request that has not been checked yet. The serialized form is for
/// checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubjectReference<I = RecordId> {
    /// Of which kind.
    pub kind: Subject,
    /// Which one.
    pub id: I,
}
