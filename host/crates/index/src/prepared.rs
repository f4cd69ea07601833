//! Records of all kinds, decomposed.

use super::codes::ExtensionNumbers;
use super::identifiers::IdentifierHasher;
use super::subjects::Contents;
use super::{about, consent_index, members, subjects};
use daftar_domain::change::{ChangedRecord, Sequence};

/// Decomposes records for one register.
#[derive(Clone)]
pub struct Preparer {
    pub(super) hasher: IdentifierHasher,
    pub(super) extensions: ExtensionNumbers,
    pub(super) contents: Contents,
}

/// Decomposed records, ready to be added.
pub struct PreparedRecords(pub(super) Prepared);

impl Preparer {
    /// Decomposes records of one kind, in the order of their keys. Most of the work of adding them; takes no lock.
    #[must_use]
    pub fn prepare(&self, records: &[ChangedRecord]) -> PreparedRecords {
        let mut prepared = Prepared::default();
        for record in records {
            prepared.add(record, self);
        }
        PreparedRecords(prepared)
    }
}

/// Records decomposed before the register is locked.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) individuals: Vec<subjects::Prepared>,
    pub(super) groups: Vec<subjects::Prepared>,
    pub(super) members: Vec<members::Prepared>,
    pub(super) about: about::Prepared,
    pub(super) covers: consent_index::Prepared,
    /// The last transaction of these records; 0 if they are read from the store.
    pub(super) sequence: Sequence,
}

impl Prepared {
    /// Decomposes a record.
    pub(super) fn add(&mut self, record: &ChangedRecord, preparer: &Preparer) {
        match record {
            ChangedRecord::Individual(record) => {
                self.individuals.push(subjects::Prepared::of_individual(record, preparer));
            }
            ChangedRecord::Group(record) => {
                self.groups.push(subjects::Prepared::of_group(record, preparer));
                self.members.push(members::Prepared::of(record, preparer.contents));
            }
            ChangedRecord::Program(_) | ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => {
                self.about.add(record);
                self.covers.add(record);
            }
        }
    }

    /// Returns true if there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.individuals.is_empty() && self.groups.is_empty() && self.about.is_empty()
    }
}
