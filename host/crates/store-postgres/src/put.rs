//! Writes the rows of a group, in few statements.
//!
//! **Invariant:** new rows are inserted and changed rows are updated, each as often as the group states: unexpected or
//! missing rows make the group fail instead of being overwritten.

use deadpool_postgres::Transaction;
use tokio_postgres::types::Type;

use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::plan::Last;
use daftar_store::records::Records;

use super::audit_row;
use super::codes::CodeRows;
use super::copy::Table;
use super::database::{Values, execute};
use super::failure::{Failure, Meaning};
use super::feed::Channel;
use super::group::{Broken, Finished, Rows, cause_of};
use super::index::Instant;
use super::port::RAISE_COUNTER;
use super::rows::{Json, client_cells, kind_number, name_cells, signed, slot_cells};
use super::state::Locked;

/// Approximate maximum size of the values in one statement, in bytes.
const STATEMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Writes the rows of a group and the row of last numbers, and notifies. From `copied_min` new rows on they are copied.
pub(super) async fn put(
    transaction: &Transaction<'_>,
    finished: &Finished,
    present: &Records,
    before: &Locked,
    (writer, group): (&[u8], u64),
    copied_min: usize,
) -> Result<(), Broken> {
    let (rows, locked) = (&finished.rows, &finished.locked);
    let outcomes = tokio::join!(
        put_log(transaction, rows, copied_min),
        put_records(transaction, rows, &before.last, copied_min),
        put_owners(transaction, rows, present, copied_min),
        put_slots(transaction, rows),
        put_small(transaction, rows),
        put_numbers(transaction, locked, before, writer, group),
    );
    cause_of(<[_; 6]>::from(outcomes))
}

/// Writes the row of last numbers and that of the writer, and notifies the version counters that changed.
async fn put_numbers(
    transaction: &Transaction<'_>,
    locked: &Locked,
    before: &Locked,
    writer: &[u8],
    group: u64,
) -> Result<(), Broken> {
    let generation = |locked: &Locked| locked.clients_generation.saturating_add(locked.deployment_generation);
    let sequence = |locked: &Locked| locked.last.sequence.0;
    let reported = [
        (Channel::Generation, generation(locked), generation(before)),
        (Channel::Changes, sequence(locked), sequence(before)),
    ];
    let reported = reported.into_iter().filter(|(_, now, before)| now != before);
    let (channels, numbers): (Vec<&str>, Vec<String>) =
        reported.map(|(channel, now, _)| (channel.name(), signed(now).to_string())).unzip();
    let group = signed(group);
    let values: Values<'_> = &[&writer, &group, &channels, &numbers];
    let notified = async { execute(transaction, WRITTEN_AND_NOTIFIED, values).await.map(|_| ()).map_err(Broken::from) };
    let (put, notified) = tokio::join!(locked.put(transaction), notified);
    cause_of([put, notified])
}

const WRITTEN: &str = "INSERT INTO daftar.writer (id, written, at) VALUES ($1, $2, now()) \
                       ON CONFLICT (id) DO UPDATE SET written = EXCLUDED.written, at = EXCLUDED.at";
/// [`WRITTEN`], and the notifications that processes receive on commit.
const WRITTEN_AND_NOTIFIED: &str = "WITH written AS (INSERT INTO daftar.writer (id, written, at) VALUES ($1, $2, now()) \
                                    ON CONFLICT (id) DO UPDATE SET written = EXCLUDED.written, at = EXCLUDED.at) \
                                    SELECT pg_notify(channel, number) FROM unnest($3::text[], $4::text[]) AS told (channel, number)";

/// As [`execute`]; fails if the number of rows differs.
async fn execute_on(
    transaction: &Transaction<'_>,
    statement: &'static str,
    values: Values<'_>,
    rows: usize,
) -> Result<(), Broken> {
    let done = execute(transaction, statement, values).await?;
    if done == rows as u64 {
        return Ok(());
    }
    let message =
        format!("{done} rows were written instead of {rows}: the database and the state of this process disagree");
    Err(Failure::new(Meaning::Refused, message).into())
}

