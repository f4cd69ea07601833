//! Numbers for the repeated names of consents (organizations, purposes and lists of fields), and periods of days as
//! unions of few canonical ranges.
//!
//! **Invariant:** a number never changes its meaning and is never assigned twice; 0 means any purpose.
//!
//! **Invariant:** the ranges of a period do not overlap and contain exactly its days; so a day is in a period if and
//! only if one of the ranges around the day is one of the period's.

use std::sync::Arc;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::Texts;
use crate::codes::sorted_once;
use crate::stored::Corrupt;
use crate::tree::SharedTree;
use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::field::{FieldName, FieldSet};
use daftar_domain::scope::Resource;

/// The number that means any purpose.
pub(super) const ANY_PURPOSE: u32 = 0;

/// Field names of consents, sorted, without duplicates; `None` means every field.
type FieldNames = Option<Arc<[String]>>;

/// The numbered names, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    organizations: SharedTree<Arc<str>, u32>,
    purposes: SharedTree<Arc<str>, u32>,
    numbers_of_fields: SharedTree<FieldNames, u32>,
    fields: SharedTree<u32, FieldNames>,
    /// The last assigned number, of any kind of name.
    last: u32,
}

impl Names {
    /// Returns the number of an organization.
    pub(super) fn organization(&self, name: &str) -> Option<u32> {
        self.organizations.get(name).copied()
    }

    /// Returns the number of a purpose.
    pub(super) fn purpose(&self, text: &str) -> Option<u32> {
        self.purposes.get(text.trim()).copied()
    }

    /// Returns the number of an organization, assigning one if it has none.
    pub(super) fn number_organization(&mut self, name: &str) -> u32 {
        number(&mut self.organizations, &mut self.last, name)
    }

    /// Returns the number of a purpose, assigning one if it has none.
    pub(super) fn number_purpose(&mut self, text: &str) -> u32 {
        number(&mut self.purposes, &mut self.last, text.trim())
    }

    /// Returns the number of a list of fields, assigning one if it has none.
    pub(super) fn number_fields(&mut self, names: Option<&[String]>) -> u32 {
        let names = sorted_names(names);
        if let Some(number) = self.numbers_of_fields.get(&names) {
            return *number;
        }
        let number = next(&mut self.last);
        self.numbers_of_fields.insert(names.clone(), number);
        self.fields.insert(number, names);
        number
    }

    /// Returns the number of a list of fields.
    pub(super) fn number_of_fields(&self, names: Option<&[String]>) -> Option<u32> {
        self.numbers_of_fields.get(&sorted_names(names)).copied()
    }

    /// Returns the fields of a numbered list that belong to a resource's records.
    pub(super) fn fields(&self, number: u32, resource: Resource) -> FieldSet {
        match self.fields.get(&number) {
            Some(None) => FieldSet::All,
            Some(Some(names)) => FieldSet::only(names.iter().filter_map(|name| FieldName::parse(resource, name).ok())),
            None => FieldSet::none(),
        }
    }

    /// Returns the names of all numbers.
    pub(super) fn texts(&self) -> Texts {
        let by_number = |names: &SharedTree<Arc<str>, u32>| {
            names.iter().map(|(name, number)| (*number, name.to_string())).collect()
        };
        let fields = self.fields.iter().map(|(number, names)| (*number, names.as_ref().map(|names| names.to_vec())));
        Texts {
            organizations: by_number(&self.organizations),
            purposes: by_number(&self.purposes),
            fields: fields.collect(),
        }
    }

    /// Restores names with their numbers.
    pub(super) fn of_texts(texts: Texts) -> Self {
        let mut names = Self::default();
        for (number, name) in texts.organizations {
            names.organizations.insert(name.into(), number);
            names.last = names.last.max(number);
        }
        for (number, text) in texts.purposes {
            names.purposes.insert(text.into(), number);
            names.last = names.last.max(number);
        }
        for (number, list) in texts.fields {
            let list: FieldNames = list.map(Arc::from);
            names.numbers_of_fields.insert(list.clone(), number);
            names.fields.insert(number, list);
            names.last = names.last.max(number);
        }
        names
    }
}

fn sorted_names(names: Option<&[String]>) -> FieldNames {
    names.map(|names| sorted_once(names.iter().cloned()).into())
}

/// Returns the number of a name, assigning one if it has none.
fn number(names: &mut SharedTree<Arc<str>, u32>, last: &mut u32, name: &str) -> u32 {
    if let Some(number) = names.get(name) {
        return *number;
    }
    let number = next(last);
    names.insert(name.into(), number);
    number
}

fn next(last: &mut u32) -> u32 {
    // Overflow would require four thousand million different names.
    *last = last.saturating_add(1);
    *last
}

/// The number of halvings from the whole calendar to single days. Its 2^19 days contain every date that a consent can
/// have, 1800 to 2999, and some before and after, which represent all days beyond.
const HALVINGS: u32 = 19;
/// The offset that converts a day since 1970-01-01 to a day of the calendar.
const OFFSET_DAYS: i32 = 70_000;

/// 2^n days from a multiple of 2^n, numbered like the nodes of a heap: 1 is the whole calendar, and the halves of `k`
/// are `2k` and `2k + 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct DayRange(u32);

/// A date in a consent, counted from 1970-01-01 in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub(super) struct Day(pub(super) Date);

impl TryFrom<i32> for Day {
    type Error = Corrupt;

