//! Conditions that are read off columns: days, instants, places in groups.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::filter::{Scan, mark_cells};
use crate::columns::bitmaps;
use crate::columns::chunk::{CHUNK_ROWS, Cell, Chunk, split};
use crate::columns::column::Column;
use crate::columns::limits::RowLimits;
use crate::columns::places::{Place, Places};
use crate::domain::calendar::days_since_epoch;
use crate::domain::search::instant::InstantCondition;
use crate::domain::search::{DateCondition, DateOperator};

/// Days of birth that match: within the bounds and not left out.
pub(super) struct DayScan<'a> {
    chunks: &'a [Arc<Chunk>],
    least: i32,
    most: i32,
    excluded: Vec<i32>,
}

impl<'a> DayScan<'a> {
    /// All conditions in one.
    pub(super) fn new(chunks: &'a [Arc<Chunk>], conditions: &[DateCondition]) -> Self {
        // The least number stands for a missing day, which no condition matches.
        let mut scan = Self { chunks, least: i32::MIN + 1, most: i32::MAX, excluded: Vec::new() };
        for condition in conditions {
            let day = days_since_epoch(condition.date);
            let (least, most) = match condition.operator {
                DateOperator::Equal => (day, day),
                DateOperator::NotEqual => {
                    scan.excluded.push(day);
                    continue;
                }
                DateOperator::After => (day.saturating_add(1), i32::MAX),
                DateOperator::OnOrAfter => (day, i32::MAX),
                DateOperator::Before => (i32::MIN + 1, day.saturating_sub(1)),
                DateOperator::OnOrBefore => (i32::MIN + 1, day),
            };
            scan.least = scan.least.max(least);
            scan.most = scan.most.min(most);
        }
        scan
    }

    fn matches(&self, day: i32) -> bool {
        self.least <= day && day <= self.most && !self.excluded.contains(&day)
    }
}

impl Scan for DayScan<'_> {
    fn holds(&self, row: u32) -> bool {
        let (at, slot) = split(row);
        let day = self.chunks.get(at).and_then(|chunk| chunk.birth_date.cells().get(slot));
        day.is_some_and(|day| self.matches(day))
    }

    fn mark(&self, segment: u16) -> RoaringBitmap {
        let days = |chunk: usize| match self.chunks.get(chunk) {
            Some(chunk) if chunk.birth_date.may_meet(self.least, self.most) => chunk.birth_date.cells().as_slice(),
            _ => &[],
        };
        mark_cells(segment, days, |day| self.matches(day))
    }
}

/// When records were last written.
pub(in crate::columns) struct InstantScan<'a> {
    pub(in crate::columns) column: &'a Column<i64>,
    pub(in crate::columns) conditions: &'a [InstantCondition],
}

impl InstantScan<'_> {
    fn matches(&self, at_ms: i64) -> bool {
        !at_ms.is_missing() && self.conditions.iter().all(|condition| condition.holds(at_ms))
    }
}

impl Scan for InstantScan<'_> {
    fn holds(&self, row: u32) -> bool {
        self.column.get(row).is_some_and(|at_ms| self.matches(at_ms))
    }

    fn mark(&self, segment: u16) -> RoaringBitmap {
        mark_cells(segment, |chunk| self.column.chunk(chunk), |at_ms| self.matches(at_ms))
    }
}

/// Where people belong.
pub(super) struct PlaceScan<'a> {
    pub(super) places: &'a Places,
    pub(super) day: i32,
    /// Of groups: those that exist for the client and whose members it may look at.
    pub(super) limits: Option<&'a RowLimits>,
    pub(super) is_none: bool,
    /// For each of these a place in one of the groups, ascending.
    pub(super) groups: Vec<Vec<u32>>,
    /// For each of these one of the roles, ascending.
    pub(super) roles: Vec<Vec<u32>>,
}

impl PlaceScan<'_> {
    fn counts(&self, place: &Place) -> bool {
        place.holds_on(self.day)
            && self.limits.is_none_or(|limits| {
                limits.visible().contains(place.group) && limits.field("member").contains(place.group)
            })
    }

    fn is_in_role(&self, place: &Place) -> bool {
        let is_one_of = |roles: &Vec<u32>| place.role.is_some_and(|role| roles.binary_search(&role).is_ok());
        self.roles.iter().all(is_one_of)
    }

    fn matches<'p>(&self, places: impl Iterator<Item = Place> + Clone + 'p) -> bool {
        let mut counted = places.filter(|place| self.counts(place));
        if self.is_none {
            return counted.next().is_none() && self.groups.is_empty() && self.roles.is_empty();
        }
        let in_role = counted.filter(|place| self.is_in_role(place));
        if self.groups.is_empty() {
            return in_role.clone().next().is_some();
        }
        let is_in = |groups: &Vec<u32>| in_role.clone().any(|place| groups.binary_search(&place.group).is_ok());
        self.groups.iter().all(is_in)
    }
}

impl Scan for PlaceScan<'_> {
    fn holds(&self, row: u32) -> bool {
        self.matches(self.places.of(row))
    }

    fn mark(&self, segment: u16) -> RoaringBitmap {
        let first = bitmaps::join(segment, 0);
        let count = self.places.row_count().saturating_sub(first).min(bitmaps::SEGMENT_ROWS);
        let mut bits = vec![0_u8; bitmaps::SEGMENT_ROWS as usize / 8];
        for (start, bits) in (first..first + count).step_by(CHUNK_ROWS).zip(bits.chunks_mut(CHUNK_ROWS / 8)) {
            let end = (start + CHUNK_ROWS as u32).min(first + count);
            for (row, slot) in (start..end).zip(0_usize..) {
                if let Some(byte) = bits.get_mut(slot / 8).filter(|_| self.holds(row)) {
                    *byte |= 1 << (slot % 8);
                }
            }
        }
        RoaringBitmap::from_lsb0_bytes(0, &bits)
    }
}