/// Splits rows so that the values of each part stay within a statement.
fn parts<R>(rows: &[R], bytes: impl Fn(&R) -> usize) -> Vec<&[R]> {
    let mut parts = Vec::new();
    let mut rest = rows;
    while !rest.is_empty() {
        let mut taken = 0_usize;
        let fitting = rest.iter().take_while(|row| {
            taken = taken.saturating_add(bytes(row));
            taken <= STATEMENT_BYTES_MAX
        });
        let (part, after) = rest.split_at(fitting.count().max(1));
        parts.push(part);
        rest = after;
    }
    parts
}

/// A record at one version, as a row of two tables.
type VersionRow<'r> = (RecordKind, RecordId, VersionId, &'r [u8]);

async fn put_records(
    transaction: &Transaction<'_>,
    rows: &Rows,
    before: &Last,
    copied_min: usize,
) -> Result<(), Broken> {
    const RECORDS: [&str; 2] = [
        "record (kind, id, version, value)",
        "INSERT INTO daftar.record (kind, id, version, value) \
         SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::jsonb[])",
    ];
    const UPDATE: &str = "UPDATE daftar.record AS record SET version = now.version, value = now.value \
                          FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::jsonb[]) \
                          AS now (kind, id, version, value) WHERE record.kind = now.kind AND record.id = now.id";
    const EARLIER: [&str; 2] = [
        "earlier_version (kind, id, version, value)",
        "INSERT INTO daftar.earlier_version (kind, id, version, value) \
         SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::jsonb[])",
    ];
    let all = rows.records.iter().map(|((kind, id), (record, value))| (*kind, *id, record.place().2, value.as_slice()));
    let (new, changed): (Vec<_>, Vec<_>) = all.partition(|(kind, id, ..)| Rows::is_new(before, *kind, *id));
    let earlier = rows.earlier.iter().map(|(kind, id, version, value)| (*kind, *id, *version, value.as_slice()));
    let earlier: Vec<_> = earlier.collect();
    let outcomes = tokio::join!(
        add_versions(transaction, RECORDS, &new, copied_min),
        run_versions(transaction, UPDATE, &changed),
        add_versions(transaction, EARLIER, &earlier, copied_min),
    );
    cause_of(<[_; 3]>::from(outcomes))
}

/// Adds rows: many by copying into the columns, few by the statement.
async fn add_versions(
    transaction: &Transaction<'_>,
    [columns, insert]: [&'static str; 2],
    rows: &[VersionRow<'_>],
    copied_min: usize,
) -> Result<(), Broken> {
    if rows.len() < copied_min {
        return run_versions(transaction, insert, rows).await;
    }
    let mut table = Table::new(columns, &[Type::INT2, Type::INT8, Type::INT8, Type::JSONB]);
    for (kind, id, version, value) in rows {
        table.add(&[&kind_number(*kind), &signed(id.0), &signed(version.0), &Json(*value)])?;
    }
    Ok(table.flush(transaction).await?)
}

async fn run_versions<'r>(
    transaction: &Transaction<'_>,
    statement: &'static str,
    rows: &[VersionRow<'r>],
) -> Result<(), Broken> {
    for part in parts(rows, |(.., value)| value.len()) {
        let row = |(kind, id, version, value): &VersionRow<'r>| {
            (kind_number(*kind), signed(id.0), signed(version.0), Json(*value))
        };
        let (kinds, ids, versions, values): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) = part.iter().map(row).collect();
        execute_on(transaction, statement, &[&kinds, &ids, &versions, &values], part.len()).await?;
    }
    Ok(())
}

/// A record with an identifier.
type Owned<'r> = (RecordKind, &'r IdentifierKey, RecordId);

/// Writes the owners that are new or changed.
async fn put_owners(
    transaction: &Transaction<'_>,
    rows: &Rows,
    present: &Records,
    copied_min: usize,
) -> Result<(), Broken> {
    let (mut ended, mut open, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for ((kind, key), owners) in &rows.owners {
        let before = present.owners.get(&(*kind, key.clone())).map(Vec::as_slice).unwrap_or_default();
        for owner in owners.iter().filter(|owner| !before.contains(owner)) {
            let owned = (*kind, key, owner.id);
            if owner.is_open && owners.len() == 1 {
                first.push(owned);
            } else if owner.is_open {
                open.push(owned);
            } else {
                ended.push(owned);
            }
        }
    }
    // An identifier that the record itself had before, and had ended, exists.
    first.retain(|(kind, key, id)| {
        let is_there = present.owners.contains_key(&(*kind, IdentifierKey::clone(key)));
        open.extend(is_there.then_some((*kind, *key, *id)));
        !is_there
    });
    if first.len() < copied_min {
        open.append(&mut first);
    } else {
        copy_owners(transaction, &first).await?;
    }
    // Ended identifiers first: only then can another record use them.
    put_owners_of(transaction, &ended, false).await?;
    put_owners_of(transaction, &open, true).await
}

/// Copies the owners of identifiers that no record had before.
async fn copy_owners(transaction: &Transaction<'_>, first: &[Owned<'_>]) -> Result<(), Broken> {
    let mut table = Table::new(
        "identifier (kind, system, value, id, is_open)",
        &[Type::INT2, Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL],
    );
    for (kind, key, id) in first {
        let (system, value) = (key.system.as_str(), key.value.as_str());
        table.add(&[&kind_number(*kind), &system, &value, &signed(id.0), &true])?;
    }
    Ok(table.flush(transaction).await?)
}

