//! By which names lines know each other's records.

use std::hash::{BuildHasher, RandomState};

use super::BulkRecord;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::RecordKind;

/// A name, hashed by secret keys to 128 bits: two different ones never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name(u128);

/// Hashes names.
#[derive(Debug, Clone, Default)]
pub(super) struct Naming {
    high: RandomState,
    low: RandomState,
}

/// What a line calls its own record, and which records it refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub own: Vec<Name>,
    pub needs: Vec<Name>,
}

impl Naming {
    fn name(&self, kind: RecordKind, key: &IdentifierKey) -> Name {
        self.hash((kind, key))
    }

    fn hash<T: std::hash::Hash>(&self, of: T) -> Name {
        Name(u128::from(self.high.hash_one(&of)) << 64 | u128::from(self.low.hash_one(&of)))
    }

    #[cfg(test)]
    pub(super) fn numbered(&self, number: usize) -> Name {
        self.hash(number)
    }

    /// The names of a record.
    pub(super) fn of(&self, record: &BulkRecord) -> Names {
        let kind = record.kind();
        let mut names = Names::default();
        let carries = |identifiers: &[daftar_domain::identifier::Identifier]| {
            identifiers.iter().map(|identifier| self.name(kind, &identifier.key)).collect::<Vec<_>>()
        };
        match record {
            BulkRecord::Individual(draft) => names.own = carries(&draft.details.identifiers),
            BulkRecord::Program(details) => names.own = carries(&details.identifiers),
            BulkRecord::Group(draft) => {
                names.own = carries(&draft.identifiers);
                let members = draft.members.iter().flatten();
                names.needs.extend(members.map(|member| self.name(RecordKind::Individual, &member.individual)));
                let others = draft.relationships.iter().flatten();
                names.needs.extend(others.map(|other| self.name(RecordKind::Group, &other.target)));
            }
            BulkRecord::ProgramMembership(draft) => {
                let beneficiary = &draft.beneficiary;
                names.own = carries(&draft.identifiers);
                // Of one beneficiary in one program at most one is open.
                names.own.push(self.hash((&draft.program, beneficiary.kind.record_kind(), &beneficiary.id)));
                names.needs.push(self.name(RecordKind::Program, &draft.program));
                names.needs.push(self.name(beneficiary.kind.record_kind(), &beneficiary.id));
            }
            BulkRecord::Consent(draft) => {
                names.own = vec![self.name(kind, &draft.id.key())];
                names.needs.push(self.name(draft.subject.kind.record_kind(), &draft.subject.id));
            }
        }
        names
    }
}
