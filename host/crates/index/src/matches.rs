//! All records that a search finds in one snapshot, by row, and the data that a rule over all of them reads in addition
//! to columns.
//!
//! **Invariant:** everything here is read from one snapshot, so that a long evaluation sees one register from beginning
//! to end.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use super::Snapshot;
use super::bitmaps::{RowSet, SEGMENT_ROWS, join, split};
use super::chunk;
use super::column::Column;
use super::gather::{self, Gathered, add_bits};
use super::limits::{RowLimits, SearchLimits};
use super::members::ActiveMember;
use super::places::Place;
use super::search;
use super::search::filter::Filter;
use daftar_domain::group::GROUP_TYPE;
use daftar_domain::record::{RecordId, VersionId};
use daftar_domain::search::SubjectQuery;
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::subject::Subject;

/// Rows of one kind of record.
#[derive(Debug, Clone, Default)]
pub struct RowMarks(RowSet);

/// Collects rows as plain bits. Adding many rows is much cheaper than adding them to [`RowMarks`].
#[derive(Debug, Clone, Default)]
pub struct RowBits {
    /// The bits of each segment, the lowest bit of each byte first.
    segments: BTreeMap<u16, Vec<u8>>,
}

/// The number of rows of one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionCount {
    /// A row with an address in the region, the first of those that were counted; `None` for those without a region.
    pub row: Option<u32>,
    /// The region in its normalised form; empty for none.
    pub phrase: String,
    /// The number of rows.
    pub total: u64,
    /// The number of these rows in each of the marks, in the order requested.
    pub marked: Vec<u64>,
}

impl RowMarks {
    /// Creates marks from an ascending list.
    #[must_use]
    pub fn from_sorted(rows: &[u32]) -> Self {
        Self(RowSet::from_sorted(rows))
    }

    fn of_filter(filter: Option<Filter<'_>>) -> Self {
        let Some(filter) = filter else { return Self::default() };
        Self(RowSet::of_segments(filter.segments().map(|segment| (segment, filter.segment(segment)))))
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rows that are in both marks.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |(segment, rows)| Some((segment, rows & other.0.segment(segment)?));
        Self(RowSet::of_segments(self.0.segments().filter_map(both)))
    }

    /// Returns up to `count` rows from `first` on, ascending.
    #[must_use]
    pub fn from(&self, first: u32, count: usize) -> Vec<u32> {
        self.0.rows_from(first, count)
    }

    /// Returns the row at an index, counted from 0.
    #[must_use]
    pub fn nth(&self, place: u64) -> Option<u32> {
        self.0.nth(place)
    }
}

impl RowBits {
    /// Adds those of the ascending, distinct rows whose flags have that bit set, counted from the lowest.
    pub fn add(&mut self, rows: &[u32], flags: &[u8], bit: u8) {
        let (mut rows, mut flags) = (rows, flags);
        while let Some(first) = rows.first() {
            let (segment, low) = split(*first);
            let count = rows.partition_point(|row| split(*row).0 == segment);
            let (part, later_rows) = rows.split_at_checked(count).unwrap_or((rows, &[]));
            let (these, later_flags) = flags.split_at_checked(count).unwrap_or((flags, &[]));
            (rows, flags) = (later_rows, later_flags);
            if these.iter().fold(0, |any, flags| any | flags) >> (bit % 8) & 1 == 0 {
                continue;
            }
            let bits = self.segments.entry(segment).or_insert_with(|| vec![0; SEGMENT_ROWS as usize / 8]);
            let is_run = part.last().is_some_and(|last| (last - first) as usize + 1 == part.len());
            if is_run && low.is_multiple_of(8) {
                add_bits(bits.get_mut(low as usize / 8..).unwrap_or_default(), these, bit);
            } else {
                for (row, flags) in part.iter().zip(these) {
                    let low = split(*row).1;
                    if let Some(byte) = bits.get_mut(low as usize / 8) {
                        *byte |= (flags >> (bit % 8) & 1) << (low % 8);
                    }
                }
            }
        }
    }

