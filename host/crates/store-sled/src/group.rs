//! A group of writes, planned and converted to batches of keys and values.

use std::collections::BTreeMap;

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::Change;
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::idempotency::{IdempotentRequest, RequestName};
use daftar_store::archive::Fixed;
use daftar_store::audit_log::{AuditRemoval, AuditRemoved};
use daftar_store::plan::{Planned, Planner, Recent};
use daftar_store::record::audit::ValueCount;
use daftar_store::{Committed, StoreError, StoredCodeTable, Write, record};

use super::audit_log::OldAudit;
use super::health::Health;
use super::keys;
use super::reader::Reader;
use super::writer::{Answer, Job, KEYS_PER_BATCH_MAX, Look, State};

type KeyAndValue = (Vec<u8>, Vec<u8>);

/// The most jobs of one group.
pub(super) const JOBS_PER_GROUP_MAX: usize = 256;
/// A group of so many bytes of values, without audit entries, is full. With one more write of the largest size it fits in
/// the space that is reserved for an interrupted group.
const GROUP_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Collects the jobs of one group.
pub(super) struct Group<'g> {
    reader: &'g Reader,
    planner: Planner<'g, Reader>,
    state: &'g mut State,
    /// Counter values after the group; `None`: removed.
    counters: BTreeMap<String, Option<Raised>>,
    batches: Batches,
    changes: Vec<Change>,
    answers: Answers,
    snapshots: Vec<Answer<Fixed>>,
    looks: Vec<Look>,
    jobs: usize,
}

/// A counter value after the group.
struct Raised {
    value: u64,
    encoded: Vec<u8>,
}

/// A group, ready to be applied.
pub(super) struct Finished {
    pub(super) batches: Vec<Vec<Operation>>,
    pub(super) changes: Vec<Change>,
    pub(super) answers: Answers,
    /// The callers that wait for a snapshot after the group.
    pub(super) snapshots: Vec<Answer<Fixed>>,
    /// The checks to be run before the group is applied.
    pub(super) looks: Vec<Look>,
    /// The number of its jobs.
    pub(super) jobs: usize,
}

impl<'g> Group<'g> {
    pub(super) fn new(reader: &'g Reader, state: &'g mut State, recent: &'g mut Recent) -> Self {
        let planner = Planner::new(reader, state.last, recent);
        let (batches, changes, answers) = (Batches::default(), Vec::new(), Answers::default());
        let (counters, snapshots, looks) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { reader, planner, state, counters, batches, changes, answers, snapshots, looks, jobs: 0 }
    }

    /// Returns true if no job was added.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    /// Returns true if more jobs belong to the next group.
    pub(super) fn is_full(&self) -> bool {
        self.jobs >= JOBS_PER_GROUP_MAX || self.batches.bytes >= GROUP_BYTES_MAX
    }

    /// Adds audit entries that belong to no write.
    ///
    /// # Errors
    /// If they cannot be stored, which is a failure of the store: no caller waits for the result of these entries.
    pub(super) fn add_audit(&mut self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        // In the order of the log.
        self.batches.add_audit_values(self.state);
        for (value, lines) in record::audit::encode_each(entries)? {
            self.batches.make_space(self.state, 1, &[]);
            let (_, key) = next_audit(self.state, lines);
            self.batches.add(self.state, vec![(key, value)]);
        }
        Ok(())
    }

    /// Removes old audit entries and adds an entry about the removal.
    fn remove_audit(&mut self, old: &OldAudit, removal: AuditRemoval) -> Result<AuditRemoved, StoreError> {
        self.batches.add_audit_values(self.state);
        let AuditRemoval { line, reported, before: _ } = removal;
        let lines = reported.map_or(0, |reported| reported.lines).saturating_add(old.lines);
        let line = record::audit::entry_as_stored(AuditEntry { count: lines, ..line });
        let value = record::audit::encode(std::slice::from_ref(&line))?;
        let keys = value.len().saturating_add(old.numbers.len()).saturating_add(old.summaries.len());
        self.batches.make_space(self.state, keys, &[]);
        let (at, key) = match reported {
            Some(reported) => (reported.at, keys::by_number(keys::AUDIT, reported.at)),
            None => next_audit(self.state, std::slice::from_ref(&line)),
        };
        let values = value.into_iter().map(|value| (key.clone(), value)).collect();
        let removed = old.numbers.iter().map(|number| keys::by_number(keys::AUDIT, *number));
        let summaries = old.summaries.iter().map(|number| keys::by_number(keys::AUDIT_SEGMENT, *number));
        self.batches.add_write(self.state, values, removed.chain(summaries).collect(), Vec::new());
        Ok(AuditRemoved { at, lines })
    }

