//! Lists: their items become a frame of rows, and the results for the items are aggregated to the rows of the lists.

use super::lane::{Known, Lane, Values, Vector};
use super::program::{ListOf, Source, Test};
use super::run::{Frame, Run};
use super::{NO, Truth, UNKNOWN, YES, kernels};
use crate::columns::CheckedValues;
use crate::limits::BLOCK_ITEMS_MAX;
use std::borrow::Cow;

/// A list of every row of a frame, with its items as the rows of their own frame.
pub struct Opened {
    /// The rows whose list is known.
    known: Known,
    /// The items in the list, if not all are. For known lists, each item is in it or not.
    stored: Option<Vec<Truth>>,
}

impl<'p, 'a> Run<'p, 'a> {
    /// True if any item matches.
    pub(super) fn exists(&mut self, list: &'p ListOf<'a>, body: &'p Test<'a>) -> Option<Vec<Truth>> {
        let opened = self.open(list)?;
        let mut truths = self.test(body, list.items, None)?;
        if let Some(stored) = &opened.stored {
            kernels::and(&mut truths, stored);
        }
        Some(opened.only_known(self.any_by_owner(list, &truths)?))
    }

    /// True if all items match.
    pub(super) fn every(&mut self, list: &'p ListOf<'a>, body: &'p Test<'a>) -> Option<Vec<Truth>> {
        let opened = self.open(list)?;
        let mut truths = self.test(body, list.items, None)?;
        if let Some(mut left_out) = opened.stored.clone() {
            kernels::not(&mut left_out);
            kernels::or(&mut truths, &left_out);
        }
        let found = self.by_owner(list, &truths, |items| items.iter().fold(YES, |all, item| all.min(*item)))?;
        Some(opened.only_known(found))
    }

    /// True if exactly one item matches; unknown if it is unknown for any item.
    pub(super) fn one(&mut self, list: &'p ListOf<'a>, body: &'p Test<'a>) -> Option<Vec<Truth>> {
        let opened = self.open(list)?;
        let mut truths = self.test(body, list.items, None)?;
        if let Some(stored) = &opened.stored {
            kernels::and(&mut truths, stored);
        }
        let found = self.by_owner(list, &truths, |items| {
            if items.contains(&UNKNOWN) { UNKNOWN } else { kernels::known(count(items) == 1) }
        })?;
        Some(opened.only_known(found))
    }

