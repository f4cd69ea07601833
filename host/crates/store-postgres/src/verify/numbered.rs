//! Values that are numbered in parts: the code table and the audit log, as in archives.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use tokio_postgres::Row;

use daftar_domain::change::ChangedRecord;
use daftar_domain::code::CodeNumber;
use daftar_domain::verification::{Finding, Part, Remedy, record_name};
use daftar_store::record::json::CodeNames;
use daftar_store::verify::{RawPage, RawValue};
use daftar_store::{StoreError, StoredCodeTable, record};

use super::super::audit_row;
use super::super::codes::{PARTS, parts_of};
use super::super::database::Values;
use super::super::rows::{number, signed};
use super::{CODE_PARTS_AT_ONCE, PostgresValues, bounded, finding, number_after, wrong, wrong_row};

/// The finding that a value of the audit log cannot be read.
pub(super) fn unreadable_value(value: u64, error: &StoreError) -> Finding {
    finding(Part::Audit, format!("value {value} of the audit log"), error.to_string(), Remedy::Restore)
}

impl PostgresValues {
    /// Parts of the code table, as in other stores.
    pub(super) fn codes_page(&self, after: i64) -> Result<RawPage, Finding> {
        const NEXT: &str = "SELECT part FROM daftar.code WHERE part > $1 UNION SELECT part FROM daftar.edition WHERE part > $1 \
                            ORDER BY part LIMIT $2";
        let rows = self.query(NEXT, &[&after, &CODE_PARTS_AT_ONCE])?;
        let numbers = rows.iter().map(|row| number(row, 0)).collect::<Result<Vec<_>, _>>();
        let numbers = numbers.map_err(|error| wrong(&error))?;
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(RawPage::default()) };
        let parts = self.code_parts(*first, last.saturating_add(1))?.into_iter();
        let values = parts.map(|(number, part)| Ok(RawValue::Numbered(number, record::code_table::encode(&part)?)));
        let values = values.collect::<Result<_, StoreError>>().map_err(|error| wrong(&error))?;
        Ok(RawPage { values, next: Some(last.to_be_bytes().to_vec()), unreadable: None })
    }

    /// The parts of the code table from one up to before another.
    pub(super) fn code_parts(&self, first: u64, end: u64) -> Result<BTreeMap<u64, StoredCodeTable>, Finding> {
        parts_of(&self.query(PARTS, &[&signed(first), &signed(end)])?).map_err(|error| wrong(&error))
    }

    /// Compares the URIs of a record with the rows of their numbers.
    pub(super) fn check_codes(&self, record: &ChangedRecord, json: &[u8]) -> Result<Option<Finding>, Finding> {
        let found = record::json::codes(json);
        let read = || self.code_parts(0, u64::MAX);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_none() && !found.is_empty() {
            let mut all = CodeNames::new();
            read()?.values().for_each(|part| all.apply(part));
            *names = Some(all);
        }
        let uri = |number: u32| names.as_ref().and_then(|names| names.uri(CodeNumber(number)));
        let wrong = found.iter().find(|(number, message)| uri(*number) != message.as_deref());
        Ok(wrong.map(|(number, _)| {
            let problem = format!("the URI of its code number {number} differs from that of the number");
            finding(Part::Records, record_name(record), problem, Remedy::Restore)
        }))
    }

    /// Values of the audit log. The last one may have more rows than were read: it is read again separately.
    pub(super) fn audit_page(&self, after: Option<&[u8]>, limit: usize) -> Result<RawPage, Finding> {
        const BYTES: &str = "octet_length(concat(note, reason, array_to_string(other_targets, ''), \
                             array_to_string(fields, ''))) + COALESCE(octet_length(details->>'packed'), 0) + 256";
        let rows = "SELECT * FROM daftar.audit WHERE number >= $1 ORDER BY number LIMIT $2";
        let rows = bounded(rows, "number", BYTES);
        let rows = format!("SELECT {} FROM ({rows}) AS page ORDER BY number", audit_row::COLUMNS);
        let from = after.map_or(0, |after| number_after(after).saturating_add(1));
        let rows = self.query(&rows, &[&from.saturating_mul(256), &signed(limit as u64)])?;
        let mut values = audit_row::values_of(&rows).map_err(|error| wrong_row(Part::Audit, &error))?;
        let mut page = RawPage::default();
        if let Some((last, _)) = values.pop() {
            page.next = Some(last.to_be_bytes().to_vec());
            let rows = self.audit_rows(last)?;
            values.extend(audit_row::values_of(&rows).map_err(|error| wrong_row(Part::Audit, &error))?);
        }
        page.values.extend(values.into_iter().map(|(value, bytes)| match bytes {
            Ok(bytes) => RawValue::Numbered(value, bytes),
            Err(error) => RawValue::Refused(value, unreadable_value(value, &error)),
        }));
        Ok(page)
    }

    pub(super) fn audit_rows(&self, value: u64) -> Result<Vec<Row>, Finding> {
        let numbers: Values<'_> = &[&audit_row::first_number(value), &audit_row::last_number(value)];
        self.query(&audit_row::value_statement(), numbers)
    }
}
