//! A snapshot of the database at one transaction, read while the database is written to.
//!
//! The writer fixes the transaction between two groups: the last assigned numbers, and the few values without older
//! versions (clients, settings without the versions of rule drafts, counters). All else is read afterwards
//! ([`daftar_store::archive`]), a little at a time.

mod catch_up;
mod refill;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use daftar_domain::change::Sequence;
use daftar_domain::record::RecordKind;
use daftar_store::StoreError;
use daftar_store::archive::{self, Archive, Ends, Fixed, Held, Mark, Snapshot, present_only};
use daftar_store::verify::RawValues;

pub use self::refill::SledRefill;
use super::reader::{Reader, number};
use super::verify::RawKeys;
use super::writer::{Assigned, Job};
use super::{SledStore, keys};

/// Fixes a snapshot. Only the writer may, when these numbers are written and no later ones are.
pub(super) fn fix(reader: &Reader, assigned: &Assigned) -> Result<Fixed, StoreError> {
    let records = RecordKind::ALL.map(|kind| (kind, assigned.last.key(kind)));
    Ok(Fixed {
        mark: Mark { register: reader.register_id()?, sequence: assigned.last.sequence, records },
        code_table_parts: assigned.code_table_parts,
        last_audit: assigned.audit,
        present: present_only(&RawKeys::with_health(reader))?,
    })
}

impl SledStore {
    fn values(&self) -> Arc<dyn RawValues> {
        Arc::new(RawKeys::with_health(&self.reader))
    }
}

#[async_trait::async_trait]
impl Archive for SledStore {
    async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Ok(archive::snapshot(self.values(), self.ask(Job::Snapshot).await?))
    }

    async fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
        let held = held.clone();
        self.read(move |reader| reader.ends(&held)).await
    }

    async fn since(&self, held: &Held) -> Result<Snapshot, StoreError> {
        archive::since(self.values(), self.ask(Job::Snapshot).await?, held).await
    }

    async fn raw_values(&self) -> Result<Arc<dyn RawValues>, StoreError> {
        let writer = self.jobs.as_ref().map(Arc::downgrade);
        Ok(Arc::new(RawKeys { writer, ..RawKeys::new(self.reader.database.clone()) }))
    }
}

impl Reader {
    fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
        let digest = |prefix, number| {
            let value = self.get(&keys::by_number(prefix, number))?;
            Ok::<_, StoreError>(value.map(|value| Sha256::digest(&value).into()))
        };
        let parts = match self.database.scan_prefix([keys::CODE_TABLE]).next_back() {
            None => 0,
            Some(item) => number(&self.next(item)?.0)?.saturating_add(1),
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
}
