//! By which names lines know each other's records.

use std::hash::{BuildHasher, RandomState};

use super::BulkRecord;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{BENEFICIARY, PROGRAM};
use daftar_domain::record::RecordKind;
use daftar_domain::value::Reference;

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
        let needs = |references: Vec<&Reference<IdentifierKey>>| {
            references.into_iter().map(|other| self.name(other.kind, &other.id)).collect()
        };
        match record {
            BulkRecord::Individual(draft) => names.needs = needs(draft.details.references()),
            BulkRecord::Group(draft) => names.needs = needs(draft.details.references()),
            BulkRecord::Program(_) => {}
            BulkRecord::ProgramMembership(draft) => {
                names.needs = needs(draft.references());
                // Of one beneficiary in one program at most one is open.
                names.own.push(self.hash((draft.get(PROGRAM), draft.get(BENEFICIARY))));
            }
            BulkRecord::Consent(draft) => {
                names.needs = needs(draft.references());
                names.own.push(self.name(kind, &draft.id().key()));
            }
        }
        names.own.extend(record.identifiers().iter().map(|identifier| self.name(kind, &identifier.key)));
        names
    }
}
