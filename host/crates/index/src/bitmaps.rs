//! Sets of rows: the records with a code or a word.
//!
//! **Invariant:** a set is divided into segments of 65,536 rows, each a roaring bitmap with its own reference count, so
//! that a change copies at most 8 KiB, however large the register is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use roaring::RoaringBitmap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::stored::{put_numbers, take_numbers};

/// The rows of one segment.
pub(super) const SEGMENT_ROWS: u32 = 1 << 16;
/// The most rows that are stored as a plain list.
const FEW_MAX: usize = 256;
/// The most rows that are sorted; a longer list is collected in a bitmap of the whole register.
const SORTED_MAX: usize = 2_048;
const OUT_OF_ORDER: &str = "the rows of a list are not in ascending order";

/// Returns the segment of a row and its offset in the segment.
#[inline]
pub(super) fn split(row: u32) -> (u16, u32) {
    ((row >> 16) as u16, row & 0xFFFF)
}

/// Returns the row at an offset of a segment.
#[inline]
pub(super) fn join(segment: u16, low: u32) -> u32 {
    (u32::from(segment) << 16) | low
}

/// Bitmaps of the segments in which a row is set, ascending.
type Segments = Arc<Vec<(u16, Arc<RoaringBitmap>)>>;

/// A set of rows, cheap to clone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Posting {
    /// A short list, ascending.
    Few(#[serde(serialize_with = "put_few", deserialize_with = "take_few")] Arc<[u32]>),
    /// A long list.
    Many(#[serde(serialize_with = "put_many", deserialize_with = "take_many")] Segments),
}

impl Default for Posting {
    fn default() -> Self {
        Self::Few(Arc::new([]))
    }
}

impl Posting {
    /// Creates a set of one row.
    #[cfg(test)]
    pub(super) fn of(row: u32) -> Self {
        Self::Few(Arc::new([row]))
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Few(rows) => rows.len() as u64,
            Self::Many(segments) => segments.iter().map(|(_, bitmap)| bitmap.len()).sum(),
        }
    }

    /// Returns true if there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(rows) => rows.is_empty(),
            Self::Many(segments) => segments.is_empty(),
        }
    }

    /// Returns true if the set contains a row.
    pub(super) fn contains(&self, row: u32) -> bool {
        match self {
            Self::Few(rows) => rows.binary_search(&row).is_ok(),
            Self::Many(segments) => {
                let (segment, low) = split(row);
                let at = segments.binary_search_by_key(&segment, |(at, _)| *at);
                at.ok().and_then(|at| segments.get(at)).is_some_and(|(_, bitmap)| bitmap.contains(low))
            }
        }
    }

    /// Adds a row.
    pub(super) fn insert(&mut self, row: u32) {
        self.extend(iter::once(row));
    }

    /// Adds ascending rows, each once.
    pub(super) fn extend(&mut self, rows: impl Iterator<Item = u32> + Clone) {
        match self {
            Self::Few(few) => {
                let mut all: Vec<u32> = few.iter().copied().chain(rows).collect();
                let is_sorted = all.get(few.len().saturating_sub(1)..).is_none_or(|new| new.is_sorted_by(|a, b| a < b));
                if !is_sorted {
                    all.sort_unstable();
                    all.dedup();
                }
                *self = if all.len() <= FEW_MAX { Self::Few(all.into()) } else { RowSet::from_sorted(&all).into() };
            }
            Self::Many(segments) => {
                let segments = Arc::make_mut(segments);
                let mut rows = rows.map(split).peekable();
                while let Some((segment, _)) = rows.peek().copied() {
                    let of_segment = iter::from_fn(|| rows.next_if(|(of, _)| *of == segment)).map(|(_, low)| low);
                    match segments.binary_search_by_key(&segment, |(at, _)| *at) {
                        Ok(at) => {
                            if let Some((_, bitmap)) = segments.get_mut(at) {
                                Arc::make_mut(bitmap).extend(of_segment);
                            }
                        }
                        Err(at) => segments.insert(at, (segment, Arc::new(of_segment.collect()))),
                    }
                }
            }
        }
    }

    /// Removes a row.
    pub(super) fn remove(&mut self, row: u32) {
        match self {
            Self::Few(rows) => {
                if rows.binary_search(&row).is_ok() {
                    *rows = rows.iter().copied().filter(|at| *at != row).collect();
                }
            }
            Self::Many(segments) => {
                let (segment, low) = split(row);
                let segments = Arc::make_mut(segments);
                let Ok(at) = segments.binary_search_by_key(&segment, |(at, _)| *at) else { return };
                let Some((_, bitmap)) = segments.get_mut(at) else { return };
                let bitmap = Arc::make_mut(bitmap);
                bitmap.remove(low);
                if bitmap.is_empty() {
                    segments.remove(at);
                }
            }
        }
    }

    /// Returns the rows within a segment; `None` if there are none.
    pub(super) fn segment(&self, segment: u16) -> Option<Cow<'_, RoaringBitmap>> {
        match self {
            Self::Few(rows) => {
                let start = rows.partition_point(|row| split(*row).0 < segment);
                let inside = rows.get(start..).unwrap_or_default().iter().copied().map(split);
                let bitmap: RoaringBitmap = inside.take_while(|(at, _)| *at == segment).map(|(_, low)| low).collect();
                (!bitmap.is_empty()).then_some(Cow::Owned(bitmap))
            }
            Self::Many(segments) => {
                let at = segments.binary_search_by_key(&segment, |(at, _)| *at).ok()?;
                segments.get(at).map(|(_, bitmap)| Cow::Borrowed(bitmap.as_ref()))
            }
        }
    }
}