    /// Plans a job.
    pub(super) fn add(&mut self, job: Job) {
        self.jobs = self.jobs.saturating_add(1);
        match job {
            Job::Commit(write, request, answer) => {
                self.answer(answer, |group| group.commit(*write, request.map(|request| *request)));
            }
            Job::Number(codes, editions, answer) => self.answer(answer, |group| group.number(codes, editions)),
            Job::RaiseCounter(name, value, answer) => self.answer(answer, |group| group.raise_counter(name, value)),
            Job::RemoveCounters(prefix, answer) => self.answer(answer, |group| group.remove_counters(&prefix)),
            Job::RemoveAudit(job, answer) => {
                let (old, removal) = *job;
                self.answer(answer, |group| group.remove_audit(&old, removal));
            }
            Job::Forget(names, now, answer) => self.answer(answer, |group| group.forget(names, now)),
            Job::Look(look) => self.looks.push(look),
            Job::Snapshot(answer) => self.snapshots.push(answer),
            // Its entries are added when the group is complete.
            Job::WriteAudit(Some(answer)) => self.answers.add(answer, Ok(())),
            Job::WriteAudit(None) | Job::AuditWaits => {}
        }
    }

    /// Runs work whose result is sent when the group is on disk.
    fn answer<T: Send + 'static>(&mut self, answer: Answer<T>, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) {
        let outcome = work(self);
        self.answers.add(answer, outcome);
    }

    /// Ends the group.
    ///
    /// # Errors
    /// If audit entries of its writes cannot be stored, which is a failure of the store. The callers still wait.
    pub(super) fn finish(mut self) -> (Finished, Result<(), StoreError>) {
        self.state.last = self.planner.last();
        for (name, raised) in self.counters {
            let key = keys::counter(&name);
            match raised {
                Some(raised) => self.batches.add(self.state, vec![(key, raised.encoded)]),
                None => self.batches.remove(self.state, key),
            }
        }
        let (batches, stored) = self.batches.finish(self.state);
        let Self { changes, answers, snapshots, looks, jobs, .. } = self;
        (Finished { batches, changes, answers, snapshots, looks, jobs }, stored)
    }

    fn commit(&mut self, mut write: Write, request: Option<IdempotentRequest>) -> Result<Committed, StoreError> {
        let new_codes = write.take_new_codes();
        let codes = self.state.numbering.of_write(&new_codes)?;
        let mut planned = self.planner.plan(write, request)?;
        let mut values = values(&planned)?;
        let code_table =
            record::code_table::encode_parts(&StoredCodeTable { codes: codes.clone(), editions: Vec::new() })?;
        for (name, value) in new_codes.iter().flat_map(|new| &new.counters) {
            values.push((keys::counter(name), record::counter::encode(*value)?));
        }
        let settings = &planned.outcome.settings;
        let removed = settings.iter().filter(|(_, setting)| setting.is_none()).map(|(key, _)| keys::setting(key));
        let removed = removed.collect();
        self.planner.accept(&mut planned);
        for value in code_table {
            values.push((keys::by_number(keys::CODE_TABLE, self.state.code_table_parts), value));
            self.state.code_table_parts = self.state.code_table_parts.saturating_add(1);
        }
        self.state.numbering.apply(StoredCodeTable { codes, editions: Vec::new() });
        // From now on only the end of all writes prevents their assignment, and no read can see them yet.
        new_codes.iter().for_each(|new| (new.given)());
        self.batches.add_write(self.state, values, removed, std::mem::take(&mut planned.audit));
        self.changes.extend(planned.changes);
        Ok(planned.committed)
    }

    fn number(
        &mut self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        let numbered = self.state.numbering.number(codes, editions)?;
        // All of them before a result is sent: a reported number must be on disk.
        for value in record::code_table::encode_parts(&numbered.added)? {
            let key = keys::by_number(keys::CODE_TABLE, self.state.code_table_parts);
            self.batches.add(self.state, vec![(key, value)]);
            self.state.code_table_parts = self.state.code_table_parts.saturating_add(1);
        }
        self.state.numbering.apply(numbered.added);
        Ok((numbered.codes, numbered.editions))
    }

    /// Removes expired requests: one may have been repeated since it was found.
    fn forget(&mut self, names: Vec<RequestName>, now: Timestamp) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for name in names {
            if self.planner.remembered(&name)?.is_some_and(|request| !request.is_stored_at(now)) {
                self.batches.remove(self.state, keys::request(&name));
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }

    fn raise_counter(&mut self, name: String, value: u64) -> Result<(), StoreError> {
        let present = match self.counters.get(&name) {
            Some(raised) => raised.as_ref().map(|raised| raised.value),
            None => self.reader.counter(&name)?,
        };
        if present.is_none_or(|present| present < value) {
            // Encoded here, not at the end of the group, so that an encoding error reaches the caller.
            let encoded = record::counter::encode(value)?;
            self.counters.insert(name, Some(Raised { value, encoded }));
        }
        Ok(())
    }

    fn remove_counters(&mut self, prefix: &str) -> Result<(), StoreError> {
        for (name, _) in self.reader.counters(prefix)? {
            self.counters.insert(name, None);
        }
        for (name, raised) in &mut self.counters {
            if name.starts_with(prefix) {
                *raised = None;
            }
        }
        Ok(())
    }
}

