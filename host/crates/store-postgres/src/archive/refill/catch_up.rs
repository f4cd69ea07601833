//! Later writes of the source, as rows: rows that they replace are deleted first.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use sha2::{Digest, Sha256};

use daftar_domain::record::RecordKind;
use daftar_store::archive::{ApplyReport, Entry, Held, ItemKind, Mark, OLDEST_AUDIT};
use daftar_store::record;
use daftar_store::record::setting::key_bytes;

use super::filling::Filling;
use crate::audit_row;
use crate::failure::corrupt;
use crate::group::Broken;
use crate::index::Increments;
use crate::options::BulkLimits;
use crate::rows::{column, kind_number, number, signed};
use crate::state::{Locked, code_names};

/// The last key of each kind, and how many records of it searches count.
const LAST_ROWS: &str = "SELECT last.id, \
                         COALESCE((SELECT record.id FROM daftar.record AS record WHERE record.kind = last.kind \
                                   ORDER BY record.id DESC LIMIT 1), 0), \
                         COALESCE((SELECT tally.records FROM daftar.search_tally AS tally \
                                   WHERE tally.kind = last.kind AND tally.term = ''), 0) \
                         FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS last (kind, id, place) ORDER BY last.place";

/// A database that is being caught up.
pub(super) struct IncrementalApply {
    held: Held,
    filling: Filling,
    known: Known,
    /// Received values of the part of the audit log that is stored already; `None` once they were compared.
    old_audit: Option<BTreeMap<u64, Vec<u8>>>,
    brought: ApplyReport,
}

impl IncrementalApply {
    /// Nothing is applied yet.
    pub(super) async fn begin(
        transaction: &Transaction<'_>,
        held: Held,
        locked: Locked,
        bulk: BulkLimits,
    ) -> Result<Self, Broken> {
        let known = Known::read(transaction).await?;
        let names = code_names(transaction, locked.code_table_parts).await?;
        let filling = Filling::on(locked, names, (held.audit, held.removal), bulk);
        Ok(Self { held, filling, known, old_audit: Some(BTreeMap::new()), brought: ApplyReport::default() })
    }

