//! Subjects of programs, rules and consents: individuals or groups.

use serde::{Deserialize, Serialize};

use super::record::{RecordId, RecordKind};
use super::value::Reference;

named_enum! {
    /// The two kinds of subjects of programs, rules and consents. The serialized form is for checkpoints.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Subject {
        /// An individual.
        Individual = "individual",
        /// A household or another group.
        Group = "group",
    }
}

impl Subject {
    /// Returns the kind of its records.
    #[must_use]
    pub fn record_kind(self) -> RecordKind {
        match self {
            Self::Individual => RecordKind::Individual,
            Self::Group => RecordKind::Group,
        }
    }
}

/// A reference to an individual or group: by key in the register, by identifier in a request that is not validated yet.
/// The serialized form is for checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubjectReference<I = RecordId> {
    /// The kind.
    pub kind: Subject,
    /// The key or identifier.
    pub id: I,
}

impl<I> SubjectReference<I> {
    /// Converts a reference; none if it refers to another kind of record.
    #[must_use]
    pub fn of(reference: Reference<I>) -> Option<Self> {
        let kind = Subject::ALL.into_iter().find(|subject| subject.record_kind() == reference.kind)?;
        Some(Self { kind, id: reference.id })
    }
}

impl<I> From<SubjectReference<I>> for Reference<I> {
    fn from(subject: SubjectReference<I>) -> Self {
        Self { kind: subject.kind.record_kind(), id: subject.id }
    }
}
