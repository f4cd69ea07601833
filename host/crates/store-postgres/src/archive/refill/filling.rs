//! Contents of a backup, as rows.
//!
//! Converting entries to rows does not need the database: a database that is being filled is sent one batch of rows
//! while the next one is converted.

use std::collections::BTreeSet;

use deadpool_postgres::{Object, Transaction};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tokio_postgres::types::Type;

use daftar_domain::audit::AuditEntry;
use daftar_domain::change::{ChangedRecord, Sequence};
use daftar_domain::photo::Photo;
use daftar_store::archive::{Carried, Entry};
use daftar_store::change_log::RegisterId;
use daftar_store::plan::Last;
use daftar_store::record;
use daftar_store::record::instant::milliseconds;
use daftar_store::record::json::CodeNames;
use daftar_store::record::setting::key_bytes;

use super::conflicts::ConflictingRows;
use super::put_origin;
use crate::audit_row;
use crate::codes::{CodeRow, CodeRows};
use crate::copy::Table;
use crate::database::{Values, execute};
use crate::failure::{Failure, corrupt};
use crate::feed::{Channel, notify};
use crate::group::{Broken, Rows};
use crate::index;
use crate::options::BulkLimits;
use crate::rows::{Json, client_cells, kind_number, name_cells, signed, slot_cells};
use crate::state::Locked;

/// First statements of a long transaction.
pub(super) const BEGIN: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Keeps servers from adding audit entries of reads, for which no row can be locked instead.
pub(super) const LOCK_AUDIT: &str = "LOCK TABLE daftar.audit IN EXCLUSIVE MODE";
/// The next value of the audit log is numbered after all existing ones.
const NUMBER_AUDIT: &str = "SELECT setval('daftar.audit_value', greatest(value, 1), value > 0) \
                            FROM (SELECT COALESCE(max(number), 0) / 256 AS value FROM daftar.audit) AS last";
const IS_EMPTY: &str = "SELECT NOT (EXISTS (SELECT FROM daftar.record) OR EXISTS (SELECT FROM daftar.change) \
                        OR EXISTS (SELECT FROM daftar.client) OR EXISTS (SELECT FROM daftar.setting) \
                        OR EXISTS (SELECT FROM daftar.audit) OR EXISTS (SELECT FROM daftar.code) \
                        OR EXISTS (SELECT FROM daftar.counter) OR EXISTS (SELECT FROM daftar.request))";

/// Locks the register, and returns true if it is empty.
pub(super) async fn begin(transaction: &Transaction<'_>) -> Result<bool, Failure> {
    transaction.batch_execute(BEGIN).await?;
    transaction.query("SELECT FROM daftar.last FOR UPDATE", &[]).await?;
    transaction.batch_execute(LOCK_AUDIT).await?;
    let row = transaction.query_one(IS_EMPTY, &[]).await?;
    Ok(row.try_get(0)?)
}

/// Updates the planner statistics of the tables. The database would do so itself, later.
pub(super) async fn analyze(object: &Object) {
    let analyzed = async {
        for row in object.query("SELECT tablename::text FROM pg_tables WHERE schemaname = 'daftar'", &[]).await? {
            let table: String = row.try_get(0)?;
            object.batch_execute(&format!("ANALYZE daftar.\"{table}\"")).await?;
        }
        Ok::<_, Failure>(())
    };
    if let Err(failure) = analyzed.await {
        tracing::warn!(error = %failure, "the tables were not analysed; the database does so itself later");
    }
}

/// Rows that are sent to the database together.
pub(super) struct Batch {
    tables: Tables,
    index: index::Apart,
    behind: index::Behind,
    lines: Vec<(u64, Vec<AuditEntry>)>,
    /// The months of `lines` without partitions.
    months: Vec<Timestamp>,
    photos: Vec<Photo>,
}