fn put_few<S: Serializer>(rows: &Arc<[u32]>, to: S) -> Result<S::Ok, S::Error> {
    put_numbers::<u32, S>(rows, to)
}

fn take_few<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u32]>, D::Error> {
    let rows = take_numbers::<u32, Arc<[u32]>, D>(from)?;
    if rows.is_sorted_by(|one, other| one < other) { Ok(rows) } else { Err(D::Error::custom(OUT_OF_ORDER)) }
}

fn put_many<S: Serializer>(segments: &Segments, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(segments.iter().map(|(segment, rows)| (segment, rows.as_ref())))
}

fn take_many<'de, D: Deserializer<'de>>(from: D) -> Result<Segments, D::Error> {
    let segments: Vec<(u16, RoaringBitmap)> = Vec::deserialize(from)?;
    let is_sound = segments.is_sorted_by(|(one, _), (other, _)| one < other)
        && segments.iter().all(|(_, rows)| rows.max().is_some_and(|last| last < SEGMENT_ROWS));
    if !is_sound {
        return Err(D::Error::custom(OUT_OF_ORDER));
    }
    Ok(Arc::new(segments.into_iter().map(|(segment, rows)| (segment, Arc::new(rows))).collect()))
}

impl From<RowSet> for Posting {
    fn from(set: RowSet) -> Self {
        let segments = set.segments.into_iter().filter(|(_, rows)| !rows.is_empty());
        Self::Many(Arc::new(segments.map(|(segment, rows)| (segment, Arc::new(rows))).collect()))
    }
}

/// The rows of a query result.
#[derive(Debug, Clone, Default)]
pub(super) struct RowSet {
    segments: BTreeMap<u16, RoaringBitmap>,
}

impl RowSet {
    /// Creates a set from an ascending list.
    pub(super) fn from_sorted(rows: &[u32]) -> Self {
        let mut segments = BTreeMap::new();
        for part in rows.chunk_by(|left, right| split(*left).0 == split(*right).0) {
            let Some(first) = part.first() else { continue };
            segments.insert(split(*first).0, part.iter().map(|row| split(*row).1).collect());
        }
        Self { segments }
    }

