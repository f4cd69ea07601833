//! What rows say, and how our numbers stand in them.
//!
//! **Invariant:** kinds have the numbers that the keys of the embedded store have, and never change them.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use daftar_domain::change::ChangedRecord;
use daftar_domain::client::ClientId;
use daftar_domain::idempotency::{IdempotencyKey, RememberedRequest, RequestName};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::shared::History;
use daftar_store::{StoreError, record};

use super::failure::{Failure, corrupt};

/// The number of a kind in the database.
pub(super) fn kind_number(kind: RecordKind) -> i16 {
    match kind {
        RecordKind::Individual => 1,
        RecordKind::Group => 2,
        RecordKind::Program => 3,
        RecordKind::ProgramMembership => 4,
        RecordKind::Consent => 5,
    }
}

/// The kind of a number.
pub(super) fn kind_of(number: i16) -> Result<RecordKind, StoreError> {
    let kind = RecordKind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
    kind.ok_or_else(|| corrupt("record", "it is of no kind that this daftar knows"))
}

/// A number as the database has it: it knows none beyond 2⁶³, and nothing of ours is.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of the database.
pub(super) fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| corrupt("number", "it is below 0"))
}

/// A column of a row. One that holds something else is damage, and no failure of the database.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| corrupt("row", &Failure::from(error).to_string()))
}

/// A number in a column.
pub(super) fn number(row: &Row, at: usize) -> Result<u64, StoreError> {
    unsigned(column(row, at)?)
}

/// The two columns of a statement on `daftar.last` that tell in which history it is answered: when the server of the database was started,
/// in microseconds, and the table itself, which is another one where the database was made anew on the same server. A copy that takes over
/// was started at another time than the server in whose place it answers.
macro_rules! history {
    () => {
        "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, last.tableoid::bigint"
    };
}
pub(super) use history;

/// The history of a row, from the first of its two columns on.
pub(super) fn history_of(row: &Row, at: usize) -> Result<History, StoreError> {
    Ok(History([number(row, at)?, number(row, at.saturating_add(1))?]))
}

/// The record of a row of its key and its value.
pub(super) fn record_of(kind: RecordKind, row: &Row) -> Result<ChangedRecord, StoreError> {
    record::decode_any(kind, RecordId(number(row, 0)?), column(row, 1)?)
}

/// The request of a row of client, key, part and value.
pub(super) fn request_of(row: &Row) -> Result<Arc<RememberedRequest>, StoreError> {
    record::remembered::decode(request_name(row)?, column(row, 3)?).map(Arc::new)
}

/// The name of the request of a row of client, key and part.
pub(super) fn request_name(row: &Row) -> Result<RequestName, StoreError> {
    let unreadable = || corrupt("request that was done", "its name is none");
    let client = ClientId::parse(column(row, 0)?).map_err(|_| unreadable())?;
    let key = IdempotencyKey::parse(column(row, 1)?).map_err(|_| unreadable())?;
    let part = u16::try_from(column::<i32>(row, 2)?).map_err(|_| unreadable())?;
    Ok(RequestName { client, key, part })
}
