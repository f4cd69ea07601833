//! Audit entries as rows.
//!
//! **Invariant:** an entry read from a row is the entry that was written. If a column cannot hold a text or an instant,
//! the row has the packed entry in `details`, and the columns as much as they can hold, for SQL.
//!
//! **Invariant:** rows whose numbers differ in the last eight bits alone are one value: up to 256 entries that were
//! written together, which archives contain as the same bytes that the embedded store stores.

use std::error::Error;
use std::time::SystemTime;

use bytes::{BufMut as _, BytesMut};
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

use daftar_domain::audit::query::AuditPosition;
use daftar_domain::audit::{Actor, AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::client::ClientId;
use daftar_domain::consent::ConsentId;
use daftar_domain::record::RecordKind;
use daftar_store::record::audit::ENTRIES_PER_VALUE_MAX;
use daftar_store::record::instant::{instant, milliseconds};
use daftar_store::{StoreError, record};

use super::copy::{self, Table, cell};
use super::database::{execute, rows};
use super::failure::corrupt;
use super::group::Broken;
use super::index::Day;
use super::rows::{column, number, signed};

/// Numbers of a value.
const NUMBERS_PER_VALUE: u64 = ENTRIES_PER_VALUE_MAX as u64;
/// Maximum length of a text in an indexed column, in bytes: the database indexes no text longer than some 2,700.
const INDEXED_TEXT_BYTES: usize = 1_000;
/// Name of an unreadable row in errors.
const WHAT: &str = "entry of the audit log";

/// The first number of a value.
pub(super) fn first_number(value: u64) -> i64 {
    signed(value.saturating_mul(NUMBERS_PER_VALUE))
}

/// Largest number of a value.
pub(super) fn last_number(value: u64) -> i64 {
    first_number(value).saturating_add(signed(NUMBERS_PER_VALUE) - 1)
}

/// The value and the entry of a number.
pub(super) fn position(number: u64) -> AuditPosition {
    let line = u32::try_from(number % NUMBERS_PER_VALUE).unwrap_or_default();
    AuditPosition { value: number / NUMBERS_PER_VALUE, line }
}

/// The number of a position; the largest number if the position is out of range.
pub(super) fn number_at(position: AuditPosition) -> i64 {
    first_number(position.value).saturating_add(i64::from(position.line.min(ENTRIES_PER_VALUE_MAX as u32)))
}

/// The columns of an entry, of any relation that has those of the table.
pub(super) const COLUMNS: &str = "number, at, client, actor, address, request_id, operation, action, outcome, status, \
    record_kind, record_id, other_targets, fields, consents::text[], reason, note, count, \
    decode(details->>'packed', 'hex'), COALESCE(details - 'packed' <> '{}', false)";

/// Adds rows with given numbers, starting at the next value if that is wanted.
const INSERT: &str = "WITH value AS MATERIALIZED \
    (SELECT CASE WHEN $1 THEN nextval('daftar.audit_value') * 256 ELSE 0 END AS first) \
    INSERT INTO daftar.audit (number, month, at, client, actor, address, request_id, operation, action, outcome, status, \
    record_kind, record_id, other_targets, fields, consents, reason, note, count, details) \
    SELECT value.first + line.number, date_trunc('month', line.at AT TIME ZONE 'UTC')::date, line.at, line.client, line.actor, \
    line.address, line.request_id, line.operation, line.action, line.outcome, line.status, line.record_kind, line.record_id, \
    line.other_targets::text[], line.fields::text[], line.consents::uuid[], line.reason, line.note, line.count, \
    CASE WHEN line.packed IS NOT NULL THEN jsonb_build_object('packed', encode(line.packed, 'hex')) END \
    FROM value, unnest($2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::inet[], $7::text[], $8::text[], $9::text[], \
    $10::text[], $11::integer[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], \
    $19::bigint[], $20::bytea[]) \
    AS line (number, at, client, actor, address, request_id, operation, action, outcome, status, record_kind, record_id, \
    other_targets, fields, consents, reason, note, count, packed)";

/// The table, with the columns of copied entries.
const COPIED: &str = "audit (number, month, at, client, actor, address, request_id, operation, action, outcome, status, \
    record_kind, record_id, other_targets, fields, consents, reason, note, count)";
const COPIED_TYPES: &[Type] = &[
    Type::INT8,
    Type::DATE,
    Type::TIMESTAMPTZ,
    Type::TEXT,
    Type::TEXT,
    Type::INET,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT4,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::UUID_ARRAY,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
];

/// Returns the text with NUL replaced, which the database cannot store. It gets no longer: texts in indexes are
/// bounded.
fn held(text: &str) -> String {
    text.replace('\0', "\u{1a}")
}

/// As [`held`], and short enough for an index.
pub(super) fn indexed(text: &str) -> String {
    held(text.get(..text.floor_char_boundary(INDEXED_TEXT_BYTES)).unwrap_or_default())
}

/// The instant as a column can hold it.
pub(super) fn held_instant(at: Timestamp) -> SystemTime {
    // The database has years before 1, but not the whole range of ours.
    let first = Timestamp::from_second(-62_135_596_800).unwrap_or(Timestamp::UNIX_EPOCH);
    SystemTime::from(at.max(first))
}

/// The UUID of a consent.
#[derive(Debug)]
struct Uuid([u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, to: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        to.put_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

/// The kind and the rest of a target that is a record, or the whole target.
fn target_parts(target: &str) -> (Option<RecordKind>, &str) {
    let named = target.split_once('/').and_then(|(kind, id)| Some((RecordKind::parse(kind)?, kind, id)));
    // Only a target that is read back unchanged.
    match named.filter(|(kind, written, _)| kind.name() == *written) {
        Some((kind, _, id)) => (Some(kind), id),
        None => (None, target),
    }
}

/// An array in the syntax of the database; `None` for an empty one.
fn array<T: AsRef<str>>(texts: impl ExactSizeIterator<Item = T>) -> Option<String> {
    if texts.len() == 0 {
        return None;
    }
    let mut written = String::from("{");
    for (place, text) in texts.enumerate() {
        written.push_str(if place == 0 { "\"" } else { ",\"" });
        for character in text.as_ref().chars() {
            if matches!(character, '"' | '\\') {
                written.push('\\');
            }
            written.push(character);
        }
        written.push('"');
    }
    written.push('}');
    Some(written)
}

/// True if the columns hold all of an entry.
fn is_held(entry: &AuditEntry) -> bool {
    let is_indexed = |text: &String| text.len() <= INDEXED_TEXT_BYTES;
    let once = [&entry.reason, &entry.note].into_iter().flatten().chain([&entry.request_id]);
    let texts = once.chain(&entry.targets).chain(entry.fields.iter()).map(String::as_str);
    instant(milliseconds(entry.at)).is_ok_and(|at| at == entry.at && SystemTime::from(at) == held_instant(at))
        && is_indexed(&entry.request_id)
        && entry.targets.iter().all(is_indexed)
        && i64::try_from(entry.count).is_ok()
        && texts.chain(entry.operation.as_deref()).all(|text| !text.contains('\0'))
}

/// An entry to be written under a number.
struct Line<'e> {
    number: i64,
    entry: &'e AuditEntry,
    /// The packed entry, if the columns cannot hold it.
    packed: Option<Vec<u8>>,
}

/// The column `actor` of an actor that is no client.
pub(super) fn actor_name(actor: &Actor) -> Option<&'static str> {
    match actor {
        Actor::Client(_) => None,
        Actor::Administrator => Some("administrator"),
        Actor::System => Some("system"),
        Actor::Unknown => Some("unknown"),
    }
}

impl<'e> Line<'e> {
    fn new(number: i64, entry: &'e AuditEntry) -> Result<Self, StoreError> {
        let packed =
            if is_held(entry) { None } else { Some(record::audit::encode_value(std::slice::from_ref(entry))?) };
        Ok(Self { number, entry, packed })
    }

    /// The kind of the first target, if it is a record, and its id; absent without targets.
    fn first_target(&self) -> Option<(Option<RecordKind>, &'e str)> {
        self.entry.targets.first().map(|target| target_parts(target))
    }

    /// Adds the row of an entry that the columns hold.
    fn copy_into(&self, table: &mut Table) -> Result<(), Broken> {
        /// The elements of an array, which is absent if it has none.
        fn some<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
            Some(items.collect::<Vec<T>>()).filter(|items| !items.is_empty())
        }
        let entry = self.entry;
        let month = Day::from(entry.at.to_zoned(TimeZone::UTC).date().first_of_month());
        let client = if let Actor::Client(client) = &entry.actor { Some(client.as_str()) } else { None };
        let (kind, record) = self.first_target().map_or((None, None), |(kind, id)| (kind, Some(id)));
        table.add(&[
            &self.number,
            &month,
            &SystemTime::from(entry.at),
            &client,
            &actor_name(&entry.actor),
            &entry.address,
            &entry.request_id,
            &entry.operation.as_deref(),
            &entry.action.name(),
            &entry.outcome.name(),
            &entry.status.map(i32::from),
            &kind.map(RecordKind::name),
            &record,
            &some(entry.targets.iter().skip(1)),
            &some(entry.fields.iter()),
            &some(entry.consents.iter().map(|consent| Uuid(consent.to_bytes()))),
            &entry.reason,
            &entry.note,
            &signed(entry.count),
        ])?;
        Ok(())
    }
}

