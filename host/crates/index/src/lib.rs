//! The in-memory register index: dense rows, columns, bitmaps and words of names, on which filters and totals run.
//!
//! It is rebuilt from the store at the start and updated with each transaction. Every individual and every group has a
//! row, numbered in the order of creation. Everything by which records are found is in structures whose clones share
//! unchanged data.
//!
//! **Invariant:** a [`Snapshot`] never changes. It contains either all changes of one call of [`Columns::apply`] or
//! none.
//!
//! **Invariant:** a snapshot taken after [`Columns::apply`] returned contains the changes of that call. It is created
//! on request, so writes between two reads cost no copies.
//!
//! **Invariant:** neither a snapshot nor a write copies a part that grows with the register, except lists with one
//! reference for each 4,096 rows, or for each 65,536 rows of a code or word.

mod about;
mod bitmaps;
mod blobs;
pub mod checkpoint;
mod chunk;
mod codes;
mod column;
mod consent_index;
mod field_columns;
mod gather;
mod identifiers;
mod image;
mod limits;
mod matches;
mod members;
mod places;
mod prepared;
mod rows;
mod search;
mod snapshot;
mod stored;
mod subjects;
mod summaries;
mod terms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tree;
pub mod verify;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

pub use field_columns::rule_fields;
pub use gather::Gathered;
pub use image::Image;
pub use limits::{RowLimits, SearchLimits};
pub use matches::{RegionCount, RowBits, RowMarks};
pub use members::ActiveMember;
pub use snapshot::Snapshot;
pub use stored::Corrupt;

use codes::ExtensionNumbers;
use daftar_domain::change::{Change, ChangedRecord, Sequence};
use identifiers::{IdentifierHash, IdentifierHasher};
use members::Members;
use places::Places;
use prepared::Prepared;
pub use prepared::{PreparedRecords, Preparer};
use subjects::{Contents, Subjects};

/// The in-memory register.
pub struct Columns {
    preparer: Preparer,
    writer: Mutex<Writer>,
    /// True if the writer has changes that are not published.
    is_stale: AtomicBool,
    published: ArcSwap<Snapshot>,
}

/// The data of the next snapshot, and the data required to change it.
struct Writer {
    next: Snapshot,
    terms: image::Terms,
    /// The last applied transaction.
    sequence: Sequence,
    unsorted: Unsorted,
}

/// Identifiers of records that were loaded and are not in the indexes yet: sorting all at once is far cheaper than
/// adding each at its place.
#[derive(Default)]
struct Unsorted {
    individuals: Vec<(IdentifierHash, u32)>,
    groups: Vec<(IdentifierHash, u32)>,
}

impl Writer {
    fn new(Image { snapshot: next, terms, sequence }: Image) -> Self {
        Self { next, terms, sequence, unsorted: Unsorted::default() }
    }

    /// Adds the identifiers of loaded records to the indexes.
    fn sort(&mut self) {
        let Unsorted { individuals, groups } = std::mem::take(&mut self.unsorted);
        if !individuals.is_empty() {
            self.next.individuals.identifiers.add(individuals);
        }
        if !groups.is_empty() {
            self.next.groups.identifiers.add(groups);
        }
    }
}

impl Default for Columns {
    fn default() -> Self {
        let (hasher, extensions) = (IdentifierHasher::default(), ExtensionNumbers::default());
        Self::empty(Preparer { hasher, extensions, contents: Contents::All })
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Columns").finish_non_exhaustive()
    }
}

impl Columns {
    /// Creates an empty register with only the data that rules read: searches by name, word, identifier or code find
    /// nothing.
    #[must_use]
    pub fn for_rules() -> Self {
        Self::empty(Preparer { contents: Contents::Rules, ..Self::default().preparer })
    }

    fn empty(preparer: Preparer) -> Self {
        let snapshot = Snapshot {
            hasher: preparer.hasher.clone(),
            extensions: preparer.extensions.clone(),
            individuals: Subjects::default(),
            groups: Subjects::default(),
            members: Members::default(),
            places: Places::default(),
            about: about::About::default(),
            covers: consent_index::ConsentIndex::default(),
        };
        let image = Image { snapshot, terms: image::Terms::default(), sequence: Sequence::default() };
        Self { preparer, ..Self::from_image(image) }
    }

