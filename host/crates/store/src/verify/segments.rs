//! Summaries of the audit log, held against the lines that they sum up.

use super::{RawValue, RawValues, Table, finding, undecodable};
use crate::record;
use crate::record::audit_segment::AuditSegment;
use crate::record::instant::milliseconds;
use crate::segment;
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::AuditQuery;
use daftar_domain::verification::{Finding, Part, Remedy};

/// How many values of the audit log are read at once.
const VALUES_AT_ONCE: usize = 256;

/// The summaries in their order.
#[derive(Default)]
pub(super) struct Segments {
    last: u64,
}

impl Segments {
    /// Takes up the next one; one that cannot be read is reported by [`check`].
    pub(super) fn see(&mut self, value: &[u8]) -> Option<Finding> {
        let segment = record::audit_segment::decode(value).ok()?;
        let overlaps = segment.first <= self.last;
        self.last = segment.last;
        overlaps.then(|| problem(segment.last, "it sums up lines that the one before it sums up"))
    }
}

fn name(last: u64) -> String {
    format!("the summary of the audit log up to value {last}")
}

fn problem(last: u64, problem: impl Into<String>) -> Finding {
    finding(Part::AuditSummaries, name(last), problem, Remedy::Restore)
}

/// Checks a summary that is stored under the number of its last value.
pub(super) fn check(values: &dyn RawValues, number: u64, value: &[u8]) -> Vec<Finding> {
    let segment = match record::audit_segment::decode(value) {
        Ok(segment) => segment,
        Err(error) => return vec![undecodable(Part::AuditSummaries, name(number), &error)],
    };
    if segment.last != number || segment.first > segment.last {
        return vec![problem(
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
                return vec![problem(
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
        return vec![problem(number, format!("it sums up {} lines, and there are {lines}", segment.lines))];
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
