//! Conditions that are evaluated on columns: days, timestamps, memberships in groups.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::filter::Scan;
use crate::bitmaps::{self, SEGMENT_ROWS};
use crate::chunk::{CHUNK_ROWS, Cell, Chunk, split};
use crate::column::Column;
use crate::field_columns::{CellKind, FieldColumns};
use crate::limits::RowLimits;
use crate::places::{Place, Places};
use daftar_domain::calendar::days_since_epoch;
use daftar_domain::record::RecordType;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::{DateCondition, DateOperator};

/// Days of a field that match: within the bounds and not excluded.
pub(super) struct DayScan<'a> {
    chunks: &'a [Arc<Chunk>],
    column: usize,
    least: i32,
    most: i32,
    excluded: Vec<i32>,
}

impl<'a> DayScan<'a> {
    /// Combines all conditions on a field; `None` if the field has no column of days, so that nothing matches.
    pub(super) fn new<R: RecordType>(
        columns: &'a FieldColumns<R>,
        field: &str,
        conditions: &[DateCondition],
    ) -> Option<Self> {
        let (column, CellKind::Day) = FieldColumns::<R>::find(field)? else { return None };
        let mut scan =
            Self { chunks: columns.chunks(), column, least: i32::MIN + 1, most: i32::MAX, excluded: Vec::new() };
        for condition in conditions {
            let day = days_since_epoch(condition.date);
            // The minimum represents a missing day, which no condition matches.
            let all = (i32::MIN + 1, i32::MAX);
            let around = (day.saturating_sub(1), day.saturating_add(1));
            match bounds(condition.operator, (day, day), around, all) {
                Some((least, most)) => (scan.least, scan.most) = (scan.least.max(least), scan.most.min(most)),
                None => scan.excluded.push(day),
            }
        }
        Some(scan)
    }

    fn matches(&self, day: i32) -> bool {
        self.least <= day && day <= self.most && !self.excluded.contains(&day)
    }
}

impl Scan for DayScan<'_> {
    fn holds(&self, row: u32) -> bool {
        let (at, slot) = split(row);
        let day = self.chunks.get(at).and_then(|chunk| chunk.days(self.column).cells().get(slot));
        day.is_some_and(|day| self.matches(day))
    }

    fn mark(&self, segment: u16) -> RoaringBitmap {
        let days = |chunk: usize| match self.chunks.get(chunk).map(|chunk| chunk.days(self.column)) {
            Some(days) if days.may_meet(self.least, self.most) => days.cells().as_slice(),
            _ => &[],
        };
        if self.excluded.is_empty() {
            return mark_cells(segment, days, |day| (self.least <= day) & (day <= self.most));
        }
        mark_cells(segment, days, |day| self.matches(day))
    }
}

/// Returns the bounds of the values that meet a condition on a range, given the values before and after it and all
/// values; `None` if the range is excluded.
fn bounds<T>(
    operator: DateOperator,
    (first, last): (T, T),
    (before, after): (T, T),
    (least, most): (T, T),
) -> Option<(T, T)> {
    match operator {
        DateOperator::Equal => Some((first, last)),
        DateOperator::NotEqual => None,
        DateOperator::After => Some((after, most)),
        DateOperator::OnOrAfter => Some((first, most)),
        DateOperator::Before => Some((least, before)),
        DateOperator::OnOrBefore => Some((least, last)),
    }
}

/// Times of the last update that match: within the bounds and not excluded.
pub(super) struct InstantScan<'a> {
    column: &'a Column<i64>,
    least: i64,
    most: i64,
    excluded: Vec<&'a InstantCondition>,
}

impl<'a> InstantScan<'a> {
    /// Combines all conditions.
    pub(super) fn new(column: &'a Column<i64>, conditions: &'a [InstantCondition]) -> Self {
        let mut scan = Self { column, least: i64::MIN + 1, most: i64::MAX, excluded: Vec::new() };
        for condition in conditions {
            let (first, last) = (condition.first_ms, condition.last_ms);
            // The minimum represents a missing timestamp, which no condition matches.
            let all = (i64::MIN + 1, i64::MAX);
            let around = (first.saturating_sub(1), last.saturating_add(1));
            match bounds(condition.operator, (first, last), around, all) {
                Some((least, most)) => (scan.least, scan.most) = (scan.least.max(least), scan.most.min(most)),
                None => scan.excluded.push(condition),
            }
        }
        scan
    }