    fn try_from(days: i32) -> Result<Self, Corrupt> {
        date_from_days(days).map(Self).ok_or(Corrupt("a day is outside the calendar"))
    }
}

impl From<Day> for i32 {
    fn from(Day(date): Day) -> Self {
        days_since_epoch(date)
    }
}

impl DayRange {
    /// Returns the range of one day.
    fn of_day(day: Date) -> u32 {
        let place = days_since_epoch(day).saturating_add(OFFSET_DAYS).clamp(0, (1 << HALVINGS) - 1);
        (1 << HALVINGS) | place.unsigned_abs()
    }

    /// Returns the ranges of a period, both days included; without a last day, up to the end of the calendar.
    pub(super) fn of_period(first: Date, last: Option<Date>) -> Vec<Self> {
        let mut ranges = Vec::new();
        let mut from = Self::of_day(first);
        let mut until = last.map_or(2 << HALVINGS, |last| Self::of_day(last) + 1);
        while from < until {
            if from % 2 == 1 {
                ranges.push(Self(from));
                from += 1;
            }
            if until % 2 == 1 {
                until -= 1;
                ranges.push(Self(until));
            }
            from /= 2;
            until /= 2;
        }
        ranges
    }

    /// Returns every range that contains a day, the shortest first.
    pub(super) fn around(day: Date) -> impl Iterator<Item = Self> {
        let day = Self::of_day(day);
        (0..=HALVINGS).map(move |halvings| Self(day >> halvings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_one_number() {
        let mut names = Names::default();
        let health = names.number_organization("Ministry of Health");
        assert_eq!(names.number_organization("Ministry of Health"), health);
        assert_ne!(names.number_organization("Ministry of health"), health);
        assert_eq!((names.organization("Ministry of Health"), names.organization("Unknown")), (Some(health), None));
        let meals = names.number_purpose(" school meals ");
        assert_eq!((names.purpose("school meals"), names.purpose("meals")), (Some(meals), None));
        assert_ne!(meals, ANY_PURPOSE);
    }

    #[test]
    fn a_list_of_fields_is_read_for_each_resource() {
        let mut names = Names::default();
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let some = names.number_fields(Some(&list(&["name", "birth_date", "status"])));
        assert_eq!(names.number_fields(Some(&list(&["status", "birth_date", "name", "name"]))), some);
        let every = names.number_fields(None);
        assert_eq!(names.fields(every, Resource::Group), FieldSet::All);
        let only = |resource, wanted: &[&str]| {
            FieldSet::only(wanted.iter().map(|name| FieldName::parse(resource, name).unwrap()))
        };
        assert_eq!(names.fields(some, Resource::Individual), only(Resource::Individual, &["name", "birth_date"]));
        assert_eq!(names.fields(some, Resource::Group), only(Resource::Group, &["name"]));
        assert_eq!(names.fields(some, Resource::ProgramMembership), only(Resource::ProgramMembership, &["status"]));
    }
}

#[cfg(test)]
mod days_tests {
    use jiff::ToSpan;
    use proptest::prelude::*;

    use super::*;
    use crate::stored::{bytes_of, take};
    use daftar_domain::calendar::{YEAR_MAX, YEAR_MIN};

    fn day(days: i32) -> Date {
        Date::constant(2000, 1, 1).saturating_add(days.days())
    }

    fn meets(first: Date, last: Option<Date>, requested: Date) -> usize {
        let period = DayRange::of_period(first, last);
        DayRange::around(requested).filter(|range| period.contains(range)).count()
    }

    proptest! {
        #[test]
        fn a_day_matches_once_within_a_period_and_never_outside(
            first in -70_000_i32..360_000, length in 0_i32..2_000, is_open in any::<bool>(), requested in -3_000_i32..3_000,
        ) {
            let last = day(first + length);
            let requested = day(first + requested);
            let is_inside = day(first) <= requested && (is_open || requested <= last);
            prop_assert_eq!(meets(day(first), (!is_open).then_some(last), requested), usize::from(is_inside));
        }
    }

    #[test]
    fn a_day_is_read_as_written() {
        for date in [Date::constant(YEAR_MIN, 1, 1), Date::constant(1970, 1, 1), Date::MAX] {
            assert_eq!(take(&mut bytes_of(&Day(date)).as_slice()), Ok(Day(date)));
        }
        assert!(take::<Day>(&mut bytes_of(&i32::MAX).as_slice()).is_err());
    }

    #[test]
    fn the_first_and_the_last_day_are_included() {
        let (first, last) = (day(10), day(20));
        for (requested, expected) in [(9, 0), (10, 1), (20, 1), (21, 0)] {
            assert_eq!(meets(first, Some(last), day(requested)), expected, "{requested}");
        }
        let (earliest, latest) = (Date::constant(YEAR_MIN, 1, 1), Date::constant(YEAR_MAX, 12, 31));
        assert_eq!((meets(earliest, None, Date::MIN), meets(earliest, None, Date::MAX)), (0, 1));
        assert_eq!((meets(latest, Some(latest), latest), meets(latest, Some(latest), Date::MAX)), (1, 0));
        assert_eq!(meets(latest, None, latest.yesterday().unwrap()), 0);
    }

    #[test]
    fn a_period_has_few_ranges() {
        assert!(DayRange::of_period(day(1), Some(day(365))).len() <= 17);
        assert!(DayRange::of_period(day(1), None).len() <= 19);
        assert_eq!(DayRange::around(day(1)).count(), 20);
    }
}
