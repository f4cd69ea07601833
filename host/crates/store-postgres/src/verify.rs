//! The stored values of the database, for [`daftar_store::verify`]: one read-only transaction that sees nothing newer.
//!
//! **Invariant:** one statement reads a page of values, not a single one, with the data that its checks require.

mod numbered;
mod prefetch;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_postgres::{Row, Statement};

use daftar_domain::change::ChangedRecord;
use daftar_domain::client::ClientId;
use daftar_domain::identifier::{IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::verification::{Finding, Part, Remedy, number_name, record_name};
use daftar_store::record::json::CodeNames;
use daftar_store::verify::{
    AtRest, RawHolder, RawOwners, RawPage, RawValue, RawValues, Table, finding, photo_name, undecodable, unreadable,
};
use daftar_store::{IdentifierOwner, StoreError, record};

use self::prefetch::Prefetched;
use super::PostgresStore;
use super::archive::BEGIN;
use super::audit_row;
use super::database::{Link, Values};
use super::failure::{Failure, Meaning, corrupt};
use super::index;
use super::port::setting_kind;
use super::rows::{
    Json, binary_of, client_cells, column, kind_number, kind_of, number, record_of, request_name, signed,
};

/// A statement that the database rejects, as it does on damage, rolls back to this savepoint only.
pub(super) const SAVE: &str = "SAVEPOINT verification";
const BACK: &str = "ROLLBACK TO SAVEPOINT verification";
/// A page of values may be read from a busy disk.
const PATIENCE: Duration = Duration::from_secs(600);
/// Approximate size of a page of values, in bytes.
const PAGE_BYTES: u64 = 1024 * 1024;

/// Number of parts of the code table per statement, of up to 500 codes each.
const CODE_PARTS_AT_ONCE: i64 = 64;

/// One transaction.
pub(super) struct PostgresValues {
    link: Link,
    handle: Handle,
    /// Maximum time to wait for a response.
    patience: Duration,
    /// True if data required by checks is read with the values.
    is_verified: bool,
    /// Statements by their texts. Each is planned for its values.
    prepared: Mutex<HashMap<String, Statement>>,
    beside: Mutex<Prefetched>,
    /// The texts of all codes; `None` before they are read.
    names: Mutex<Option<CodeNames>>,
    failure: Mutex<Option<Failure>>,
}

impl PostgresStore {
    /// Begins a transaction for verification, which reads values with the data that their checks require.
    pub(super) async fn verified_values(&self) -> Result<PostgresValues, StoreError> {
        let link = self.database.link("daftar (verification)").await?;
        let begun = async {
            link.client.batch_execute(BEGIN).await?;
            link.client.batch_execute("SET LOCAL statement_timeout = '10min'").await?;
            Ok::<_, Failure>(link.client.batch_execute(SAVE).await?)
        };
        let begun = tokio::time::timeout(self.database.answer_timeout(), begun).await;
        begun.unwrap_or_else(|_| Err(Failure::slow()))?;
        Ok(PostgresValues::new(link, PATIENCE, true))
    }
}

/// The finding that a row is invalid.
fn wrong(error: &StoreError) -> Finding {
    wrong_row(Part::Files, error)
}

/// As [`wrong`], of a row of that part.
fn wrong_row(part: Part, error: &StoreError) -> Finding {
    finding(part, "a row", error.to_string(), Remedy::Restore)
}

/// Size of a value, for a table of bytes and for one of stored JSON.
const BYTES: &str = "octet_length(value)";
/// Most values are not compressed, and are not converted to text to be measured.
const JSON_BYTES: &str = "CASE WHEN pg_column_compression(value) IS NULL THEN pg_column_size(value) \
                          ELSE octet_length(value::text) END";

/// Returns the first of these rows in that order, up to about a mebibyte of values of that size; at least one. The last
/// column has the size of the row and all rows before it: from [`PAGE_BYTES`] on, more rows may follow.
fn bounded(rows: &str, order: &str, size: &str) -> String {
    // `OFFSET 0` keeps the database from measuring each row several times.
    let sized = format!("SELECT page.*, {size} AS bytes FROM ({rows}) AS page OFFSET 0");
    format!(
        "SELECT * FROM (SELECT sized.*, sum(bytes) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) AS until \
         FROM ({sized}) AS sized) AS page WHERE until - bytes < {PAGE_BYTES} ORDER BY {order}"
    )
}

impl PostgresValues {
    /// The values that a transaction with a savepoint sees.
    pub(super) fn new(link: Link, patience: Duration, is_verified: bool) -> Self {
        Self {
            link,
            handle: Handle::current(),
            patience,
            is_verified,
            prepared: Mutex::default(),
            beside: Mutex::default(),
            names: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<String, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prefetched(&self) -> MutexGuard<'_, Prefetched> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the database. A rejected statement is a finding; a lost connection ends the run.
    fn wait<T>(&self, requested: impl Future<Output = Result<T, Failure>>) -> Result<T, Finding> {
        let limited =
            async { tokio::time::timeout(self.patience, requested).await.unwrap_or_else(|_| Err(Failure::slow())) };
        self.handle.block_on(limited).map_err(|failure| {
            let refused = unreadable(&failure);
            let is_back = failure.meaning == Meaning::Refused
                && self.handle.block_on(self.link.client.batch_execute(BACK)).is_ok();
            if !is_back {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
            refused
        })
    }

    fn query(&self, statement: &str, values: Values<'_>) -> Result<Vec<Row>, Finding> {
        self.wait(async {
            let known = self.prepared().get(statement).cloned();
            let statement = match known {
                Some(known) => known,
                None => {
                    let prepared = self.link.client.prepare(statement).await?;
                    self.prepared().insert(statement.to_owned(), prepared.clone());
                    prepared
                }
            };
            Ok(self.link.client.query(&statement, values).await?)
        })
    }

    /// Reads the next rows of a table that is read sequentially.
    fn fetch(&self, statement: &str, is_first: bool, limit: usize) -> Result<Vec<Row>, Finding> {
        self.wait(async {
            if is_first {
                let declare = format!("CLOSE ALL; DECLARE verified NO SCROLL CURSOR FOR {statement}");
                self.link.client.batch_execute(&declare).await?;
                // Statements that are rejected from now on leave the cursor open.
                self.link.client.batch_execute(&format!("RELEASE {SAVE}; {SAVE}")).await?;
            }
            Ok(self.link.client.query(&format!("FETCH {limit} FROM verified"), &[]).await?)
        })
    }

    fn read_page(&self, table: Table, after: Option<&[u8]>, limit: usize) -> Result<RawPage, Finding> {
        *self.prefetched() = Prefetched::default();
        match table {
            Table::Codes | Table::Changes => self.numbered_page(table, after, limit),
            Table::Audit => self.audit_page(after, limit),
            // The indexes of the database replace these.
            Table::AuditSummaries => Ok(RawPage::default()),
            Table::Records(kind) => self.records_page(kind, after, limit),
            Table::SearchRows => self.search_rows_page(after, limit),
            Table::Others => self.last_numbers(),
            Table::History
            | Table::Identifiers
            | Table::OpenMemberships
            | Table::Photos
            | Table::Requests
            | Table::Settings
            | Table::Clients
            | Table::Counters => self.cursor_page(table, after.is_none(), limit),
        }
    }

    /// A page by number. The code table begins with 0, the others with 1.
    fn numbered_page(&self, table: Table, after: Option<&[u8]>, limit: usize) -> Result<RawPage, Finding> {
        if table == Table::Codes {
            return self.codes_page(after.map_or(-1, number_after));
        }
        let (name, key) = numbered_table(table);
        let rows = format!("SELECT {key}, value FROM daftar.{name} WHERE {key} > $1 ORDER BY {key} LIMIT $2");
        let after = after.map_or(-1, number_after);
        let rows = self.query(&bounded(&rows, key, BYTES), &[&after, &signed(limit as u64)])?;
        let read = |row: &Row| Ok((number(row, 0)?, column::<Vec<u8>>(row, 1)?));
        let mut page = RawPage::default();
        for row in &rows {
            match read(row) {
                Ok((number, value)) => {
                    page.next = Some(number.to_be_bytes().to_vec());
                    page.values.push(RawValue::Numbered(number, value));
                }
                Err(error) => page.values.push(RawValue::Checked(Some(wrong_row(table.part(), &error)))),
            }
        }
        Ok(page)
    }

    /// Reads around a row that the database rejects: rows one by one up to it, then past it, with a finding on it.
    fn page_around(
        &self,
        table: Table,
        after: Option<&[u8]>,
        limit: usize,
        refused: Finding,
    ) -> Result<RawPage, Finding> {
        // For rows of the index: the table.
        let step =
            after.filter(|_| table == Table::SearchRows).map_or(&[0][..], |after| after.get(..1).unwrap_or_default());
        let kind_at = |step: u8| index::KINDS.get(usize::from(step)).copied();
        let kind = match table {
            Table::Records(kind) => Some(kind),
            Table::SearchRows => step.first().and_then(|step| kind_at(*step)),
            _ => None,
        };
        let (name, key) = match (table, kind) {
            (_, Some(_)) => ("record", "id"),
            (Table::Codes | Table::Changes | Table::Audit, None) => numbered_table(table),
            _ => return Err(refused),
        };
        if self.failure().is_some() {
            return Err(refused);
        }
        if limit > 1
            && let Ok(page) = self.read_page(table, after, 1)
        {
            return Ok(page);
        }
        let of_kind = if kind.is_some() { "kind = $2" } else { "$2 >= 0::smallint" };
        let statement =
            format!("SELECT {key} FROM daftar.{name} WHERE {key} > $1 AND {of_kind} ORDER BY {key} LIMIT 1");
        let (is_search, of) = (table == Table::SearchRows, kind.map_or(0, kind_number));
        let after = after.map(|after| if is_search { after.get(1..).unwrap_or_default() } else { after });
        let rows = self.query(&statement, &[&after.map_or(-1, number_after), &of])?;
        let Some(row) = rows.first() else { return Err(refused) };
        let number = number(row, 0).map_err(|error| wrong(&error))?;
        let place = kind
            .map_or_else(|| format!("the row with the number {number}"), |kind| number_name(kind, RecordId(number)));
        let found = finding(table.part(), place, refused.problem, Remedy::Restore);
        let next = Some([if is_search { step } else { &[] }, number.to_be_bytes().as_slice()].concat());
        let found = if is_search { RawValue::Checked(Some(found)) } else { RawValue::Refused(number, found) };
        Ok(RawPage { values: vec![found], next, unreadable: None })
    }

    /// Records with the data that their checks require.
    fn records_page(&self, kind: RecordKind, after: Option<&[u8]>, limit: usize) -> Result<RawPage, Finding> {
        let rows = "SELECT id, value, version FROM daftar.record WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3";
        let (of, after) = (kind_number(kind), after.map_or(0, number_after));
        let rows = self.query(&bounded(rows, "id", JSON_BYTES), &[&of, &after, &signed(limit as u64)])?;
        let (mut page, mut versions) = (RawPage::default(), Vec::new());
        for row in &rows {
            let (id, json, version) = match record_row(row) {
                Ok(read) => read,
                Err(error) => {
                    page.values.push(RawValue::Checked(Some(wrong_row(Part::Records, &error))));
                    continue;
                }
            };
            page.next = Some(id.0.to_be_bytes().to_vec());
            let read = record::json::decode(kind, id, json);
            let read = read.and_then(|present| Ok((record::encode_any(&present)?, present)));
            let (value, present) = match read {
                Ok(read) => read,
                Err(error) => {
                    page.values.push(RawValue::Refused(id.0, damaged(kind, id, &error)));
                    continue;
                }
            };
            if self.is_verified {
                let message = check_version(&present, version).err();
                let code = self.check_codes(&present, json)?;
                page.values.extend(message.into_iter().chain(code).map(|found| RawValue::Checked(Some(found))));
                versions.push(present);
            } else {
                check_version(&present, version)?;
            }
            page.values.push(RawValue::Record(id, value));
        }
        let ids = page.values.iter().filter_map(|value| match value {
            RawValue::Record(id, _) => Some(*id),
            _ => None,
        });
        // Rows that are rejected here are read again by the checks, one by one.
        let _refused = self.read_versions(kind, ids.collect());
        if self.is_verified {
            for ((_, id), older) in &self.prefetched().versions {
                versions.extend(older.iter().filter_map(|(_, value)| record::decode_any(kind, *id, value).ok()));
            }
            let _refused = self.prefetch(kind, &versions);
        }
        Ok(page)
    }

    /// Tables that are read sequentially, with the data that the checks of their values require.
    fn cursor_page(&self, table: Table, is_first: bool, limit: usize) -> Result<RawPage, Finding> {
        let statement = match table {
            Table::History => {
                "SELECT older.kind, older.id, older.version, record.id IS NOT NULL FROM daftar.earlier_version AS older \
                 LEFT JOIN daftar.record AS record ON record.kind = older.kind AND record.id = older.id \
                 ORDER BY older.kind, older.id, older.version"
            }
            Table::Identifiers => {
                "SELECT kind, system, value, array_agg(id ORDER BY is_open DESC, id), \
                 array_agg(is_open ORDER BY is_open DESC, id) FROM daftar.identifier \
                 GROUP BY kind, system, value ORDER BY kind, system, value"
            }
            Table::OpenMemberships => {
                "SELECT program, beneficiary_kind, beneficiary, membership FROM daftar.open_membership \
                 ORDER BY program, beneficiary_kind, beneficiary"
            }
            Table::Photos => "SELECT digest, sha256(bytes) = digest FROM daftar.photo ORDER BY digest",
            Table::Requests => "SELECT client, key, part, value FROM daftar.request ORDER BY client, key, part",
            Table::Settings => "SELECT kind, key, value FROM daftar.setting ORDER BY kind, key",
            Table::Clients => "SELECT id, value, name, status FROM daftar.client ORDER BY id",
            _ => "SELECT name, value FROM daftar.counter ORDER BY name",
        };
        let rows = self.fetch(statement, is_first, limit)?;
        let mut named = BTreeSet::new();
        let mut values = Vec::with_capacity(rows.len());
        for row in &rows {
            let read = cursor_row(table, row, &mut self.prefetched(), &mut named);
            values.push(read.unwrap_or_else(|error| RawValue::Checked(Some(wrong_row(table.part(), &error)))));
            if self.is_verified && table == Table::Clients {
                values.extend(check_client(row).map(|found| RawValue::Checked(Some(found))));
            }
        }
        if self.is_verified {
            // Rows that are rejected here are read again by the checks, one by one.
            let _refused = self.read_records(&named, true);
        }
        let next = (rows.len() == limit).then(Vec::new);
        Ok(RawPage { values, next, unreadable: None })
    }

    /// The rows of the index: those of all records, kind by kind, then those without a record. The position is a table
    /// and a key.
    fn search_rows_page(&self, after: Option<&[u8]>, limit: usize) -> Result<RawPage, Finding> {
        let (step, after) =
            after.and_then(<[u8]>::split_first).map_or((0, 0), |(step, key)| (*step, number_after(key)));
        let at = usize::from(step);
        let limit_rows = signed(limit as u64);
        let (rows, values) = if let Some(kind) = index::KINDS.get(at).copied() {
            let statement = "SELECT id, value FROM daftar.record WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3";
            let rows = self.query(statement, &[&kind_number(kind), &after, &limit_rows])?;
            let values = self.compare_rows(kind, &rows)?;
            (rows, values)
        } else {
            let table = at.checked_sub(index::KINDS.len()).and_then(|at| index::TABLES.get(at)).copied();
            let Some((kind, table, key)) = table else { return Ok(RawPage::default()) };
            let rows = self.query(&index::rows_and_records(kind, table, key), &[&after, &limit_rows])?;
            // Counted with their records: only faults are added.
            let found = rows.iter().filter_map(|row| orphan_row(kind, row).transpose()).collect::<Result<Vec<_>, _>>();
            (rows, found.map_err(|error| wrong(&error))?)
        };
        let last = rows.last().map(|row| number(row, 0)).transpose().map_err(|error| wrong(&error))?;
        let next = if rows.len() == limit {
            [&[step], last.unwrap_or_default().to_be_bytes().as_slice()].concat()
        } else {
            [&[step.saturating_add(1)], 0_u64.to_be_bytes().as_slice()].concat()
        };
        Ok(RawPage { values, next: Some(next), unreadable: None })
    }

    fn compare_rows(&self, kind: RecordKind, rows: &[Row]) -> Result<Vec<RawValue>, Finding> {
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            // A record that cannot be read is reported by the check of records.
            records.extend(record_of(kind, row).ok());
        }
        let differing = self.wait(index::differing(&self.link.client, &records))?;
        let checked = records.iter().map(|record| {
            let is_different = differing.binary_search(&signed(record.place().1.0)).is_ok();
            let problem = "the rows that searches read differ from the record";
            let found = || finding(Part::Indexes, record_name(record), problem, Remedy::WriteAgain);
            RawValue::Checked(is_different.then(found))
        });
        Ok(checked.collect())
    }

    /// Compares the row of last numbers with the tables.
    fn last_numbers(&self) -> Result<RawPage, Finding> {
        const LAST: &str = "SELECT individual, \"group\", program, membership, consent, sequence, code_table_parts \
                            FROM daftar.last";
        let tables = RecordKind::ALL.map(Table::Records).into_iter().chain([Table::Changes, Table::Codes]);
        let Some(row) = self.query(LAST, &[])?.into_iter().next() else {
            return Err(wrong(&corrupt("row of last numbers", "it is not there")));
        };
        let mut values = Vec::new();
        for (at, table) in tables.enumerate() {
            let message = number(&row, at).map_err(|error| wrong(&error))?;
            let last = self.last_number(table).map_or(0, |last| last.saturating_add(u64::from(table == Table::Codes)));
            let what = match table {
                Table::Records(kind) => kind.to_string(),
                other => other.part().to_string(),
            };
            let problem = format!("its last number of {what} is {message}, but the last one is {last}");
            let found = || finding(Part::Files, "the row of last numbers", problem, Remedy::Restore);
            values.push(RawValue::Checked((message != last).then(found)));
        }
        Ok(RawPage { values, next: None, unreadable: None })
    }
}

impl RawValues for PostgresValues {
    fn failure(&self) -> Option<StoreError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone().map(StoreError::from)
    }

    fn is_snapshot(&self) -> bool {
        true
    }

    /// A transaction that is rolled back leaves a gap.
    fn audit_gaps(&self) -> (u64, u64) {
        (u64::MAX, 0)
    }

    fn page(&self, table: Table, after: Option<&[u8]>, limit: usize) -> RawPage {
        let unreadable = |finding| RawPage { unreadable: Some(finding), ..RawPage::default() };
        let page = self.read_page(table, after, limit);
        page.or_else(|refused| self.page_around(table, after, limit, refused)).unwrap_or_else(unreadable)
    }

    fn last_number(&self, table: Table) -> Option<u64> {
        let kind = if let Table::Records(kind) = table { kind_number(kind) } else { 0 };
        let statement = match table {
            Table::Codes => {
                "SELECT max(part) FROM (SELECT part FROM daftar.code UNION ALL SELECT part FROM daftar.edition) AS parts \
                 WHERE $1 >= 0::smallint HAVING max(part) IS NOT NULL"
            }
            Table::Records(_) => "SELECT id FROM daftar.record WHERE kind = $1 ORDER BY id DESC LIMIT 1",
            _ => "SELECT sequence FROM daftar.change WHERE $1 >= 0::smallint ORDER BY sequence DESC LIMIT 1",
        };
        number(self.query(statement, &[&kind]).ok()?.first()?, 0).ok()
    }

    fn record(&self, kind: RecordKind, id: RecordId) -> Result<Option<Vec<u8>>, Finding> {
        if !self.prefetched().records.contains_key(&(kind, id)) {
            self.read_records(&BTreeSet::from([(kind, id)]), true)?;
        }
        Ok(self.prefetched().records.get(&(kind, id)).cloned().flatten())
    }

    fn has_record(&self, kind: RecordKind, id: RecordId) -> Result<bool, Finding> {
        let known = self.prefetched().existing.get(&(kind, id)).copied();
        if let Some(is_there) = known {
            return Ok(is_there);
        }
        self.read_records(&BTreeSet::from([(kind, id)]), false)?;
        Ok(self.prefetched().existing.get(&(kind, id)).copied().unwrap_or_default())
    }

    fn records(&self, kind: RecordKind, ids: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>, Finding> {
        let statement = "SELECT id, value, version FROM daftar.record WHERE kind = $1 AND id = ANY($2) ORDER BY id";
        let keys: Vec<i64> = ids.iter().map(|id| signed(id.0)).collect();
        let rows = self.query(statement, &[&kind_number(kind), &keys])?;
        self.read_versions(kind, ids.to_vec())?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let (id, json, version) = record_row(row).map_err(|error| wrong(&error))?;
            let damaged = |error| damaged(kind, id, &error);
            let record = record::json::decode(kind, id, json).map_err(damaged)?;
            check_version(&record, version)?;
            found.push((id, record::encode_any(&record).map_err(damaged)?));
        }
        Ok(found)
    }

    fn versions(
        &self,
        kind: RecordKind,
        id: RecordId,
        after: VersionId,
        limit: usize,
    ) -> Result<Vec<(VersionId, Vec<u8>)>, Finding> {
        if let Some(versions) = self.prefetched().versions.get(&(kind, id)) {
            return Ok(versions.iter().filter(|(version, _)| *version > after).take(limit).cloned().collect());
        }
        let rows = "SELECT id, value, version FROM daftar.earlier_version \
                    WHERE kind = $1 AND id = $2 AND version > $3 ORDER BY version LIMIT $4";
        let values: Values<'_> = &[&kind_number(kind), &signed(id.0), &signed(after.0), &signed(limit as u64)];
        let rows = self.query(&bounded(rows, "version", JSON_BYTES), values)?;
        let version = |row| {
            let (_, json, version) = record_row(row).map_err(|error| wrong(&error))?;
            Ok((version, binary_of(kind, id, json).map_err(|error| damaged(kind, id, &error))?))
        };
        rows.iter().map(version).collect()
    }

    fn owners(&self, kind: RecordKind, key: &IdentifierKey) -> Result<Option<RawOwners>, Finding> {
        let requested = (kind, key.clone());
        if !self.prefetched().owners.contains_key(&requested) {
            self.read_owners(kind, &BTreeSet::from([key.clone()]))?;
        }
        let owners = self.prefetched().owners.get(&requested).cloned().filter(|owners| !owners.is_empty());
        Ok(owners.map(Ok))
    }

    fn holder(&self, slot: MembershipSlot) -> Result<Option<RawHolder>, Finding> {
        if !self.prefetched().holders.contains_key(&slot) {
            self.read_holders(&[slot])?;
        }
        Ok(self.prefetched().holders.get(&slot).copied().flatten().map(|holder| Ok(Some(holder))))
    }

    fn has_length(&self, photo: PhotoReference) -> Result<Option<bool>, Finding> {
        if !self.prefetched().photos.contains_key(&photo.digest) {
            self.read_photos(&BTreeSet::from([photo.digest.0]))?;
        }
        Ok(self.prefetched().photos.get(&photo.digest).copied().flatten().map(|length| length == photo.length))
    }

    fn photo(&self, digest: PhotoDigest) -> Result<Option<Vec<u8>>, Finding> {
        let rows = self.query("SELECT bytes FROM daftar.photo WHERE digest = $1", &[&digest.0.as_slice()])?;
        rows.first().map(|row| column(row, 0)).transpose().map_err(|error| wrong(&error))
    }

    fn inspect_photo(&self, digest: PhotoDigest) -> Option<Finding> {
        let known = self.prefetched().whole_photos.get(&digest).copied();
        let is_whole = match known {
            Some(is_whole) => is_whole,
            // Checked again, after its page.
            None => match self.is_whole_photo(digest) {
                Ok(is_whole) => is_whole,
                Err(unreadable) => return Some(unreadable),
            },
        };
        if is_whole {
            return None;
        }
        let name = photo_name(digest);
        Some(finding(Part::Photos, name, "its bytes do not match its digest", Remedy::Restore))
    }

    fn has_client(&self, id: &ClientId) -> Result<bool, Finding> {
        Ok(!self.query("SELECT FROM daftar.client WHERE id = $1", &[&id.as_str()])?.is_empty())
    }

    fn numbered(&self, table: Table, number: u64) -> Result<Option<Vec<u8>>, Finding> {
        if table == Table::Codes {
            let part = self.code_parts(number, number.saturating_add(1))?.pop_first();
            return part.map(|(_, part)| record::code_table::encode(&part)).transpose().map_err(|error| wrong(&error));
        }
        if table == Table::Audit {
            let value = audit_row::value_of(&self.audit_rows(number)?);
            return value.map_err(|error| numbered::unreadable_value(number, &error));
        }
        let (table, key) = numbered_table(table);
        let statement = format!("SELECT value FROM daftar.{table} WHERE {key} = $1");
        let rows = self.query(&statement, &[&signed(number)])?;
        rows.first().map(|row| column(row, 0)).transpose().map_err(|error| wrong(&error))
    }

    /// A snapshot does not change.
    fn at_rest(&self, check: AtRest) -> Result<(), StoreError> {
        check(self);
        Ok(())
    }
}

/// Compares the version in the value of a record with that of its row. An unreadable value is reported by its reader.
fn check_version(record: &ChangedRecord, stored: VersionId) -> Result<(), Finding> {
    let message = record.place().2;
    if message == stored {
        return Ok(());
    }
    let problem = format!("the value stored as version {stored} is that of version {message}");
    Err(finding(Part::Records, record_name(record), problem, Remedy::Restore))
}

/// Compares the name and the status in a row of a client with its value. An unreadable value is reported by its check.
fn check_client(row: &Row) -> Option<Finding> {
    let client = record::client::decode(column(row, 1).ok()?).ok()?;
    let stored: (&str, &str) = (column(row, 2).ok()?, column(row, 3).ok()?);
    let problem = "its columns `name` and `status` differ from its value, which servers read";
    let found = || finding(Part::Clients, format!("client `{}`", client.id.as_str()), problem, Remedy::Nothing);
    (stored != client_cells(&client)).then(found)
}

/// The finding of a record whose stored JSON cannot be read.
fn damaged(kind: RecordKind, id: RecordId, error: &StoreError) -> Finding {
    undecodable(Part::Records, number_name(kind, id), error)
}

/// A table of numbered values, and its key.
fn numbered_table(table: Table) -> (&'static str, &'static str) {
    match table {
        Table::Codes => ("code", "part"),
        Table::Audit => ("audit", "number / 256"),
        _ => ("change", "sequence"),
    }
}

/// The number in eight bytes.
fn number_after(bytes: &[u8]) -> i64 {
    bytes.first_chunk::<8>().map_or(-1, |bytes| signed(u64::from_be_bytes(*bytes)))
}

/// Key, value and version.
fn record_row(row: &Row) -> Result<(RecordId, &[u8], VersionId), StoreError> {
    Ok((RecordId(number(row, 0)?), column::<Json<&[u8]>>(row, 1)?.0, VersionId(number(row, 2)?)))
}

/// Kind and key.
fn place_of(row: &Row) -> Result<(RecordKind, RecordId), StoreError> {
    Ok((kind_of(column(row, 0)?)?, RecordId(number(row, 1)?)))
}

fn digest_of(row: &Row) -> Result<PhotoDigest, StoreError> {
    let digest: &[u8] = column(row, 0)?;
    digest.try_into().map(PhotoDigest).map_err(|_| corrupt("digest of a photo", "it has not 32 bytes"))
}

fn owner_row(row: &Row) -> Result<((&str, &str), IdentifierOwner), StoreError> {
    let owner = IdentifierOwner { id: RecordId(number(row, 2)?), is_open: column(row, 3)? };
    Ok(((column(row, 0)?, column(row, 1)?), owner))
}

/// A slot and its membership.
fn slot_row(row: &Row) -> Result<(MembershipSlot, RecordId), StoreError> {
    let kind = kind_of(column(row, 1)?)?;
    let subject = Subject::ALL.into_iter().find(|subject| subject.record_kind() == kind);
    let kind = subject.ok_or_else(|| corrupt("slot of a membership", "its beneficiary is of an invalid kind"))?;
    let beneficiary = SubjectReference { kind, id: RecordId(number(row, 2)?) };
    Ok((MembershipSlot { program: RecordId(number(row, 0)?), beneficiary }, RecordId(number(row, 3)?)))
}

/// Decodes a row of a table that is read sequentially. Notes the data of the row itself, and the records that the check
/// of the value requires.
fn cursor_row(
    table: Table,
    row: &Row,
    beside: &mut Prefetched,
    named: &mut BTreeSet<(RecordKind, RecordId)>,
) -> Result<RawValue, StoreError> {
    Ok(match table {
        Table::History => {
            let (kind, id) = place_of(row)?;
            beside.existing.insert((kind, id), column(row, 3)?);
            RawValue::Version(kind, id, VersionId(number(row, 2)?))
        }
        Table::Identifiers => {
            let kind = kind_of(column(row, 0)?)?;
            let invalid = || corrupt("identifier", "its system or its value is invalid");
            let system = SystemUri::parse(column(row, 1)?).map_err(|_| invalid())?;
            let value = IdentifierValue::parse(column(row, 2)?).map_err(|_| invalid())?;
            let (ids, open): (Vec<i64>, Vec<bool>) = (column(row, 3)?, column(row, 4)?);
            let ids = ids.into_iter().map(|id| RecordId(u64::try_from(id).unwrap_or_default()));
            let owners: Vec<_> = ids.zip(open).map(|(id, is_open)| IdentifierOwner { id, is_open }).collect();
            named.extend(owners.iter().map(|owner| (kind, owner.id)));
            let key = IdentifierKey { system, value };
            beside.owners.insert((kind, key.clone()), owners);
            RawValue::Identifier(kind, key)
        }
        Table::OpenMemberships => {
            let (slot, holder) = slot_row(row)?;
            named.insert((RecordKind::ProgramMembership, holder));
            beside.holders.insert(slot, Some(holder));
            RawValue::Slot(slot)
        }
        Table::Photos => {
            let digest = digest_of(row)?;
            beside.whole_photos.insert(digest, column(row, 1)?);
            RawValue::Photo(digest)
        }
        Table::Requests => {
            let (name, value): (_, Vec<u8>) = (request_name(row)?, column(row, 3)?);
            if let Ok(request) = record::remembered::decode(name.clone(), &value) {
                let written = request.responses.iter().filter_map(|answer| answer.record);
                named.extend(written.map(|(kind, id, _)| (kind, id)));
            }
            RawValue::Request(name, value)
        }
        Table::Settings => RawValue::Setting(setting_kind(column(row, 0)?)?, column(row, 1)?, column(row, 2)?),
        Table::Clients => RawValue::Client(column(row, 0)?, column(row, 1)?),
        _ => RawValue::Counter(column(row, 0)?, number(row, 1)),
    })
}

/// Reports a row of the index whose record does not exist.
fn orphan_row(kind: RecordKind, row: &Row) -> Result<Option<RawValue>, StoreError> {
    let (id, is_there): (u64, bool) = (number(row, 0)?, column(row, 1)?);
    let problem = "searches find it, but the record is missing";
    let found = || finding(Part::Indexes, number_name(kind, RecordId(id)), problem, Remedy::Restore);
    Ok((!is_there).then(|| RawValue::Checked(Some(found()))))
}
