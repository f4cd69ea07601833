//! Summaries of the audit log, held against the lines that they sum up.

use super::finding;
use super::look::{Look, strange_key, undecodable};
use crate::keys;
use daftar_domain::audit::AuditEntry;
use daftar_domain::audit::query::AuditQuery;
use daftar_domain::verification::{Finding, Part, Remedy};
use daftar_store::record;
use daftar_store::record::audit_segment::AuditSegment;
use daftar_store::record::instant::milliseconds;
use daftar_store::segment;

/// The summaries in their order.
#[derive(Default)]
pub(super) struct Segments {
    last: u64,
}

impl Segments {
    /// Takes up the next one; one that cannot be read is told of by [`inspect`].
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

/// Looks at a summary.
pub(super) fn inspect(look: &Look, key: &[u8], value: &[u8]) -> Vec<Finding> {
    let number = keys::number_of(key).filter(|number| keys::by_number(keys::AUDIT_SEGMENT, *number) == key);
    let Some(number) = number else { return vec![strange_key(Part::AuditSummaries, key)] };
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
    let (mut values, mut lines) = (0_u64, 0_u64);
    let before_first = segment.first.checked_sub(1).map(|before| keys::by_number(keys::AUDIT, before));
    for entry in look.after(&[keys::AUDIT], before_first.as_deref()) {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(unreadable) => return vec![unreadable],
        };
        if keys::number_of(&key).is_none_or(|at| at > segment.last) {
            break;
        }
        values = values.saturating_add(1);
        // A value that cannot be read is told of where the lines are looked through.
        let Ok(of_value) = record::audit::decode(&value) else { return Vec::new() };
        lines = lines.saturating_add(of_value.len() as u64);
        if let Some(line) = of_value.iter().find(|line| !sums_up(&segment, line)) {
            return vec![problem(number, format!("a search would pass over a line of {} that it sums up", line.at))];
        }
    }
    // Lines that are old enough are removed before their summary is.
    let is_whole = values == segment.last.saturating_sub(segment.first).saturating_add(1);
    if is_whole && lines != segment.lines {
        return vec![problem(number, format!("it sums up {} lines, and there are {lines}", segment.lines))];
    }
    Vec::new()
}

/// Whether searches for what a line names look at the stretch.
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