/// A database that is being filled.
pub(super) struct Filling {
    tables: Tables,
    carried: Carried,
    /// Records that are indexed once they are written to their table.
    present: Vec<ChangedRecord>,
    /// Pending values of the audit log.
    lines: Vec<(u64, Vec<AuditEntry>)>,
    /// Pending photos.
    new_photos: Vec<Photo>,
    /// The months that have their partitions, or get them with the pending rows.
    months: BTreeSet<Date>,
    /// An instant in each month that gets its partition with the pending rows.
    new_months: Vec<Timestamp>,
    locked: Locked,
    /// The texts of codes, which are received before the records that use them.
    names: CodeNames,
    bulk: BulkLimits,
    /// Size of rows that were not sent to the database yet.
    bytes: usize,
    /// The last keys before the first entry: records with a later key are new.
    before: Last,
    /// Conflicting rows; `None` if the database was empty.
    pub(super) met: Option<ConflictingRows>,
    /// The value of the audit log that reports the last removal.
    removal: Option<u64>,
    /// The last value of the audit log.
    audit: u64,
    /// Number of missing photos.
    pub(super) photos: u64,
}

struct Tables {
    settings: Table,
    clients: Table,
    counters: Table,
    codes: Table,
    editions: Table,
    requests: Table,
    records: Table,
    earlier: Table,
    identifiers: Table,
    open_memberships: Table,
    changes: Table,
}

impl Default for Tables {
    fn default() -> Self {
        const VERSION: &[Type] = &[Type::INT2, Type::INT8, Type::INT8, Type::JSONB];
        const CODE: &[Type] = &[Type::INT8, Type::TEXT, Type::TEXT, Type::INT8];
        Self {
            settings: Table::new("setting (kind, key, value)", &[Type::INT2, Type::BYTEA, Type::BYTEA]),
            clients: Table::new("client (id, name, status, value)", &[Type::TEXT, Type::TEXT, Type::TEXT, Type::BYTEA]),
            counters: Table::new("counter (name, value)", &[Type::TEXT, Type::INT8]),
            codes: Table::new("code (number, system, code, part)", CODE),
            editions: Table::new("edition (number, system, edition, part)", CODE),
            requests: Table::new(
                "request (client, key, part, at, value)",
                &[Type::TEXT, Type::TEXT, Type::INT4, Type::TIMESTAMPTZ, Type::BYTEA],
            ),
            records: Table::new("record (kind, id, version, value)", VERSION),
            earlier: Table::new("earlier_version (kind, id, version, value)", VERSION),
            identifiers: Table::new(
                "identifier (kind, system, value, id, is_open)",
                &[Type::INT2, Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL],
            ),
            open_memberships: Table::new(
                "open_membership (program, beneficiary_kind, beneficiary, membership)",
                &[Type::INT8, Type::INT2, Type::INT8, Type::INT8],
            ),
            changes: Table::new("change (sequence, value)", &[Type::INT8, Type::BYTEA]),
        }
    }
}

impl Tables {
    /// Returns all tables, each before those that reference it.
    fn all(&mut self) -> [&mut Table; 11] {
        [
            &mut self.settings,
            &mut self.clients,
            &mut self.counters,
            &mut self.codes,
            &mut self.editions,
            &mut self.requests,
            &mut self.records,
            &mut self.earlier,
            &mut self.identifiers,
            &mut self.open_memberships,
            &mut self.changes,
        ]
    }
}

impl Filling {
    /// An empty database, filled within those limits.
    pub(super) fn new(bulk: BulkLimits) -> Self {
        let locked = Locked::default();
        let before = locked.last;
        Self {
            tables: Tables::default(),
            carried: Carried::default(),
            present: Vec::new(),
            lines: Vec::new(),
            new_photos: Vec::new(),
            months: BTreeSet::new(),
            new_months: Vec::new(),
            locked,
            names: CodeNames::new(),
            bulk,
            bytes: 0,
            before,
            met: None,
            removal: None,
            audit: 0,
            photos: 0,
        }
    }