    /// Adds the rows of another set.
    pub fn merge(&mut self, other: Self) {
        for (segment, bits) in other.segments {
            match self.segments.get_mut(&segment) {
                Some(to) => to.iter_mut().zip(bits).for_each(|(to, from)| *to |= from),
                None => drop(self.segments.insert(segment, bits)),
            }
        }
    }

    /// Returns the rows.
    #[must_use]
    pub fn marks(&self) -> RowMarks {
        let segments = self.segments.iter();
        let segments = segments.map(|(segment, bits)| (*segment, RoaringBitmap::from_lsb0_bytes(0, bits)));
        RowMarks(RowSet::of_segments(segments))
    }
}

impl RowLimits {
    /// Returns true if a record is visible to the client.
    #[must_use]
    pub fn shows(&self, row: u32) -> bool {
        self.visible().contains(row)
    }

    /// Returns true if a field is visible on a visible record.
    #[must_use]
    pub fn shows_field(&self, name: &str, row: u32) -> bool {
        self.field(name).contains(row)
    }
}

impl Snapshot {
    /// Returns every individual or group that meets every condition.
    #[must_use]
    pub fn matching(&self, query: &SubjectQuery, limits: SearchLimits<'_>) -> RowMarks {
        RowMarks::of_filter(search::filter_of_subjects(self, query, limits))
    }

    /// Returns the record of a row.
    #[must_use]
    pub fn id_at(&self, kind: Subject, row: u32) -> Option<RecordId> {
        self.record_at(kind.record_kind(), row)
    }

    /// Returns the version of the record of a row.
    #[must_use]
    pub fn version_at(&self, kind: Subject, row: u32) -> Option<VersionId> {
        self.versions(kind).get(row).map(|version| VersionId(version.into()))
    }

    /// Returns the versions of neighbouring rows as numbers, up to the end of the register. The rows are in one chunk:
    /// `count` divides its 4,096 rows, and `first` is a multiple of it.
    #[must_use]
    pub fn versions_from(&self, kind: Subject, first: u32, count: usize) -> &[u32] {
        let (chunk, slot) = chunk::split(first);
        let versions = self.versions(kind).chunk(chunk).get(slot..).unwrap_or_default();
        versions.get(..count).unwrap_or(versions)
    }

    /// Returns the version of a program membership; `None` if it does not exist yet.
    #[must_use]
    pub fn membership_version(&self, membership: RecordId) -> Option<VersionId> {
        let row = self.about.memberships.rows.find(membership)?;
        self.about.of_memberships.versions.get(row).map(|version| VersionId(version.into()))
    }

    fn versions(&self, kind: Subject) -> &Column<u32> {
        match kind {
            Subject::Individual => &self.individuals.versions,
            Subject::Group => &self.groups.versions,
        }
    }

    /// Returns the values of one field of groups by row, as [`Snapshot::gather`] does for individuals.
    #[must_use]
    pub fn gather_groups(&self, path: &str, rows: &[u32]) -> Option<Gathered> {
        gather::gather(&self.groups.columns, path, rows)
    }

    /// Returns true if a group is marked as inactive.
    #[must_use]
    pub fn is_group_inactive(&self, row: u32) -> bool {
        self.groups.inactive.contains(row)
    }

    /// Returns the number of the code of the group type.
    #[must_use]
    pub fn group_type_at(&self, row: u32) -> Option<u32> {
        self.groups.columns.code(GROUP_TYPE, row)
    }

