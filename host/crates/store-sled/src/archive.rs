//! Taking the database as it stood after one write, while it is written to.
//!
//! The writer fixes the mark between two groups of writes: what it has given out so far, and the few things of which no older
//! state is kept (clients, settings, counters). All else is read afterwards, a little at a time. Keys count up and what has a
//! number is never written again, so that newer records, codes, changes and audit lines are told by their numbers; a record that
//! was changed since is told by the order of writes, and its older state is in the history.

mod refill;
mod since;
mod touched;
mod walk;

use std::collections::VecDeque;

use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::archive::{Archive, Ends, Entry, Held, Mark, SettingKind, Snapshot};
use daftar_store::plan::Last;
use daftar_store::{Store as _, StoreError, record};

pub use self::refill::SledRefill;
use self::walk::Walk;
use super::reader::{Reader, corrupt};
use super::writer::{Job, State};
use super::{SledStore, keys};

/// What the writer fixes.
pub(super) struct Start {
    last: Last,
    code_table_parts: u64,
    last_audit: u64,
    /// What is there in its present state only.
    present_only: VecDeque<Entry>,
}

impl Start {
    /// Fixes it. Only the writer may, when all that it has given out is written.
    pub(super) fn fix(reader: &Reader, state: &State) -> Result<Self, StoreError> {
        Ok(Self {
            last: state.last,
            code_table_parts: state.code_table_parts,
            last_audit: state.last_audit,
            present_only: reader.present_only()?,
        })
    }

    fn last_of(&self, kind: RecordKind) -> RecordId {
        RecordId(self.last.key(kind))
    }
}

impl Reader {
    /// Clients, settings and counters.
    fn present_only(&self) -> Result<VecDeque<Entry>, StoreError> {
        let mut entries = VecDeque::new();
        for kind in SettingKind::ALL {
            for item in self.database.scan_prefix(keys::setting_prefix(kind)) {
                entries.push_back(Entry::Setting { kind, value: self.next(item)?.1.to_vec() });
            }
        }
        for item in self.database.scan_prefix([keys::CLIENT]) {
            entries.push_back(Entry::Client { value: self.next(item)?.1.to_vec() });
        }
        for (name, value) in self.counters("")? {
            entries.push_back(Entry::Counter { name, value });
        }
        Ok(entries)
    }
}

#[async_trait::async_trait]
impl Archive for SledStore {
    async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let start = self.ask(Job::Snapshot).await?;
        let mark = mark_of(self, &start).await?;
        Ok(snapshot_of(mark, Walk::new(self.reader.clone(), start)))
    }

    async fn ends(&self, held: &Held) -> Result<Ends, StoreError> {
        let held = held.clone();
        self.read(move |reader| reader.ends(&held)).await
    }

    async fn since(&self, held: &Held) -> Result<Snapshot, StoreError> {
        let start = self.ask(Job::Snapshot).await?;
        let (after, last) = (held.sequence, start.last.sequence);
        let written = self.read(move |reader| reader.written_between(after, last)).await?;
        let mark = mark_of(self, &start).await?;
        Ok(snapshot_of(mark, Walk::since(self.reader.clone(), start, held.clone(), written)))
    }
}

/// After which write that is.
async fn mark_of(store: &SledStore, start: &Start) -> Result<Mark, StoreError> {
    let records = RecordKind::ALL.map(|kind| (kind, start.last.key(kind)));
    Ok(Mark { register: store.register_id().await?, sequence: start.last.sequence, records })
}

/// The database as it stood after that write.
fn snapshot_of(mark: Mark, walk: Walk) -> Snapshot {
    Snapshot::new(mark, walk, |mut walk| async move {
        let read = tokio::task::spawn_blocking(move || walk.next().map(|entries| (walk, entries))).await;
        read.unwrap_or_else(|error| Err(StoreError::Failed(error.into())))
    })
}

fn missing(what: &'static str) -> StoreError {
    corrupt(what, "it is not there; `daftar verify` says what is wrong with the register")
}

/// The version of the record that stored bytes hold, and its photo.
fn looked_into(
    kind: RecordKind,
    id: RecordId,
    value: &[u8],
) -> Result<(daftar_domain::record::VersionId, Option<daftar_domain::photo::PhotoReference>), StoreError> {
    let record = record::decode_any(kind, id, value)?;
    Ok((record.place().2, record.photo()))
}