    /// A database with contents, and the value of its audit log that reports the last removal.
    pub(super) fn on(locked: Locked, names: CodeNames, (audit, removal): (u64, Option<u64>), bulk: BulkLimits) -> Self {
        Self {
            locked,
            names,
            before: locked.last,
            met: Some(ConflictingRows::default()),
            audit,
            removal,
            ..Self::new(bulk)
        }
    }

    /// The last keys and the last write, including all entries received.
    pub(super) fn last(&self) -> Last {
        self.locked.last
    }

    /// Converts entries, in the order in which they were read. Returns the rows, if they are enough for a batch, or there
    /// are any and the caller wants all.
    pub(super) fn add_all(&mut self, entries: Vec<Entry>, is_all: bool) -> Result<Option<Batch>, Broken> {
        for entry in entries {
            self.bytes = self.bytes.saturating_add(entry.bytes());
            self.add(entry)?;
        }
        let is_batch = self.bytes >= self.bulk.flush_bytes || (is_all && self.bytes > 0);
        Ok(is_batch.then(|| self.take()))
    }

    /// Applies entries in the order in which they were read.
    pub(super) async fn put(&mut self, transaction: &Transaction<'_>, entries: Vec<Entry>) -> Result<(), Broken> {
        let mut increments = index::Increments::default();
        if let Some(batch) = self.add_all(entries, false)? {
            self.write(transaction, batch, &mut increments).await?;
        }
        Ok(increments.write(transaction).await?)
    }

    /// Writes pending rows, the increments of the counters, and the last position in that source. Committing is left to
    /// the caller.
    pub(super) async fn finish(
        &mut self,
        transaction: &Transaction<'_>,
        origin: Option<RegisterId>,
        mut increments: index::Increments,
    ) -> Result<(), Broken> {
        self.carried.finish()?;
        let batch = self.take();
        self.write(transaction, batch, &mut increments).await?;
        increments.write(transaction).await?;
        let before = Locked::lock(transaction).await?;
        let locked = Locked {
            clients_generation: before.clients_generation.saturating_add(1),
            deployment_generation: before.deployment_generation.saturating_add(1),
            ..self.locked
        };
        locked.put(transaction).await?;
        transaction.query(NUMBER_AUDIT, &[]).await?;
        if let Some(register) = origin {
            put_origin(transaction, register, &locked, (self.audit, self.removal)).await?;
        }
        let generation = locked.clients_generation.saturating_add(locked.deployment_generation);
        notify(transaction, Channel::Generation, signed(generation)).await?;
        notify(transaction, Channel::Changes, signed(locked.last.sequence.0)).await?;
        Ok(())
    }

    /// Takes the pending rows.
    fn take(&mut self) -> Batch {
        self.bytes = 0;
        let (present, before) = (std::mem::take(&mut self.present), self.before);
        let mut behind = index::Behind::default();
        present.iter().for_each(|record| behind.note(record));
        let is_new = move |kind, id| Rows::is_new(&before, kind, id);
        Batch {
            tables: std::mem::take(&mut self.tables),
            index: index::Apart::begin(present, self.bulk.copied_rows_min, is_new),
            behind,
            lines: std::mem::take(&mut self.lines),
            months: std::mem::take(&mut self.new_months),
            photos: std::mem::take(&mut self.new_photos),
        }
    }

    /// Writes rows, after those that conflict with them are deleted, and adds the increments of the counters.
    async fn write(
        &mut self,
        transaction: &Transaction<'_>,
        batch: Batch,
        increments: &mut index::Increments,
    ) -> Result<(), Broken> {
        if let Some(met) = &mut self.met {
            met.clear(transaction).await?;
        }
        self.photos += batch.write(transaction, increments).await?;
        Ok(())
    }

