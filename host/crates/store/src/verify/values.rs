//! Values that are checked alone: the table of codes, idempotency records, the audit log and its summaries, settings,
//! clients, counters.

use std::cell::Cell;

use super::{RawValue, RawValues, Table, finding, readable_record, undecodable};
use crate::audit_log::REMOVAL_PASSED_OVER_MAX;
use crate::record::audit::AuditSegment;
use crate::record::instant::milliseconds;
use crate::record::setting::{SettingKind, key_bytes};
use crate::{StoreError, record, segment};
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::AuditQuery;
use daftar_domain::code::CodedValue;
use daftar_domain::idempotency::RequestName;
use daftar_domain::verification::{Finding, Part, Remedy, number_name};

/// The numbers assigned by the table of codes.
#[derive(Default)]
pub(super) struct CodeNumbers {
    parts: Cell<u64>,
    codes: Cell<u64>,
    editions: Cell<u64>,
}

impl CodeNumbers {
    /// Adds the next part of the table.
    pub(super) fn see(&mut self, number: u64, value: &[u8]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let missing = number.saturating_sub(self.parts.get());
        if missing > 0 {
            let place = format!("part {} of the table of codes", self.parts.get());
            let problem = format!("{missing} parts are missing: later numbers in records cannot be decoded");
            findings.push(finding(Part::Codes, place, problem, Remedy::Restore));
        }
        self.parts.set(number.saturating_add(1));
        match record::code_table::decode(value) {
            Ok(part) => {
                self.codes.set(self.codes.get().saturating_add(part.codes.len() as u64));
                self.editions.set(self.editions.get().saturating_add(part.editions.len() as u64));
            }
            Err(error) => {
                findings.push(undecodable(Part::Codes, format!("part {number} of the table of codes"), &error));
            }
        }
        findings
    }

    /// True if the table contains the numbers of a code in a record.
    pub(super) fn knows(&self, values: &dyn RawValues, code: CodedValue) -> bool {
        let is_known =
            || u64::from(code.number.0) < self.codes.get() && u64::from(code.edition.0) < self.editions.get();
        is_known() || (self.apply_new(values) && is_known())
    }

    /// Adds newly assigned numbers; returns true if there were any.
    fn apply_new(&self, values: &dyn RawValues) -> bool {
        let mut has_grown = false;
        while let Ok(Some(value)) = values.numbered(Table::Codes, self.parts.get()) {
            let Ok(part) = record::code_table::decode(&value) else { return has_grown };
            self.parts.set(self.parts.get().saturating_add(1));
            self.codes.set(self.codes.get().saturating_add(part.codes.len() as u64));
            self.editions.set(self.editions.get().saturating_add(part.editions.len() as u64));
            has_grown = true;
        }
        has_grown
    }
}

/// Checks an idempotency record.
pub(super) fn request(values: &dyn RawValues, name: RequestName, value: &[u8]) -> Vec<Finding> {
    let place = format!("a request of client `{}`", name.client);
    let request = match record::remembered::decode(name, value) {
        Ok(request) => request,
        Err(error) => return vec![undecodable(Part::Requests, place, &error)],
    };
    let mut findings = Vec::new();
    for (kind, id, version) in request.responses.iter().filter_map(|answer| answer.record) {
        let is_there = readable_record(values, kind, id).is_none_or(|record| record.place().2 >= version);
        if !is_there || values.has_record(kind, id) == Ok(false) {
            let problem = format!("it wrote {} version {version}, which is missing", number_name(kind, id));
            findings.push(finding(Part::Requests, place.clone(), problem, Remedy::Restore));
        }
    }
    findings
}

/// Maximum number of remembered gaps in the audit log.
const GAPS_MAX: usize = 1_000;

/// The values of the audit log.
#[derive(Default)]
pub(super) struct AuditValues {
    last: u64,
    values: usize,
    /// The end of the normal gaps, and the least number of values up to it.
    gaps_until: Option<(u64, u64)>,
    /// Number of values up to that end.
    until: u64,
    /// First and last missing number, and the number of values before.
    gaps: Vec<(u64, u64, usize)>,
    /// True if an entry reports a removal of old entries.
    is_removal_reported: bool,
}

impl AuditValues {
    pub(super) fn see(&mut self, values: &dyn RawValues, number: u64, value: &[u8]) -> Option<Finding> {
        let (until, _) = *self.gaps_until.get_or_insert_with(|| values.audit_gaps());
        self.until = self.until.saturating_add(u64::from(number <= until));
        let expected = self.last.max(until).saturating_add(1);
        if number > expected && self.gaps.len() < GAPS_MAX {
            self.gaps.push((expected, number.saturating_sub(1), self.values));
        }
        (self.last, self.values) = (number, self.values.saturating_add(1));
        match record::audit::decode(value) {
            Ok(lines) => {
                self.is_removal_reported |= lines.iter().any(AuditEntry::reports_removal);
                None
            }
            Err(error) => Some(undecodable(Part::Audit, format!("value {number} of the audit log"), &error)),
        }
    }

