//! The walk through the tables, page by page.

use super::changes::Changes;
use super::records::{check_identifier, check_record, check_slot, missing, orphan_version};
use super::values::{self, AuditValues, CodeNumbers, Summaries};
use super::{RawValue, RawValues, Table, finding};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::verification::{Finding, Part, Remedy};

/// Maximum number of values in a page.
const PAGE_VALUES: usize = 512;

/// Maximum number of consecutive missing records that are listed individually.
const NAMED_MISSING_MAX: u64 = 64;

/// Codes first and changes second: records are compared with both.
const TABLES: [Table; 19] = [
    Table::Codes,
    Table::Changes,
    Table::Records(RecordKind::Individual),
    Table::Records(RecordKind::Group),
    Table::Records(RecordKind::Program),
    Table::Records(RecordKind::ProgramMembership),
    Table::Records(RecordKind::Consent),
    Table::History,
    Table::Identifiers,
    Table::OpenMemberships,
    Table::Photos,
    Table::Requests,
    Table::Audit,
    Table::AuditSummaries,
    Table::Settings,
    Table::Clients,
    Table::Counters,
    Table::SearchRows,
    Table::Others,
];

impl Table {
    /// Part of the report.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Self::Codes => Part::Codes,
            Self::Changes => Part::Changes,
            Self::Records(_) => Part::Records,
            Self::History => Part::History,
            Self::Identifiers => Part::Identifiers,
            Self::OpenMemberships => Part::OpenMemberships,
            Self::Photos => Part::Photos,
            Self::Requests => Part::Requests,
            Self::Audit => Part::Audit,
            Self::AuditSummaries => Part::AuditSummaries,
            Self::Settings => Part::Settings,
            Self::Clients => Part::Clients,
            Self::Counters => Part::Counters,
            Self::SearchRows => Part::Indexes,
            Self::Others => Part::Files,
        }
    }
}

/// A suspected damage, which may be a concurrent write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Suspect {
    Record(RecordKind, RecordId),
    Identifier(RecordKind, IdentifierKey),
    OpenMembership(MembershipSlot),
    Photo(PhotoDigest),
    AuditSummary(u64),
}

/// The result of one page.
pub(super) struct Page {
    pub(super) part: Part,
    pub(super) done: u64,
    pub(super) total: Option<u64>,
    pub(super) findings: Vec<Finding>,
    pub(super) suspects: Vec<Suspect>,
    pub(super) is_last: bool,
}

/// State of the walk.
#[derive(Default)]
pub(super) struct Walk {
    table: usize,
    /// Position of the next page.
    after: Option<Vec<u8>>,
    /// Number of checked values of the table.
    done: u64,
    /// Records of the tables before this one of the same part.
    done_before: u64,
    pub(super) codes: CodeNumbers,
    pub(super) changes: Changes,
    audit: AuditValues,
    summaries: Summaries,
    /// The last checked photo.
    photo: Option<PhotoDigest>,
    /// The last key of a record of the current kind.
    last_record: u64,
}

impl Walk {
    fn table(&self) -> Table {
        TABLES.get(self.table).copied().unwrap_or(Table::Others)
    }

    /// Checks the next values.
    pub(super) fn page(&mut self, values: &dyn RawValues) -> Page {
        let table = self.table();
        let (mut findings, mut suspects) = (Vec::new(), Vec::new());
        let read = values.page(table, self.after.as_deref(), PAGE_VALUES);
        for value in read.values {
            self.done = self.done.saturating_add(1);
            self.check(values, table, value, &mut findings, &mut suspects);
        }
        if let Some(unreadable) = read.unreadable {
            let mut page = self.give_up_part("a value cannot be read, and later ones were not checked");
            page.findings.splice(0..0, findings.into_iter().chain([unreadable]));
            page.suspects = suspects;
            return page;
        }
        let is_over = read.next.is_none();
        self.after = read.next;
        if is_over {
            match table {
                Table::Records(kind) => findings.extend(self.changes.never_seen(kind)),
                Table::Audit => findings.extend(self.audit.end()),
                _ => {}
            }
        }
        let (part, done) = (table.part(), self.done_before.saturating_add(self.done));
        let total = total(values, table);
        if is_over {
            self.next_table();
        }
        Page { part, done, total, findings, suspects, is_last: self.table >= TABLES.len() }
    }

    /// Continues with the next table, because the rest of this one cannot be read.
    pub(super) fn give_up_part(&mut self, why: &str) -> Page {
        let table = self.table();
        let place = format!("the values of {} after the first {}", table.part(), self.done);
        let findings = vec![finding(Part::Files, place, why, Remedy::Restore)];
        let (part, done) = (table.part(), self.done_before.saturating_add(self.done));
        if table == Table::Changes {
            self.changes.give_up();
        }
        self.next_table();
        Page { part, done, total: None, findings, suspects: Vec::new(), is_last: self.table >= TABLES.len() }
    }

