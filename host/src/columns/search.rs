//! Filters over the individuals: bitmaps first, then the days of birth of what is left.

use std::borrow::Cow;

use roaring::RoaringBitmap;

use super::bitmaps::{self, Posting, RowSet, SEGMENT_ROWS};
use super::chunk::{self, CHUNK_ROWS};
use super::codes::{CodeKey, sorted_once};
use super::identifiers::IdentifierHasher;
use super::individuals::Individuals;
use crate::domain::calendar::days_since_epoch;
use crate::domain::identifier::IdentifierKey;
use crate::domain::record::RecordId;
use crate::domain::search::{CodeCondition, DateCondition, DateOperator, IndividualQuery, Page};

/// The chunks of one segment of a bitmap.
const SEGMENT_CHUNKS: usize = SEGMENT_ROWS as usize / CHUNK_ROWS;
/// With more rows than this left in a segment, all its days are compared in one go rather than row by row.
const SINGLE_LOOKUPS_MAX: u64 = 4_096;

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// How many records match, whatever the page.
    pub total: u64,
    /// The records of the page, ascending.
    pub ids: Vec<RecordId>,
}

/// A condition in terms of rows.
enum Rows<'a> {
    /// Exactly one posting of the index.
    Posting(&'a Posting),
    /// Put together for this search.
    Set(RowSet),
}

impl<'a> Rows<'a> {
    /// The rows that are in any of the postings; absent where there is no posting at all.
    fn any_of(postings: Vec<&'a Posting>) -> Option<Self> {
        match postings.as_slice() {
            [] => None,
            [only] => Some(Self::Posting(only)),
            _ => Some(Self::Set(RowSet::union(postings))),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Posting(posting) => posting.len(),
            Self::Set(set) => set.len(),
        }
    }

    fn segment(&self, segment: u16) -> Option<Cow<'_, RoaringBitmap>> {
        match self {
            Self::Posting(posting) => posting.segment(segment),
            Self::Set(set) => set.segment(segment).map(Cow::Borrowed),
        }
    }
}

/// Days of birth that match: within the bounds and not left out.
struct DayFilter {
    least: i32,
    most: i32,
    excluded: Vec<i32>,
}

impl DayFilter {
    /// All conditions in one; absent where there is none.
    fn new(conditions: &[DateCondition]) -> Option<Self> {
        if conditions.is_empty() {
            return None;
        }
        // The least number stands for a missing day, which no condition matches.
        let mut filter = Self { least: i32::MIN + 1, most: i32::MAX, excluded: Vec::new() };
        for condition in conditions {
            let day = days_since_epoch(condition.date);
            let (least, most) = match condition.operator {
                DateOperator::Equal => (day, day),
                DateOperator::NotEqual => {
                    filter.excluded.push(day);
                    continue;
                }
                DateOperator::After => (day.saturating_add(1), i32::MAX),
                DateOperator::OnOrAfter => (day, i32::MAX),
                DateOperator::Before => (i32::MIN + 1, day.saturating_sub(1)),
                DateOperator::OnOrBefore => (i32::MIN + 1, day),
            };
            filter.least = filter.least.max(least);
            filter.most = filter.most.min(most);
        }
        Some(filter)
    }

    fn holds(&self, day: i32) -> bool {
        self.least <= day && day <= self.most && !self.excluded.contains(&day)
    }

    /// The rows of a segment whose day matches.
    fn scan(&self, individuals: &Individuals, segment: u16) -> RoaringBitmap {
        let mut bits = vec![0_u8; SEGMENT_ROWS as usize / 8];
        for (index, bits) in bits.chunks_mut(CHUNK_ROWS / 8).enumerate() {
            let Some(chunk) = individuals.chunk(usize::from(segment) * SEGMENT_CHUNKS + index) else { break };
            if !chunk.birth_date.may_meet(self.least, self.most) {
                continue;
            }
            let days = chunk.birth_date.cells().as_slice();
            for (byte, days) in bits.iter_mut().zip(days.chunks(8)) {
                *byte = days.iter().rev().fold(0, |bits, day| (bits << 1) | u8::from(self.holds(*day)));
            }
        }
        RoaringBitmap::from_lsb0_bytes(0, &bits)
    }

    /// Those of the rows of a segment whose day matches.
    fn narrow(&self, individuals: &Individuals, segment: u16, rows: &RoaringBitmap) -> RoaringBitmap {
        if rows.len() > SINGLE_LOOKUPS_MAX {
            return self.scan(individuals, segment) & rows;
        }
        let is_match = |low: &u32| {
            let (at, slot) = chunk::split(bitmaps::join(segment, *low));
            let day = individuals.chunk(at).and_then(|chunk| chunk.birth_date.cells().get(slot));
            day.is_some_and(|day| self.holds(day))
        };
        rows.iter().filter(is_match).collect()
    }
}

/// A query in terms of rows.
struct Filter<'a> {
    /// All of these must hold, the rarest first.
    conditions: Vec<Rows<'a>>,
    days: Option<DayFilter>,
    active: Option<bool>,
}