    /// Returns the rows of the groups of a person on a day, one for each membership.
    pub fn groups_at(&self, person: u32, day: i32) -> impl Iterator<Item = u32> + '_ {
        self.places.of(person).filter(move |place| place.holds_on(day)).map(|Place { group, .. }| group)
    }

    /// Returns the active members of a group on a day, in the order of its record.
    pub fn active_members_of(&self, group: u32, day: i32) -> impl Iterator<Item = ActiveMember> + '_ {
        self.members.on_day(group, day)
    }

    /// Counts the rows with an address in each region, in total and in each of the marks. A row with addresses in
    /// several regions counts in each; those without any come last. `limits` defines the rows on which addresses are
    /// visible.
    #[must_use]
    pub fn by_region(
        &self,
        kind: Subject,
        among: &RowMarks,
        limits: Option<&RowLimits>,
        marks: &[&RowMarks],
    ) -> Vec<RegionCount> {
        let words = match kind {
            Subject::Individual => &self.individuals.words,
            Subject::Group => &self.groups.words,
        };
        let inspected = limits.map(|limits| limits.field("address"));
        let region = PhraseField::find(kind.record_kind(), "region");
        let prefix = region.map(|region| region.term("")).unwrap_or_default();
        let mut counted: Vec<RegionCount> = Vec::new();
        let mut without = among.0.clone();
        for (word, posting) in words.from(prefix.as_str()).take_while(|(word, _)| word.starts_with(&prefix)) {
            let phrase = word.strip_prefix(&prefix).unwrap_or_default().to_owned();
            let mut count = RegionCount { row: None, phrase, total: 0, marked: vec![0; marks.len()] };
            for (segment, rows) in among.0.segments() {
                let Some(of_region) = posting.segment(segment) else { continue };
                let mut these: RoaringBitmap = rows & of_region.as_ref();
                if let Some(inspected) = inspected {
                    these = inspected.segment(segment).map(|may| these & may.as_ref()).unwrap_or_default();
                }
                count.add(segment, &these, marks);
                without.subtract(segment, &these);
            }
            if count.total > 0 {
                counted.push(count);
            }
        }
        let mut none = RegionCount { row: None, phrase: String::new(), total: 0, marked: vec![0; marks.len()] };
        for (segment, rows) in without.segments() {
            none.add(segment, rows, marks);
        }
        if none.total > 0 {
            counted.push(RegionCount { row: None, ..none });
        }
        counted
    }
}

impl RegionCount {
    fn add(&mut self, segment: u16, rows: &RoaringBitmap, marks: &[&RowMarks]) {
        self.total = self.total.saturating_add(rows.len());
        self.row = self.row.or_else(|| rows.min().map(|low| join(segment, low)));
        for (count, marks) in self.marked.iter_mut().zip(marks) {
            let marked = marks.0.segment(segment).map_or(0, |marked| marked.intersection_len(rows));
            *count = count.saturating_add(marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_the_rows_with_a_flag() {
        let whole = SEGMENT_ROWS;
        let runs: [Vec<u32>; 6] = [
            (0..100).collect(),
            (whole - 24..whole + 40).collect(),
            (200..203).collect(),
            vec![300, 302, 311, 4 * whole + 7],
            vec![],
            (5 * whole + 3..5 * whole + 90).collect(),
        ];
        let (mut one, mut other, mut expected) = (RowBits::default(), RowBits::default(), Vec::new());
        for (number, rows) in runs.iter().enumerate() {
            let flags: Vec<u8> = rows.iter().map(|row| u8::from(row % 3 != 1 && number != 2)).collect();
            // The other bits of a flag do not matter.
            let (bit, others) = ((number % 4) as u8, [0b1010_0000, 0b1101_0000]);
            let of_bits: Vec<u8> =
                flags.iter().zip(others.iter().cycle()).map(|(flag, other)| flag << bit | other).collect();
            if number % 2 == 0 {
                one.add(rows, &of_bits, bit)
            } else {
                other.add(rows, &of_bits, bit)
            }
            expected.extend(rows.iter().zip(&flags).filter(|(_, flag)| **flag == 1).map(|(row, _)| *row));
        }
        one.merge(other);
        expected.sort_unstable();
        assert_eq!(one.marks().from(0, usize::MAX), expected);
        assert!(RowBits::default().marks().is_empty());
    }
}
