//! What was written since another store was filled from this one.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use sha2::{Digest, Sha256};

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::archive::{Ends, Held, WRITTEN_SINCE_MAX, too_many_written};
use daftar_store::{StoreError, record};

use super::super::keys;
use super::super::reader::Reader;

impl Reader {
    pub(super) fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
        let digest = |prefix, number| {
            let value = self.get(&keys::by_number(prefix, number))?;
            Ok::<_, StoreError>(value.map(|value| Sha256::digest(&value).into()))
        };
        let parts = match self.database.scan_prefix([keys::CODE_TABLE]).next_back() {
            None => 0,
            Some(item) => super::super::reader::number(&self.next(item)?.0)?.saturating_add(1),
        };
        Ok(Ends {
            register: self.register_id()?,
            sequence: Sequence(self.last_number(&[keys::CHANGE])?),
            code_table_parts: parts,
            audit: self.last_number(&[keys::AUDIT])?,
            change: digest(keys::CHANGE, held.sequence.0)?,
            audit_value: digest(keys::AUDIT, held.audit)?,
        })
    }

    /// The records that the writes after one, up to another one, touched, by kind and key.
    pub(super) fn written_between(
        &self,
        after: Sequence,
        last: Sequence,
    ) -> Result<VecDeque<(RecordKind, RecordId)>, StoreError> {
        let mut written = BTreeSet::new();
        if after >= last {
            return Ok(VecDeque::new());
        }
        let range = (
            Bound::Excluded(keys::by_number(keys::CHANGE, after.0)),
            Bound::Included(keys::by_number(keys::CHANGE, last.0)),
        );
        for item in self.database.range(range) {
            written.extend(record::change::touched(&self.next(item)?.1)?);
            if written.len() > WRITTEN_SINCE_MAX {
                return Err(too_many_written());
            }
        }
        Ok(written.into_iter().collect())
    }
}
