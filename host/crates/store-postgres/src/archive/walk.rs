//! The way through the database, from what is small to the last line of the audit log, by keys.

mod later;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Row, Statement};

use daftar_domain::change::Sequence;
use daftar_domain::photo::{PhotoDigest, PhotoReference};
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::archive::{Entry, Mark, kind_after};
use daftar_store::{StoreError, record};

use self::later::Later;
use super::super::database::{Link, Values};
use super::super::failure::{Failure, corrupt};
use super::super::reader::setting_kind;
use super::super::rows::{column, kind_number, number, request_name, signed};

/// How many rows are read at once.
const ROWS_MIN: i64 = 4;
const ROWS_MAX: i64 = 512;
/// About how many bytes of values are read at once.
const BYTES: usize = 1024 * 1024;
/// How many photos are remembered as taken, so that one that many records share is not taken for each: 2 MB.
const PHOTOS_REMEMBERED: usize = 65_536;

/// Where the walk is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Settings { after: (i16, Vec<u8>) },
    Clients { after: String },
    Counters { after: String },
    CodeTable { next: u64 },
    Requests { after: (String, String, i32) },
    Records { kind: RecordKind, after: RecordId },
    Changes { after: Sequence },
    OldestAudit,
    Audit { after: u64 },
    End,
}

/// The way through the database.
pub(super) struct Walk {
    link: Link,
    answer_timeout: Duration,
    prepared: HashMap<&'static str, Statement>,
    mark: Mark,
    code_table_parts: u64,
    stage: Stage,
    /// How many rows are read at once: fewer where they are large.
    rows: i64,
    photos: HashSet<PhotoDigest>,
    /// Where only what was written later than something is taken.
    later: Option<Later>,
}

impl Walk {
    /// Before the first thing.
    pub(super) fn new(link: Link, answer_timeout: Duration, mark: Mark, code_table_parts: u64) -> Self {
        Self {
            link,
            answer_timeout,
            prepared: HashMap::new(),
            mark,
            code_table_parts,
            stage: Stage::Settings { after: (0, Vec::new()) },
            rows: ROWS_MAX,
            photos: HashSet::new(),
            later: None,
        }
    }

