//! Recently touched records: a write detects that a record of its read set was changed since it was checked.
//!
//! **Invariant:** unknown records count as changed: the limit can only cause retries.

use std::collections::{HashMap, VecDeque};

use super::Planned;
use crate::{ReadSet, StoreError};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::record::{RecordId, RecordKind};

/// Maximum number of remembered records. A check and its write are some milliseconds apart; this covers seconds of the
/// fastest import, in a few megabytes.
const TOUCHED_MAX: usize = 65_536;

/// A record by its kind and key.
pub type Place = (RecordKind, RecordId);

/// The records touched by the writes after a sequence number.
#[derive(Debug, Default)]
pub struct Recent {
    /// Changes up to this write are unknown.
    forgotten: Sequence,
    /// The last write that touched each record.
    touched: HashMap<Place, Sequence>,
    order: VecDeque<(Sequence, Place)>,
}

impl Recent {
    /// No records, after that write.
    pub fn after(last: Sequence) -> Self {
        Self { forgotten: last, ..Self::default() }
    }

    /// Changes up to this write are unknown.
    pub fn forgotten(&self) -> Sequence {
        self.forgotten
    }

    /// Checks that no record of the read set was touched.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`].
    pub fn check(&self, read_set: &[ReadSet]) -> Result<(), StoreError> {
        let is_touched = |read_set: &ReadSet| {
            let since = read_set.since;
            since < self.forgotten || read_set.records.iter().any(|place| self.touched.get(place) > Some(&since))
        };
        if read_set.iter().any(is_touched) { Err(StoreError::Overtaken) } else { Ok(()) }
    }

    /// Adds the records touched by a planned write.
    pub fn add(&mut self, planned: &Planned) {
        self.touch(planned.committed.sequence, planned.touched());
    }

    /// Adds the records touched by a write with that sequence number.
    pub fn touch(&mut self, sequence: Sequence, places: impl IntoIterator<Item = Place>) {
        for place in places {
            if self.touched.insert(place, sequence) != Some(sequence) {
                self.order.push_back((sequence, place));
            }
        }
        while self.order.len() > TOUCHED_MAX {
            let Some((sequence, place)) = self.order.pop_front() else { break };
            self.forgotten = self.forgotten.max(sequence);
            if self.touched.get(&place) == Some(&sequence) {
                self.touched.remove(&place);
            }
        }
    }
}

impl Planned {
    /// All records that the write touches; a record may be repeated.
    pub fn touched(&self) -> impl Iterator<Item = Place> {
        self.changes.iter().map(|change| &change.record).chain(&self.replaced).flat_map(touched_by)
    }
}

/// The record itself, and the records whose memberships it contains.
fn touched_by(record: &ChangedRecord) -> Vec<Place> {
    let (kind, id, _) = record.place();
    let mut places = vec![(kind, id)];
    match record {
        ChangedRecord::ProgramMembership(membership) => {
            let beneficiary = membership.details.beneficiary();
            places.push((beneficiary.kind.record_kind(), beneficiary.id));
        }
        ChangedRecord::Group(group) => {
            places.extend(group.details.members().map(|member| (RecordKind::Individual, member.individual)));
        }
        ChangedRecord::Individual(_) | ChangedRecord::Program(_) | ChangedRecord::Consent(_) => {}
    }
    places
}
