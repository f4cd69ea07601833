//! Reads a store at the state after one write: settings, clients and counters first, the last value of the audit log at
//! the end.
//!
//! A backend without snapshots is changed concurrently. Keys increase and numbered items are never rewritten, so newer
//! codes, records, changes and audit log values are recognized by their numbers. The change log shows which records
//! were changed since; their older state is in their history. Versions of rule drafts are numbered too ([`drafts`]).

mod drafts;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use daftar_domain::change::Sequence;
use daftar_domain::error::contain;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::verification::Finding;

use self::drafts::Drafts;
use super::{Entry, Held, Mark, OLDEST_AUDIT, Snapshot, WRITTEN_SINCE_MAX, too_many_written};
use crate::verify::{RawPage, RawValue, RawValues, Table};
use crate::{StoreError, blocking, record};

/// Approximate size of a step, in bytes. A photo or a long record may exceed it.
const STEP_BYTES: usize = 512 * 1024;
/// Minimum number of values per read: large values are read in smaller groups.
const VALUES_MIN: usize = 4;
const VALUES_MAX: usize = 512;
/// Number of recently read photos that are remembered, so that a shared photo is not read for each record: 2 MB.
const PHOTOS_REMEMBERED: usize = 65_536;
/// Maximum number of concurrently changed records, some hundred megabytes.
const TOUCHED_MAX: usize = 2_000_000;

/// Data that a backend reads at the beginning of a snapshot: items without history, and the last numbers.
pub struct Fixed {
    /// The last write.
    pub mark: Mark,
    /// Number of parts of the table of codes.
    pub code_table_parts: u64,
    /// The last value of the audit log.
    pub last_audit: u64,
    /// Settings, clients and counters.
    pub present: PresentOnly,
}

/// Settings, clients and counters at the beginning of a snapshot.
pub struct PresentOnly {
    /// The rule drafts, whose versions are read later.
    drafts: Drafts,
    /// Other settings, clients and counters.
    entries: VecDeque<Entry>,
}

/// Reads the current settings, clients and counters; of rule drafts only the numbers of their present versions. The
/// snapshot continues with the same store, and with the same transaction of a database.
///
/// # Errors
/// If a value cannot be read.
pub fn present_only(values: &dyn RawValues) -> Result<PresentOnly, StoreError> {
    let mut others = Vec::new();
    for table in [Table::Clients, Table::Counters] {
        let (mut after, mut is_over) = (None, false);
        while !is_over {
            let page = read(values, table, after.as_deref(), VALUES_MAX)?;
            for value in page.values {
                match value {
                    RawValue::Client(_, value) => others.push(Entry::Client { value }),
                    RawValue::Counter(name, value) => others.push(Entry::Counter { name, value: value? }),
                    _ => {}
                }
            }
            is_over = page.next.is_none();
            after = page.next;
        }
    }
    // Last: the walk begins with the next pages of this table, and a database reads the pages of one table at a time.
    let (drafts, settings) = Drafts::list(values)?;
    Ok(PresentOnly { drafts, entries: settings.into_iter().chain(others).collect() })
}

/// A snapshot of all items.
#[must_use]
pub fn snapshot(values: Arc<dyn RawValues>, fixed: Fixed) -> Snapshot {
    Walk::new(values, fixed, None).into_snapshot()
}

/// A snapshot of the changes since that state of another store.
///
/// # Errors
/// If a value cannot be read; [`StoreError::LimitReached`] if too many records were changed.
pub async fn since(values: Arc<dyn RawValues>, fixed: Fixed, held: &Held) -> Result<Snapshot, StoreError> {
    // A lagging store has no newer items.
    let sequence = held.sequence.min(fixed.mark.sequence);
    let held = Held { sequence, audit: held.audit.min(fixed.last_audit), ..held.clone() };
    let (reading, last) = (Arc::clone(&values), fixed.mark.sequence);
    let written = contained(move || written_between(&*reading, sequence, last)).await?;
    Ok(Walk::new(values, fixed, Some(Later { held, written })).into_snapshot())
}

/// The records changed by the writes between two sequence numbers, by kind and key.
fn written_between(
    values: &dyn RawValues,
    after: Sequence,
    last: Sequence,
) -> Result<VecDeque<(RecordKind, RecordId)>, StoreError> {
    let (mut written, mut after) = (BTreeSet::new(), after);
    while after < last {
        let page = read(values, Table::Changes, Some(&after.0.to_be_bytes()), VALUES_MAX)?;
        if page.values.is_empty() {
            return Err(missing("change"));
        }
        for value in page.values {
            let RawValue::Numbered(number, value) = value else { continue };
            if number <= last.0 {
                written.extend(record::change::touched(&value)?);
            }
            after = Sequence(number);
        }
        if written.len() > WRITTEN_SINCE_MAX {
            return Err(too_many_written());
        }
    }
    Ok(written.into_iter().collect())
}