    /// The gaps that no removal of old entries explains: a removal never skips more than [`REMOVAL_PASSED_OVER_MAX`]
    /// values, and the last removal is always reported.
    pub(super) fn end(&mut self) -> Vec<Finding> {
        let is_excused = |before: usize| self.is_removal_reported && before < REMOVAL_PASSED_OVER_MAX;
        let gaps = self.gaps.iter().filter(|(_, _, before)| !is_excused(*before));
        let lost = self.gaps_until.map_or(0, |(_, least)| least.saturating_sub(self.until));
        let lost = Some(lost).filter(|lost| *lost > 0 && !self.is_removal_reported).map(|lost| {
            let place = "the audit log as it was copied into this folder";
            let problem = format!("it lacks {lost} values that no removal of old entries deleted");
            finding(Part::Audit, place, problem, Remedy::Restore)
        });
        let findings = gaps.map(|(first, last, _)| {
            let place = if first == last { format!("value {first}") } else { format!("values {first} to {last}") };
            let problem = "entries are missing that no removal of old entries deleted";
            finding(Part::Audit, format!("{place} of the audit log"), problem, Remedy::Restore)
        });
        findings.chain(lost).collect()
    }
}

/// Checks a setting.
pub(super) fn setting(kind: SettingKind, key: &[u8], value: &[u8]) -> Option<Finding> {
    match record::setting::decode(kind, value) {
        Ok(setting) if SettingKind::of(&setting.key()) == kind && key_bytes(&setting.key()) == key => None,
        Ok(_) => {
            let problem = "it is stored under the key of another one";
            Some(finding(Part::Settings, setting_name(kind, key), problem, Remedy::Restore))
        }
        Err(error) => Some(undecodable(Part::Settings, setting_name(kind, key), &error)),
    }
}

/// The name of a setting, which is no personal data.
fn setting_name(kind: SettingKind, key: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(key).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{} `{}`", kind.name(), shown.trim_end())
}

/// Checks a client.
pub(super) fn client(id: &str, value: &[u8]) -> Option<Finding> {
    let name = format!("client `{id}`");
    match record::client::decode(value) {
        Ok(client) if client.id.as_str() == id => None,
        Ok(_) => Some(finding(Part::Clients, name, "it is stored under the id of another one", Remedy::Restore)),
        Err(error) => Some(undecodable(Part::Clients, name, &error)),
    }
}

/// Checks a counter.
pub(super) fn counter(name: &str, error: Option<&StoreError>) -> Option<Finding> {
    error.map(|error| undecodable(Part::Counters, format!("counter `{name}`"), error))
}

/// Number of audit log values that are read together.
const VALUES_AT_ONCE: usize = 256;

/// The summaries, in order.
#[derive(Default)]
pub(super) struct Summaries {
    last: u64,
}

impl Summaries {
    /// Adds the next summary; an unreadable one is reported by [`summary`].
    pub(super) fn see(&mut self, value: &[u8]) -> Option<Finding> {
        let segment: AuditSegment = record::decode(value).ok()?;
        // Values count from 1: a summary that begins with 0 is reported separately.
        let overlaps = (1..=self.last).contains(&segment.first);
        self.last = segment.last;
        overlaps.then(|| summary_problem(segment.last, "it overlaps the previous summary"))
    }
}

fn summary_name(last: u64) -> String {
    format!("the summary of the audit log up to value {last}")
}

fn summary_problem(last: u64, problem: impl Into<String>) -> Finding {
    finding(Part::AuditSummaries, summary_name(last), problem, Remedy::Restore)
}

/// Checks a summary stored under the number of its last value.
pub(super) fn summary(values: &dyn RawValues, number: u64, value: &[u8]) -> Vec<Finding> {
    let segment: AuditSegment = match record::decode(value) {
        Ok(segment) => segment,
        Err(error) => return vec![undecodable(Part::AuditSummaries, summary_name(number), &error)],
    };
    if segment.first == 0 || segment.last != number || segment.first > segment.last {
        return vec![summary_problem(number, format!("it covers the values {} to {}", segment.first, segment.last))];
    }
    let (mut found, mut lines) = (0_u64, 0_u64);
    let mut after = segment.first.checked_sub(1);
    while let Some(from) = after.filter(|last| *last < segment.last) {
        let page = values.page(Table::Audit, Some(&from.to_be_bytes()), VALUES_AT_ONCE);
        after = None;
        for value in page.values {
            let RawValue::Numbered(at, value) = value else { continue };
            if at > segment.last {
                after = None;
                break;
            }
            after = page.next.is_some().then_some(at);
            found = found.saturating_add(1);
            // An unreadable value is reported with the audit log.
            let Ok(of_value) = record::audit::decode(&value) else { return Vec::new() };
            lines = lines.saturating_add(of_value.len() as u64);
            if let Some(line) = of_value.iter().find(|line| !sums_up(&segment, line)) {
                return vec![summary_problem(
                    number,
                    format!("a search would skip an entry of {} in its segment", line.at),
                )];
            }
        }
        if let Some(unreadable) = page.unreadable {
            return vec![unreadable];
        }
    }
    // Old entries are removed before their summary. On PostgreSQL numbers have gaps.
    let is_whole = found == segment.last.saturating_sub(segment.first).saturating_add(1);
    if is_whole && lines != segment.lines {
        return vec![summary_problem(number, format!("it covers {} entries, but there are {lines}", segment.lines))];
    }
    Vec::new()
}

/// True if searches for the names in an entry read the segment.
fn sums_up(segment: &AuditSegment, line: &AuditEntry) -> bool {
    let at = milliseconds(line.at);
    let query = |target: Option<String>| AuditQuery {
        actor: Some(line.actor.clone()),
        request_id: Some(line.request_id.clone()),
        target,
        ..AuditQuery::default()
    };
    (segment.at_min_ms..=segment.at_max_ms).contains(&at)
        && segment::may_hold(segment, &query(None))
        && line.targets.iter().all(|target| segment::may_hold(segment, &query(Some(target.clone()))))
}
