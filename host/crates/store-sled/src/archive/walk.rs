//! The way through the database, from the mark's small things to the last line of the audit log.

mod later;

use std::collections::{HashSet, VecDeque};
use std::ops::Bound;

use daftar_domain::change::Sequence;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::archive::{Entry, kind_after};
use daftar_store::{StoreError, record};

use self::later::Later;
use super::super::keys;
use super::super::reader::{Reader, corrupt, number};
use super::touched::Touched;
use super::{Start, looked_into, missing};

/// About how much one step gives, in bytes. A photo or a long record may make it more.
const STEP_BYTES: usize = 512 * 1024;
/// How many values one step reads at most.
const STEP_VALUES: usize = 512;
/// How many photos are remembered as taken, so that one that many records share is not taken for each: 2 MB.
const PHOTOS_REMEMBERED: usize = 65_536;

/// Where the walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    PresentOnly,
    CodeTable { next: u64 },
    Requests,
    Records { kind: RecordKind, after: RecordId },
    Changes { after: Sequence },
    OldestAudit,
    Audit { after: u64 },
    End,
}

/// A record that is being taken.
struct Task {
    id: RecordId,
    /// As it stands now.
    value: ::sled::IVec,
    present: VersionId,
    photo: Option<PhotoReference>,
    /// As it stood.
    at_mark: VersionId,
    next: VersionId,
}

/// The way through the database.
pub(super) struct Walk {
    reader: Reader,
    start: Start,
    stage: Stage,
    touched: Touched,
    request_after: Vec<u8>,
    tasks: VecDeque<Task>,
    photos: HashSet<PhotoDigest>,
    /// Where only what was written later than something is taken.
    later: Option<Later>,
}

/// What one step gives.
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
        self.bytes >= STEP_BYTES || self.entries.len() >= STEP_VALUES
    }
}

impl Walk {
    /// Before the first thing.
    pub(super) fn new(reader: Reader, start: Start) -> Self {
        let touched = Touched::since(start.last.sequence);
        Self {
            reader,
            start,
            stage: Stage::PresentOnly,
            touched,
            request_after: vec![keys::REQUEST],
            tasks: VecDeque::new(),
            photos: HashSet::new(),
            later: None,
        }
    }

