//! Moves a register from one store to another, and compares both item by item: completely, or only the changes since
//! the move.
//!
//! **Invariant:** a copy is a consistent snapshot after one write; the source store is only read.
//!
//! **Invariant:** a difference is reported by kind and key, never by the content of a record.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use daftar_domain::config::StoreBackend;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::StoreError;
use daftar_store::archive::{ApplyReport, Archive, CatchUp, Ends, Entry, Held, ItemKind, Mark, Refill, Snapshot};

/// The maximum number of differences that are named; the others are counted.
pub const DIFFERENCES_REPORTED_MAX: usize = 100;

/// Number of batches of the source store that wait while the target is busy; about a megabyte each.
const READ_AHEAD: usize = 16;

/// Number of copied or compared items of each kind.
pub type Counts = BTreeMap<ItemKind, u64>;

/// Result of the comparison of two stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Number of equal items of each kind; of records each version.
    pub same: Counts,
    /// Number of items that are in one store only, or differ.
    pub differences: u64,
    /// The first differences.
    pub reported: Vec<String>,
}

/// Copies the complete content as of one write. `heard` receives the number of items copied so far.
///
/// # Errors
/// If either store fails, or a value cannot be read or stored.
pub async fn copy(
    mut snapshot: Snapshot,
    mut to: Box<dyn Refill>,
    mut heard: impl FnMut(&Mark, u64),
) -> Result<(Mark, Counts), StoreError> {
    let mark = snapshot.mark().clone();
    to.note_origin(&mark);
    let (mut counts, mut copied) = (Counts::new(), 0_u64);
    heard(&mark, copied);
    let (ahead, mut read) = mpsc::channel(READ_AHEAD);
    let reading = async move {
        loop {
            let entries = snapshot.next().await?;
            // The receiver is closed if an item could not be stored.
            if entries.is_empty() || ahead.send(entries).await.is_err() {
                return Ok::<_, StoreError>(());
            }
        }
    };
    let keeping = async {
        while let Some(entries) = read.recv().await {
            for entry in &entries {
                *counts.entry(entry.kind()).or_default() += 1;
            }
            copied = copied.saturating_add(entries.len() as u64);
            to.put(entries).await?;
            heard(&mark, copied);
        }
        Ok(())
    };
    tokio::try_join!(reading, keeping)?;
    to.finish().await?;
    Ok((mark, counts))
}

/// Compares the complete content of two stores. `heard` receives the number of items of both that were read so far.
///
/// # Errors
/// If either store fails, or a value cannot be read.
pub async fn compare(one: Snapshot, other: Snapshot, heard: impl FnMut(&Mark, u64)) -> Result<Comparison, StoreError> {
    compare_taken(one, other, Comparison::default(), heard).await
}

/// Compares snapshots of two stores.
async fn compare_taken(
    one: Snapshot,
    other: Snapshot,
    mut comparison: Comparison,
    mut heard: impl FnMut(&Mark, u64),
) -> Result<Comparison, StoreError> {
    let (mut left, mut right) = (Side::new(one), Side::new(other));
    if left.snapshot.mark().sequence != right.snapshot.mark().sequence {
        comparison.differ("the number of writes".to_owned());
    }
    while !(left.is_at_end && right.is_at_end) {
        // The one that is behind: a step of a backup has many times the items of a step of a database, and they would wait
        // in memory.
        let is_left_behind = left.items_without_counterpart() <= right.items_without_counterpart();
        let is_left = right.is_at_end || (is_left_behind && !left.is_at_end);
        if is_left {
            left.read().await?
        } else {
            right.read().await?
        }
        meet(&mut left, &mut right, &mut comparison);
        heard(left.snapshot.mark(), left.read.saturating_add(right.read));
    }
    for (is_left, side) in [(true, left), (false, right)] {
        for key in side.alone() {
            comparison.differ(format!("{key} is only in the {}", if is_left { "first" } else { "second" }));
        }
    }
    Ok(comparison)
}

