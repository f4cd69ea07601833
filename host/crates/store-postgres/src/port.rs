//! The port: writes are jobs of the tasks that write; each read is one statement, and sees each write completely or not
//! at all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::client::{Client, ClientId};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};
use daftar_domain::deployment::Setting;
use daftar_domain::field::FieldSet;
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, REMEMBERED_FOR};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoReference;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::audit_log::{AuditRemoval, AuditRemoved, Waiting};
use daftar_store::change_log::{CHANGES_MAX, HistoryMark, RegisterId, Touched};
use daftar_store::record::fields::Selection;
use daftar_store::record::instant::milliseconds;
use daftar_store::record::setting::{SettingKind, SettingRange};
use daftar_store::{
    ChangeSink, Committed, IdentifierOwner, SCAN_RECORDS_MAX, Store, StoreError, StoredCodeTable, Write, record,
};

use super::audit_writer::AuditJob;
use super::codes::{PARTS, parts_of};
use super::failure::{Failure, Meaning, corrupt};
use super::index::Instant;
use super::rows::{column, kind_number, number, record_of, request_of, selected_of, signed};
use super::writer::{JOBS_PER_GROUP_MAX, Job};
use super::{PostgresStore, sent};

/// Raises a counter; does nothing if it is higher.
pub(super) const RAISE_COUNTER: &str = "INSERT INTO daftar.counter AS present (name, value) VALUES ($1, $2) \
                                        ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value \
                                        WHERE present.value < EXCLUDED.value";

/// The end of the settings whose keys begin with those bytes: the first kind and key after them.
fn end_of(kind: SettingKind, prefix: &[u8]) -> (i16, Vec<u8>) {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return (kind as i16, end);
        }
    }
    (kind as i16 + 1, end)
}

/// Number of requests that one statement deletes: writes wait for each only briefly.
const FORGOTTEN_AT_ONCE: i64 = 5_000;

#[async_trait::async_trait]
impl Store for PostgresStore {
    fn attach_sink(&self, sink: Arc<dyn ChangeSink>) -> Result<Sequence, StoreError> {
        self.sink.set(sink).map_err(|_| StoreError::SinkAttached)?;
        Ok(Sequence(self.last_sequence.load(Ordering::Acquire)))
    }

    fn readiness(&self) -> Result<(), StoreError> {
        if self.database.is_unavailable() && !self.feed.is_listening() {
            return Err(StoreError::Failed("the database does not respond".into()));
        }
        self.check_tasks()?;
        if self.sink.get().is_some() { Ok(()) } else { Err(StoreError::NotReady) }
    }

    fn writes_at_once(&self) -> usize {
        // A group is a dozen statements and a commit, of any size.
        (JOBS_PER_GROUP_MAX + JOBS_PER_GROUP_MAX / 2).min(self.queue_writes_max / 2).max(1)
    }

    async fn commit(&self, write: Write) -> Result<Committed, StoreError> {
        self.write(write, None).await
    }

    async fn commit_once(&self, write: Write, request: IdempotentRequest) -> Result<Committed, StoreError> {
        self.write(write, Some(Box::new(request))).await
    }

    async fn remembered(
        &self,
        client: &ClientId,
        key: &IdempotencyKey,
    ) -> Result<Vec<Arc<IdempotentRequest>>, StoreError> {
        let statement = "SELECT client, key, part, value FROM daftar.request \
                         WHERE client = $1 AND key = $2 ORDER BY part";
        let rows = self.database.query(statement, &[&client.as_str(), &key.as_str()]).await?;
        rows.iter().map(request_of).collect()
    }