    /// Applies entries in the order in which they are received.
    pub(super) async fn put(&mut self, transaction: &Transaction<'_>, entries: Vec<Entry>) -> Result<(), Broken> {
        let mut new = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry {
                Entry::Audit { number, value } if number <= self.held.audit => match &mut self.old_audit {
                    Some(old_audit) => drop(old_audit.insert(number, value)),
                    None => return Err(corrupt("audit log", "an old value comes after a new one").into()),
                },
                entry if self.known.holds(&entry)? => {}
                entry => {
                    if matches!(entry, Entry::Audit { .. }) {
                        self.settle_old_audit(transaction).await?;
                    }
                    *self.brought.written.entry(entry.kind()).or_default() += 1;
                    new.push(entry);
                }
            }
        }
        self.known.clear_replaced(transaction).await?;
        self.filling.put(transaction, new).await
    }

    /// Writes pending rows, and the last position. Committing is left to the caller, if anything was applied.
    pub(super) async fn finish(mut self, transaction: &Transaction<'_>, mark: &Mark) -> Result<ApplyReport, Broken> {
        self.settle_old_audit(transaction).await?;
        self.known.take_out(transaction, &mut self.brought.taken_out).await?;
        if self.brought.is_empty() {
            return Ok(self.brought);
        }
        self.filling.finish(transaction, Some(self.held.register), Increments::default()).await?;
        let last = self.filling.last();
        if last.sequence != mark.sequence || mark.records.iter().any(|(kind, count)| last.key(*kind) != *count) {
            return Err(corrupt("register", "a later write lists fewer records than it wrote").into());
        }
        self.check_rows(transaction, mark).await?;
        let photos = self.filling.photos;
        if let Some(met) = &self.filling.met {
            met.check_settled()?;
            // Versions that were stored before were inserted again.
            subtract(&mut self.brought.written, ItemKind::OlderVersions, met.older_versions);
        }
        self.brought.written.remove(&ItemKind::Photos);
        if photos > 0 {
            self.brought.written.insert(ItemKind::Photos, photos);
        }
        Ok(self.brought)
    }

    /// Deletes entries that the source removed from its audit log, and writes their report; once, before new entries.
    async fn settle_old_audit(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        let Some(old_audit) = self.old_audit.take() else { return Ok(()) };
        let last_oldest = old_audit.keys().nth(OLDEST_AUDIT.saturating_sub(1)).copied();
        // If fewer were received, there are no others.
        let up_to = signed(last_oldest.unwrap_or(self.held.audit));
        let numbers: Vec<i64> = old_audit.keys().map(|number| signed(*number)).collect();
        let statement = "WITH gone AS (DELETE FROM daftar.audit WHERE number < $1::bigint * 256 + 256 AND number / 256 <> ALL($2::bigint[]) \
                         RETURNING number / 256 AS value) SELECT count(DISTINCT value) FROM gone";
        let removed = number(&transaction.query_one(statement, &[&up_to, &numbers]).await?, 0)?;
        if removed > 0 {
            *self.brought.taken_out.entry(ItemKind::AuditValues).or_default() += removed;
        }
        let statement = format!(
            "SELECT {} FROM unnest($1::bigint[]) AS asked (value) JOIN daftar.audit \
             ON number >= asked.value * 256 AND number < asked.value * 256 + 256 ORDER BY number",
            audit_row::COLUMNS
        );
        let there = audit_row::values_of(&transaction.query(&statement, &[&numbers]).await?)?;
        let mut changed = Vec::new();
        for (value, bytes) in there {
            // A value that cannot be read is written again.
            if let Some(now) = old_audit.get(&value).filter(|now| bytes.ok().as_ref() != Some(*now)) {
                changed.push((value, record::audit::decode(now)?));
            }
        }
        if !changed.is_empty() {
            *self.brought.written.entry(ItemKind::AuditValues).or_default() += changed.len() as u64;
            audit_row::replace(transaction, &changed).await?;
        }
        Ok(())
    }

    /// Compares the stored rows with the position of the source.
    async fn check_rows(&self, transaction: &Transaction<'_>, mark: &Mark) -> Result<(), Broken> {
        let (kinds, last): (Vec<i16>, Vec<i64>) =
            mark.records.iter().map(|(kind, count)| (kind_number(*kind), signed(*count))).unzip();
        let rows = transaction.query(LAST_ROWS, &[&kinds, &last]).await?;
        for ((kind, _), row) in mark.records.iter().zip(&rows) {
            let (last, there, counted): (i64, i64, i64) = (column(row, 0)?, column(row, 1)?, column(row, 2)?);
            // Programs are few, and not counted.
            if there != last || (*kind != RecordKind::Program && counted != last) {
                return Err(corrupt("register in the database", "it has fewer or more records than the source").into());
            }
        }
        Ok(())
    }
}

fn subtract(counts: &mut BTreeMap<ItemKind, u64>, stored: ItemKind, count: u64) {
    let left = counts.get(&stored).copied().unwrap_or(0).saturating_sub(count);
    if left == 0 {
        counts.remove(&stored);
    } else {
        counts.insert(stored, left);
    }
}

/// Key of a stored item.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Name {
    Setting(i16, Vec<u8>),
    Client(String),
    Counter(String),
    Request(String, String, i32),
}

impl Name {
    fn kind(&self) -> ItemKind {
        match self {
            Self::Setting(..) => ItemKind::Settings,
            Self::Client(_) => ItemKind::Clients,
            Self::Counter(_) => ItemKind::Counters,
            Self::Request(..) => ItemKind::Requests,
        }
    }
}

/// Items that the database contains.
pub(super) struct Known {
    /// Digests of the values of items that the source did not send so far.
    there: HashMap<Name, [u8; 32]>,
    /// Items whose value differs in the source.
    replaced: Vec<Name>,
}