/// The key of an item; contains no data of an individual's record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    /// One of many that arrive in the order of their keys.
    Version(RecordKind, RecordId, VersionId),
    /// By its position.
    Numbered(ItemKind, u64),
    /// By a digest of its name, or of its complete content.
    Digest(ItemKind, [u8; 32]),
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version(kind, id, version) => write!(formatter, "{kind} {} at version {}", id.0, version.0),
            Self::Numbered(stored, number) => write!(formatter, "number {number} of {}", stored.name()),
            Self::Digest(stored, digest) => {
                write!(formatter, "one of {} ({:02x?})", stored.name(), digest.first_chunk::<4>().unwrap_or(&[0; 4]))
            }
        }
    }
}

type Seen = (Key, [u8; 32]);

fn seen(entry: &Entry) -> Seen {
    let digest = |bytes: &[u8]| <[u8; 32]>::from(Sha256::digest(bytes));
    let stored = entry.kind();
    match entry {
        // A rule draft and its present version have the same value.
        Entry::Setting { kind, value } => {
            (Key::Digest(stored, digest(&[&[*kind as u8], value.as_slice()].concat())), digest(value))
        }
        Entry::Client { value } => (Key::Digest(stored, digest(value)), digest(value)),
        Entry::Counter { name, value } => (Key::Digest(stored, digest(name.as_bytes())), digest(&value.to_be_bytes())),
        Entry::CodeTablePart { number, value } | Entry::Audit { number, value } => {
            (Key::Numbered(stored, *number), digest(value))
        }
        Entry::Request { name, value } => {
            let name = format!("{}\n{}\n{}", name.client, name.key.as_str(), name.part);
            (Key::Digest(stored, digest(name.as_bytes())), digest(value))
        }
        Entry::Photo { digest: name, bytes } => (Key::Digest(stored, name.0), digest(bytes)),
        Entry::Version { kind, id, version, is_present, value } => {
            // The flag of the present version is part of the digest.
            let whole = Sha256::new().chain_update([u8::from(*is_present)]).chain_update(value);
            (Key::Version(*kind, *id, *version), whole.finalize().into())
        }
        Entry::Change { sequence, value } => (Key::Numbered(stored, sequence.0), digest(value)),
    }
}

/// One of two stores during the comparison.
struct Side {
    snapshot: Snapshot,
    is_at_end: bool,
    /// Number of items read.
    read: u64,
    /// Items that arrived in order and have no counterpart yet.
    waiting: VecDeque<Seen>,
    /// Items that arrive in no order, or had no counterpart where it was expected.
    loose: HashMap<Key, [u8; 32]>,
    /// The photos that arrived; a photo may arrive more than once.
    photos: HashSet<[u8; 32]>,
}

impl Side {
    fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            is_at_end: false,
            read: 0,
            waiting: VecDeque::new(),
            loose: HashMap::new(),
            photos: HashSet::new(),
        }
    }

    fn items_without_counterpart(&self) -> usize {
        self.waiting.len().saturating_add(self.loose.len())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let entries = self.snapshot.next().await?;
        self.is_at_end = entries.is_empty();
        self.read = self.read.saturating_add(entries.len() as u64);
        for entry in &entries {
            let (key, digest) = seen(entry);
            if matches!(entry, Entry::Photo { digest, .. } if !self.photos.insert(digest.0)) {
                continue;
            }
            match key {
                Key::Version(..) => self.waiting.push_back((key, digest)),
                Key::Numbered(..) | Key::Digest(..) => drop(self.loose.insert(key, digest)),
            }
        }
        Ok(())
    }

    fn alone(self) -> impl Iterator<Item = Key> {
        self.waiting.into_iter().map(|(key, _)| key).chain(self.loose.into_keys())
    }
}

/// Drops items that are equal in both, and reports those that differ.
fn meet(left: &mut Side, right: &mut Side, comparison: &mut Comparison) {
    while let (Some(one), Some(other)) = (left.waiting.front(), right.waiting.front()) {
        let order = one.0.cmp(&other.0);
        if order.is_eq() {
            let is_same = one.1 == other.1;
            let (Some((key, _)), Some(_)) = (left.waiting.pop_front(), right.waiting.pop_front()) else { return };
            comparison.note(key, is_same);
        } else {
            // The lesser one has no counterpart: both arrive in the order of their keys.
            let behind = if order.is_lt() { &mut *left } else { &mut *right };
            let Some((key, digest)) = behind.waiting.pop_front() else { return };
            behind.loose.insert(key, digest);
        }
    }
    let (fewer, more) = if left.loose.len() > right.loose.len() {
        (&mut right.loose, &mut left.loose)
    } else {
        (&mut left.loose, &mut right.loose)
    };
    for (key, digest) in fewer.extract_if(|key, _| more.contains_key(key)).collect::<Vec<_>>() {
        let is_same = more.remove(&key) == Some(digest);
        comparison.note(key, is_same);
    }
}