async fn put_owners_of(transaction: &Transaction<'_>, owners: &[Owned<'_>], is_open: bool) -> Result<(), Broken> {
    if owners.is_empty() {
        return Ok(());
    }
    let row = owners
        .iter()
        .map(|(kind, key, id)| (kind_number(*kind), key.system.as_str(), key.value.as_str(), signed(id.0)));
    let (kinds, systems, values, ids): (Vec<i16>, Vec<&str>, Vec<&str>, Vec<i64>) = row.collect();
    let statement = "INSERT INTO daftar.identifier (kind, system, value, id, is_open) \
                     SELECT kind, system, value, id, $5 \
                     FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) AS owner (kind, system, value, id) \
                     ON CONFLICT (kind, system, value, id) DO UPDATE SET is_open = EXCLUDED.is_open";
    execute_on(transaction, statement, &[&kinds, &systems, &values, &ids, &is_open], owners.len()).await
}

async fn put_slots(transaction: &Transaction<'_>, rows: &Rows) -> Result<(), Broken> {
    const FREE: &str = "DELETE FROM daftar.open_membership AS slot \
                        USING unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS free (program, kind, id) \
                        WHERE slot.program = free.program AND slot.beneficiary_kind = free.kind AND slot.beneficiary = free.id";
    const HOLD: &str = "INSERT INTO daftar.open_membership (program, beneficiary_kind, beneficiary, membership) \
                        SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) \
                        ON CONFLICT (program, beneficiary_kind, beneficiary) DO UPDATE SET membership = EXCLUDED.membership";
    let free = rows.slots.iter().filter(|(_, holder)| holder.is_none()).map(|(slot, _)| slot_cells(slot));
    let (programs, kinds, ids): (Vec<_>, Vec<_>, Vec<_>) = free.collect();
    if !ids.is_empty() {
        execute(transaction, FREE, &[&programs, &kinds, &ids]).await?;
    }
    let held = rows.slots.iter().filter(|(_, holder)| holder.is_some()).map(|(slot, _)| slot_cells(slot));
    let (programs, kinds, ids): (Vec<_>, Vec<_>, Vec<_>) = held.collect();
    let holders: Vec<i64> = rows.slots.values().flatten().map(|holder| signed(holder.0)).collect();
    if !ids.is_empty() {
        execute(transaction, HOLD, &[&programs, &kinds, &ids, &holders]).await?;
    }
    Ok(())
}