    async fn remembered_count(&self, client: &ClientId) -> Result<u64, StoreError> {
        let row = self
            .database
            .query_opt("SELECT count(*) FROM daftar.request WHERE client = $1", &[&client.as_str()])
            .await?;
        row.map_or(Ok(0), |row| number(&row, 0))
    }

    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        // A request that is stored again in the meantime stays: it has another row by then.
        let statement = "WITH old AS (SELECT client, key, part FROM daftar.request WHERE at <= $1 LIMIT $2), \
                         gone AS (DELETE FROM daftar.request AS request USING old \
                                  WHERE (request.client, request.key, request.part) = (old.client, old.key, old.part) \
                                  AND request.at <= $1 RETURNING 1) \
                         SELECT count(*) FROM gone";
        // To the millisecond, the precision of stored requests.
        let stored_for = i64::try_from(REMEMBERED_FOR.as_millis()).unwrap_or(i64::MAX);
        let stored_after = Instant(milliseconds(now).saturating_sub(stored_for));
        let mut forgotten = 0;
        loop {
            let row = self.database.query_opt(statement, &[&stored_after, &FORGOTTEN_AT_ONCE]).await?;
            let gone = row.map_or(Ok(0), |row| number(&row, 0))?;
            forgotten += gone;
            if gone < FORGOTTEN_AT_ONCE.unsigned_abs() {
                return Ok(forgotten);
            }
        }
    }

    async fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<ChangedRecord>, StoreError> {
        let statement = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id = $2";
        let row = self.database.query_opt(statement, &[&kind_number(kind), &signed(id.0)]).await?;
        row.map(|row| record_of(kind, &row)).transpose()
    }

    async fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<ChangedRecord>, StoreError> {
        self.records_with(kind, ids, &FieldSet::All).await
    }

    async fn records_with(
        &self,
        kind: RecordKind,
        ids: &[RecordId],
        fields: &FieldSet,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        let selection = Selection::of(kind, fields);
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let statement = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id = ANY($2)";
        let requested: Vec<i64> = ids.iter().map(|id| signed(id.0)).collect();
        let mut found = HashMap::with_capacity(ids.len());
        for row in self.database.query(statement, &[&kind_number(kind), &requested]).await? {
            found.insert(RecordId(number(&row, 0)?), selected_of(kind, &row, selection.as_ref())?);
        }
        Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
    }

    async fn record_version(
        &self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
    ) -> Result<Option<ChangedRecord>, StoreError> {
        let statement = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id = $2 AND version = $3 \
                         UNION ALL \
                         SELECT id, value FROM daftar.earlier_version WHERE kind = $1 AND id = $2 AND version = $3";
        let row = self.database.query_opt(statement, &[&kind_number(kind), &signed(id.0), &signed(version.0)]).await?;
        row.map(|row| record_of(kind, &row)).transpose()
    }

    async fn scan_records(
        &self,
        kind: RecordKind,
        after: RecordId,
        limit: usize,
    ) -> Result<Vec<ChangedRecord>, StoreError> {
        let statement = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3";
        let limit = signed(limit.min(SCAN_RECORDS_MAX) as u64);
        let rows = self.database.query(statement, &[&kind_number(kind), &signed(after.0), &limit]).await?;
        rows.iter().map(|row| record_of(kind, row)).collect()
    }

    async fn photo(&self, reference: PhotoReference) -> Result<Option<Arc<[u8]>>, StoreError> {
        let statement = "SELECT bytes FROM daftar.photo WHERE digest = $1";
        let row = self.database.query_opt(statement, &[&reference.digest.0.as_slice()]).await?;
        let Some(row) = row else { return Ok(None) };
        let bytes: &[u8] = column(&row, 0)?;
        Ok((bytes.len() == reference.length as usize).then(|| bytes.into()))
    }

    async fn open_membership(&self, slot: MembershipSlot) -> Result<Option<RecordId>, StoreError> {
        let statement = "SELECT membership FROM daftar.open_membership \
                         WHERE program = $1 AND beneficiary_kind = $2 AND beneficiary = $3";
        let kind = kind_number(slot.beneficiary.kind.record_kind());
        let row = self
            .database
            .query_opt(statement, &[&signed(slot.program.0), &kind, &signed(slot.beneficiary.id.0)])
            .await?;
        row.map(|row| number(&row, 0).map(RecordId)).transpose()
    }

    async fn identifier_owners(
        &self,
        kind: RecordKind,
        key: &IdentifierKey,
        limit: usize,
    ) -> Result<Vec<IdentifierOwner>, StoreError> {
        self.lookups.owners(kind, key, limit).await
    }

    async fn clients(&self) -> Result<Vec<Client>, StoreError> {
        let rows = self.database.query("SELECT value FROM daftar.client ORDER BY id", &[]).await?;
        rows.iter().map(|row| record::client::decode(column(row, 0)?)).collect()
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let kinds = SettingKind::OF_DEPLOYMENT.map(|kind| kind as i16).to_vec();
        let statement = "SELECT kind, value FROM daftar.setting WHERE kind = ANY($1) ORDER BY kind, key";
        let rows = self.database.query(statement, &[&kinds]).await?;
        rows.iter().map(|row| record::setting::decode(setting_kind(column(row, 0)?)?, column(row, 1)?)).collect()
    }

    async fn settings_of(&self, kind: SettingKind, range: SettingRange<'_>) -> Result<Vec<Setting>, StoreError> {
        let statement = "SELECT value FROM daftar.setting \
                         WHERE (kind, key) >= ($1, $2) AND (kind, key) < ($3, $4) AND key > $5 \
                         ORDER BY kind, key LIMIT $6";
        let SettingRange { prefix, after, limit } = range;
        let first = if after.is_empty() { prefix } else { after };
        let (end_kind, end) = end_of(kind, prefix);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.query(statement, &[&(kind as i16), &first, &end_kind, &end, &after, &limit]).await?;
        rows.iter().map(|row| record::setting::decode(kind, column(row, 0)?)).collect()
    }

    async fn setting_count(&self, kind: SettingKind, prefix: &[u8]) -> Result<u64, StoreError> {
        let statement = "SELECT count(*) FROM daftar.setting WHERE (kind, key) >= ($1, $2) AND (kind, key) < ($3, $4)";
        let (end_kind, end) = end_of(kind, prefix);
        let rows = self.database.query(statement, &[&(kind as i16), &prefix, &end_kind, &end]).await?;
        rows.first().map_or(Ok(0), |row| number(row, 0))
    }

    async fn code_table(&self) -> Result<StoredCodeTable, StoreError> {
        let rows = self.database.query(PARTS, &[&0_i64, &i64::MAX]).await?;
        let mut table = StoredCodeTable::default();
        for (expected, (number, part)) in (0..).zip(parts_of(&rows)?) {
            if number != expected {
                return Err(corrupt("code table", "a part before it is missing"));
            }
            table.codes.extend(part.codes);
            table.editions.extend(part.editions);
        }
        Ok(table)
    }

    async fn code_count(&self) -> Result<u64, StoreError> {
        let rows = self.database.query("SELECT COALESCE(max(number) + 1, 0) FROM daftar.code", &[]).await?;
        rows.first().map_or(Ok(0), |row| number(row, 0))
    }

    async fn number_codes(
        &self,
        codes: Vec<CodeUri>,
        editions: Vec<(Namespace, String)>,
    ) -> Result<(Vec<CodeNumber>, Vec<EditionNumber>), StoreError> {
        self.ask(|answer| Job::Number(codes, editions, answer)).await
    }

    async fn append_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        // After a panic of the task, its pending entries stay in the buffer, and later ones would only join them.
        let jobs = self.audit_jobs()?;
        // When the database is available again, pending entries are written before new ones are accepted.
        let lines_wait = self.lines_wait.load(Ordering::Acquire);
        if lines_wait && (self.database.is_unavailable() || self.write_audit().await.is_err()) {
            // The task that writes them has logged the reason.
            return Err(Failure::new(Meaning::Unreachable, "the audit log cannot be written now").into());
        }
        let hint = match self.audit.add(entries)? {
            Waiting::First => AuditJob::Waits,
            Waiting::Full => AuditJob::Write(None),
            Waiting::More => return Ok(()),
        };
        match sent(&jobs, hint) {
            // The task has pending work, and writes the entries along with it.
            Ok(()) | Err(StoreError::Overloaded) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn audit_page(
        &self,
        query: AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        self.write_audit().await?;
        self.database.audit_page(&query, before, bounds).await
    }

    async fn remove_audit(&self, removal: AuditRemoval) -> Result<Option<AuditRemoved>, StoreError> {
        if let Some(removed) = self.database.drop_audit_month(&removal).await? {
            return Ok(Some(removed));
        }
        let old = self.database.audit_older_than(&removal).await?;
        if old.is_empty() {
            return Ok(None);
        }
        self.ask(|answer| Job::RemoveAudit(Box::new((old, removal)), answer)).await
    }

    async fn register_id(&self) -> Result<RegisterId, StoreError> {
        Ok(self.register)
    }

    async fn changes_after(&self, after: Sequence, limit: usize) -> Result<Vec<Touched>, StoreError> {
        let statement = "SELECT sequence, value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let mut changes = Vec::new();
        let mut expected = after.next();
        for row in self.database.query(statement, &[&signed(after.0), &signed(limit.min(CHANGES_MAX) as u64)]).await? {
            if number(&row, 0)? != expected.0 {
                return Err(corrupt("order of writes", "a write is missing"));
            }
            changes.push(Touched { sequence: expected, records: record::change::touched(column(&row, 1)?)? });
            expected = expected.next();
        }
        Ok(changes)
    }

    async fn history_mark(&self, at: Sequence) -> Result<Option<HistoryMark>, StoreError> {
        if at == Sequence::default() {
            return Ok(Some(HistoryMark::new(self.register, at, &[])));
        }
        let row =
            self.database.query_opt("SELECT value FROM daftar.change WHERE sequence = $1", &[&signed(at.0)]).await?;
        row.map(|row| Ok(HistoryMark::new(self.register, at, column(&row, 0)?))).transpose()
    }

    async fn raise_counter(&self, name: &str, value: u64) -> Result<(), StoreError> {
        self.database.query(RAISE_COUNTER, &[&name, &signed(value)]).await.map(drop)
    }

    async fn counter(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let row = self.database.query_opt("SELECT value FROM daftar.counter WHERE name = $1", &[&name]).await?;
        row.map(|row| number(&row, 0)).transpose()
    }

    async fn counters(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let statement =
            "SELECT name, value FROM daftar.counter WHERE starts_with(name, $1) AND name >= $1 ORDER BY name";
        let rows = self.database.query(statement, &[&prefix]).await?;
        rows.iter().map(|row| Ok((column(row, 0)?, number(row, 1)?))).collect()
    }

    async fn remove_counters(&self, prefix: &str) -> Result<(), StoreError> {
        let statement = "DELETE FROM daftar.counter WHERE starts_with(name, $1) AND name >= $1";
        self.database.query(statement, &[&prefix]).await.map(drop)
    }
}

/// The kind of settings of that number.
pub(super) fn setting_kind(number: i16) -> Result<SettingKind, StoreError> {
    let kind = SettingKind::ALL.into_iter().find(|kind| *kind as i16 == number);
    kind.ok_or_else(|| corrupt("setting", "it is of no kind that this daftar knows"))
}
