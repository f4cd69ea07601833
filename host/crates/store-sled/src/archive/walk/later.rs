//! The way through what was written later than what another store holds.

use std::collections::VecDeque;

use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::StoreError;
use daftar_store::archive::{Entry, Held, OLDEST_AUDIT};

use super::super::super::keys;
use super::super::super::reader::{Reader, number};
use super::super::{Start, missing};
use super::{STEP_BYTES, STEP_VALUES, Stage, Step, Walk};

/// What was written later.
pub(super) struct Later {
    pub(super) held: Held,
    /// The records that were, by kind and key.
    written: VecDeque<(RecordKind, RecordId)>,
}

impl Later {
    /// Whether there are no more of that kind.
    pub(super) fn is_over(&self, kind: RecordKind) -> bool {
        self.written.front().is_none_or(|(of, _)| *of != kind)
    }

    fn next(&mut self, kind: RecordKind) -> Option<RecordId> {
        if self.is_over(kind) {
            return None;
        }
        self.written.pop_front().map(|(_, id)| id)
    }
}

impl Walk {
    /// Before the first thing that was written since: those records among others.
    pub(in crate::archive) fn since(
        reader: Reader,
        start: Start,
        held: Held,
        written: VecDeque<(RecordKind, RecordId)>,
    ) -> Self {
        // Of a store that is behind there is nothing.
        let (sequence, audit) = (held.sequence.min(start.last.sequence), held.audit.min(start.last_audit));
        let held = Held { sequence, audit, ..held };
        Self { later: Some(Later { held, written }), ..Self::new(reader, start) }
    }

    /// Reads the next records that were written, and only then what has been changed, as of all records.
    pub(super) fn read_written(&mut self, kind: RecordKind) -> Result<(), StoreError> {
        let Some(later) = &mut self.later else { return Ok(()) };
        let (mut found, mut bytes) = (Vec::new(), 0_usize);
        while found.len() < STEP_VALUES && bytes < STEP_BYTES {
            let Some(id) = later.next(kind) else { break };
            let value = self.reader.get(&keys::record(kind, id))?.ok_or_else(|| missing("record"))?;
            bytes = bytes.saturating_add(value.len());
            found.push((id, value));
        }
        self.touched.follow(&self.reader, &self.start)?;
        for (id, value) in found {
            self.add_task(kind, id, value)?;
        }
        Ok(())
    }

    /// The oldest values of the audit log, and the one that tells of the last removal.
    pub(super) fn oldest_audit(&self, step: &mut Step) -> Result<Stage, StoreError> {
        let Some(Later { held, .. }) = &self.later else { return Ok(Stage::Audit { after: 0 }) };
        let range = keys::by_number(keys::AUDIT, 0)..=keys::by_number(keys::AUDIT, held.audit);
        let mut last = 0;
        for item in self.reader.database.range(range).take(OLDEST_AUDIT) {
            let (key, value) = self.reader.next(item)?;
            last = number(&key)?;
            step.push(Entry::Audit { number: last, value: value.to_vec() });
        }
        if let Some(number) = held.removal.filter(|number| *number > last && *number <= held.audit)
            && let Some(value) = self.reader.get(&keys::by_number(keys::AUDIT, number))?
        {
            step.push(Entry::Audit { number, value: value.to_vec() });
        }
        Ok(Stage::Audit { after: held.audit })
    }
}
