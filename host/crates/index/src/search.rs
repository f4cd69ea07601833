//! Searches: the rows that meet every condition, their number, and those of one page in the requested order.

mod best;
pub(super) mod filter;
pub(super) mod order;
mod scans;
mod subjects;

pub(super) use subjects::filter_of_subjects;

use best::Best;
use filter::Filter;
use order::{Order, place_of};

use super::bitmaps;
use super::rows::Rows;
use daftar_domain::record::RecordId;
use daftar_domain::search::Found;
use daftar_domain::search::order::{Position, Start, Window};

/// Runs a search; nothing matches without a filter.
pub(super) fn run(rows: &Rows, filter: Option<Filter<'_>>, order: Option<Order<'_>>, window: &Window) -> Found {
    let Some(filter) = filter else { return Found::default() };
    let position = match &window.start {
        Start::Offset(_) => None,
        Start::After(position) => Some((position, place_of(rows, position.record))),
    };
    match order {
        None => in_order_of_rows(rows, &filter, position, window),
        Some(order) => in_order(rows, &filter, &order, position, window),
    }
}

/// A position, the row of its record (or of the next one, if it has no row), and true if the record has a row.
type Placed<'p> = (&'p Position, (u32, bool));

fn in_order_of_rows(rows: &Rows, filter: &Filter<'_>, position: Option<Placed<'_>>, window: &Window) -> Found {
    let mut found = Found::default();
    let first_row = position.map_or(0, |(_, (row, is_passed))| row.saturating_add(u32::from(is_passed)));
    let offset = if let Start::Offset(offset) = window.start { offset } else { 0 };
    let (mut passed, mut page) = (0, Vec::new());
    for segment in filter.segments() {
        let matches = filter.segment(segment);
        found.total = found.total.saturating_add(matches.len());
        // The matches of the segment that precede the page.
        let before = match bitmaps::split(first_row) {
            (first, _) if segment < first => matches.len(),
            (first, low) if segment == first && low > 0 => matches.rank(low - 1),
            _ => 0,
        };
        let skipped = before + offset.saturating_sub(passed).min(matches.len() - before);
        passed = passed.saturating_add(matches.len() - before);
        // One more than requested, to detect a next page.
        let wanted = (window.count as usize + 1).saturating_sub(page.len());
        if wanted == 0 || skipped >= matches.len() {
            continue;
        }
        let Some(first) = u32::try_from(skipped).ok().and_then(|skipped| matches.select(skipped)) else { continue };
        page.extend(matches.range(first..).take(wanted).map(|low| bitmaps::join(segment, low)));
    }
    let has_more = page.len() > window.count as usize;
    page.truncate(window.count as usize);
    finish(rows, found.total, &page, has_more, |_| Vec::new(), window)
}

fn in_order(
    rows: &Rows,
    filter: &Filter<'_>,
    order: &Order<'_>,
    position: Option<Placed<'_>>,
    window: &Window,
) -> Found {
    let mut total = 0_u64;
    let offset = if let Start::Offset(offset) = window.start { offset } else { 0 };
    // A row number has 32 bits, so a greater offset skips all rows.
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX).min(u32::MAX as usize);
    let mut best = Best::new(order, position, skipped.saturating_add(window.count as usize));
    let mut segments: Vec<u16> = filter.segments().collect();
    if order.begins_with_late_rows() {
        segments.reverse();
    }
    for segment in segments {
        let matches = filter.segment(segment);
        total = total.saturating_add(matches.len());
        best.add(segment, &matches);
    }
    let (page, remaining) = best.page(skipped);
    let in_reach = remaining.unwrap_or(total.saturating_sub(offset));
    finish(rows, total, &page, in_reach > page.len() as u64, |row| order.values(row), window)
}

fn finish(
    rows: &Rows,
    total: u64,
    page: &[u32],
    has_more: bool,
    values: impl Fn(u32) -> Vec<daftar_domain::search::order::SortValue>,
    window: &Window,
) -> Found {
    let ids: Vec<RecordId> = page.iter().filter_map(|row| rows.id(*row)).collect();
    let next = match (page.last(), ids.last()) {
        (Some(row), Some(record)) if has_more => Some(Position {
            values: values(*row),
            record: *record,
            passed: window.passed().saturating_add(ids.len() as u64),
        }),
        _ => None,
    };
    Found { total, ids, next }
}