/// Runs a function on a thread for blocking work; a panic of the database is an error.
async fn contained<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let not_understood = |_| StoreError::Failed("the database files are corrupt".into());
    blocking(move || contain(run)).await?.map_err(not_understood)?
}

/// Reads values of a table, all of which must be valid.
fn read(values: &dyn RawValues, table: Table, after: Option<&[u8]>, limit: usize) -> Result<RawPage, StoreError> {
    let mut page = values.page(table, after, limit);
    if let Some(unreadable) = page.unreadable.take() {
        return Err(invalid(values, unreadable));
    }
    let wrong = page.values.iter().find_map(|value| match value {
        RawValue::Checked(finding) => finding.clone(),
        RawValue::Refused(_, finding) => Some(finding.clone()),
        _ => None,
    });
    wrong.map_or(Ok(page), |wrong| Err(invalid(values, wrong)))
}

fn invalid(values: &dyn RawValues, Finding { place, problem, .. }: Finding) -> StoreError {
    let reason = format!("{place}: {problem}");
    values.failure().unwrap_or(StoreError::Corrupt { what: "register", reason })
}

fn missing(what: &'static str) -> StoreError {
    let reason = "it is missing; `daftar verify` reports the damage of the register".to_owned();
    StoreError::Corrupt { what, reason }
}

/// Position of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Drafts,
    PresentOnly,
    Codes,
    Requests,
    Records(RecordKind),
    Changes,
    OldestAudit,
    Audit,
    End,
}

/// A record that is being read.
struct Task {
    id: RecordId,
    /// Its current value.
    value: Vec<u8>,
    present: VersionId,
    photo: Option<PhotoReference>,
    /// Its version at the mark.
    at_mark: VersionId,
    next: VersionId,
    /// Some of its earlier versions, beginning with the next one.
    older: VecDeque<(VersionId, Vec<u8>)>,
}

/// The changes since the state of another store.
struct Later {
    held: Held,
    /// The changed records, by kind and key.
    written: VecDeque<(RecordKind, RecordId)>,
}

/// The walk through the store.
struct Walk {
    values: Arc<dyn RawValues>,
    fixed: Fixed,
    stage: Stage,
    /// Position of the next page of the table.
    after: Option<Vec<u8>>,
    /// The last number read from the table.
    last: u64,
    limit: usize,
    touched: Touched,
    tasks: VecDeque<Task>,
    photos: HashSet<PhotoDigest>,
    /// Set for an incremental snapshot.
    later: Option<Later>,
}

/// The items of one step.
#[derive(Default)]
struct Step {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Step {
    fn push(&mut self, entry: Entry) {
        self.bytes = self.bytes.saturating_add(entry.bytes());
        self.entries.push(entry);
    }

    fn is_full(&self) -> bool {
        self.bytes >= STEP_BYTES || self.entries.len() >= VALUES_MAX
    }
}

impl Walk {
    fn new(values: Arc<dyn RawValues>, fixed: Fixed, later: Option<Later>) -> Self {
        let touched = Touched::since(fixed.mark.sequence);
        Self {
            values,
            fixed,
            stage: Stage::Drafts,
            after: None,
            last: 0,
            limit: VALUES_MAX,
            touched,
            tasks: VecDeque::new(),
            photos: HashSet::new(),
            later,
        }
    }

    fn into_snapshot(self) -> Snapshot {
        Snapshot::new(self.fixed.mark.clone(), self, |mut walk| {
            contained(move || walk.next().map(|entries| (walk, entries)))
        })
    }

    /// The next items; none at the end.
    fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let mut step = Step::default();
        while step.entries.is_empty() && self.stage != Stage::End {
            let is_over = match self.stage {
                Stage::Drafts => self.fixed.present.drafts.next(&*self.values, &mut step)?,
                Stage::PresentOnly => self.present_only(&mut step),
                Stage::Codes => self.codes(&mut step)?,
                Stage::Requests => self.requests(&mut step)?,
                Stage::Records(kind) => self.records(kind, &mut step)?,
                Stage::Changes => self.changes(&mut step)?,
                Stage::OldestAudit => self.oldest_audit(&mut step)?,
                Stage::Audit => self.audit(&mut step)?,
                Stage::End => true,
            };
            if is_over {
                self.next_stage();
            }
        }
        if step.bytes > STEP_BYTES {
            self.limit = (self.limit / 4).max(VALUES_MIN);
        } else if step.bytes < STEP_BYTES / 8 {
            self.limit = self.limit.saturating_mul(2).min(VALUES_MAX);
        }
        Ok(step.entries)
    }