    /// The number of items.
    pub(super) fn size(&mut self, list: &'p ListOf<'a>) -> Option<Lane<'a, i64>> {
        let opened = self.open(list)?;
        let sizes: Vec<i64> = match &opened.stored {
            Some(stored) => self.by_owner(list, stored, count)?,
            None => {
                let offsets = &self.frame(list.items)?.offsets;
                let pairs = offsets.iter().zip(offsets.iter().skip(1));
                pairs.map(|(start, end)| i64::from(end.saturating_sub(*start))).collect()
            }
        };
        Some(Lane { values: Values::Each(Cow::Owned(sizes)), known: opened.known })
    }

    /// True if the value of each row is among the items of its list; unknown if the value is.
    pub(super) fn in_items(
        &mut self,
        value: &Vector<'a>,
        list: &'p ListOf<'a>,
        items: &Vector<'a>,
    ) -> Option<Vec<Truth>> {
        let frame = self.frame(list.items)?;
        let repeated = super::lane::with_lane!(value.clone(), lane => lane.repeated(&frame.offsets));
        kernels::compare(crate::tree::Comparison::Equal, &repeated, items, frame.rows)
    }

    /// Makes the items of a list the rows of their frame; none if there are too many for one block.
    pub(super) fn open(&mut self, list: &'p ListOf<'a>) -> Option<Opened> {
        let owner = self.frame(list.owner)?;
        let (start, rows) = (owner.start, owner.rows);
        let (offsets, valid) = match list.source {
            Source::Rows(space) => {
                let rows = self.columns.rows_of(space)?;
                (&rows.offsets, &rows.known)
            }
            Source::Column(column) => {
                let column = self.columns.column(column)?;
                let CheckedValues::Lists(offsets) = &column.values else { return None };
                (offsets, &column.valid)
            }
        };
        let offsets = offsets.get(start..=start + rows)?;
        let (first, last) = (*offsets.first()?, *offsets.last()?);
        let items = last.checked_sub(first)? as usize;
        if items > BLOCK_ITEMS_MAX {
            return None;
        }
        let known = Known::of(valid, start, rows);
        let offsets = offsets.iter().map(|offset| offset.saturating_sub(first)).collect();
        *self.frames.get_mut(list.items)? = Frame { start: first as usize, rows: items, offsets };
        self.filter(list, known)
    }

    /// Applies all filters to the items. An item in doubt makes its whole list unknown.
    fn filter(&mut self, list: &'p ListOf<'a>, mut known: Known) -> Option<Opened> {
        let mut stored: Option<Vec<Truth>> = None;
        for keep in &list.keep {
            let mut truths = self.test(keep, list.items, None)?;
            if let Some(before) = &stored {
                // Items that an earlier filter removed are skipped.
                kernels::and(&mut truths, before);
            }
            let is_sure = self.by_owner(list, &truths, |items| !items.contains(&UNKNOWN))?;
            known = known.and(&Known::where_true(&Values::Each(Cow::Owned(is_sure)), 0));
            stored = Some(truths);
        }
        Some(Opened { known, stored })
    }

    /// True for each row with an item for which it is true: Kleene's "or" of its items.
    pub(super) fn any_by_owner(&self, list: &ListOf<'a>, items: &[Truth]) -> Option<Vec<Truth>> {
        let offsets = &self.frame(list.items)?.offsets;
        let mut made = Vec::with_capacity(offsets.len());
        let mut rest = items;
        let mut before = 0;
        for end in offsets.iter().skip(1) {
            let count = end.saturating_sub(before) as usize;
            // Most lists are short: one number has all their truths, without a loop.
            let short = rest.first_chunk::<SHORT>().filter(|_| (1..=SHORT).contains(&count));
            let (these, others) = rest.split_at_checked(count)?;
            made.push(match short {
                Some(truths) => any_of(u64::from_le_bytes(*truths) & (u64::MAX >> (u64::BITS as usize - 8 * count))),
                None => these.iter().fold(NO, |any, item| any.max(*item)),
            });
            (rest, before) = (others, *end);
        }
        Some(made)
    }

    /// Aggregates the items of each row.
    pub(super) fn by_owner<R>(
        &self,
        list: &ListOf<'a>,
        items: &[Truth],
        make: impl Fn(&[Truth]) -> R,
    ) -> Option<Vec<R>> {
        let offsets = &self.frame(list.items)?.offsets;
        let mut made = Vec::with_capacity(offsets.len());
        let mut rest = items;
        let mut before = 0;
        for end in offsets.iter().skip(1) {
            let (these, others) = rest.split_at_checked(end.saturating_sub(before) as usize)?;
            made.push(make(these));
            (rest, before) = (others, *end);
        }
        Some(made)
    }
}

impl Opened {
    /// Truths that are known where the lists are.
    pub fn only_known(&self, mut truths: Vec<Truth>) -> Vec<Truth> {
        self.known.apply(&mut truths);
        truths
    }
}

/// The number of truths in one number.
const SHORT: usize = size_of::<u64>();

/// The greatest of eight truths, one in each byte.
fn any_of(truths: u64) -> Truth {
    const ALL_YES: u64 = u64::from_le_bytes([YES; SHORT]);
    if truths & ALL_YES != 0 { YES } else { u8::from(truths != 0) }
}

fn count(items: &[Truth]) -> i64 {
    items.iter().map(|item| i64::from(*item == YES)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_of_eight_truths() {
        for number in 0..3_u32.pow(8) {
            let truths: [Truth; SHORT] = std::array::from_fn(|at| (number / 3_u32.pow(at as u32) % 3) as Truth);
            assert_eq!(any_of(u64::from_le_bytes(truths)), truths.into_iter().fold(NO, Truth::max), "{truths:?}");
        }
    }
}