    /// Creates a register from an image, to continue from there.
    #[must_use]
    pub fn from_image(image: Image) -> Self {
        Self {
            preparer: image.snapshot.preparer(),
            published: ArcSwap::from_pointee(image.snapshot.clone()),
            writer: Mutex::new(Writer::new(image)),
            is_stale: AtomicBool::new(false),
        }
    }

    /// Creates an empty register with the same secret keys, so that the two can be compared.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self::empty(self.preparer())
    }

    /// Replaces the register by an image: a copy of this register that was updated separately, or a register that was
    /// filled beside it ([`Self::sibling`]). The replacement is atomic for searches.
    pub fn replace(&self, image: Image) {
        *self.lock() = Writer::new(image);
        self.is_stale.store(true, Ordering::Release);
    }

    /// Returns an image of the complete register, for storage or comparison. It delays writers no longer than a
    /// snapshot. While the image exists, a write copies the part that it changes.
    #[must_use]
    pub fn image(&self) -> Image {
        let writer = self.lock();
        Image { snapshot: writer.next.clone(), terms: writer.terms.clone(), sequence: writer.sequence }
    }

    /// Returns the last applied transaction.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.lock().sequence
    }

    /// Records that everything up to this transaction is applied, after all records were read before any other
    /// transaction.
    pub fn reach(&self, sequence: Sequence) {
        let mut writer = self.lock();
        writer.sequence = writer.sequence.max(sequence);
    }

    /// Loads records of one kind as stored, in the order of their keys.
    pub fn load(&self, page: &[ChangedRecord]) {
        self.add_prepared(self.preparer.prepare(page));
    }

    /// Returns the preparer that decomposes records for this register, also on another thread.
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        self.preparer.clone()
    }

    /// Adds records as stored, in the order of their keys.
    pub fn add_prepared(&self, records: PreparedRecords) {
        self.write(records.0, true);
    }

    /// Applies records just created or updated. Called by one thread of the store, in commit order.
    pub fn apply(&self, changes: &[Change]) {
        let mut prepared = Prepared::default();
        for change in changes {
            prepared.add(&change.record, &self.preparer);
            prepared.sequence = prepared.sequence.max(change.sequence);
        }
        self.write(prepared, false);
    }

    /// Returns the current snapshot. Takes no lock unless something was written since the last snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        if self.is_stale.load(Ordering::Acquire) {
            let writer = self.lock();
            // Another reader may have created it concurrently.
            if self.is_stale.load(Ordering::Acquire) {
                self.published.store(Arc::new(writer.next.clone()));
                self.is_stale.store(false, Ordering::Release);
            }
        }
        self.published.load_full()
    }

    fn write(&self, prepared: Prepared, is_load: bool) {
        if prepared.is_empty() {
            return;
        }
        let mut writer = if is_load { self.lock_unsorted() } else { self.lock() };
        let Writer { next, terms, sequence, unsorted } = &mut *writer;
        let (of_individuals, of_groups) = (&mut unsorted.individuals, &mut unsorted.groups);
        *sequence = prepared.sequence.max(*sequence);
        next.individuals.write(&mut terms.individuals, prepared.individuals, is_load.then_some(of_individuals));
        next.places.reach(next.individuals.rows.count());
        next.groups.write(&mut terms.groups, prepared.groups, is_load.then_some(of_groups));
        let rows = (&next.individuals.rows, &next.groups.rows);
        next.members.write(rows, &mut next.places, prepared.members);
        next.about.write(&mut terms.about, prepared.about);
        let places = consent_index::Places {
            individuals: &next.individuals.rows,
            groups: &next.groups.rows,
            memberships: &next.about.memberships,
        };
        next.covers.write(&places, prepared.covers);
        self.is_stale.store(true, Ordering::Release);
    }

    /// Locks the writer with complete indexes.
    fn lock(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.lock_unsorted();
        writer.sort();
        writer
    }

    fn lock_unsorted(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
