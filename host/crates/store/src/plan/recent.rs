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

#[cfg(test)]
mod tests {
    use super::*;

    fn person(id: u64) -> Place {
        (RecordKind::Individual, RecordId(id))
    }

    fn is_overtaken(recent: &Recent, since: u64, id: u64) -> bool {
        recent.check(&[ReadSet { since: Sequence(since), records: vec![person(id)] }]).is_err()
    }

    #[test]
    fn a_read_set_is_checked_from_the_last_unknown_write() {
        let mut recent = Recent::after(Sequence(7));
        recent.touch(Sequence(8), [person(1)]);
        for (since, id, expected) in [(6, 2, true), (7, 2, false), (7, 1, true), (8, 1, false)] {
            assert_eq!(is_overtaken(&recent, since, id), expected, "{since} {id}");
        }
    }

    #[test]
    fn the_oldest_writes_are_forgotten_at_the_limit() {
        let mut recent = Recent::default();
        let last = TOUCHED_MAX as u64;
        for number in 1..=last {
            recent.touch(Sequence(number), [person(number)]);
        }
        assert_eq!(recent.forgotten(), Sequence(0));
        recent.touch(Sequence(last + 1), [person(1), person(1)]);
        assert_eq!(recent.forgotten(), Sequence(1));
        assert!(is_overtaken(&recent, last, 1), "only its older write is forgotten");
        recent.touch(Sequence(last + 2), [person(last + 2)]);
        assert_eq!((recent.forgotten(), recent.touched.len()), (Sequence(2), TOUCHED_MAX));
    }
}
