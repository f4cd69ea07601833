//! Values that are checked by themselves: the table of codes, requests, the audit log and its summaries, settings, clients, counters.

use std::cell::Cell;

use super::{RawValue, RawValues, Table, finding, readable_record, undecodable};
use crate::audit_log::REMOVAL_PASSED_OVER_MAX;
use crate::record::audit_segment::AuditSegment;
use crate::record::instant::milliseconds;
use crate::record::setting::{SettingKind, key_bytes};
use crate::{StoreError, record, segment};
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::AuditQuery;
use daftar_domain::code::CodedValue;
use daftar_domain::idempotency::RequestName;
use daftar_domain::verification::{Finding, Part, Remedy, number_name};

/// How many numbers the table of codes has given.
#[derive(Default)]
pub(super) struct CodeNumbers {
    parts: Cell<u64>,
    codes: Cell<u64>,
    editions: Cell<u64>,
}

impl CodeNumbers {
    /// Takes up the next part of the table.
    pub(super) fn see(&mut self, number: u64, value: &[u8]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let missing = number.saturating_sub(self.parts.get());
        if missing > 0 {
            let place = format!("part {} of the table of codes", self.parts.get());
            let problem =
                format!("{missing} parts are missing: the numbers in records have lost their meaning from there on");
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

    /// Whether a code that a record uses has its numbers from the table.
    pub(super) fn knows(&self, values: &dyn RawValues, code: CodedValue) -> bool {
        let is_known =
            || u64::from(code.number.0) < self.codes.get() && u64::from(code.edition.0) < self.editions.get();
        is_known() || (self.apply_new(values) && is_known())
    }

    /// Takes up what was numbered since; says whether there was anything.
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
    for (kind, id, version) in request.answers.iter().filter_map(|answer| answer.record) {
        let is_there = readable_record(values, kind, id).is_none_or(|record| record.place().2 >= version);
        if !is_there || values.has_record(kind, id) == Ok(false) {
            let problem = format!("it wrote {} version {version}, which is not there", number_name(kind, id));
            findings.push(finding(Part::Requests, place.clone(), problem, Remedy::Restore));
        }
    }
    findings
}

/// The most gaps of the audit log that are kept in mind.
const GAPS_MAX: usize = 1_000;

/// The values of the audit log.
#[derive(Default)]
pub(super) struct AuditValues {
    last: u64,
    values: usize,
    /// First and last number that is missing, and how many values stand before.
    gaps: Vec<(u64, u64, usize)>,
    /// Whether a line says that old lines were removed.
    is_removal_told: bool,
}

impl AuditValues {
    pub(super) fn see(&mut self, number: u64, value: &[u8]) -> Option<Finding> {
        if number > self.last.saturating_add(1) && self.gaps.len() < GAPS_MAX {
            self.gaps.push((self.last.saturating_add(1), number.saturating_sub(1), self.values));
        }
        (self.last, self.values) = (number, self.values.saturating_add(1));
        match record::audit::decode(value) {
            Ok(lines) => {
                self.is_removal_told |= lines.iter().any(AuditEntry::tells_of_removal);
                None
            }
            Err(error) => Some(undecodable(Part::Audit, format!("value {number} of the audit log"), &error)),
        }
    }

    /// The gaps that no removal of old lines has left: a removal never goes past [`REMOVAL_PASSED_OVER_MAX`] values that stay,
    /// and the last one is always told of.
    pub(super) fn end(&mut self) -> Vec<Finding> {
        let is_excused = |before: usize| self.is_removal_told && before < REMOVAL_PASSED_OVER_MAX;
        let gaps = self.gaps.iter().filter(|(_, _, before)| !is_excused(*before));
        let findings = gaps.map(|(first, last, _)| {
            let place = if first == last { format!("value {first}") } else { format!("values {first} to {last}") };
            let problem = "lines are missing that no removal of old lines took out";
            finding(Part::Audit, format!("{place} of the audit log"), problem, Remedy::Restore)
        });
        findings.collect()
    }
}

/// Checks a setting.
pub(super) fn setting(kind: SettingKind, key: &[u8], value: &[u8]) -> Option<Finding> {
    match record::setting::decode(kind, value) {
        Ok(setting) if SettingKind::of(&setting.key()) == kind && key_bytes(&setting.key()) == key => None,
        Ok(_) => {
            let problem = "it is kept under the name of another one";
            Some(finding(Part::Settings, setting_name(kind, key), problem, Remedy::Restore))
        }
        Err(error) => Some(undecodable(Part::Settings, setting_name(kind, key), &error)),
    }
}

/// What a setting is called: nothing in it is of a person.
fn setting_name(kind: SettingKind, key: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(key).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{} `{}`", kind.name(), shown.trim_end())
}

/// Checks a client.
pub(super) fn client(id: &str, value: &[u8]) -> Option<Finding> {
    let name = format!("client `{id}`");
    match record::client::decode(value) {
        Ok(client) if client.id.as_str() == id => None,
        Ok(_) => Some(finding(Part::Clients, name, "it is kept under the id of another one", Remedy::Restore)),
        Err(error) => Some(undecodable(Part::Clients, name, &error)),
    }
}

/// Checks a counter.
pub(super) fn counter(name: &str, error: Option<&StoreError>) -> Option<Finding> {
    error.map(|error| undecodable(Part::Counters, format!("counter `{name}`"), error))
}

/// How many values of the audit log are read at once.
const VALUES_AT_ONCE: usize = 256;

/// The summaries in their order.
#[derive(Default)]
pub(super) struct Summaries {
    last: u64,
}

impl Summaries {
    /// Takes up the next one; one that cannot be read is reported by [`summary`].
    pub(super) fn see(&mut self, value: &[u8]) -> Option<Finding> {
        let segment = record::audit_segment::decode(value).ok()?;
        // Values count from 1: one that begins with 0 is reported by itself.
        let overlaps = (1..=self.last).contains(&segment.first);
        self.last = segment.last;
        overlaps.then(|| summary_problem(segment.last, "it sums up lines that the one before it sums up"))
    }
}

fn summary_name(last: u64) -> String {
    format!("the summary of the audit log up to value {last}")
}

fn summary_problem(last: u64, problem: impl Into<String>) -> Finding {
    finding(Part::AuditSummaries, summary_name(last), problem, Remedy::Restore)
}

/// Checks a summary that is stored under the number of its last value.
pub(super) fn summary(values: &dyn RawValues, number: u64, value: &[u8]) -> Vec<Finding> {
    let segment = match record::audit_segment::decode(value) {
        Ok(segment) => segment,
        Err(error) => return vec![undecodable(Part::AuditSummaries, summary_name(number), &error)],
    };
    if segment.first == 0 || segment.last != number || segment.first > segment.last {
        return vec![summary_problem(
            number,
            format!("it says that it sums up the values {} to {}", segment.first, segment.last),
        )];
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
            // A value that cannot be read is reported where the audit log is checked.
            let Ok(of_value) = record::audit::decode(&value) else { return Vec::new() };
            lines = lines.saturating_add(of_value.len() as u64);
            if let Some(line) = of_value.iter().find(|line| !sums_up(&segment, line)) {
                return vec![summary_problem(
                    number,
                    format!("a search would pass over a line of {} that it sums up", line.at),
                )];
            }
        }
        if let Some(unreadable) = page.unreadable {
            return vec![unreadable];
        }
    }
    // Lines that are old enough are removed before their summary is. On PostgreSQL numbers have gaps.
    let is_whole = found == segment.last.saturating_sub(segment.first).saturating_add(1);
    if is_whole && lines != segment.lines {
        return vec![summary_problem(number, format!("it sums up {} lines, and there are {lines}", segment.lines))];
    }
    Vec::new()
}

/// Whether searches for what a line names read the segment.
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
