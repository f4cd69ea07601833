//! What was written since another store was filled from this one.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use sha2::{Digest, Sha256};

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::archive::{Ends, Held, Since, Snapshot, WRITTEN_SINCE_MAX, too_many_written};
use daftar_store::{StoreError, record};

use super::super::reader::Reader;
use super::super::writer::Job;
use super::super::{SledStore, keys};
use super::walk::Walk;
use super::{SledSnapshot, mark_of};

impl Reader {
    fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
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
    fn written_between(&self, after: Sequence, last: Sequence) -> Result<VecDeque<(RecordKind, RecordId)>, StoreError> {
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

#[async_trait::async_trait]
impl Since for SledStore {
    async fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
        let held = held.clone();
        self.read(move |reader| reader.ends(&held)).await
    }

    async fn since(&self, held: &Held) -> Result<Box<dyn Snapshot>, StoreError> {
        let start = self.ask(Job::Snapshot).await?;
        let (after, last) = (held.sequence, start.last.sequence);
        let written = self.read(move |reader| reader.written_between(after, last)).await?;
        let mark = mark_of(self, &start).await?;
        let walk = Walk::since(self.reader.clone(), start, held.clone(), written);
        Ok(Box::new(SledSnapshot { mark, walk: Some(walk) }))
    }
}