impl Comparison {
    fn differ(&mut self, what: String) {
        self.differences = self.differences.saturating_add(1);
        if self.reported.len() < DIFFERENCES_REPORTED_MAX {
            self.reported.push(what);
        }
    }

    fn note(&mut self, key: Key, is_same: bool) {
        if !is_same {
            return self.differ(format!("{key} is not the same in both"));
        }
        let stored = match key {
            Key::Version(kind, ..) => ItemKind::of_kind(kind),
            Key::Numbered(stored, _) | Key::Digest(stored, _) => stored,
        };
        *self.same.entry(stored).or_default() += 1;
    }
}

/// The reason why a store is not updated: it contains no earlier state of the other one.
#[derive(Debug, thiserror::Error)]
pub enum CatchUpError {
    /// It was filled from another register.
    #[error(
        "the {target} was filled from the register {filled}, and the {source_name} holds the register {found}: name the {source_name} that it was filled from, or fill an empty {target} from this one", target = .target.place(), source_name = .target.other().place()
    )]
    OtherRegister {
        /// The backend that is caught up.
        target: StoreBackend,
        /// The register that it was filled from.
        filled: String,
        /// The register in the source.
        found: String,
    },
    /// It contains more than the other one.
    #[error(
        "the {target} holds the register up to {held}, and the {source_name} ends at {found}: an earlier state of the {source_name} was put back. Name the {source_name} as the old server left it, or fill an empty {target} from this one", target = .target.place(), source_name = .target.other().place()
    )]
    Ahead {
        /// The backend that is caught up.
        target: StoreBackend,
        /// Its last write.
        held: String,
        /// The last write of the source.
        found: String,
    },
    /// Its history differs.
    #[error(
        "{what} is not the same in the {source_name} and in the {target}: an earlier state of the {source_name} was put back and written to. Name the {source_name} as the old server left it, or fill an empty {target} from this one", target = .target.place(), source_name = .target.other().place()
    )]
    OtherHistory {
        /// The backend that is caught up.
        target: StoreBackend,
        /// The item that differs.
        what: String,
    },
    /// A store failed, or contains a value that cannot be read or stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Result of an update.
#[derive(Debug, Clone)]
pub struct CaughtUp {
    /// The state of the store before.
    pub held: Held,
    /// Its state now.
    pub mark: Mark,
    /// The new items.
    pub brought: ApplyReport,
    /// True if an earlier update was interrupted: only a complete comparison shows that both stores are equal.
    pub was_interrupted: bool,
}

/// Updates a store. `heard` receives the write of the previous state, and the number of items read so far.
///
/// # Errors
/// See [`CatchUpError`]. A database is unchanged then; a folder as well, unless a store failed or an earlier update was
/// interrupted.
pub async fn catch_up(
    from: &dyn Archive,
    to: CatchUp,
    mut heard: impl FnMut(&Held, &Mark, u64),
) -> Result<CaughtUp, CatchUpError> {
    let CatchUp { backend, held, ends, mut refill, was_interrupted } = to;
    check_ends(backend, &held, &ends, &from.ends(&held).await?)?;
    let mut snapshot = from.since(&held).await?;
    let (mark, mut read) = (snapshot.mark().clone(), 0_u64);
    refill.note_origin(&mark);
    heard(&held, &mark, read);
    loop {
        let entries = snapshot.next().await?;
        if entries.is_empty() {
            break;
        }
        read = read.saturating_add(entries.len() as u64);
        refill.put(entries).await?;
        heard(&held, &mark, read);
    }
    let brought = refill.finish().await?;
    Ok(CaughtUp { held, mark, brought, was_interrupted })
}

