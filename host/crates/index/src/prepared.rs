//! Records of all kinds, taken apart.

use super::codes::ExtensionNumbers;
use super::identifiers::IdentifierHasher;
use super::subjects::Numbers;
use super::{about, consent_index, members, subjects};
use daftar_domain::change::{ChangedRecord, Sequence};

/// Takes records apart for one register.
#[derive(Clone)]
pub struct Preparer {
    hasher: IdentifierHasher,
    extensions: ExtensionNumbers,
}

/// Records taken apart, to be taken up.
pub struct PreparedRecords(pub(super) Prepared);

impl Preparer {
    pub(super) fn new(hasher: &IdentifierHasher, extensions: &ExtensionNumbers) -> Self {
        Self { hasher: hasher.clone(), extensions: extensions.clone() }
    }

    /// Takes records of one kind apart, in the order of their keys: most of the work of taking them up, which others need not wait for.
    #[must_use]
    pub fn prepare(&self, records: &[ChangedRecord]) -> PreparedRecords {
        let mut prepared = Prepared::default();
        for record in records {
            prepared.add(record, (&self.hasher, &self.extensions));
        }
        PreparedRecords(prepared)
    }
}

/// Records taken apart before the register is locked.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) individuals: Vec<subjects::Prepared>,
    pub(super) groups: Vec<subjects::Prepared>,
    pub(super) members: Vec<members::Prepared>,
    pub(super) about: about::Prepared,
    pub(super) covers: consent_index::Prepared,
    /// The last of the writes that they are of; none, where they are read from the store.
    pub(super) sequence: Sequence,
}

impl Prepared {
    /// Takes a record apart.
    pub(super) fn add(&mut self, record: &ChangedRecord, numbers: Numbers<'_>) {
        match record {
            ChangedRecord::Individual(record) => {
                self.individuals.push(subjects::Prepared::of_individual(record, numbers));
            }
            ChangedRecord::Group(record) => {
                self.groups.push(subjects::Prepared::of_group(record, numbers));
                self.members.push((record.id, record.details.members().collect()));
            }
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