/// Returns the next number of the audit log and its key, for these entries.
fn next_audit(state: &mut State, lines: &[AuditEntry]) -> (u64, Vec<u8>) {
    state.last_audit = state.last_audit.saturating_add(1);
    state.audit_segment.add(state.last_audit, lines);
    (state.last_audit, keys::by_number(keys::AUDIT, state.last_audit))
}

/// Returns the keys and values of one write, without its audit entries.
fn values(planned: &Planned) -> Result<Vec<KeyAndValue>, StoreError> {
    let outcome = &planned.outcome;
    let mut values = Vec::new();
    for replaced in &planned.replaced {
        let (kind, id, version) = replaced.place();
        values.push((keys::history(kind, id, version), record::encode_any(replaced)?));
    }
    for ((kind, id), changed) in &outcome.records {
        values.push((keys::record(*kind, *id), record::encode_any(changed)?));
    }
    for (slot, holder) in &outcome.open_memberships {
        values.push((keys::open_membership(*slot), record::open_membership::encode(*holder)?));
    }
    for ((kind, key), owners) in &outcome.owners {
        values.push((keys::identifier(*kind, key), record::identifier::encode(owners)?));
    }
    for (name, request) in &outcome.remembered {
        values.push((keys::request(name), record::remembered::encode(request)?));
    }
    for (id, client) in &outcome.clients {
        values.push((keys::client(id), record::client::encode(client)?));
    }
    for (digest, photo) in &outcome.photos {
        let parts = record::photo::encode(photo)?.into_iter();
        values.extend((0..).zip(parts).map(|(part, value)| (keys::photo_part(*digest, part), value)));
    }
    for (key, setting) in &outcome.settings {
        if let Some(setting) = setting {
            values.push((keys::setting(key), record::setting::encode(setting)?));
        }
    }
    let touched = record::change::encode(planned.at, &planned.changes, outcome.clients.keys())?;
    values.push((keys::by_number(keys::CHANGE, planned.committed.sequence.0), touched));
    Ok(values)
}

/// One key of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) key: Vec<u8>,
    /// The new value; `None`: the key is removed.
    pub(super) value: Option<Vec<u8>>,
}

impl Operation {
    /// The length of key and value.
    pub(super) fn bytes(&self) -> usize {
        self.key.len().saturating_add(self.value.as_ref().map_or(0, Vec::len))
    }
}

/// Keys and values in batches of bounded size. The audit entries of the writes of a batch are in that batch, and share
/// values.
#[derive(Default)]
struct Batches {
    full: Vec<Vec<Operation>>,
    open: Vec<Operation>,
    /// The audit entries of the writes in the open batch.
    audit: Vec<AuditEntry>,
    /// The number of values for them.
    audit_values: ValueCount,
    /// The length of all values, without audit entries.
    bytes: usize,
    /// The first value that could not be encoded.
    failure: Option<StoreError>,
}