    /// The next things; none at the end.
    pub(super) fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let mut step = Step::default();
        while step.entries.is_empty() && self.stage != Stage::End {
            self.stage = match self.stage {
                Stage::PresentOnly => self.present_only(&mut step),
                Stage::CodeTable { next } => self.code_table(next, &mut step)?,
                Stage::Requests => self.requests(&mut step)?,
                Stage::Records { kind, after } => self.records(kind, after, &mut step)?,
                Stage::Changes { after } => self.changes(after, &mut step)?,
                Stage::OldestAudit => self.oldest_audit(&mut step)?,
                Stage::Audit { after } => self.audit(after, &mut step)?,
                Stage::End => Stage::End,
            };
        }
        Ok(step.entries)
    }

    fn present_only(&mut self, step: &mut Step) -> Stage {
        let next = self.later.as_ref().map_or(0, |later| later.held.code_table_parts);
        while !step.is_full() {
            let Some(entry) = self.start.present_only.pop_front() else { return Stage::CodeTable { next } };
            step.push(entry);
        }
        Stage::PresentOnly
    }

    fn code_table(&self, mut next: u64, step: &mut Step) -> Result<Stage, StoreError> {
        while next < self.start.code_table_parts {
            if step.is_full() {
                return Ok(Stage::CodeTable { next });
            }
            let value = self.reader.get(&keys::by_number(keys::CODE_TABLE, next))?;
            let value = value.ok_or_else(|| missing("part of the code table"))?.to_vec();
            step.push(Entry::CodeTablePart { number: next, value });
            next = next.saturating_add(1);
        }
        Ok(Stage::Requests)
    }

    /// Requests whose records were written after the mark were done after it.
    fn requests(&mut self, step: &mut Step) -> Result<Stage, StoreError> {
        let from = Bound::Excluded(self.request_after.clone());
        let range = (from, Bound::Excluded(vec![keys::REQUEST + 1]));
        let mut found = Vec::new();
        for item in self.reader.database.range(range).take(STEP_VALUES) {
            let (key, value) = self.reader.next(item)?;
            let name = keys::request_name(&key).ok_or_else(|| corrupt("request that was done", "its name is none"))?;
            found.push(record::remembered::decode(name, &value).map(|request| (request, value))?);
            self.request_after = key.to_vec();
        }
        self.touched.follow(&self.reader, &self.start)?;
        let is_end = found.len() < STEP_VALUES;
        for (request, value) in found {
            let mut written = request.answers.iter().filter_map(|answer| answer.record);
            if !written.any(|(kind, id, version)| self.touched.is_after_mark(&self.start, kind, id, version)) {
                step.push(Entry::Request { name: request.name, value: value.to_vec() });
            }
        }
        if is_end {
            return Ok(Stage::Records { kind: RecordKind::Individual, after: RecordId(0) });
        }
        Ok(Stage::Requests)
    }

    fn records(&mut self, kind: RecordKind, after: RecordId, step: &mut Step) -> Result<Stage, StoreError> {
        if self.tasks.is_empty() {
            match self.later {
                None => self.read_records(kind, after)?,
                Some(_) => self.read_written(kind)?,
            }
        }
        let mut after = after;
        while let Some(mut task) = self.tasks.pop_front() {
            if step.is_full() || !self.take(kind, &mut task, step)? {
                self.tasks.push_front(task);
                return Ok(Stage::Records { kind, after });
            }
            after = task.id;
            self.touched.forget_up_to(kind, after);
        }
        let is_last = match &self.later {
            None => after >= self.start.last_of(kind),
            Some(later) => later.is_over(kind),
        };
        if !is_last {
            return Ok(Stage::Records { kind, after });
        }
        Ok(match kind_after(kind) {
            Some(kind) => Stage::Records { kind, after: RecordId(0) },
            None => Stage::Changes { after: self.later.as_ref().map_or(Sequence(0), |later| later.held.sequence) },
        })
    }

    /// Reads the next records, and only then what has been changed: whatever was read newer than the mark is known then.
    fn read_records(&mut self, kind: RecordKind, after: RecordId) -> Result<(), StoreError> {
        let range =
            (Bound::Excluded(keys::record(kind, after)), Bound::Included(keys::record(kind, self.start.last_of(kind))));
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        for item in self.reader.database.range(range).take(STEP_VALUES) {
            let (key, value) = self.reader.next(item)?;
            bytes = bytes.saturating_add(value.len());
            found.push((RecordId(number(&key)?), value));
            if bytes >= STEP_BYTES {
                break;
            }
        }
        self.touched.follow(&self.reader, &self.start)?;
        let mut expected = after;
        for (id, value) in found {
            expected = RecordId(expected.0.saturating_add(1));
            if id != expected {
                return Err(missing("record"));
            }
            self.add_task(kind, id, value)?;
        }
        if self.tasks.is_empty() && after < self.start.last_of(kind) {
            return Err(missing("record"));
        }
        Ok(())
    }

    fn add_task(&mut self, kind: RecordKind, id: RecordId, value: ::sled::IVec) -> Result<(), StoreError> {
        let (present, photo) = looked_into(kind, id, &value)?;
        let at_mark = self.touched.version_at_mark(kind, id, present);
        self.tasks.push_back(Task { id, value, present, photo, at_mark, next: VersionId::FIRST });
        Ok(())
    }

    /// Takes the versions of a record; false when the step is full before the last one.
    fn take(&mut self, kind: RecordKind, task: &mut Task, step: &mut Step) -> Result<bool, StoreError> {
        while task.next <= task.at_mark {
            if step.is_full() {
                return Ok(false);
            }
            let version = task.next;
            let (value, photo) = if version == task.present {
                (task.value.clone(), task.photo)
            } else {
                let older = self.reader.get(&keys::history(kind, task.id, version))?;
                let older = older.ok_or_else(|| missing("older version of a record"))?;
                let (is, photo) = looked_into(kind, task.id, &older)?;
                if is != version {
                    return Err(corrupt("version of a record", "it is another one than its key says"));
                }
                (older, photo)
            };
            if let Some(photo) = photo.filter(|photo| !self.photos.contains(&photo.digest)) {
                step.push(self.photo(photo)?);
            }
            let is_present = version == task.at_mark;
            step.push(Entry::Version { kind, id: task.id, version, is_present, value: value.to_vec() });
            task.next = version.next();
        }
        Ok(true)
    }

    fn photo(&mut self, photo: PhotoReference) -> Result<Entry, StoreError> {
        let bytes = self.reader.photo(photo, Vec::new())?.ok_or_else(|| missing("photo"))?;
        if self.photos.len() >= PHOTOS_REMEMBERED {
            self.photos.clear();
        }
        self.photos.insert(photo.digest);
        Ok(Entry::Photo { digest: photo.digest, bytes: bytes.into() })
    }

    fn changes(&self, mut after: Sequence, step: &mut Step) -> Result<Stage, StoreError> {
        let last = self.start.last.sequence;
        let range = (
            Bound::Excluded(keys::by_number(keys::CHANGE, after.0)),
            Bound::Included(keys::by_number(keys::CHANGE, last.0)),
        );
        for item in self.reader.database.range(range) {
            let (key, value) = self.reader.next(item)?;
            if step.is_full() {
                return Ok(Stage::Changes { after });
            }
            if number(&key)? != after.next().0 {
                return Err(missing("change"));
            }
            after = after.next();
            step.push(Entry::Change { sequence: after, value: value.to_vec() });
        }
        let next = if self.later.is_some() { Stage::OldestAudit } else { Stage::Audit { after: 0 } };
        if after == last { Ok(next) } else { Err(missing("change")) }
    }

    /// What was removed meanwhile, because it is old enough, is not taken.
    fn audit(&self, mut after: u64, step: &mut Step) -> Result<Stage, StoreError> {
        let range = (
            Bound::Excluded(keys::by_number(keys::AUDIT, after)),
            Bound::Included(keys::by_number(keys::AUDIT, self.start.last_audit)),
        );
        for item in self.reader.database.range(range) {
            let (key, value) = self.reader.next(item)?;
            if step.is_full() {
                return Ok(Stage::Audit { after });
            }
            after = number(&key)?;
            step.push(Entry::Audit { number: after, value: value.to_vec() });
        }
        Ok(Stage::End)
    }
}