    fn from_unsorted(mut rows: Vec<u32>) -> Self {
        let last = rows.iter().copied().max().unwrap_or_default();
        if rows.len() <= SORTED_MAX {
            rows.sort_unstable();
            return Self::from_sorted(&rows);
        }
        let mut bits = vec![0_u8; last as usize / 8 + 1];
        for row in rows {
            if let Some(byte) = bits.get_mut(row as usize / 8) {
                *byte |= 1 << (row % 8);
            }
        }
        let parts = (0_u16..).zip(bits.chunks(SEGMENT_ROWS as usize / 8));
        let segments = parts.map(|(segment, bits)| (segment, RoaringBitmap::from_lsb0_bytes(0, bits)));
        Self { segments: segments.filter(|(_, bitmap)| !bitmap.is_empty()).collect() }
    }

    /// Returns the union of postings.
    pub(super) fn union<'a>(postings: impl IntoIterator<Item = &'a Posting>) -> Self {
        let mut few = Vec::new();
        let mut many = Vec::new();
        for posting in postings {
            match posting {
                Posting::Few(rows) => few.extend_from_slice(rows),
                Posting::Many(segments) => many.extend(segments.iter()),
            }
        }
        let mut set = Self::from_unsorted(few);
        for (segment, bitmap) in many {
            *set.segments.entry(*segment).or_default() |= bitmap.as_ref();
        }
        set
    }

    /// Adds the rows of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        for (segment, rows) in &other.segments {
            *self.segments.entry(*segment).or_default() |= rows;
        }
    }

    /// Returns true if there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.values().all(RoaringBitmap::is_empty)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.segments.values().map(RoaringBitmap::len).sum()
    }

    /// Returns the rows, ascending.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().flat_map(|(segment, rows)| rows.iter().map(|low| join(*segment, low)))
    }

    /// Returns the rows within a segment; `None` if there are none.
    pub(super) fn segment(&self, segment: u16) -> Option<&RoaringBitmap> {
        self.segments.get(&segment)
    }

    /// Creates a set from segments.
    pub(super) fn of_segments(segments: impl Iterator<Item = (u16, RoaringBitmap)>) -> Self {
        Self { segments: segments.filter(|(_, rows)| !rows.is_empty()).collect() }
    }

    /// Returns every non-empty segment.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u16, &RoaringBitmap)> {
        self.segments.iter().map(|(segment, rows)| (*segment, rows))
    }

    /// Removes rows of a segment.
    pub(super) fn subtract(&mut self, segment: u16, rows: &RoaringBitmap) {
        if let Some(of_segment) = self.segments.get_mut(&segment) {
            *of_segment -= rows;
        }
    }

    /// Returns up to `count` rows from `first` on, ascending.
    pub(super) fn rows_from(&self, first: u32, count: usize) -> Vec<u32> {
        let mut found = Vec::with_capacity(count.min(self.len() as usize));
        let (first_segment, first_low) = split(first);
        for (segment, rows) in self.segments.range(first_segment..) {
            let low = if *segment == first_segment { first_low } else { 0 };
            let mut rows = rows.range(low..);
            // Runs are far quicker than single rows: most searches of a preview find all rows.
            while found.len() < count
                && let Some(run) = rows.next_range()
            {
                let rows = join(*segment, *run.start())..=join(*segment, *run.end());
                found.extend(rows.take(count - found.len()));
            }
        }
        found
    }

    /// Returns the row at an index, counted from 0.
    pub(super) fn nth(&self, place: u64) -> Option<u32> {
        let mut left = place;
        for (segment, rows) in &self.segments {
            if left < rows.len() {
                return rows.select(u32::try_from(left).ok()?).map(|low| join(*segment, low));
            }
            left -= rows.len();
        }
        None
    }
}

#[cfg(test)]
mod tests;