impl Batches {
    /// Adds keys and values that must be written together.
    fn add(&mut self, state: &mut State, values: Vec<KeyAndValue>) {
        self.add_write(state, values, Vec::new(), Vec::new());
    }

    /// Adds keys and values, removes keys, and adds audit entries, in one batch.
    fn add_write(
        &mut self,
        state: &mut State,
        values: Vec<KeyAndValue>,
        removed: Vec<Vec<u8>>,
        mut audit: Vec<AuditEntry>,
    ) {
        let keys = values.len().saturating_add(removed.len());
        self.make_space(state, keys, &audit);
        self.bytes = values.iter().fold(self.bytes, |bytes, (_, value)| bytes.saturating_add(value.len()));
        self.open.extend(values.into_iter().map(|(key, value)| Operation { key, value: Some(value) }));
        self.open.extend(removed.into_iter().map(|key| Operation { key, value: None }));
        self.audit_values = self.audit_values.with(&audit);
        self.audit.append(&mut audit);
    }

    fn remove(&mut self, state: &mut State, key: Vec<u8>) {
        self.add_write(state, Vec::new(), vec![key], Vec::new());
    }

    /// Closes the open batch if these keys and audit entries would exceed it. Before a number of the audit log is
    /// assigned: closing a batch may assign some.
    fn make_space(&mut self, state: &mut State, keys: usize, audit: &[AuditEntry]) {
        let is_empty = self.open.is_empty() && self.audit.is_empty();
        let keys = self.open.len().saturating_add(keys).saturating_add(self.audit_values.with(audit).values());
        if !is_empty && keys > KEYS_PER_BATCH_MAX {
            self.close(state);
        }
    }

    /// Adds the audit entries of the writes in the open batch to it.
    fn add_audit_values(&mut self, state: &mut State) {
        self.audit_values = ValueCount::default();
        let entries = std::mem::take(&mut self.audit);
        match record::audit::encode_each(&entries) {
            Ok(encoded) => {
                for (value, lines) in encoded {
                    let (_, key) = next_audit(state, lines);
                    self.open.push(Operation { key, value: Some(value) });
                }
            }
            // Never: the planner truncates entries that are too long.
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }

    /// Closes the open batch. If an audit segment is full, its summary follows the entries that it summarises.
    fn close(&mut self, state: &mut State) {
        self.add_audit_values(state);
        self.full.push(std::mem::take(&mut self.open));
        if let Some(segment) = state.audit_segment.take_full() {
            let key = keys::by_number(keys::AUDIT_SEGMENT, segment.last);
            match record::encode(&segment) {
                Ok(value) => self.open.push(Operation { key, value: Some(value) }),
                Err(error) => self.failure = self.failure.take().or(Some(error)),
            }
        }
    }

    fn finish(mut self, state: &mut State) -> (Vec<Vec<Operation>>, Result<(), StoreError>) {
        while !self.open.is_empty() || !self.audit.is_empty() {
            self.close(state);
        }
        (self.full, self.failure.map_or(Ok(()), Err))
    }
}

/// Sends one result, given the outcome of the group.
type Held = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Pending results, in the order of the jobs.
#[derive(Default)]
pub(super) struct Answers {
    waiting: Vec<Held>,
}

impl Answers {
    /// Returns true if no caller waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a result. It is sent unchanged when the group is on disk; otherwise the group's failure is sent.
    pub(super) fn add<T: Send + 'static>(&mut self, answer: Answer<T>, outcome: Result<T, StoreError>) {
        self.waiting.push(Box::new(move |group| {
            // The caller may have stopped waiting; the write stays.
            let _ = answer.send(group.and(outcome));
        }));
    }

    /// Sends the results.
    pub(super) fn send(self) {
        for answer in self.waiting {
            answer(Ok(()));
        }
    }