    fn next_stage(&mut self) {
        let held = self.later.as_ref().map(|later| &later.held);
        let (stage, last) = match self.stage {
            Stage::Drafts => (Stage::PresentOnly, 0),
            Stage::PresentOnly => (Stage::Codes, held.map_or(0, |held| held.code_table_parts)),
            Stage::Codes => (Stage::Requests, 0),
            Stage::Requests => (Stage::Records(RecordKind::Individual), 0),
            Stage::Records(kind) => match RecordKind::ALL.into_iter().skip_while(|before| *before != kind).nth(1) {
                Some(kind) => (Stage::Records(kind), 0),
                None => (Stage::Changes, held.map_or(0, |held| held.sequence.0)),
            },
            Stage::Changes => (Stage::OldestAudit, 0),
            Stage::OldestAudit => (Stage::Audit, held.map_or(0, |held| held.audit)),
            Stage::Audit | Stage::End => (Stage::End, 0),
        };
        (self.stage, self.last, self.after) = (stage, last, None);
    }

    fn present_only(&mut self, step: &mut Step) -> bool {
        while !step.is_full() {
            let Some(entry) = self.fixed.present.entries.pop_front() else { return true };
            step.push(entry);
        }
        false
    }

    /// The next numbered values, after `after` if set, up to `last`.
    fn numbered(
        &self,
        table: Table,
        after: Option<u64>,
        up_to: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        if after.is_some_and(|after| after >= up_to) {
            return Ok(Vec::new());
        }
        let after = after.map(u64::to_be_bytes);
        let page = read(&*self.values, table, after.as_ref().map(<[u8; 8]>::as_slice), limit)?;
        let numbered = page.values.into_iter().filter_map(|value| match value {
            RawValue::Numbered(number, value) if number <= up_to => Some((number, value)),
            _ => None,
        });
        Ok(numbered.collect())
    }

    /// Parts of the table are counted from 0; `last` is the number of read parts.
    fn codes(&mut self, step: &mut Step) -> Result<bool, StoreError> {
        let Some(up_to) = self.fixed.code_table_parts.checked_sub(1) else { return Ok(true) };
        for (number, value) in self.numbered(Table::Codes, self.last.checked_sub(1), up_to, self.limit)? {
            if number != self.last {
                return Err(missing("part of the code table"));
            }
            self.last = number.saturating_add(1);
            step.push(Entry::CodeTablePart { number, value });
        }
        let is_over = self.last > up_to;
        if step.entries.is_empty() && !is_over { Err(missing("part of the code table")) } else { Ok(is_over) }
    }

    /// Idempotency records whose records were written after the mark are newer than it.
    fn requests(&mut self, step: &mut Step) -> Result<bool, StoreError> {
        let page = read(&*self.values, Table::Requests, self.after.as_deref(), self.limit)?;
        self.touched.follow(&*self.values, &self.fixed)?;
        for value in page.values {
            let RawValue::Request(name, value) = value else { continue };
            let request = record::remembered::decode(name, &value)?;
            let mut written = request.responses.iter().filter_map(|answer| answer.record);
            if !written.any(|(kind, id, version)| self.touched.is_after_mark(&self.fixed, kind, id, version)) {
                step.push(Entry::Request { name: request.name, value });
            }
        }
        self.after = page.next;
        Ok(self.after.is_none())
    }

    fn records(&mut self, kind: RecordKind, step: &mut Step) -> Result<bool, StoreError> {
        if self.tasks.is_empty() {
            let found = if self.later.is_some() { self.read_written(kind)? } else { self.read_records(kind)? };
            // Only now all writes are known that are newer than the mark and may be among the read values.
            self.touched.follow(&*self.values, &self.fixed)?;
            for (id, value) in found {
                let (present, photo) = version_and_photo(kind, id, &value)?;
                let at_mark = self.touched.version_at_mark(kind, id, present);
                let (next, older) = (VersionId::FIRST, VecDeque::new());
                self.tasks.push_back(Task { id, value, present, photo, at_mark, next, older });
            }
        }
        while let Some(mut task) = self.tasks.pop_front() {
            if step.is_full() || !self.take(kind, &mut task, step)? {
                self.tasks.push_front(task);
                return Ok(false);
            }
            self.last = task.id.0;
            self.touched.forget_up_to(kind, task.id);
        }
        Ok(match &self.later {
            None => self.last >= self.fixed.last_of(kind).0,
            Some(later) => later.written.front().is_none_or(|(of, _)| *of != kind),
        })
    }