    fn matches(&self, at_ms: i64) -> bool {
        self.least <= at_ms && at_ms <= self.most && self.excluded.iter().all(|condition| condition.holds(at_ms))
    }
}

impl Scan for InstantScan<'_> {
    fn holds(&self, row: u32) -> bool {
        self.column.get(row).is_some_and(|at_ms| self.matches(at_ms))
    }

    fn mark(&self, segment: u16) -> RoaringBitmap {
        let instants = |chunk| self.column.chunk(chunk);
        if self.excluded.is_empty() {
            return mark_cells(segment, instants, |at_ms| (self.least <= at_ms) & (at_ms <= self.most));
        }
        mark_cells(segment, instants, |at_ms| self.matches(at_ms))
    }
}

/// A condition on memberships in groups.
pub(super) struct PlaceScan<'a> {
    pub(super) places: &'a Places,
    pub(super) day: i32,
    /// The groups that are visible to the client, and those whose members are.
    pub(super) limits: Option<&'a RowLimits>,
    pub(super) is_none: bool,
    /// For each list, the person has a membership in one of the groups, ascending.
    pub(super) groups: Vec<Vec<u32>>,
    /// For each list, the membership has one of the roles, ascending.
    pub(super) roles: Vec<Vec<u32>>,
}

impl PlaceScan<'_> {
    fn may_count(&self, group: u32) -> bool {
        self.limits.is_none_or(|limits| limits.visible().contains(group) && limits.field("member").contains(group))
    }

    fn is_in_role(&self, place: &Place) -> bool {
        self.roles.iter().all(|roles| place.role.is_some_and(|role| contains(role, roles)))
    }

    fn matches<'p>(&self, places: impl Iterator<Item = Place> + Clone + 'p) -> bool {
        let mut counted = places.filter(|place| place.holds_on(self.day) && self.may_count(place.group));
        if self.is_none {
            return counted.next().is_none() && self.groups.is_empty() && self.roles.is_empty();
        }
        let in_role = counted.filter(|place| self.is_in_role(place));
        if self.groups.is_empty() {
            return in_role.clone().next().is_some();
        }
        let is_in = |groups: &Vec<u32>| in_role.clone().any(|place| contains(place.group, groups));
        self.groups.iter().all(is_in)
    }

    /// Sets the flags of the people whose first membership, which is stored in columns, matches.
    fn flag(&self, chunk: usize, flags: &mut Flags) {
        let Places { groups, roles, starts, ends, .. } = self.places;
        let (groups, roles) = (groups.chunk(chunk), roles.chunk(chunk));
        let (starts, ends) = (starts.chunk(chunk), ends.chunk(chunk));
        keep(flags, groups, |group| !group.is_missing(), true);
        // A missing first day is the minimum, so that it never excludes a membership.
        keep(flags, starts, |start| start <= self.day, false);
        keep(flags, ends, |end| end.is_missing() | (self.day <= end), false);
        if self.limits.is_some() {
            for (flag, group) in flags.iter_mut().zip(groups).filter(|(flag, _)| **flag == 1) {
                *flag = u8::from(self.may_count(*group));
            }
        }
        if self.is_none {
            for flag in flags.iter_mut() {
                *flag ^= 1;
            }
            if !self.groups.is_empty() || !self.roles.is_empty() {
                flags.fill(0);
            }
            return;
        }
        for wanted in &self.groups {
            keep(flags, groups, |group| contains(group, wanted), false);
        }
        for wanted in &self.roles {
            keep(flags, roles, |role| contains(role, wanted), true);
        }
    }
}

/// Returns true if an ascending list contains a number.
fn contains(number: u32, ascending: &[u32]) -> bool {
    match ascending {
        [only] => *only == number,
        several => several.binary_search(&number).is_ok(),
    }
}