    fn add(&mut self, entry: Entry) -> Result<(), Broken> {
        match entry {
            Entry::Setting { kind, value } => {
                let key = key_bytes(&record::setting::decode(kind, &value)?.key());
                self.tables.settings.add(&[&(kind as i16), &key, &value])?;
            }
            Entry::Client { value } => {
                let client = record::client::decode(&value)?;
                let (name, status) = client_cells(&client);
                self.tables.clients.add(&[&client.id.as_str(), &name, &status, &value])?;
            }
            Entry::Counter { name, value } => {
                self.tables.counters.add(&[&name, &signed(value)])?;
            }
            Entry::CodeTablePart { number, value } => {
                let part = record::code_table::decode(&value)?;
                if number != self.locked.code_table_parts {
                    return Err(corrupt("part of the code table", "a part before it is missing").into());
                }
                self.locked.code_table_parts = number.saturating_add(1);
                let mut rows = CodeRows::default();
                rows.add(number, self.names.counts(), &part);
                self.names.apply(&part);
                for (table, rows) in [(&mut self.tables.codes, rows.codes), (&mut self.tables.editions, rows.editions)]
                {
                    for CodeRow { number, system, text, part } in rows {
                        table.add(&[&number, &system, &text, &part])?;
                    }
                }
            }
            Entry::Request { name, value } => {
                let at = index::Instant(milliseconds(record::remembered::decode(name.clone(), &value)?.at));
                let (client, key, part) = name_cells(&name);
                self.tables.requests.add(&[&client, &key, &part, &at, &value])?;
            }
            Entry::Photo { digest, bytes } => {
                let photo = Photo::new(bytes.to_vec(), |_| digest.0);
                self.new_photos.push(photo.map_err(|error| corrupt("photo", &error.to_string()))?);
            }
            Entry::Version { kind, id, version, is_present, value } => {
                let record = record::decode_any(kind, id, &value)?;
                if record.place().2 != version {
                    return Err(
                        corrupt("version of a record", "it differs from the version that the backup states").into()
                    );
                }
                for (key, is_open) in self.carried.see(&record, is_present)? {
                    let (system, value) = (key.system.as_str(), key.value.as_str());
                    self.tables.identifiers.add(&[&kind_number(kind), &system, &value, &signed(id.0), &is_open])?;
                }
                if let Some(met) = &mut self.met {
                    met.see(&record, is_present, Rows::is_new(&self.before, kind, id));
                }
                let json = Json(record::json::encode(&record, &self.names)?);
                let row: Values<'_> = &[&kind_number(kind), &signed(id.0), &signed(version.0), &json];
                if !is_present {
                    return Ok(self.tables.earlier.add(row)?);
                }
                self.tables.records.add(row)?;
                self.locked.last.raise(kind, id);
                if let ChangedRecord::ProgramMembership(membership) = &record
                    && membership.details.status().is_open()
                {
                    let (program, of, beneficiary) = slot_cells(&membership.details.slot());
                    self.tables.open_memberships.add(&[&program, &of, &beneficiary, &signed(id.0)])?;
                }
                self.present.push(record);
            }
            Entry::Change { sequence, value } => {
                record::change::decode(&value)?;
                if sequence != self.locked.last.sequence.next() {
                    return Err(corrupt("order of writes", "a write is missing").into());
                }
                self.locked.last.sequence = Sequence(sequence.0);
                self.tables.changes.add(&[&signed(sequence.0), &value])?;
            }
            Entry::Audit { number, value } => {
                let lines = record::audit::decode(&value)?;
                if lines.iter().any(AuditEntry::reports_removal) {
                    self.removal = Some(number);
                }
                self.audit = number.max(self.audit);
                for entry in &lines {
                    let month = entry.at.to_zoned(TimeZone::UTC).date().first_of_month();
                    if self.months.insert(month) {
                        self.new_months.push(entry.at);
                    }
                }
                self.lines.push((number, lines));
            }
        }
        Ok(())
    }
}

