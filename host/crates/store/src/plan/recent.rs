//! What the last writes touched: how a write finds out that something which it rests on changed since it was looked at.
//!
//! **Invariant:** what is not known is taken for changed: the worst that comes of the bound is that something is done again.

use std::collections::{HashMap, VecDeque};

use super::Planned;
use crate::{ReadSet, StoreError};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::record::{RecordId, RecordKind};

/// How many things touched are remembered. A look and the write that rests on it are some milliseconds apart; this is seconds of
/// the fastest import, in a few megabytes.
const TOUCHED_MAX: usize = 65_536;

/// A record by its kind and key.
pub type Place = (RecordKind, RecordId);

/// What was touched by the writes after some point in their order.
#[derive(Debug, Default)]
pub struct Recent {
    /// Of this write and those before it nothing is known.
    forgotten: Sequence,
    /// Which write touched it last.
    touched: HashMap<Place, Sequence>,
    order: VecDeque<(Sequence, Place)>,
}

impl Recent {
    /// Nothing touched after that write yet.
    pub fn after(last: Sequence) -> Self {
        Self { forgotten: last, ..Self::default() }
    }

    /// Of this write and those before it nothing is known.
    pub fn forgotten(&self) -> Sequence {
        self.forgotten
    }

    /// Checks that nothing was touched on which a write rests.
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

    /// Takes up what a write touches.
    pub fn add(&mut self, planned: &Planned) {
        self.touch(planned.committed.sequence, planned.touched());
    }

    /// Takes up what a write of that place touched.
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
    /// Everything that the write touches; one may occur more than once.
    pub fn touched(&self) -> impl Iterator<Item = Place> {
        self.changes.iter().map(|change| &change.record).chain(&self.replaced).flat_map(touched_by)
    }
}

/// The record itself, and of whom it says where they belong.
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