/// Compares two stores in the writes after the given state of one of them, and in their numbers of records.
///
/// # Errors
/// If either store fails, or a value cannot be read.
pub async fn compare_since(
    one: &dyn Archive,
    other: &dyn Archive,
    held: &Held,
    heard: impl FnMut(&Mark, u64),
) -> Result<Comparison, StoreError> {
    let (left, right) = (one.since(held).await?, other.since(held).await?);
    let mut comparison = Comparison::default();
    for ((kind, count), (_, other_count)) in left.mark().records.iter().zip(&right.mark().records) {
        if count != other_count {
            comparison.differ(format!("the number of {}", ItemKind::of_kind(*kind).name()));
        }
    }
    let (ends, other_ends) = (one.ends(held).await?, other.ends(held).await?);
    if ends.code_table_parts != other_ends.code_table_parts {
        comparison.differ(format!("the number of {}", ItemKind::CodeTableParts.name()));
    }
    if ends.audit != other_ends.audit {
        comparison.differ(format!("the last number of {}", ItemKind::AuditValues.name()));
    }
    compare_taken(left, right, comparison, heard).await
}

/// Rejects a state that is not later.
fn check_ends(target: StoreBackend, held: &Held, own: &Ends, found: &Ends) -> Result<(), CatchUpError> {
    if found.register != held.register {
        let (filled, found) = (held.register.to_string(), found.register.to_string());
        return Err(CatchUpError::OtherRegister { target, filled, found });
    }
    let is_behind =
        found.sequence < held.sequence || found.code_table_parts < held.code_table_parts || found.audit < held.audit;
    if is_behind {
        let reported = |sequence: u64, parts: u64, audit: u64| {
            format!("write {sequence}, part {parts} of the table of codes and value {audit} of the audit log")
        };
        return Err(CatchUpError::Ahead {
            target,
            held: reported(held.sequence.0, held.code_table_parts, held.audit),
            found: reported(found.sequence.0, found.code_table_parts, found.audit),
        });
    }
    let other = |what: String| Err(CatchUpError::OtherHistory { target, what });
    if own.change != found.change {
        return other(format!("write {}", held.sequence.0));
    }
    // It may have been removed since, as old enough; and the entry that reports a removal is written again with each
    // step.
    let may_differ = found.audit_value.is_none() || held.removal == Some(held.audit);
    if own.audit_value != found.audit_value && !may_differ {
        return other(format!("value {} of the audit log", held.audit));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use daftar_domain::individual::{ACTIVE, IndividualDetails};
    use daftar_store::{ChangeSink, Operation, Store, Write};
    use daftar_store_sled::SledStore;

    struct NoChanges;

    impl ChangeSink for NoChanges {
        fn apply(&self, _: &[daftar_domain::change::Change]) {}
    }

    async fn store(people: &[bool]) -> SledStore {
        let store = SledStore::temporary();
        store.attach_sink(std::sync::Arc::new(NoChanges)).unwrap();
        for active in people {
            let details = IndividualDetails::default().with(ACTIVE, *active);
            let operations = vec![Operation::create(details)];
            let at = Timestamp::UNIX_EPOCH;
            let write = Write { at, source: None, operations, audit: Vec::new(), read_set: Vec::new() };
            store.commit(write).await.unwrap();
        }
        store.raise_counter("a", people.len() as u64).await.unwrap();
        store
    }

    async fn compared(one: &[bool], other: &[bool]) -> Comparison {
        let (one, other) = (store(one).await, store(other).await);
        compare(one.snapshot().await.unwrap(), other.snapshot().await.unwrap(), |_, _| ()).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_the_same_is_counted_by_kind() {
        let comparison = compared(&[true, false], &[true, false]).await;
        assert_eq!((comparison.differences, comparison.reported), (0, Vec::new()));
        let counted = |stored| comparison.same.get(&stored).copied();
        assert_eq!(
            [ItemKind::Individuals, ItemKind::Changes, ItemKind::Counters].map(counted),
            [Some(2), Some(2), Some(1)]
        );
    }

    #[tokio::test]
    async fn differences_are_reported_without_the_content_of_records() {
        let comparison = compared(&[true, false], &[true, true]).await;
        assert_eq!(comparison.reported, ["Individual 2 at version 1 is not the same in both"]);
        let comparison = compared(&[true, false], &[true]).await;
        assert!(comparison.reported.contains(&"the number of writes".to_owned()), "{comparison:?}");
        assert!(comparison.reported.contains(&"Individual 2 at version 1 is only in the first".to_owned()));
        assert!(comparison.reported.contains(&"number 2 of changes is only in the first".to_owned()));
        assert_eq!(comparison.differences, 4, "the counter too");
    }
}