    /// The next records, without gaps.
    fn read_records(&self, kind: RecordKind) -> Result<Vec<(RecordId, Vec<u8>)>, StoreError> {
        let last = self.fixed.last_of(kind);
        if self.last >= last.0 {
            return Ok(Vec::new());
        }
        let page = read(&*self.values, Table::Records(kind), Some(&self.last.to_be_bytes()), self.limit)?;
        let (mut found, mut expected) = (Vec::new(), self.last);
        for value in page.values {
            let RawValue::Record(id, value) = value else { continue };
            if id > last {
                break;
            }
            expected = expected.saturating_add(1);
            if id.0 != expected {
                return Err(missing("record"));
            }
            found.push((id, value));
        }
        if found.is_empty() { Err(missing("record")) } else { Ok(found) }
    }

    /// The next changed records.
    fn read_written(&mut self, kind: RecordKind) -> Result<Vec<(RecordId, Vec<u8>)>, StoreError> {
        let Some(later) = &mut self.later else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        while ids.len() < self.limit
            && let Some((_, id)) = later.written.pop_front_if(|(of, _)| *of == kind)
        {
            ids.push(id);
        }
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.values.records(kind, &ids).map_err(|wrong| invalid(&*self.values, wrong))?;
        if found.len() == ids.len() { Ok(found) } else { Err(missing("record")) }
    }

    /// Reads the versions of a record; false if the step is full before the last one.
    fn take(&mut self, kind: RecordKind, task: &mut Task, step: &mut Step) -> Result<bool, StoreError> {
        while task.next <= task.at_mark {
            if step.is_full() {
                return Ok(false);
            }
            let version = task.next;
            let (value, photo) =
                if version == task.present { (task.value.clone(), task.photo) } else { self.older(kind, task)? };
            if let Some(photo) = photo.filter(|photo| !self.photos.contains(&photo.digest)) {
                step.push(self.photo(photo)?);
            }
            let is_present = version == task.at_mark;
            step.push(Entry::Version { kind, id: task.id, version, is_present, value });
            task.next = version.next();
        }
        Ok(true)
    }

    /// The next earlier version of a record, and its photo.
    fn older(&self, kind: RecordKind, task: &mut Task) -> Result<(Vec<u8>, Option<PhotoReference>), StoreError> {
        if task.older.is_empty() {
            let before = VersionId(task.next.0.saturating_sub(1));
            let older = self.values.versions(kind, task.id, before, self.limit);
            task.older = older.map_err(|wrong| invalid(&*self.values, wrong))?.into();
        }
        let (_, value) = task
            .older
            .pop_front_if(|(version, _)| *version == task.next)
            .ok_or_else(|| missing("older version of a record"))?;
        let (version, photo) = version_and_photo(kind, task.id, &value)?;
        if version != task.next {
            let reason = "it does not match its key".to_owned();
            return Err(StoreError::Corrupt { what: "version of a record", reason });
        }
        Ok((value, photo))
    }

    fn photo(&mut self, photo: PhotoReference) -> Result<Entry, StoreError> {
        let bytes = self.values.photo(photo.digest).map_err(|wrong| invalid(&*self.values, wrong))?;
        let bytes = bytes.filter(|bytes| bytes.len() == photo.length as usize).ok_or_else(|| missing("photo"))?;
        if self.photos.len() >= PHOTOS_REMEMBERED {
            self.photos.clear();
        }
        self.photos.insert(photo.digest);
        Ok(Entry::Photo { digest: photo.digest, bytes: bytes.into() })
    }

    fn changes(&mut self, step: &mut Step) -> Result<bool, StoreError> {
        let up_to = self.fixed.mark.sequence.0;
        for (number, value) in self.numbered(Table::Changes, Some(self.last), up_to, self.limit)? {
            if number != self.last.saturating_add(1) {
                return Err(missing("change"));
            }
            self.last = number;
            step.push(Entry::Change { sequence: Sequence(number), value });
        }
        let is_over = self.last >= up_to;
        if step.entries.is_empty() && !is_over { Err(missing("change")) } else { Ok(is_over) }
    }

