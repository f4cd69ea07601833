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
use daftar_store::{Committed, StoreError, StoredCodeTable, Write, record};

use super::audit_log::OldAudit;
use super::health::Health;
use super::keys;
use super::reader::Reader;
use super::writer::{Answer, Job, KEYS_PER_BATCH_MAX, Look, State};

type KeyAndValue = (Vec<u8>, Vec<u8>);

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

    /// Returns the number of jobs added.
    pub(super) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Adds audit entries that belong to no write.
    ///
    /// # Errors
    /// If they cannot be stored, which is a failure of the store: no caller waits for the result of these entries.
    pub(super) fn add_audit(&mut self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        for (value, lines) in record::audit::encode_each(entries)? {
            let (_, key) = next_audit(self.state, lines);
            self.batches.add(vec![(key, value)]);
        }
        self.sum_up()
    }

    /// Adds the summary of the audit segment if it is full, after the entries that it summarises.
    fn sum_up(&mut self) -> Result<(), StoreError> {
        if let Some(segment) = self.state.audit_segment.take_full() {
            let key = keys::by_number(keys::AUDIT_SEGMENT, segment.last);
            self.batches.add(vec![(key, record::encode(&segment)?)]);
        }
        Ok(())
    }

    /// Removes old audit entries and adds an entry about the removal.
    fn remove_audit(&mut self, old: &OldAudit, removal: AuditRemoval) -> Result<AuditRemoved, StoreError> {
        let AuditRemoval { line, reported, before: _ } = removal;
        let lines = reported.map_or(0, |reported| reported.lines).saturating_add(old.lines);
        let line = record::audit::entry_as_stored(AuditEntry { count: lines, ..line });
        let value = record::audit::encode(std::slice::from_ref(&line))?;
        let (at, key) = match reported {
            Some(reported) => (reported.at, keys::by_number(keys::AUDIT, reported.at)),
            None => next_audit(self.state, std::slice::from_ref(&line)),
        };
        let values = value.into_iter().map(|value| (key.clone(), value)).collect();
        let removed = old.numbers.iter().map(|number| keys::by_number(keys::AUDIT, *number));
        let summaries = old.summaries.iter().map(|number| keys::by_number(keys::AUDIT_SEGMENT, *number));
        self.batches.add_and_remove(values, removed.chain(summaries).collect());
        self.sum_up()?;
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
    pub(super) fn finish(mut self) -> Finished {
        self.state.last = self.planner.last();
        for (name, raised) in self.counters {
            let key = keys::counter(&name);
            match raised {
                Some(raised) => self.batches.add(vec![(key, raised.encoded)]),
                None => self.batches.remove(key),
            }
        }
        let Self { batches, changes, answers, snapshots, looks, jobs, .. } = self;
        Finished { batches: batches.finish(), changes, answers, snapshots, looks, jobs }
    }

    fn commit(&mut self, mut write: Write, request: Option<IdempotentRequest>) -> Result<Committed, StoreError> {
        let new_codes = write.take_new_codes();
        let codes = self.state.numbering.of_write(&new_codes)?;
        let planned = self.planner.plan(write, request)?;
        let mut values = values(&planned)?;
        let code_table =
            record::code_table::encode_parts(&StoredCodeTable { codes: codes.clone(), editions: Vec::new() })?;
        for (name, value) in new_codes.iter().flat_map(|new| &new.counters) {
            values.push((keys::counter(name), record::counter::encode(*value)?));
        }
        for (value, lines) in record::audit::encode_each(&planned.audit)? {
            let (_, key) = next_audit(self.state, lines);
            values.push((key, value));
        }
        let settings = &planned.outcome.settings;
        let removed = settings.iter().filter(|(_, setting)| setting.is_none()).map(|(key, _)| keys::setting(key));
        let removed = removed.collect();
        self.planner.accept(&planned);
        for value in code_table {
            values.push((keys::by_number(keys::CODE_TABLE, self.state.code_table_parts), value));
            self.state.code_table_parts = self.state.code_table_parts.saturating_add(1);
        }
        self.state.numbering.apply(StoredCodeTable { codes, editions: Vec::new() });
        // From now on only the end of all writes prevents their assignment, and no read can see them yet.
        new_codes.iter().for_each(|new| (new.given)());
        self.batches.add_and_remove(values, removed);
        self.sum_up()?;
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
            self.batches.add(vec![(key, value)]);
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
                self.batches.remove(keys::request(&name));
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
    pub(super) fn add_to(&self, batch: &mut ::sled::Batch) {
        match &self.value {
            Some(value) => batch.insert(self.key.as_slice(), value.as_slice()),
            None => batch.remove(self.key.as_slice()),
        }
    }
}

/// Keys and values in batches of bounded size.
#[derive(Default)]
struct Batches {
    full: Vec<Vec<Operation>>,
    open: Vec<Operation>,
}

impl Batches {
    /// Adds keys and values that must be written together.
    fn add(&mut self, values: Vec<KeyAndValue>) {
        self.add_and_remove(values, Vec::new());
    }

    /// Adds keys and values, and removes keys, in one batch.
    fn add_and_remove(&mut self, values: Vec<KeyAndValue>, removed: Vec<Vec<u8>>) {
        self.make_space(values.len().saturating_add(removed.len()));
        self.open.extend(values.into_iter().map(|(key, value)| Operation { key, value: Some(value) }));
        self.open.extend(removed.into_iter().map(|key| Operation { key, value: None }));
    }

    fn remove(&mut self, key: Vec<u8>) {
        self.make_space(1);
        self.open.push(Operation { key, value: None });
    }

    fn make_space(&mut self, keys: usize) {
        if !self.open.is_empty() && self.open.len().saturating_add(keys) > KEYS_PER_BATCH_MAX {
            self.full.push(std::mem::take(&mut self.open));
        }
    }

    fn finish(mut self) -> Vec<Vec<Operation>> {
        if !self.open.is_empty() {
            self.full.push(self.open);
        }
        self.full
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

    /// Returns the number of batches for writes with these numbers of keys.
    fn batches(writes: &[usize]) -> usize {
        let mut batches = Batches::default();
        for (number, keys) in writes.iter().enumerate() {
            batches.add((0..*keys).map(|key| (format!("{number}/{key}").into_bytes(), Vec::new())).collect());
        }
        batches.finish().len()
    }

    #[test]
    fn batches_stay_small_and_keep_writes_whole() {
        assert_eq!(batches(&[]), 0);
        assert_eq!(batches(&[5; 12]), 1, "60 keys");
        assert_eq!(batches(&[5; 13]), 2, "65 keys");
        assert_eq!(batches(&[60, 4]), 1);
        assert_eq!(batches(&[1, 200, 1]), 3, "a write of 200 keys has a batch of its own");
    }
}