/// Writes entries; under the numbers of the next value if they are new.
async fn insert(transaction: &Transaction<'_>, lines: &[Line<'_>], is_new: bool) -> Result<(), Broken> {
    let columns = [
        cell(is_new),
        copy::column(lines, |line| line.number),
        copy::column(lines, |line| held_instant(line.entry.at)),
        copy::column(lines, |line| match &line.entry.actor {
            Actor::Client(client) => Some(client.as_str()),
            Actor::Administrator | Actor::System | Actor::Unknown => None,
        }),
        copy::column(lines, |line| actor_name(&line.entry.actor)),
        copy::column(lines, |line| line.entry.address),
        copy::column(lines, |line| indexed(&line.entry.request_id)),
        copy::column(lines, |line| line.entry.operation.as_deref().map(held)),
        copy::column(lines, |line| line.entry.action.name()),
        copy::column(lines, |line| line.entry.outcome.name()),
        copy::column(lines, |line| line.entry.status.map(i32::from)),
        copy::column(lines, |line| line.first_target().and_then(|(kind, _)| kind.map(RecordKind::name))),
        copy::column(lines, |line| line.first_target().map(|(_, id)| indexed(id))),
        copy::column(lines, |line| array(line.entry.targets.iter().skip(1).map(|target| indexed(target)))),
        copy::column(lines, |line| array(line.entry.fields.iter().map(|field| held(field)))),
        copy::column(lines, |line| array(line.entry.consents.iter().map(ConsentId::to_string))),
        copy::column(lines, |line| line.entry.reason.as_deref().map(held)),
        copy::column(lines, |line| line.entry.note.as_deref().map(held)),
        copy::column(lines, |line| signed(line.entry.count)),
        copy::column(lines, |line| line.packed.as_deref()),
    ];
    execute(transaction, INSERT, &copy::values(&columns)).await?;
    Ok(())
}