    fn next_table(&mut self) {
        let before = self.table().part();
        self.table = self.table.saturating_add(1);
        self.done_before = if self.table().part() == before { self.done_before.saturating_add(self.done) } else { 0 };
        (self.after, self.done, self.last_record) = (None, 0, 0);
    }

    fn check(
        &mut self,
        values: &dyn RawValues,
        table: Table,
        value: RawValue,
        findings: &mut Vec<Finding>,
        suspects: &mut Vec<Suspect>,
    ) {
        match value {
            RawValue::Numbered(number, value) => match table {
                Table::Codes => findings.extend(self.codes.see(number, &value)),
                Table::Changes => findings.extend(self.changes.see(values, number, &value)),
                Table::Audit => findings.extend(self.audit.see(values, number, &value)),
                _ => {
                    if !values::summary(values, number, &value).is_empty() {
                        suspects.push(Suspect::AuditSummary(number));
                    }
                    findings.extend(self.summaries.see(&value));
                }
            },
            RawValue::Refused(number, finding) => {
                match table {
                    Table::Changes => self.changes.give_up(),
                    Table::Records(kind) => self.note_record(kind, RecordId(number), findings, suspects),
                    _ => {}
                }
                findings.push(finding);
            }
            RawValue::Record(id, value) => {
                let Table::Records(kind) = table else { return };
                self.note_record(kind, id, findings, suspects);
                if !check_record(self, values, kind, id, &value).is_empty() {
                    suspects.push(Suspect::Record(kind, id));
                }
            }
            RawValue::Version(kind, id, version) => findings.extend(orphan_version(values, kind, id, version)),
            RawValue::Identifier(kind, key) => {
                if !check_identifier(values, kind, &key).is_empty() {
                    suspects.push(Suspect::Identifier(kind, key));
                }
            }
            RawValue::Slot(slot) => {
                if !check_slot(values, slot).is_empty() {
                    suspects.push(Suspect::OpenMembership(slot));
                }
            }
            RawValue::Photo(digest) => {
                if self.photo.replace(digest) != Some(digest) && values.inspect_photo(digest).is_some() {
                    suspects.push(Suspect::Photo(digest));
                }
            }
            RawValue::Request(name, value) => findings.extend(values::request(values, name, &value)),
            RawValue::Setting(kind, key, value) => findings.extend(values::setting(kind, &key, &value)),
            RawValue::Client(id, value) => findings.extend(values::client(&id, &value)),
            RawValue::Counter(name, value) => findings.extend(values::counter(&name, value.err().as_ref())),
            RawValue::Checked(finding) => findings.extend(finding),
        }
    }

    /// Marks a record as found, and reports the missing records before it.
    fn note_record(
        &mut self,
        kind: RecordKind,
        id: RecordId,
        findings: &mut Vec<Finding>,
        suspects: &mut Vec<Suspect>,
    ) {
        let missing_before = self.last_record.saturating_add(1)..id.0;
        self.last_record = id.0;
        if missing_before.end.saturating_sub(missing_before.start) > NAMED_MISSING_MAX {
            findings.push(missing(kind, &missing_before));
        } else {
            suspects.extend(missing_before.clone().map(|id| Suspect::Record(kind, RecordId(id))));
        }
        self.changes.note_all_seen(kind, missing_before);
        self.changes.note_seen(kind, id);
    }

    /// Checks suspected damage again, without concurrent writes.
    pub(super) fn check_again(&mut self, values: &dyn RawValues, suspects: &[Suspect]) -> Vec<Finding> {
        let mut findings = self.changes.catch_up(values);
        for suspect in suspects {
            match suspect {
                Suspect::Record(kind, id) => match values.record(*kind, *id) {
                    Ok(Some(value)) => findings.extend(check_record(self, values, *kind, *id, &value)),
                    Ok(None) => findings.push(missing(*kind, &(id.0..id.0.saturating_add(1)))),
                    Err(unreadable) => findings.push(unreadable),
                },
                Suspect::Identifier(kind, key) => findings.extend(check_identifier(values, *kind, key)),
                Suspect::OpenMembership(slot) => findings.extend(check_slot(values, *slot)),
                Suspect::Photo(digest) => findings.extend(values.inspect_photo(*digest)),
                Suspect::AuditSummary(last) => match values.numbered(Table::AuditSummaries, *last) {
                    Ok(Some(value)) => findings.extend(values::summary(values, *last, &value)),
                    // Removed concurrently, with the values of its segment.
                    Ok(None) => {}
                    Err(unreadable) => findings.push(unreadable),
                },
            }
        }
        findings
    }
}

/// Approximate number of values, if the last number shows it.
fn total(values: &dyn RawValues, table: Table) -> Option<u64> {
    match table {
        Table::Records(_) => {
            let tables = RecordKind::ALL.into_iter().map(Table::Records);
            Some(tables.filter_map(|table| values.last_number(table)).fold(0, u64::saturating_add))
        }
        Table::Codes | Table::Changes => values.last_number(table),
        _ => None,
    }
}
