//! Which records were changed after the mark, as the order of writes tells it.

use std::collections::BTreeMap;
use std::ops::Bound;

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::{StoreError, record};

use super::super::keys;
use super::super::reader::{Reader, number};
use super::Start;

/// The most records that are kept apart, some hundred megabytes.
const TOUCHED_MAX: usize = 2_000_000;

/// The records changed since, that have still to be taken.
pub(super) struct Touched {
    read_up_to: Sequence,
    /// The first version of each that came after the mark.
    first_after: BTreeMap<(RecordKind, RecordId), VersionId>,
    /// Up to here records have been taken.
    taken: (RecordKind, RecordId),
}

impl Touched {
    /// Nothing has been changed yet.
    pub(super) fn since(mark: Sequence) -> Self {
        Self { read_up_to: mark, first_after: BTreeMap::new(), taken: (RecordKind::Individual, RecordId(0)) }
    }

    /// Reads on in the order of writes. Afterwards every change of a value that was read before is known: both are written
    /// together.
    pub(super) fn follow(&mut self, reader: &Reader, start: &Start) -> Result<(), StoreError> {
        let from = keys::by_number(keys::CHANGE, self.read_up_to.0);
        let to = keys::by_number(keys::CHANGE, u64::MAX);
        for item in reader.database.range((Bound::Excluded(from), Bound::Included(to))) {
            let (key, value) = reader.next(item)?;
            for (kind, id, version) in record::change::touched_versions(&value)? {
                if id <= start.last_of(kind) && (kind, id) > self.taken {
                    self.first_after.entry((kind, id)).or_insert(version);
                }
            }
            self.read_up_to = Sequence(number(&key)?);
        }
        if self.first_after.len() > TOUCHED_MAX {
            return Err(StoreError::LimitReached(
                "more records were changed while the backup ran than can be kept apart: make it when less is written, or read it faster",
            ));
        }
        Ok(())
    }

    /// The version that a record was at, which is at `present` now.
    pub(super) fn version_at_mark(&self, kind: RecordKind, id: RecordId, present: VersionId) -> VersionId {
        self.first_after.get(&(kind, id)).map_or(present, |first| VersionId(first.0.saturating_sub(1)))
    }

    /// Whether a version of a record came after the mark.
    pub(super) fn is_after_mark(&self, start: &Start, kind: RecordKind, id: RecordId, version: VersionId) -> bool {
        id > start.last_of(kind) || self.first_after.get(&(kind, id)).is_some_and(|first| version >= *first)
    }

    /// Forgets the records up to that one: they have been taken.
    pub(super) fn forget_up_to(&mut self, kind: RecordKind, id: RecordId) {
        self.taken = (kind, id);
        while self.first_after.first_key_value().is_some_and(|(key, _)| *key <= self.taken) {
            self.first_after.pop_first();
        }
    }
}