/// Clears the flags of rows whose cell does not match and, if a cell is required, of rows past the end of the column.
fn keep<T: Cell>(flags: &mut Flags, cells: &[T], holds: impl Fn(T) -> bool, must_be_there: bool) {
    for (flag, cell) in flags.iter_mut().zip(cells) {
        *flag &= u8::from(holds(*cell));
    }
    if must_be_there {
        flags.iter_mut().skip(cells.len()).for_each(|flag| *flag = 0);
    }
}

impl Scan for PlaceScan<'_> {
    fn holds(&self, row: u32) -> bool {
        self.matches(self.places.of(row))
    }

    fn mark(&self, segment: u16) -> RoaringBitmap {
        let first = bitmaps::join(segment, 0);
        let mut marked = mark(segment, |chunk, flags| {
            let rows = (self.places.row_count() as usize).saturating_sub(chunk * CHUNK_ROWS);
            flags.iter_mut().take(rows).for_each(|flag| *flag = 1);
            self.flag(chunk, flags);
            flags.iter_mut().skip(rows).for_each(|flag| *flag = 0);
        });
        for low in self.places.several.segment(segment).iter().flat_map(|rows| rows.iter()) {
            if self.holds(first | low) {
                marked.insert(low);
            } else {
                marked.remove(low);
            }
        }
        marked
    }
}

/// The chunks of one segment of a bitmap.
pub(crate) const SEGMENT_CHUNKS: usize = SEGMENT_ROWS as usize / CHUNK_ROWS;

/// One byte for each row of a chunk: 1 where the row meets a condition, else 0.
pub(crate) type Flags = [u8; CHUNK_ROWS];

/// Returns the rows of a segment that meet a condition: `fill` sets their flags, chunk by chunk; all are 0 before.
pub(crate) fn mark(segment: u16, mut fill: impl FnMut(usize, &mut Flags)) -> RoaringBitmap {
    let mut bits = vec![0_u8; SEGMENT_ROWS as usize / 8];
    let mut flags = [0; CHUNK_ROWS];
    let first = usize::from(segment) * SEGMENT_CHUNKS;
    for (chunk, bits) in (first..).zip(bits.chunks_mut(CHUNK_ROWS / 8)) {
        flags.fill(0);
        fill(chunk, &mut flags);
        let (eights, _) = flags.as_chunks();
        for (byte, eight) in bits.iter_mut().zip(eights) {
            *byte = packed(*eight);
        }
    }
    RoaringBitmap::from_lsb0_bytes(0, &bits)
}

/// Returns the rows of a segment whose cell matches: `cells` returns those of a chunk, or none if none can match.
pub(crate) fn mark_cells<'c, T: Cell + 'c>(
    segment: u16,
    cells: impl Fn(usize) -> &'c [T],
    holds: impl Fn(T) -> bool,
) -> RoaringBitmap {
    mark(segment, |chunk, flags| {
        for (flag, cell) in flags.iter_mut().zip(cells(chunk)) {
            *flag = u8::from(holds(*cell));
        }
    })
}

/// Packs eight flags into a byte, the first one into the lowest bit. Each bit of the factor moves exactly one flag to
/// its position in the highest eight bits of the product.
fn packed(flags: [u8; 8]) -> u8 {
    let [.., highest] = u64::from_le_bytes(flags).wrapping_mul(0x0102_0408_1020_4080).to_le_bytes();
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_flags_becomes_its_byte() {
        for byte in 0..=u8::MAX {
            let flags = std::array::from_fn(|bit| byte >> bit & 1);
            assert_eq!(packed(flags), byte);
        }
    }

    #[test]
    fn a_cell_marks_its_row() {
        let cells: Vec<i32> = (0..CHUNK_ROWS as i32).collect();
        let of_chunk = |chunk: usize| if chunk == SEGMENT_CHUNKS + 2 { cells.as_slice() } else { &[] };
        let marked = mark_cells(1, of_chunk, |cell| cell % 1_000 == 7);
        let first = 2 * CHUNK_ROWS as u32;
        assert_eq!(marked.iter().collect::<Vec<_>>(), [7, 1_007, 2_007, 3_007, 4_007].map(|low| first + low));
    }
}