    /// The next things; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        while entries.is_empty() && self.stage != Stage::End {
            self.stage = match self.stage.clone() {
                Stage::Settings { after } => self.settings(after, &mut entries).await?,
                Stage::Clients { after } => self.clients(after, &mut entries).await?,
                Stage::Counters { after } => self.counters(after, &mut entries).await?,
                Stage::CodeTable { next } => self.code_table(next, &mut entries).await?,
                Stage::Requests { after } => self.requests(after, &mut entries).await?,
                Stage::Records { kind, after } => self.records(kind, after, &mut entries).await?,
                Stage::Changes { after } => self.changes(after, &mut entries).await?,
                Stage::OldestAudit => self.oldest_audit(&mut entries).await?,
                Stage::Audit { after } => self.audit(after, &mut entries).await?,
                Stage::End => Stage::End,
            };
        }
        let bytes = entries.iter().fold(0_usize, |bytes, entry| bytes.saturating_add(entry.bytes()));
        if bytes > BYTES {
            self.rows = (self.rows / 4).max(ROWS_MIN);
        } else if bytes < BYTES / 8 {
            self.rows = (self.rows * 2).min(ROWS_MAX);
        }
        Ok(entries)
    }

    async fn query(&mut self, statement: &'static str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let asked = async {
            let prepared = match self.prepared.get(statement) {
                Some(prepared) => prepared.clone(),
                None => {
                    let prepared = self.link.client.prepare(statement).await?;
                    self.prepared.insert(statement, prepared.clone());
                    prepared
                }
            };
            Ok::<_, Failure>(self.link.client.query(&prepared, values).await?)
        };
        let answered = tokio::time::timeout(self.answer_timeout, asked).await;
        Ok(answered.unwrap_or_else(|_| Err(Failure::slow()))?)
    }

    async fn settings(&mut self, after: (i16, Vec<u8>), entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        let statement = "SELECT kind, key, value FROM daftar.setting WHERE (kind, key) > ($1, $2) \
                         ORDER BY kind, key LIMIT $3";
        let rows = self.query(statement, &[&after.0, &after.1, &limit]).await?;
        let Some(last) = rows.last() else { return Ok(Stage::Clients { after: String::new() }) };
        for row in &rows {
            entries.push(Entry::Setting { kind: setting_kind(column(row, 0)?)?, value: column(row, 2)? });
        }
        Ok(Stage::Settings { after: (column(last, 0)?, column(last, 1)?) })
    }

    async fn clients(&mut self, after: String, entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        let statement = "SELECT id, value FROM daftar.client WHERE id > $1 ORDER BY id LIMIT $2";
        let rows = self.query(statement, &[&after, &limit]).await?;
        let Some(last) = rows.last() else { return Ok(Stage::Counters { after: String::new() }) };
        for row in &rows {
            entries.push(Entry::Client { value: column(row, 1)? });
        }
        Ok(Stage::Clients { after: column(last, 0)? })
    }

    async fn counters(&mut self, after: String, entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        let statement = "SELECT name, value FROM daftar.counter WHERE name > $1 ORDER BY name LIMIT $2";
        let rows = self.query(statement, &[&after, &limit]).await?;
        let next = self.later.as_ref().map_or(0, |later| later.held.code_table_parts);
        let Some(last) = rows.last() else { return Ok(Stage::CodeTable { next }) };
        for row in &rows {
            entries.push(Entry::Counter { name: column(row, 0)?, value: number(row, 1)? });
        }
        Ok(Stage::Counters { after: column(last, 0)? })
    }

    async fn code_table(&mut self, next: u64, entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        let first = || Stage::Requests { after: (String::new(), String::new(), -1) };
        if next >= self.code_table_parts {
            return Ok(first());
        }
        let statement = "SELECT number, value FROM daftar.code_table_part WHERE number >= $1 ORDER BY number LIMIT $2";
        let rows = self.query(statement, &[&signed(next), &limit]).await?;
        let mut expected = next;
        for row in &rows {
            if number(row, 0)? != expected {
                return Err(missing("part of the code table"));
            }
            entries.push(Entry::CodeTablePart { number: expected, value: column(row, 1)? });
            expected = expected.saturating_add(1);
        }
        if rows.is_empty() {
            return Err(missing("part of the code table"));
        }
        Ok(Stage::CodeTable { next: expected })
    }

    async fn requests(&mut self, after: (String, String, i32), entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        let statement = "SELECT client, key, part, value FROM daftar.request WHERE (client, key, part) > ($1, $2, $3) \
                         ORDER BY client, key, part LIMIT $4";
        let rows = self.query(statement, &[&after.0, &after.1, &after.2, &limit]).await?;
        let Some(last) = rows.last() else {
            return Ok(Stage::Records { kind: RecordKind::Individual, after: RecordId(0) });
        };
        for row in &rows {
            entries.push(Entry::Request { name: request_name(row)?, value: column(row, 3)? });
        }
        Ok(Stage::Requests { after: (column(last, 0)?, column(last, 1)?, column(last, 2)?) })
    }

    async fn records(
        &mut self,
        kind: RecordKind,
        after: RecordId,
        entries: &mut Vec<Entry>,
    ) -> Result<Stage, StoreError> {
        let limit = self.rows;
        if self.later.is_some() {
            return self.records_written(kind, entries).await;
        }
        let last_of_kind = self.mark.records.iter().find(|(of, _)| *of == kind).map_or(0, |(_, last)| *last);
        if after.0 >= last_of_kind {
            return Ok(self.after_records(kind));
        }
        let statement = "SELECT id, version, value FROM daftar.record WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3";
        let rows = self.query(statement, &[&kind_number(kind), &signed(after.0), &limit]).await?;
        let upper: i64 = rows.last().map_or(Err(missing("record")), |row| column(row, 0))?;
        let statement = "SELECT id, version, value FROM daftar.earlier_version \
                         WHERE kind = $1 AND id > $2 AND id <= $3 ORDER BY id, version";
        let older = self.query(statement, &[&kind_number(kind), &signed(after.0), &upper]).await?;
        let expected: Vec<RecordId> = (after.0.saturating_add(1)..).take(rows.len()).map(RecordId).collect();
        self.take_all(kind, &expected, &rows, &older, entries).await?;
        Ok(Stage::Records { kind, after: expected.last().copied().unwrap_or(after) })
    }

    /// Where the walk goes when there are no more records of a kind.
    fn after_records(&self, kind: RecordKind) -> Stage {
        match kind_after(kind) {
            Some(kind) => Stage::Records { kind, after: RecordId(0) },
            None => Stage::Changes { after: self.later.as_ref().map_or(Sequence(0), |later| later.held.sequence) },
        }
    }

    /// Takes all versions of records, which have to be these.
    async fn take_all(
        &mut self,
        kind: RecordKind,
        expected: &[RecordId],
        rows: &[Row],
        older: &[Row],
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        let mut earlier: BTreeMap<(u64, u64), &[u8]> = BTreeMap::new();
        for row in older {
            earlier.insert((number(row, 0)?, number(row, 1)?), column(row, 2)?);
        }
        if rows.len() != expected.len() {
            return Err(missing("record"));
        }
        for (row, expected) in rows.iter().zip(expected) {
            let (id, present) = (RecordId(number(row, 0)?), VersionId(number(row, 1)?));
            if id != *expected {
                return Err(missing("record"));
            }
            let mut version = VersionId::FIRST;
            while version <= present {
                let is_present = version == present;
                let value = if is_present { Some(column(row, 2)?) } else { earlier.get(&(id.0, version.0)).copied() };
                let value: &[u8] = value.ok_or_else(|| missing("older version of a record"))?;
                self.take(kind, id, version, is_present, value, entries).await?;
                version = version.next();
            }
        }
        Ok(())
    }

    /// Takes a version, and its photo before it.
    async fn take(
        &mut self,
        kind: RecordKind,
        id: RecordId,
        version: VersionId,
        is_present: bool,
        value: &[u8],
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        let record = record::decode_any(kind, id, value)?;
        if record.place().2 != version {
            return Err(corrupt("version of a record", "it is another one than its row says"));
        }
        if let Some(photo) = record.photo()
            && !self.photos.contains(&photo.digest)
        {
            let entry = self.photo(photo).await?;
            entries.push(entry);
        }
        entries.push(Entry::Version { kind, id, version, is_present, value: value.to_vec() });
        Ok(())
    }

    async fn photo(&mut self, photo: PhotoReference) -> Result<Entry, StoreError> {
        let statement = "SELECT bytes FROM daftar.photo WHERE digest = $1";
        let rows = self.query(statement, &[&photo.digest.0.as_slice()]).await?;
        let bytes: &[u8] = rows.first().map_or(Err(missing("photo")), |row| column(row, 0))?;
        if bytes.len() != photo.length as usize {
            return Err(corrupt("photo", "it is longer or shorter than its record says"));
        }
        if self.photos.len() >= PHOTOS_REMEMBERED {
            self.photos.clear();
        }
        self.photos.insert(photo.digest);
        Ok(Entry::Photo { digest: photo.digest, bytes: Arc::from(bytes) })
    }

    async fn changes(&mut self, after: Sequence, entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        if after >= self.mark.sequence {
            return Ok(if self.later.is_some() { Stage::OldestAudit } else { Stage::Audit { after: 0 } });
        }
        let statement = "SELECT sequence, value FROM daftar.change WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let rows = self.query(statement, &[&signed(after.0), &limit]).await?;
        let mut sequence = after;
        for row in &rows {
            sequence = sequence.next();
            if number(row, 0)? != sequence.0 {
                return Err(missing("change"));
            }
            entries.push(Entry::Change { sequence, value: column(row, 1)? });
        }
        if rows.is_empty() { Err(missing("change")) } else { Ok(Stage::Changes { after: sequence }) }
    }

    async fn audit(&mut self, after: u64, entries: &mut Vec<Entry>) -> Result<Stage, StoreError> {
        let limit = self.rows;
        let statement = "SELECT number, value FROM daftar.audit WHERE number > $1 ORDER BY number LIMIT $2";
        let rows = self.query(statement, &[&signed(after), &limit]).await?;
        let Some(last) = rows.last() else { return Ok(Stage::End) };
        for row in &rows {
            entries.push(Entry::Audit { number: number(row, 0)?, value: column(row, 1)? });
        }
        Ok(Stage::Audit { after: number(last, 0)? })
    }
}

fn missing(what: &'static str) -> StoreError {
    corrupt(what, "it is not there")
}
