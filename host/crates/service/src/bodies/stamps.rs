//! How often what a body rests on was changed: a table of fixed size, in which many records share a place.
//!
//! **Invariant:** whatever changes has another stamp afterwards. That something has another stamp does not mean that it changed: what
//! shares its place may have.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use daftar_domain::change::{Change, ChangedRecord};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::record::{RecordId, RecordKind};

/// How many places there are: a mebibyte.
const PLACES: usize = 1 << 18;

/// A place with the stamp that it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    place: u32,
    stamp: u32,
}

pub(super) struct Stamps {
    hasher: RandomState,
    /// How many changes there were in all.
    changes: AtomicU64,
    places: Box<[AtomicU32]>,
}

impl Stamps {
    pub(super) fn new() -> Self {
        let places = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Self { hasher: RandomState::new(), changes: AtomicU64::new(0), places }
    }

    /// How many changes there were.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// The stamp of a record.
    pub(super) fn of_record(&self, kind: RecordKind, id: RecordId) -> Seen {
        self.seen(self.hasher.hash_one((kind, id)))
    }

    /// The stamp of whom an identifier addresses.
    pub(super) fn of_identifier(&self, key: &IdentifierKey) -> Seen {
        self.seen(self.hasher.hash_one(key))
    }

    /// Whether all have the stamps that they had.
    pub(super) fn are_unchanged(&self, seen: &[Seen]) -> bool {
        seen.iter().all(|seen| self.place(seen.place).is_some_and(|place| place.load(Ordering::SeqCst) == seen.stamp))
    }

    /// Gives new stamps to what changed, and to whom it says something of.
    pub(super) fn change(&self, changes: &[Change]) {
        for change in changes {
            match &change.record {
                ChangedRecord::Individual(person) => {
                    self.count();
                    self.stamp_record(RecordKind::Individual, person.id);
                    // Who else was addressed by one of them, until it was given to this one.
                    self.stamp_identifiers(&person.details.identifiers);
                }
                ChangedRecord::Group(group) => {
                    self.count();
                    self.stamp_record(RecordKind::Group, group.id);
                    // Whoever is a member now may not have been; whoever was rests on the group already.
                    for member in group.details.members() {
                        self.stamp_record(RecordKind::Individual, member.individual);
                    }
                }
                ChangedRecord::Program(_) | ChangedRecord::ProgramMembership(_) | ChangedRecord::Consent(_) => {}
            }
        }
    }

    fn count(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn stamp_record(&self, kind: RecordKind, id: RecordId) {
        self.stamp(self.hasher.hash_one((kind, id)));
    }

    fn stamp_identifiers(&self, identifiers: &[Identifier]) {
        identifiers.iter().for_each(|identifier| self.stamp(self.hasher.hash_one(&identifier.key)));
    }

    fn stamp(&self, hash: u64) {
        if let Some(place) = self.place(place_of(hash)) {
            place.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn seen(&self, hash: u64) -> Seen {
        let place = place_of(hash);
        Seen { place, stamp: self.place(place).map_or(0, |place| place.load(Ordering::SeqCst)) }
    }

    fn place(&self, place: u32) -> Option<&AtomicU32> {
        self.places.get(place as usize)
    }
}

fn place_of(hash: u64) -> u32 {
    // Below the number of places, which fits.
    u32::try_from(hash % PLACES as u64).unwrap_or_default()
}