/// Copies entries; those that the columns cannot hold are inserted.
async fn copy_lines(transaction: &Transaction<'_>, lines: Vec<Line<'_>>) -> Result<(), Broken> {
    let (packed, held): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.packed.is_some());
    let mut table = Table::new(COPIED, COPIED_TYPES);
    for line in &held {
        line.copy_into(&mut table)?;
    }
    table.flush(transaction).await?;
    for some in packed.chunks(ENTRIES_PER_VALUE_MAX) {
        insert(transaction, some, false).await?;
    }
    Ok(())
}

/// The lock of the table that an INSERT takes, which needs the same rights.
const LOCK: &str = "LOCK TABLE ONLY daftar.audit IN ROW EXCLUSIVE MODE";

/// Reserves so many unused numbers of values. Locks the table before: a fill has it locked until the next number is after
/// its own, and the beginning of a snapshot until no number is taken by a transaction that it does not see.
pub(super) async fn next_values(transaction: &Transaction<'_>, count: usize) -> Result<Vec<u64>, Broken> {
    if count == 0 {
        return Ok(Vec::new());
    }
    execute(transaction, LOCK, &[]).await?;
    let statement = "SELECT nextval('daftar.audit_value') FROM generate_series(1, $1::bigint)";
    let rows = rows(transaction, statement, &[&signed(count as u64)]).await?;
    rows.iter().map(|row| Ok(number(row, 0)?)).collect()
}

