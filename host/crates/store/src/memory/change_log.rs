//! The order of writes of the store that forgets, as the stored form tells it.

use crate::change_log::{CHANGES_MAX, ChangeLog, HistoryMark, RegisterId, Touched};
use crate::plan::Planned;
use crate::{StoreError, record};
use daftar_domain::change::Sequence;

use super::MemoryStore;

/// What is stored of each write: the first one first.
pub(super) struct Changes {
    register: RegisterId,
    stored: Vec<Vec<u8>>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { register: RegisterId::draw(), stored: Vec::new() }
    }
}

impl Changes {
    /// Takes a write up.
    pub(super) fn add(&mut self, planned: &Planned) -> Result<(), StoreError> {
        let stored = record::change::encode(planned.at, &planned.changes, planned.outcome.clients.keys())?;
        self.stored.push(stored);
        Ok(())
    }

    /// Takes up what is stored of the next write.
    pub(super) fn put(&mut self, stored: Vec<u8>) {
        self.stored.push(stored);
    }

    /// What is stored of all writes, each with its place.
    pub(super) fn all(&self) -> impl Iterator<Item = (Sequence, &Vec<u8>)> {
        (1..).map(Sequence).zip(&self.stored)
    }

    /// The register's own id.
    pub(super) fn register(&self) -> RegisterId {
        self.register
    }

    fn get(&self, at: Sequence) -> Option<&Vec<u8>> {
        self.stored.get(usize::try_from(at.0.checked_sub(1)?).ok()?)
    }
}

#[async_trait::async_trait]
impl ChangeLog for MemoryStore {
    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        Ok(self.state().changes.register)
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        let state = self.state();
        let mut changes = Vec::new();
        let mut sequence = after.next();
        while let Some(stored) = state.changes.get(sequence).filter(|_| changes.len() < limit.min(CHANGES_MAX)) {
            changes.push(Touched { sequence, records: record::change::touched(stored)? });
            sequence = sequence.next();
        }
        Ok(changes)
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        let changes = &self.state().changes;
        let none = Vec::new();
        let stored = if at == Sequence::default() { Some(&none) } else { changes.get(at) };
        Ok(stored.map(|stored| HistoryMark::new(changes.register, at, stored)))
    }
}