impl<'a> Filter<'a> {
    /// Absent where nothing can match.
    fn new(individuals: &'a Individuals, hasher: &IdentifierHasher, query: &IndividualQuery) -> Option<Self> {
        let mut conditions = Vec::new();
        if !query.identifiers.is_empty() {
            conditions.push(Rows::Set(rows_with_identifiers(individuals, hasher, &query.identifiers)?));
        }
        for condition in &query.codes {
            conditions.push(rows_with_codes(individuals, condition)?);
        }
        for word in &query.name_words {
            conditions.push(rows_with_word(individuals, word)?);
        }
        conditions.sort_by_cached_key(Rows::len);
        Some(Self { conditions, days: DayFilter::new(&query.birth_date), active: query.active })
    }

    /// The matching rows of a segment.
    fn segment(&self, individuals: &Individuals, segment: u16) -> RoaringBitmap {
        let mut rows: Option<Cow<'_, RoaringBitmap>> = None;
        for condition in &self.conditions {
            let Some(these) = condition.segment(segment) else { return RoaringBitmap::new() };
            let both = match rows {
                None => these,
                Some(rows) => Cow::Owned(rows.as_ref() & these.as_ref()),
            };
            if both.is_empty() {
                return RoaringBitmap::new();
            }
            rows = Some(both);
        }
        let inactive = self.active.map(|is_active| (is_active, individuals.inactive.segment(segment)));
        match inactive {
            None | Some((true, None)) => {}
            Some((true, Some(inactive))) => {
                let among = rows.unwrap_or_else(|| Cow::Owned(every_row(individuals, segment)));
                rows = Some(Cow::Owned(among.as_ref() - inactive.as_ref()));
            }
            Some((false, None)) => return RoaringBitmap::new(),
            Some((false, Some(inactive))) => {
                rows = Some(match rows {
                    None => inactive,
                    Some(rows) => Cow::Owned(rows.as_ref() & inactive.as_ref()),
                });
            }
        }
        match (&self.days, rows) {
            (None, None) => every_row(individuals, segment),
            (None, Some(rows)) => rows.into_owned(),
            (Some(days), None) => days.scan(individuals, segment),
            (Some(days), Some(rows)) => days.narrow(individuals, segment, &rows),
        }
    }
}

/// The individuals that match, counted, and those of the page.
pub(super) fn search(
    individuals: &Individuals,
    hasher: &IdentifierHasher,
    query: &IndividualQuery,
    page: Page,
) -> Found {
    let mut found = Found::default();
    let Some(last_row) = individuals.rows.count().checked_sub(1) else { return found };
    let Some(filter) = Filter::new(individuals, hasher, query) else { return found };
    for segment in 0..=bitmaps::split(last_row).0 {
        let rows = filter.segment(individuals, segment);
        let skipped = page.offset.saturating_sub(found.total);
        found.total = found.total.saturating_add(rows.len());
        let wanted = (page.count as usize).saturating_sub(found.ids.len());
        if wanted == 0 || skipped >= rows.len() {
            continue;
        }
        let Some(first) = u32::try_from(skipped).ok().and_then(|skipped| rows.select(skipped)) else { continue };
        let rows = rows.range(first..).take(wanted).map(|low| bitmaps::join(segment, low));
        found.ids.extend(rows.filter_map(|row| individuals.rows.id(row)));
    }
    found
}

fn every_row(individuals: &Individuals, segment: u16) -> RoaringBitmap {
    let first = bitmaps::join(segment, 0);
    let count = individuals.rows.count().saturating_sub(first).min(SEGMENT_ROWS);
    let mut rows = RoaringBitmap::new();
    rows.insert_range(0..count);
    rows
}

fn rows_with_identifiers(
    individuals: &Individuals,
    hasher: &IdentifierHasher,
    identifiers: &[IdentifierKey],
) -> Option<RowSet> {
    let mut lists = identifiers.iter().map(|key| individuals.identifiers.rows(hasher.hash(key)));
    let mut rows = lists.next()?;
    for list in lists {
        rows.retain(|row| list.binary_search(row).is_ok());
    }
    (!rows.is_empty()).then(|| RowSet::from_sorted(&rows))
}

fn rows_with_codes<'a>(individuals: &'a Individuals, condition: &CodeCondition) -> Option<Rows<'a>> {
    let numbers = sorted_once(condition.any_of.iter().copied());
    let keys = numbers.into_iter().map(|number| CodeKey { field: Some(condition.field), number });
    Rows::any_of(keys.filter_map(|key| individuals.codes.get(&key)).collect())
}

fn rows_with_word<'a>(individuals: &'a Individuals, beginning: &str) -> Option<Rows<'a>> {
    let words = individuals.words.from(beginning).take_while(|(word, _)| word.starts_with(beginning));
    Rows::any_of(words.map(|(_, posting)| posting).collect())
}