/// Adds entries, oldest first, which are numbered in that order: from `copied_min` of them on they are copied.
pub(super) async fn add(
    transaction: &Transaction<'_>,
    entries: &[AuditEntry],
    copied_min: usize,
) -> Result<(), Broken> {
    let values: Vec<&[AuditEntry]> = record::audit::values(entries).collect();
    let is_copied = entries.len() >= copied_min;
    let numbers = if is_copied { next_values(transaction, values.len()).await? } else { vec![0; values.len()] };
    let mut copied = Vec::new();
    for (value, number) in values.into_iter().zip(numbers) {
        let lines = (first_number(number)..).zip(value).map(|(number, entry)| Line::new(number, entry));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        if is_copied {
            copied.extend(lines);
        } else {
            insert(transaction, &lines, true).await?;
        }
    }
    copy_lines(transaction, copied).await
}

/// Writes values under their numbers, replacing existing ones.
pub(super) async fn replace(transaction: &Transaction<'_>, values: &[(u64, Vec<AuditEntry>)]) -> Result<(), Broken> {
    let numbers: Vec<i64> = values.iter().map(|(value, _)| signed(*value)).collect();
    remove(transaction, &numbers).await?;
    put(transaction, values).await
}

/// Writes values under their numbers, which are unused.
pub(super) async fn put(transaction: &Transaction<'_>, values: &[(u64, Vec<AuditEntry>)]) -> Result<(), Broken> {
    let mut lines = Vec::new();
    for (value, entries) in values {
        if entries.len() > ENTRIES_PER_VALUE_MAX {
            return Err(corrupt("audit log", "a value has more than 256 entries").into());
        }
        for (number, entry) in (first_number(*value)..).zip(entries) {
            lines.push(Line::new(number, entry)?);
        }
    }
    copy_lines(transaction, lines).await
}

/// Deletes values.
pub(super) async fn remove(transaction: &Transaction<'_>, values: &[i64]) -> Result<(), Broken> {
    const REMOVE: &str = "DELETE FROM daftar.audit AS line USING unnest($1::bigint[]) AS gone (value) \
                          WHERE line.number >= gone.value * 256 AND line.number < gone.value * 256 + 256";
    if values.is_empty() {
        return Ok(());
    }
    execute(transaction, REMOVE, &[&values]).await?;
    Ok(())
}

