//! Searching the audit log, and finding entries that are old enough to be removed.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_store::audit_log::{AuditSearch, REMOVAL_PASSED_OVER_MAX, REMOVAL_VALUES_MAX};
use daftar_store::record::audit::AuditSegment;
use daftar_store::segment::{self, OpenSegment};
use daftar_store::{StoreError, record};

use super::keys;
use super::reader::{Reader, number};

/// The most values that are read at start to summarise the open segment. A log with more values without a summary
/// predates summaries: it is read when it is searched.
const UNSUMMED_VALUES_MAX: u64 = 2 * segment::SEGMENT_LINES;

impl Reader {
    /// Searches the entries before a position.
    pub(super) fn audit_page(
        &self,
        query: &AuditQuery,
        before: AuditPosition,
        bounds: AuditBounds,
    ) -> Result<AuditPage, StoreError> {
        let mut search = AuditSearch::new(query, before, bounds);
        let mut newest = before.value;
        for segment in self.segments_down_from(before.value) {
            let segment = segment?;
            if let Some(after) = segment.last.checked_add(1).filter(|after| *after <= newest) {
                self.examine(&mut search, after..=newest)?;
            }
            if search.is_over() {
                break;
            }
            if search.may_hold(&segment) {
                self.examine(&mut search, segment.first..=newest.min(segment.last))?;
            }
            newest = segment.first.saturating_sub(1);
            if search.is_over() {
                break;
            }
        }
        if !search.is_over() {
            self.examine(&mut search, 0..=newest)?;
        }
        Ok(search.page(self.first_audit()?))
    }

    /// Examines the values with these numbers, newest first, until the search ends.
    fn examine(&self, search: &mut AuditSearch<'_>, numbers: RangeInclusive<u64>) -> Result<(), StoreError> {
        let (first, last) = numbers.into_inner();
        let range = keys::by_number(keys::AUDIT, first)..=keys::by_number(keys::AUDIT, last);
        for item in self.database.range(range).rev() {
            let (key, value) = self.next(item)?;
            if !search.examine(number(&key)?, record::audit::decode(&value)?) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the summary of the segment with a value, or of the next older one, and all before it, newest first.
    fn segments_down_from(&self, value: u64) -> impl Iterator<Item = Result<AuditSegment, StoreError>> {
        // A summary is stored under the last number of its segment: the first one from the value on may contain it.
        let from = keys::by_number(keys::AUDIT_SEGMENT, value);
        let holding = self.database.range(from.clone()..=keys::by_number(keys::AUDIT_SEGMENT, u64::MAX)).next();
        let older = self.database.range(keys::by_number(keys::AUDIT_SEGMENT, 0)..from).rev();
        let decoded = holding.into_iter().chain(older);
        decoded.map(|item| record::decode::<AuditSegment>(&self.next(item)?.1)).filter(move |segment| {
            // The first one may begin after the value.
            segment.as_ref().map_or(true, |segment| segment.first <= value)
        })
    }

    fn first_audit(&self) -> Result<Option<u64>, StoreError> {
        match self.database.scan_prefix([keys::AUDIT]).next() {
            None => Ok(None),
            Some(item) => number(&self.next(item)?.0).map(Some),
        }
    }

    /// Returns the open segment, after the values that have summaries.
    pub(super) fn open_segment(&self, last_audit: u64) -> Result<OpenSegment, StoreError> {
        let summed = self.last_number(&[keys::AUDIT_SEGMENT])?;
        let mut open = OpenSegment::default();
        if last_audit.saturating_sub(summed) > UNSUMMED_VALUES_MAX {
            return Ok(open);
        }
        let from = keys::by_number(keys::AUDIT, summed.saturating_add(1));
        for item in self.database.range(from..=keys::by_number(keys::AUDIT, last_audit)) {
            let (key, value) = self.next(item)?;
            open.add(number(&key)?, &record::audit::decode(&value)?);
        }
        Ok(open)
    }

    /// Returns some of the oldest values, all of whose entries are older than the timestamp, and the summaries that end
    /// with them. `reported` is the number of the value with the report of the removal: later values stay. The last value
    /// of the log must not be removed, because a start requires the acknowledged number of the audit log.
    pub(super) fn audit_older_than(&self, before: Timestamp, reported: Option<u64>) -> Result<OldAudit, StoreError> {
        let (mut numbers, mut lines, mut passed_over) = (Vec::new(), 0_u64, 0_usize);
        for item in self.database.scan_prefix([keys::AUDIT]) {
            let (key, value) = self.next(item)?;
            let number = number(&key)?;
            if reported.is_some_and(|reported| number >= reported) {
                break;
            }
            let entries = record::audit::decode(&value)?;
            if entries.iter().any(|entry| entry.at >= before) {
                passed_over = passed_over.saturating_add(1);
                if passed_over >= REMOVAL_PASSED_OVER_MAX {
                    break;
                }
                continue;
            }
            lines = lines.saturating_add(u64::try_from(entries.len()).unwrap_or(u64::MAX));
            numbers.push(number);
            if numbers.len() >= REMOVAL_VALUES_MAX {
                break;
            }
        }
        let mut summaries = Vec::new();
        if let Some(last) = numbers.last() {
            let range = keys::by_number(keys::AUDIT_SEGMENT, 0)..=keys::by_number(keys::AUDIT_SEGMENT, *last);
            for item in self.database.range(range) {
                summaries.push(number(&self.next(item)?.0)?);
            }
        }
        Ok(OldAudit { numbers, summaries, lines })
    }
}

/// Values that are old enough to be removed.
pub(super) struct OldAudit {
    /// The numbers of the values.
    pub(super) numbers: Vec<u64>,
    /// The numbers of the summaries to be removed with them.
    pub(super) summaries: Vec<u64>,
    /// The number of their entries.
    pub(super) lines: u64,
}
