//! Looking through the audit log, and finding what of it is old enough to be removed.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};
use daftar_store::audit_log::{AuditSearch, REMOVAL_PASSED_OVER_MAX, REMOVAL_VALUES_MAX};
use daftar_store::record::audit_segment::AuditSegment;
use daftar_store::segment::{self, OpenSegment};
use daftar_store::{StoreError, record};

use super::keys;
use super::reader::{Reader, number};

/// At start, at most this many values are read to sum up the stretch that is being written. A log that has more without a
/// summary was written before there were any: it is read when it is searched.
const UNSUMMED_VALUES_MAX: u64 = 2 * segment::SEGMENT_LINES;

impl Reader {
    /// Verifies the lines before a place.
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

    /// Examines the values of those numbers, newest first, until the search is over.
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

    /// The summary of the stretch that holds a value, or of the next older one, and of those before it, newest first.
    fn segments_down_from(&self, value: u64) -> impl Iterator<Item = Result<AuditSegment, StoreError>> {
        // A summary stands under the last number of its stretch: the one that holds the value is the first from there on.
        let from = keys::by_number(keys::AUDIT_SEGMENT, value);
        let holding = self.database.range(from.clone()..=keys::by_number(keys::AUDIT_SEGMENT, u64::MAX)).next();
        let older = self.database.range(keys::by_number(keys::AUDIT_SEGMENT, 0)..from).rev();
        let decoded = holding.into_iter().chain(older);
        decoded.map(|item| record::audit_segment::decode(&self.next(item)?.1)).filter(move |segment| {
            // The first from there on may begin after the value.
            segment.as_ref().map_or(true, |segment| segment.first <= value)
        })
    }

    fn first_audit(&self) -> Result<Option<u64>, StoreError> {
        match self.database.scan_prefix([keys::AUDIT]).next() {
            None => Ok(None),
            Some(item) => number(&self.next(item)?.0).map(Some),
        }
    }

    /// The stretch that is being written, after the values that have summaries.
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

    /// Some of the oldest values, none of whose lines is as young as that instant, and the summaries that end with them; without
    /// the value of that number.
    pub(super) fn audit_older_than(&self, before: Timestamp, except: Option<u64>) -> Result<OldAudit, StoreError> {
        let (mut numbers, mut lines, mut passed_over) = (Vec::new(), 0_u64, 0_usize);
        for item in self.database.scan_prefix([keys::AUDIT]) {
            let (key, value) = self.next(item)?;
            let number = number(&key)?;
            if except == Some(number) {
                continue;
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
    /// Their numbers.
    pub(super) numbers: Vec<u64>,
    /// The summaries that go with them.
    pub(super) summaries: Vec<u64>,
    /// How many lines they hold.
    pub(super) lines: u64,
}
