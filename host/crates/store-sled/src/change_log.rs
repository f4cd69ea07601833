//! The order of writes, read for those who follow it.

use std::ops::Bound;

use daftar_domain::change::Sequence;
use daftar_store::change_log::{HistoryMark, RegisterId, Touched};
use daftar_store::{StoreError, record};

use super::keys;
use super::reader::{Reader, corrupt, number};

impl Reader {
    /// The register's own id.
    pub(super) fn register_id(&self) -> Result<RegisterId, StoreError> {
        let bytes = self.get(keys::REGISTER)?.ok_or_else(|| corrupt("id of the register", "it is not there"))?;
        record::register::decode(&bytes).map(RegisterId)
    }

    pub(super) fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        let (first, last) = (keys::by_number(keys::CHANGE, after.0), keys::by_number(keys::CHANGE, u64::MAX));
        let mut changes = Vec::new();
        let mut expected = after.next();
        for item in self.database.range((Bound::Excluded(first), Bound::Included(last))).take(limit) {
            let (key, value) = self.next(item)?;
            if number(&key)? != expected.0 {
                return Err(corrupt("order of writes", "a write is missing"));
            }
            changes.push(Touched { sequence: expected, records: record::change::touched(&value)? });
            expected = expected.next();
        }
        Ok(changes)
    }

    pub(super) fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        let register = self.register_id()?;
        if at == Sequence::default() {
            return Ok(Some(HistoryMark::new(register, at, &[])));
        }
        let stored = self.get(&keys::by_number(keys::CHANGE, at.0))?;
        Ok(stored.map(|stored| HistoryMark::new(register, at, &stored)))
    }
}
