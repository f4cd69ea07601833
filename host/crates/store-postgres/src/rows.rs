//! Conversion between rows and values of the register.
//!
//! **Invariant:** kinds have the same numbers as in the keys of the embedded store, and never change them.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use daftar_domain::change::ChangedRecord;
use daftar_domain::client::{Client, ClientId, ClientStatus};
use daftar_domain::idempotency::{IdempotencyKey, IdempotentRequest, RequestName};
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::record::fields::Selection;
use daftar_store::shared::History;
use daftar_store::{StoreError, record};

use super::failure::{Failure, corrupt};

/// The number of a kind in the database, from 1. The order of the kinds is fixed.
pub(super) fn kind_number(kind: RecordKind) -> i16 {
    kind as i16 + 1
}

/// The kind of a number.
pub(super) fn kind_of(number: i16) -> Result<RecordKind, StoreError> {
    let kind = RecordKind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
    kind.ok_or_else(|| corrupt("record", "its kind is unknown to this version of daftar"))
}

/// A number in the database: its maximum is 2⁶³, and no number of ours exceeds it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of the database.
pub(super) fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| corrupt("number", "it is below 0"))
}

/// A column of a row. A value of another type is corruption, and no failure of the database.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| corrupt("row", &Failure::from(error).to_string()))
}

/// A number in a column.
pub(super) fn number(row: &Row, at: usize) -> Result<u64, StoreError> {
    unsigned(column(row, at)?)
}

/// The two columns of a statement on `daftar.last` that identify the timeline: the start of the database server, in
/// microseconds, and the id of the table itself, which changes if the database is created again on the same server,
/// except as a copy with `CREATE DATABASE … TEMPLATE`. A standby that is promoted was started at another time than the
/// server that it replaces.
macro_rules! history {
    () => {
        "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, last.tableoid::bigint"
    };
}
pub(super) use history;

/// The timeline of a row, from the first of its two columns on.
pub(super) fn history_of(row: &Row, at: usize) -> Result<History, StoreError> {
    Ok(History([number(row, at)?, number(row, at.saturating_add(1))?]))
}

/// Kinds and keys of records, one array of each.
pub(super) fn places<'p>(of: impl IntoIterator<Item = &'p (RecordKind, RecordId)>) -> (Vec<i16>, Vec<i64>) {
    of.into_iter().map(|(kind, id)| (kind_number(*kind), signed(id.0))).unzip()
}

/// Program, kind of the beneficiary, and beneficiary of a slot.
pub(super) fn slot_cells(slot: &MembershipSlot) -> (i64, i16, i64) {
    let MembershipSlot { program, beneficiary } = slot;
    (signed(program.0), kind_number(beneficiary.kind.record_kind()), signed(beneficiary.id.0))
}

/// Client, key and part of the name of a request.
pub(super) fn name_cells(name: &RequestName) -> (&str, &str, i32) {
    (name.client.as_str(), name.key.as_str(), i32::from(name.part))
}

/// Name and status of a client, for SQL: this program reads them from the value.
pub(super) fn client_cells(client: &Client) -> (&str, &'static str) {
    let status = match client.status {
        ClientStatus::Active => "active",
        ClientStatus::Disabled => "disabled",
        ClientStatus::Deleted => "deleted",
    };
    (client.name.as_str(), status)
}

/// The record of a row of its key and its value.
pub(super) fn record_of(kind: RecordKind, row: &Row) -> Result<ChangedRecord, StoreError> {
    decoded(kind, RecordId(number(row, 0)?), row, 1)
}

/// As [`record_of`], with the selected fields.
pub(super) fn selected_of(
    kind: RecordKind,
    row: &Row,
    selection: Option<&Selection>,
) -> Result<ChangedRecord, StoreError> {
    record::json::decode_selected(kind, RecordId(number(row, 0)?), column::<Json<&[u8]>>(row, 1)?.0, selection)
}

/// The record of that kind and key whose stored JSON is in a column.
pub(super) fn decoded(kind: RecordKind, id: RecordId, row: &Row, at: usize) -> Result<ChangedRecord, StoreError> {
    record::json::decode(kind, id, column::<Json<&[u8]>>(row, at)?.0)
}

/// The binary form of a record with that stored JSON, for comparison and transfer between stores.
pub(super) fn binary_of(kind: RecordKind, id: RecordId, json: &[u8]) -> Result<Vec<u8>, StoreError> {
    record::encode_any(&record::json::decode(kind, id, json)?)
}

/// The text of a `jsonb` in the binary protocol: after one byte, the version of the format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json<T>(pub(super) T);

const JSON_VERSION: u8 = 1;

impl<'r> FromSql<'r> for Json<&'r [u8]> {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        raw.strip_prefix(&[JSON_VERSION]).map(Json).ok_or_else(|| "a jsonb of an unknown form".into())
    }

    accepts!(JSONB);
}

impl<T: AsRef<[u8]> + Debug> ToSql for Json<T> {
    fn to_sql(&self, _: &Type, to: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        to.put_u8(JSON_VERSION);
        to.put_slice(self.0.as_ref());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

/// The request of a row of client, key, part and value.
pub(super) fn request_of(row: &Row) -> Result<Arc<IdempotentRequest>, StoreError> {
    record::remembered::decode(request_name(row)?, column(row, 3)?).map(Arc::new)
}

/// The name of the request of a row of client, key and part.
pub(super) fn request_name(row: &Row) -> Result<RequestName, StoreError> {
    let unreadable = || corrupt("request that was done", "its name is invalid");
    let client = ClientId::parse(column(row, 0)?).map_err(|_| unreadable())?;
    let key = IdempotencyKey::parse(column(row, 1)?).map_err(|_| unreadable())?;
    let part = u16::try_from(column::<i32>(row, 2)?).map_err(|_| unreadable())?;
    Ok(RequestName { client, key, part })
}