impl Known {
    /// Reads the names and the digests of the values.
    pub(super) async fn read(transaction: &Transaction<'_>) -> Result<Self, Broken> {
        let mut there = HashMap::new();
        let digest =
            |bytes: &[u8]| <[u8; 32]>::try_from(bytes).map_err(|_| corrupt("digest of a value", "it has not 32 bytes"));
        for row in transaction.query("SELECT kind, key, sha256(value) FROM daftar.setting", &[]).await? {
            there.insert(Name::Setting(column(&row, 0)?, column(&row, 1)?), digest(column(&row, 2)?)?);
        }
        for row in transaction.query("SELECT id, sha256(value) FROM daftar.client", &[]).await? {
            there.insert(Name::Client(column(&row, 0)?), digest(column(&row, 1)?)?);
        }
        for row in transaction.query("SELECT name, value FROM daftar.counter", &[]).await? {
            let value: i64 = column(&row, 1)?;
            there.insert(Name::Counter(column(&row, 0)?), Sha256::digest(value.to_be_bytes()).into());
        }
        for row in transaction.query("SELECT client, key, part, sha256(value) FROM daftar.request", &[]).await? {
            let name = Name::Request(column(&row, 0)?, column(&row, 1)?, column(&row, 2)?);
            there.insert(name, digest(column(&row, 3)?)?);
        }
        Ok(Self { there, replaced: Vec::new() })
    }

    /// True if the database contains the same entry.
    pub(super) fn holds(&mut self, entry: &Entry) -> Result<bool, Broken> {
        let (name, digest) = match entry {
            Entry::Setting { kind, value } => {
                let key = key_bytes(&record::setting::decode(*kind, value)?.key());
                (Name::Setting(*kind as i16, key), Sha256::digest(value))
            }
            Entry::Client { value } => {
                let id = record::client::decode(value)?.id.as_str().to_owned();
                (Name::Client(id), Sha256::digest(value))
            }
            Entry::Counter { name, value } => (Name::Counter(name.clone()), Sha256::digest(value.to_be_bytes())),
            Entry::Request { name, value } => {
                let (client, key) = (name.client.as_str().to_owned(), name.key.as_str().to_owned());
                (Name::Request(client, key, i32::from(name.part)), Sha256::digest(value))
            }
            Entry::CodeTablePart { .. }
            | Entry::Photo { .. }
            | Entry::Version { .. }
            | Entry::Change { .. }
            | Entry::Audit { .. } => return Ok(false),
        };
        match self.there.remove(&name) {
            Some(there) if there == <[u8; 32]>::from(digest) => Ok(true),
            Some(_) => {
                self.replaced.push(name);
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// Deletes items whose value differs in the source.
    pub(super) async fn clear_replaced(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        remove(transaction, std::mem::take(&mut self.replaced)).await
    }

    /// Deletes items that the source did not send, and counts them.
    pub(super) async fn take_out(
        &mut self,
        transaction: &Transaction<'_>,
        taken_out: &mut BTreeMap<ItemKind, u64>,
    ) -> Result<(), Broken> {
        let left: Vec<Name> = std::mem::take(&mut self.there).into_keys().collect();
        for name in &left {
            *taken_out.entry(name.kind()).or_default() += 1;
        }
        remove(transaction, left).await
    }
}

async fn remove(transaction: &Transaction<'_>, names: Vec<Name>) -> Result<(), Broken> {
    let (mut clients, mut counters) = (Vec::new(), Vec::new());
    let (mut kinds, mut keys) = (Vec::new(), Vec::new());
    let (mut of_clients, mut called, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        match name {
            Name::Setting(kind, key) => {
                kinds.push(kind);
                keys.push(key);
            }
            Name::Client(id) => clients.push(id),
            Name::Counter(name) => counters.push(name),
            Name::Request(client, key, part) => {
                of_clients.push(client);
                called.push(key);
                parts.push(part);
            }
        }
    }
    if !kinds.is_empty() {
        let statement = "DELETE FROM daftar.setting AS setting USING unnest($1::smallint[], $2::bytea[]) \
                         AS gone (kind, key) WHERE setting.kind = gone.kind AND setting.key = gone.key";
        transaction.execute(statement, &[&kinds, &keys]).await?;
    }
    if !clients.is_empty() {
        transaction.execute("DELETE FROM daftar.client WHERE id = ANY($1)", &[&clients]).await?;
    }
    if !counters.is_empty() {
        transaction.execute("DELETE FROM daftar.counter WHERE name = ANY($1)", &[&counters]).await?;
    }
    if !parts.is_empty() {
        let statement = "DELETE FROM daftar.request AS request \
                         USING unnest($1::text[], $2::text[], $3::integer[]) AS gone (client, key, part) \
                         WHERE request.client = gone.client AND request.key = gone.key AND request.part = gone.part";
        transaction.execute(statement, &[&of_clients, &called, &parts]).await?;
    }
    Ok(())
}