/// Writes the small tables: clients, settings, photos, codes, requests.
async fn put_small(transaction: &Transaction<'_>, rows: &Rows) -> Result<(), Broken> {
    for (id, (client, value)) in &rows.clients {
        let statement = "INSERT INTO daftar.client (id, name, status, value) VALUES ($1, $2, $3, $4) ON CONFLICT (id) \
                         DO UPDATE SET name = EXCLUDED.name, status = EXCLUDED.status, value = EXCLUDED.value";
        let (name, status) = client_cells(client);
        execute(transaction, statement, &[&id.as_str(), &name, &status, value]).await?;
    }
    for ((kind, key), value) in &rows.settings {
        match value {
            Some(value) => {
                let statement = "INSERT INTO daftar.setting (kind, key, value) VALUES ($1, $2, $3) \
                                 ON CONFLICT (kind, key) DO UPDATE SET value = EXCLUDED.value";
                execute(transaction, statement, &[kind, key, value]).await?;
            }
            None => {
                execute(transaction, "DELETE FROM daftar.setting WHERE kind = $1 AND key = $2", &[kind, key]).await?;
            }
        }
    }
    for (digest, photo) in &rows.photos {
        let statement = "INSERT INTO daftar.photo (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        execute(transaction, statement, &[&digest.0.as_slice(), &photo.bytes().as_ref()]).await?;
    }
    put_codes(transaction, &rows.codes).await?;
    for (name, value) in &rows.counters {
        execute(transaction, RAISE_COUNTER, &[&name.as_str(), &signed(*value)]).await?;
    }
    rows.behind.write(transaction).await?;
    if rows.requests.is_empty() {
        return Ok(());
    }
    let (clients, keys, parts): (Vec<_>, Vec<_>, Vec<_>) = rows.requests.keys().map(name_cells).collect();
    let (at, values): (Vec<Instant>, Vec<&[u8]>) =
        rows.requests.values().map(|(at, value)| (Instant(*at), value.as_slice())).unzip();
    let statement = "INSERT INTO daftar.request (client, key, part, at, value) \
                     SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::timestamptz[], $5::bytea[]) \
                     ON CONFLICT (client, key, part) DO UPDATE SET at = EXCLUDED.at, value = EXCLUDED.value";
    execute_on(transaction, statement, &[&clients, &keys, &parts, &at, &values], clients.len()).await
}

/// Writes codes and editions that got numbers.
async fn put_codes(transaction: &Transaction<'_>, codes: &CodeRows) -> Result<(), Broken> {
    const CODES: &str = "INSERT INTO daftar.code (number, system, code, part) \
                         SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])";
    const EDITIONS: &str = "INSERT INTO daftar.edition (number, system, edition, part) \
                            SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])";
    for (statement, rows) in [(CODES, &codes.codes), (EDITIONS, &codes.editions)] {
        if rows.is_empty() {
            continue;
        }
        let cells = rows.iter().map(|row| (row.number, row.system.as_str(), row.text.as_str(), row.part));
        let (numbers, systems, texts, parts): (Vec<i64>, Vec<&str>, Vec<&str>, Vec<i64>) = cells.collect();
        execute_on(transaction, statement, &[&numbers, &systems, &texts, &parts], rows.len()).await?;
    }
    Ok(())
}

/// Writes the change log and the audit log.
async fn put_log(transaction: &Transaction<'_>, rows: &Rows, copied_min: usize) -> Result<(), Broken> {
    let reported: Vec<_> = rows.audit_removals.iter().map(|(value, entry)| (*value, vec![entry.clone()])).collect();
    let removed: Vec<i64> = rows.audit_removed.iter().map(|value| signed(*value)).collect();
    let outcomes = tokio::join!(
        // First: other rows are sent while it waits for its lock and the numbers of its values.
        audit_row::add(transaction, &rows.audit, copied_min),
        put_changes(transaction, rows, copied_min),
        audit_row::replace(transaction, &reported),
        audit_row::remove(transaction, &removed),
    );
    cause_of(<[_; 4]>::from(outcomes))
}

/// Notes the last transaction of a writer, so that it can resolve a commit that got no response.
pub(super) async fn note_written(transaction: &Transaction<'_>, writer: &[u8], number: u64) -> Result<(), Broken> {
    let number = signed(number);
    execute(transaction, WRITTEN, &[&writer, &number]).await?;
    Ok(())
}

async fn put_changes(transaction: &Transaction<'_>, rows: &Rows, copied_min: usize) -> Result<(), Broken> {
    if rows.changes.len() >= copied_min {
        let mut table = Table::new("change (sequence, value, touched)", &[Type::INT8, Type::BYTEA, Type::BYTEA]);
        for change in &rows.changes {
            table.add(&[&signed(change.sequence.0), &change.value, &change.touched])?;
        }
        return Ok(table.flush(transaction).await?);
    }
    for part in parts(&rows.changes, |change| change.value.len()) {
        let row =
            part.iter().map(|change| (signed(change.sequence.0), change.value.as_slice(), change.touched.as_deref()));
        let (sequences, values, touched): (Vec<_>, Vec<_>, Vec<_>) = row.collect();
        let statement = "INSERT INTO daftar.change (sequence, value, touched) \
                         SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[])";
        execute_on(transaction, statement, &[&sequences, &values, &touched], part.len()).await?;
    }
    Ok(())
}
