//! Whom a program, a rule or a consent is about: a person or a group.

use serde::{Deserialize, Serialize};

use super::record::{RecordId, RecordKind};
use super::value::Reference;

named_enum! {
    /// The two kinds of records that programs, rules and consents are about. The serialized form is for checkpoints.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Subject {
        /// A person.
        Individual = "individual",
        /// A household or another group.
        Group = "group",
    }
}

impl Subject {
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

impl<I> SubjectReference<I> {
    /// The person or group that a value refers to; nothing where it refers to another kind of record.
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