    /// Sends the failure to all callers.
    pub(super) fn fail(self, health: &Health, failure: StoreError) {
        let mut failure = Some(failure);
        for answer in self.waiting {
            let failure = failure.take().map_or_else(|| health.check(), Err);
            answer(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_store::numbering::Numbering;
    use daftar_store::plan::Last;
    use daftar_store::segment::{OpenSegment, SEGMENT_LINES};
    use daftar_store::suite::audit_entry;

    /// Returns the number of batches for writes with these numbers of keys.
    fn batches(writes: &[usize]) -> usize {
        let (mut batches, mut state) = (Batches::default(), state());
        for (number, keys) in writes.iter().enumerate() {
            batches.add(&mut state, values(number, *keys));
        }
        batches.finish(&mut state).0.len()
    }

    fn state() -> State {
        let (last, numbering, audit_segment) = (Last::default(), Numbering::default(), OpenSegment::default());
        State { last, numbering, code_table_parts: 0, last_audit: 0, audit_segment }
    }

    fn values(write: usize, keys: usize) -> Vec<KeyAndValue> {
        (0..keys).map(|key| (format!("{write}/{key}").into_bytes(), Vec::new())).collect()
    }

    fn is_audit(operation: &&Operation) -> bool {
        operation.key.first() == Some(&keys::AUDIT)
    }

    #[test]
    fn batches_stay_small_and_keep_writes_whole() {
        assert_eq!(batches(&[]), 0);
        assert_eq!(batches(&[5; 12]), 1, "60 keys");
        assert_eq!(batches(&[5; 13]), 2, "65 keys");
        assert_eq!(batches(&[60, 4]), 1);
        assert_eq!(batches(&[1, 200, 1]), 3, "a write of 200 keys has a batch of its own");
    }

    #[test]
    fn the_audit_entries_of_the_writes_of_a_batch_are_in_it_and_share_a_value() {
        let (mut batches, mut state) = (Batches::default(), state());
        for write in 0..50 {
            batches.add_write(&mut state, values(write, 3), Vec::new(), vec![audit_entry(&write.to_string())]);
        }
        let (full, stored) = batches.finish(&mut state);
        stored.unwrap();
        assert_eq!(
            full.iter().map(Vec::len).collect::<Vec<_>>(),
            [64, 64, 25],
            "21, 21 and 8 writes, and one value each"
        );
        let mut write = 0;
        for (number, batch) in (1..).zip(&full) {
            let audit: Vec<_> = batch.iter().filter(is_audit).collect();
            assert_eq!(audit.len(), 1);
            assert_eq!(audit[0].key, keys::by_number(keys::AUDIT, number));
            for entry in record::audit::decode(audit[0].value.as_ref().unwrap()).unwrap() {
                assert_eq!(entry.request_id, audit_entry(&write.to_string()).request_id);
                assert!(batch.iter().any(|operation| operation.key == format!("{write}/0").into_bytes()), "{write}");
                write += 1;
            }
        }
        assert_eq!((write, state.last_audit), (50, 3));
    }

    #[test]
    fn long_audit_entries_are_counted_and_the_summary_of_a_segment_follows_them() {
        let (mut batches, mut state) = (Batches::default(), state());
        let long = || AuditEntry { targets: vec!["t".repeat(9_000)], ..audit_entry("long") };
        for write in 0..12 {
            batches.add_write(&mut state, values(write, 10), Vec::new(), vec![long(), long(), long()]);
        }
        let lines = usize::try_from(SEGMENT_LINES).unwrap() - 36;
        batches.add_write(&mut state, values(12, 1), Vec::new(), vec![audit_entry("short"); lines]);
        let (full, stored) = batches.finish(&mut state);
        stored.unwrap();
        assert!(full.iter().all(|batch| batch.len() <= KEYS_PER_BATCH_MAX));
        let every: Vec<&Operation> = full.iter().flatten().collect();
        let audit: Vec<&Operation> = every.iter().copied().filter(is_audit).collect();
        let entries = audit.iter().map(|value| record::audit::decode(value.value.as_ref().unwrap()).unwrap().len());
        assert_eq!(entries.sum::<usize>() as u64, SEGMENT_LINES);
        assert_eq!(audit.len() as u64, state.last_audit);
        let summary = keys::by_number(keys::AUDIT_SEGMENT, state.last_audit);
        assert_eq!(every.last().map(|operation| &operation.key), Some(&summary));
    }
}
