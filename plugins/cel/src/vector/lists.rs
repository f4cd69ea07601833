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
        let found = self.by_owner(list, &truths, |items| items.iter().fold(NO, |any, item| any.max(*item)))?;
        Some(opened.only_known(found))
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

fn count(items: &[Truth]) -> i64 {
    items.iter().map(|item| i64::from(*item == YES)).sum()
}