    /// In an incremental snapshot, the oldest values of the audit log and the one that reports the last removal.
    fn oldest_audit(&self, step: &mut Step) -> Result<bool, StoreError> {
        let Some(Later { held, .. }) = &self.later else { return Ok(true) };
        let (mut last, mut left) = (0, OLDEST_AUDIT);
        while left > 0 {
            let values = self.numbered(Table::Audit, Some(last), held.audit, left)?;
            if values.is_empty() {
                break;
            }
            left = left.saturating_sub(values.len());
            for (number, value) in values {
                last = number;
                step.push(Entry::Audit { number, value });
            }
        }
        if let Some(number) = held.removal.filter(|number| *number > last && *number <= held.audit) {
            let value = self.values.numbered(Table::Audit, number).map_err(|wrong| invalid(&*self.values, wrong))?;
            value.into_iter().for_each(|value| step.push(Entry::Audit { number, value }));
        }
        Ok(true)
    }

    /// Values that were removed concurrently because of their age are left out.
    fn audit(&mut self, step: &mut Step) -> Result<bool, StoreError> {
        for (number, value) in self.numbered(Table::Audit, Some(self.last), self.fixed.last_audit, self.limit)? {
            self.last = number;
            step.push(Entry::Audit { number, value });
        }
        Ok(step.entries.is_empty())
    }
}

impl Fixed {
    fn last_of(&self, kind: RecordKind) -> RecordId {
        RecordId(self.mark.records.iter().find(|(of, _)| *of == kind).map_or(0, |(_, last)| *last))
    }
}

/// The version of the record in a stored value, and its photo.
fn version_and_photo(
    kind: RecordKind,
    id: RecordId,
    value: &[u8],
) -> Result<(VersionId, Option<PhotoReference>), StoreError> {
    let record = record::decode_any(kind, id, value)?;
    Ok((record.place().2, record.photo()))
}

/// The unread records that were changed after the mark, according to the change log.
struct Touched {
    read_up_to: Sequence,
    /// The first version of each record after the mark.
    first_after: BTreeMap<(RecordKind, RecordId), VersionId>,
    /// Records up to this one have been read.
    taken: (RecordKind, RecordId),
}

impl Touched {
    /// No changes are known yet.
    fn since(mark: Sequence) -> Self {
        Self { read_up_to: mark, first_after: BTreeMap::new(), taken: (RecordKind::Individual, RecordId(0)) }
    }

    /// Reads new entries of the change log. Afterwards every change of a value read before is known: both are written
    /// together.
    fn follow(&mut self, values: &dyn RawValues, fixed: &Fixed) -> Result<(), StoreError> {
        let mut is_over = values.is_snapshot();
        while !is_over {
            let page = read(values, Table::Changes, Some(&self.read_up_to.0.to_be_bytes()), VALUES_MAX)?;
            for value in page.values {
                let RawValue::Numbered(number, value) = value else { continue };
                for (kind, id, version) in record::change::touched_versions(&value)? {
                    if id <= fixed.last_of(kind) && (kind, id) > self.taken {
                        self.first_after.entry((kind, id)).or_insert(version);
                    }
                }
                self.read_up_to = Sequence(number);
            }
            is_over = page.next.is_none();
        }
        if self.first_after.len() > TOUCHED_MAX {
            return Err(StoreError::LimitReached(
                "too many records were changed during the backup: run it when fewer are written, or read it faster",
            ));
        }
        Ok(())
    }

    /// The version of a record at the mark, if it is at `present` now.
    fn version_at_mark(&self, kind: RecordKind, id: RecordId, present: VersionId) -> VersionId {
        self.first_after.get(&(kind, id)).map_or(present, |first| VersionId(first.0.saturating_sub(1)))
    }

    /// True if a version of a record is newer than the mark.
    fn is_after_mark(&self, fixed: &Fixed, kind: RecordKind, id: RecordId, version: VersionId) -> bool {
        id > fixed.last_of(kind) || self.first_after.get(&(kind, id)).is_some_and(|first| version >= *first)
    }

    /// Removes the records up to that one: they have been read.
    fn forget_up_to(&mut self, kind: RecordKind, id: RecordId) {
        self.taken = (kind, id);
        while self.first_after.first_key_value().is_some_and(|(key, _)| *key <= self.taken) {
            self.first_after.pop_first();
        }
    }
}