/// The entry of a row of [`COLUMNS`], and its number.
pub(super) fn entry_of(row: &Row) -> Result<(u64, AuditEntry), StoreError> {
    let number = number(row, 0)?;
    if let Some(packed) = column::<Option<&[u8]>>(row, 18)? {
        let entry = record::audit::decode(packed)?.pop();
        return Ok((number, entry.ok_or_else(|| corrupt(WHAT, "its packed form holds none"))?));
    }
    let unreadable = |name: &str| corrupt(WHAT, &format!("its `{name}` is not valid"));
    let at: SystemTime = column(row, 1)?;
    let actor = match (column::<Option<&str>>(row, 2)?, column::<Option<&str>>(row, 3)?) {
        (Some(client), None) => Actor::Client(ClientId::parse(client).map_err(|_| unreadable("client"))?),
        (None, Some("administrator")) => Actor::Administrator,
        (None, Some("system")) => Actor::System,
        (None, Some("unknown")) => Actor::Unknown,
        _ => return Err(unreadable("actor")),
    };
    let first = match (column::<Option<&str>>(row, 10)?, column::<Option<&str>>(row, 11)?) {
        (Some(kind), Some(id)) => Some(format!("{kind}/{id}")),
        (None, id) => id.map(str::to_owned),
        (Some(_), None) => return Err(unreadable("record_id")),
    };
    let others: Option<Vec<String>> = column(row, 12)?;
    let fields: Option<Vec<String>> = column(row, 13)?;
    let consents: Option<Vec<&str>> = column(row, 14)?;
    let consents = consents.unwrap_or_default().into_iter().map(ConsentId::parse).collect::<Result<Vec<_>, _>>();
    let status: Option<i32> = column(row, 9)?;
    let entry = AuditEntry {
        at: Timestamp::try_from(at).map_err(|_| unreadable("at"))?,
        actor,
        address: column(row, 4)?,
        request_id: column(row, 5)?,
        operation: column::<Option<&str>>(row, 6)?.map(Into::into),
        action: AuditAction::parse(column(row, 7)?).ok_or_else(|| unreadable("action"))?,
        outcome: AuditOutcome::parse(column(row, 8)?).ok_or_else(|| unreadable("outcome"))?,
        status: status.map(|status| u16::try_from(status).map_err(|_| unreadable("status"))).transpose()?,
        targets: first.into_iter().chain(others.unwrap_or_default()).collect(),
        fields: fields.unwrap_or_default().into(),
        consents: consents.map_err(|_| unreadable("consents"))?,
        reason: column(row, 15)?,
        note: column(row, 16)?,
        count: self::number(row, 17)?,
    };
    Ok((number, entry))
}

/// A value, and its bytes or why it cannot be read.
pub(super) type PackedValue = (u64, Result<Vec<u8>, StoreError>);

/// Values of rows of [`COLUMNS`] in the order of their numbers.
pub(super) fn values_of(rows: &[Row]) -> Result<Vec<PackedValue>, StoreError> {
    let value_of = |row: &Row| Ok::<_, StoreError>(number(row, 0)? / NUMBERS_PER_VALUE);
    let mut values = Vec::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let value = value_of(first)?;
        let count = rest.iter().take_while(|row| value_of(row).is_ok_and(|of| of == value)).count();
        let (of_value, after) = rest.split_at(count);
        let entries = of_value.iter().map(|row| {
            if column::<bool>(row, 19)? {
                return Err(corrupt(
                    WHAT,
                    "it has members that this daftar does not know: use the newer daftar that wrote it",
                ));
            }
            Ok(entry_of(row)?.1)
        });
        values.push((
            value,
            entries.collect::<Result<Vec<_>, _>>().and_then(|entries| record::audit::encode_value(&entries)),
        ));
        rest = after;
    }
    Ok(values)
}

/// Returns the statement that reads one value.
pub(super) fn value_statement() -> String {
    format!("SELECT {COLUMNS} FROM daftar.audit WHERE number BETWEEN $1 AND $2 ORDER BY number")
}

/// The bytes of the one value whose rows these are, if there are any.
pub(super) fn value_of(rows: &[Row]) -> Result<Option<Vec<u8>>, StoreError> {
    values_of(rows)?.into_iter().next().map(|(_, value)| value).transpose()
}