impl Batch {
    /// Writes the rows, adds the increments of the counters of searches, and returns the number of photos that were
    /// missing.
    pub(super) async fn write(
        mut self,
        transaction: &Transaction<'_>,
        increments: &mut index::Increments,
    ) -> Result<u64, Broken> {
        let mut photos = 0_u64;
        for photo in &self.photos {
            let statement = "INSERT INTO daftar.photo (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
            let digest = photo.reference().digest;
            let values: Values<'_> = &[&digest.0.as_slice(), &photo.bytes().as_ref()];
            photos = photos.saturating_add(execute(transaction, statement, values).await?);
        }
        for table in self.tables.all() {
            table.flush(transaction).await?;
        }
        index::write_rows(transaction, self.index, increments).await?;
        // Each month gets its partition before its entries, so that it can be dropped as a whole later.
        for at in self.months {
            let statement = "SELECT daftar.make_audit_month(($1::timestamptz AT TIME ZONE 'UTC')::date)";
            transaction.query_one(statement, &[&audit_row::held_instant(at)]).await?;
        }
        audit_row::put(transaction, &self.lines).await?;
        self.behind.write(transaction).await?;
        Ok(photos)
    }
}

/// Primary keys stay: rows are mostly sorted by them, and every other query in the meantime reads by them.
const PRESENT: &str = "SELECT format('%I.%I', schema.nspname, made.relname), \
                       replace(pg_get_indexdef(pg_index.indexrelid), ' ON ONLY ', ' ON '), \
                       quote_literal(obj_description(made.oid, 'pg_class')) \
                       FROM pg_index JOIN pg_class AS made ON made.oid = pg_index.indexrelid \
                       JOIN pg_namespace AS schema ON schema.oid = made.relnamespace \
                       WHERE schema.nspname = 'daftar' AND NOT pg_index.indisprimary AND NOT made.relispartition \
                       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = pg_index.indexrelid) \
                       ORDER BY made.relname";
/// A foreign key that exists is checked row by row; one that is created is checked by one statement.
const FOREIGN_KEYS: &str = "SELECT format('%s', conrelid::regclass), quote_ident(conname), pg_get_constraintdef(oid), \
                            quote_literal(obj_description(oid, 'pg_constraint')) \
                            FROM pg_constraint WHERE contype = 'f' AND connamespace = 'daftar'::regnamespace \
                            AND confrelid = 'daftar.record'::regclass ORDER BY conname";
/// Sorting takes memory once, for the one index that is being built.
const MORE_MEMORY: &str = "SELECT set_config('maintenance_work_mem', '256MB', true) \
                           WHERE pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('256MB')";

/// Indexes and foreign keys of tables that are filled: dropped before and created at the end, when all rows can be
/// sorted at once. Both are part of the transaction that fills, so an interruption leaves them unchanged.
pub(super) struct TakenDown(Vec<String>);

impl TakenDown {
    /// Drops everything that filling the tables does not require.
    pub(super) async fn all(transaction: &Transaction<'_>) -> Result<Self, Failure> {
        let mut statements = Vec::new();
        for row in transaction.query(PRESENT, &[]).await? {
            let (name, statement): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            transaction.batch_execute(&format!("DROP INDEX {name}")).await?;
            statements.push(statement);
            if let Some(comment) = row.try_get::<_, Option<String>>(2)? {
                statements.push(format!("COMMENT ON INDEX {name} IS {comment}"));
            }
        }
        for row in transaction.query(FOREIGN_KEYS, &[]).await? {
            let (table, name, key): (String, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            transaction.batch_execute(&format!("ALTER TABLE {table} DROP CONSTRAINT {name}")).await?;
            statements.push(format!("ALTER TABLE {table} ADD CONSTRAINT {name} {key}"));
            if let Some(comment) = row.try_get::<_, Option<String>>(3)? {
                statements.push(format!("COMMENT ON CONSTRAINT {name} ON {table} IS {comment}"));
            }
        }
        Ok(Self(statements))
    }

    /// Creates them again.
    pub(super) async fn make(self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        transaction.query(MORE_MEMORY, &[]).await?;
        for statement in self.0 {
            transaction.batch_execute(&statement).await?;
        }
        Ok(())
    }
}
