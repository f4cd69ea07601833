//! Rows that conflict with records to be copied into a database that contains earlier states of them.
//!
//! **Invariant:** all rows of a record are deleted before its versions are copied. A value that one record gave up is
//! free before another record takes it, whichever of the two is received first.

use std::collections::BTreeSet;

use deadpool_postgres::Transaction;

use daftar_domain::change::ChangedRecord;
use daftar_domain::record::{RecordKind, VersionId};

use crate::database::{execute, rows};
use crate::failure::corrupt;
use crate::group::Broken;
use crate::rows::{column, kind_number, signed, slot_cells};

type Place = (i16, i64);
/// A record that may have an identifier: kind, system, value, key.
type Carrier = (i16, String, String, i64);
/// A program, a beneficiary by kind and key, and a membership.
type Held = (i64, i16, i64, i64);

/// Rows to be deleted before the next rows are copied.
#[derive(Default)]
pub(super) struct ConflictingRows {
    records: Vec<Place>,
    carriers: BTreeSet<Carrier>,
    /// Carriers that have the identifier now.
    carrying: Vec<Carrier>,
    slots: BTreeSet<Held>,
    /// Slots that are open now.
    open_slots: Vec<Held>,
    /// Records that lost a unique value to another record, and must be received with their current state.
    owing: BTreeSet<Place>,
    /// Number of older versions that were deleted, to be inserted again.
    pub(super) older_versions: u64,
}

impl ConflictingRows {
    /// Notes a received version of a record; a new record has no rows.
    pub(super) fn see(&mut self, record: &ChangedRecord, is_present: bool, is_new: bool) {
        let (kind, id, version) = record.place();
        let place = (kind_number(kind), signed(id.0));
        if version == VersionId::FIRST && !is_new {
            self.records.push(place);
        }
        if is_present {
            // Not with an earlier version: rows may be written between two versions.
            self.owing.remove(&place);
        }
        for identifier in record.identifiers().iter() {
            let key = &identifier.key;
            let carrier = (place.0, key.system.as_str().to_owned(), key.value.as_str().to_owned(), place.1);
            if is_present && identifier.is_open() {
                self.carrying.push(carrier.clone());
            }
            if !is_new {
                self.carriers.insert(carrier);
            }
        }
        if let ChangedRecord::ProgramMembership(membership) = record {
            let (program, of, key) = slot_cells(&membership.details.slot());
            let held = (program, of, key, place.1);
            if is_present && membership.details.status().is_open() {
                self.open_slots.push(held);
            }
            if !is_new {
                self.slots.insert(held);
            }
        }
    }

    /// Deletes the rows.
    pub(super) async fn clear(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        const RECORDS: &str = "DELETE FROM daftar.record AS record USING unnest($1::smallint[], $2::bigint[]) \
                               AS met (kind, id) WHERE record.kind = met.kind AND record.id = met.id";
        const OLDER: &str = "DELETE FROM daftar.earlier_version AS older USING unnest($1::smallint[], $2::bigint[]) \
                             AS met (kind, id) WHERE older.kind = met.kind AND older.id = met.id";
        let (kinds, ids): (Vec<i16>, Vec<i64>) = std::mem::take(&mut self.records).into_iter().unzip();
        if !ids.is_empty() {
            execute(transaction, RECORDS, &[&kinds, &ids]).await?;
            self.older_versions += execute(transaction, OLDER, &[&kinds, &ids]).await?;
        }
        self.clear_carriers(transaction).await?;
        self.clear_slots(transaction).await
    }

    async fn clear_carriers(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        const OWN: &str = "DELETE FROM daftar.identifier AS owner \
                           USING unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) AS met (kind, system, value, id) \
                           WHERE owner.kind = met.kind AND owner.system = met.system AND owner.value = met.value \
                           AND owner.id = met.id";
        const OTHERS: &str = "UPDATE daftar.identifier AS owner SET is_open = false \
                              FROM unnest($1::smallint[], $2::text[], $3::text[]) AS met (kind, system, value) \
                              WHERE owner.kind = met.kind AND owner.system = met.system AND owner.value = met.value \
                              AND owner.is_open RETURNING owner.kind, owner.id";
        type Columns = (Vec<i16>, Vec<String>, Vec<String>, Vec<i64>);
        let (kinds, systems, values, ids): Columns = std::mem::take(&mut self.carriers).into_iter().collect();
        if !ids.is_empty() {
            execute(transaction, OWN, &[&kinds, &systems, &values, &ids]).await?;
        }
        // Its own rows are deleted: a record that still has the identifier is another one, which gave it up later.
        let (kinds, systems, values, ids): Columns = std::mem::take(&mut self.carrying).into_iter().collect();
        if !ids.is_empty() {
            for row in rows(transaction, OTHERS, &[&kinds, &systems, &values]).await? {
                self.owing.insert((column(&row, 0)?, column(&row, 1)?));
            }
        }
        Ok(())
    }

    async fn clear_slots(&mut self, transaction: &Transaction<'_>) -> Result<(), Broken> {
        const OWN: &str = "DELETE FROM daftar.open_membership AS slot \
                           USING unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) \
                           AS met (program, kind, id, membership) \
                           WHERE slot.program = met.program AND slot.beneficiary_kind = met.kind \
                           AND slot.beneficiary = met.id AND slot.membership = met.membership";
        const OTHERS: &str = "DELETE FROM daftar.open_membership AS slot \
                              USING unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS met (program, kind, id) \
                              WHERE slot.program = met.program AND slot.beneficiary_kind = met.kind \
                              AND slot.beneficiary = met.id RETURNING slot.membership";
        type Columns = (Vec<i64>, Vec<i16>, Vec<i64>, Vec<i64>);
        let (programs, kinds, ids, memberships): Columns = std::mem::take(&mut self.slots).into_iter().collect();
        if !ids.is_empty() {
            execute(transaction, OWN, &[&programs, &kinds, &ids, &memberships]).await?;
        }
        let (programs, kinds, ids, _): Columns = std::mem::take(&mut self.open_slots).into_iter().collect();
        if !ids.is_empty() {
            let membership = kind_number(RecordKind::ProgramMembership);
            for row in rows(transaction, OTHERS, &[&programs, &kinds, &ids]).await? {
                self.owing.insert((membership, column(&row, 0)?));
            }
        }
        Ok(())
    }

    /// Checks, after the last entry, that no record is missing.
    pub(super) fn check_settled(&self) -> Result<(), Broken> {
        if self.owing.is_empty() {
            return Ok(());
        }
        Err(corrupt("record", "another record has the same open identifier or membership").into())
    }
}
