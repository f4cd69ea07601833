//! Records of all kinds, taken apart.

use super::extensions::ExtensionNumbers;
use super::identifiers::IdentifierHasher;
use super::{about, cover, groups, individuals};
use crate::domain::change::{ChangedRecord, Sequence};

/// Records taken apart before the register is locked.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) individuals: Vec<individuals::Prepared>,
    pub(super) groups: Vec<groups::Prepared>,
    pub(super) about: about::Prepared,
    pub(super) covers: cover::Prepared,
    /// The last of the writes that they are of; none, where they are read from the store.
    pub(super) sequence: Sequence,
}

impl Prepared {
    /// Takes a record apart.
    pub(super) fn add(&mut self, record: &ChangedRecord, (hasher, extensions): (&IdentifierHasher, &ExtensionNumbers)) {
        match record {
            ChangedRecord::Individual(record) => {
                self.individuals.push(individuals::Prepared::new(record, hasher, extensions));
            }
            ChangedRecord::Group(record) => self.groups.push(groups::Prepared::new(record, hasher, extensions)),
            ChangedRecord::Program(_) | ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => {
                self.about.add(record);
                self.covers.add(record);
            }
        }
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.individuals.is_empty() && self.groups.is_empty() && self.about.is_empty()
    }
}
