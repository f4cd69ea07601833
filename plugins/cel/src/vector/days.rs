//! Ages and distances in days as ranges of days: the calendar is computed once per batch, not once per row.
//!
//! An age decreases as the birth date increases, so `age_years(x) >= n` holds for every day up to a last one, which is
//! the day of the evaluation `n` years before. If that is a nonexistent 29 February, it is 28 February: a person born
//! on the next day, 1 March, has not had the birthday yet. If the day of the evaluation is 28 February of a common
//! year, a person born on 29 February `n` years before has not had it either, since that birthday is on 1 March; the
//! last day is 28 February again.

use crate::calendar::Day;
use crate::tree::Comparison;

/// Days from the lowest to the highest, both included; empty if the lowest is above the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRange {
    /// The first day, since 1970-01-01.
    pub lowest: i64,
    /// The last day, since 1970-01-01.
    pub highest: i64,
}

/// The measure of a day that is compared with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The day itself.
    Day,
    /// Whole years to the day of the evaluation.
    Age,
    /// Days to the day of the evaluation.
    DaysSince,
}

/// The first day that a column can represent.
const FIRST: i64 = i32::MIN as i64;
/// The last day that a column can represent.
const LAST: i64 = i32::MAX as i64;

impl DayRange {
    /// The days whose measure satisfies the comparison with `number` on `as_of`; none for `!=`, which is not a range.
    pub fn of(measure: Measure, comparison: Comparison, number: i64, as_of: i32) -> Option<Self> {
        // The last day with at least that measure, and the last one with more.
        let (last, last_above) = match measure {
            Measure::Day => return Self::of_day(comparison, number),
            Measure::Age => {
                let last = |years| last_day_of_age(years, as_of);
                (last(number), number.checked_add(1).map_or(FIRST - 1, last))
            }
            Measure::DaysSince => {
                let last = |days| i64::from(as_of).saturating_sub(days);
                (last(number), number.checked_add(1).map_or(i64::MIN, last))
            }
        };
        Some(match comparison {
            Comparison::Equal => Self { lowest: last_above.saturating_add(1), highest: last },
            Comparison::NotEqual => return None,
            Comparison::Less => Self { lowest: last.saturating_add(1), highest: LAST },
            Comparison::LessOrEqual => Self { lowest: last_above.saturating_add(1), highest: LAST },
            Comparison::Greater => Self { lowest: FIRST, highest: last_above },
            Comparison::GreaterOrEqual => Self { lowest: FIRST, highest: last },
        })
    }

    fn of_day(comparison: Comparison, day: i64) -> Option<Self> {
        Some(match comparison {
            Comparison::Equal => Self { lowest: day, highest: day },
            Comparison::NotEqual => return None,
            Comparison::Less => Self { lowest: FIRST, highest: day.saturating_sub(1) },
            Comparison::LessOrEqual => Self { lowest: FIRST, highest: day },
            Comparison::Greater => Self { lowest: day.saturating_add(1), highest: LAST },
            Comparison::GreaterOrEqual => Self { lowest: day, highest: LAST },
        })
    }

    /// The intersection.
    pub fn intersection(self, other: Self) -> Self {
        Self { lowest: self.lowest.max(other.lowest), highest: self.highest.min(other.highest) }
    }

    /// The first and last day that a column can represent; none if there are none.
    pub fn ends(self) -> Option<(i32, i32)> {
        let (lowest, highest) = (self.lowest.max(FIRST), self.highest.min(LAST));
        let is_empty = lowest > highest;
        if is_empty { None } else { Some((i32::try_from(lowest).ok()?, i32::try_from(highest).ok()?)) }
    }
}

/// The last birth date of at least that age.
fn last_day_of_age(years: i64, as_of: i32) -> i64 {
    let today = Day::from_number(as_of);
    let Some(year) = today.year.checked_sub(years) else { return if years < 0 { LAST } else { FIRST - 1 } };
    let day = Day { year, ..today };
    if day >= Day::from_number(i32::MAX) {
        return LAST;
    }
    if day < Day::from_number(i32::MIN) {
        return FIRST - 1;
    }
    let number = day.number().or_else(|| Day { day: 28, ..day }.number());
    number.map_or(FIRST - 1, i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::parse_date;

    const COMPARISONS: [Comparison; 5] =
        [Comparison::Equal, Comparison::Less, Comparison::LessOrEqual, Comparison::Greater, Comparison::GreaterOrEqual];

    fn holds(comparison: Comparison, left: i64, right: i64) -> bool {
        match comparison {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
        }
    }

    fn is_in(range: DayRange, day: i32) -> bool {
        range.ends().is_some_and(|(lowest, highest)| (lowest..=highest).contains(&day))
    }

    fn day(text: &str) -> i32 {
        parse_date(text).unwrap()
    }

    /// The days of the evaluation: leap days, the days around them, around a century without one and one with one, and
    /// usual ones.
    const ASKED: [&str; 11] = [
        "2024-02-28",
        "2024-02-29",
        "2024-03-01",
        "2026-02-28",
        "2026-03-01",
        "2100-02-28",
        "2100-03-01",
        "2000-02-29",
        "2026-01-01",
        "2026-12-31",
        "2026-07-15",
    ];

    #[test]
    fn ages_agree_with_the_calendar_on_every_day_of_decades() {
        for requested in ASKED {
            let as_of = day(requested);
            let today = Day::from_number(as_of);
            let ages: Vec<i64> =
                (day("1894-01-01")..day("2104-12-31")).map(|born| Day::from_number(born).years_until(today)).collect();
            for years in -3..=131 {
                for comparison in COMPARISONS {
                    let range = DayRange::of(Measure::Age, comparison, years, as_of).unwrap();
                    for (born, age) in (day("1894-01-01")..).zip(&ages) {
                        let is_expected = holds(comparison, *age, years);
                        assert_eq!(is_in(range, born), is_expected, "{requested} {comparison:?} {years}: {born}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_day_of_asking_of_some_years_has_the_right_first_and_last_day_of_each_age() {
        for as_of in day("2023-01-01")..day("2029-01-01") {
            let today = Day::from_number(as_of);
            for years in 0..=120 {
                let range = DayRange::of(Measure::Age, Comparison::Equal, years, as_of).unwrap();
                let (first, last) = range.ends().unwrap();
                let age = |born| Day::from_number(born).years_until(today);
                let around = [first - 1, first, last, last + 1].map(age);
                assert_eq!(around, [years + 1, years, years, years - 1], "{today} {years}");
            }
        }
    }

    #[test]
    fn days_and_distances_agree_with_what_they_stand_for() {
        let as_of = day("2026-03-01");
        for number in [-40, -1, 0, 1, 40] {
            for comparison in COMPARISONS {
                let since = DayRange::of(Measure::DaysSince, comparison, number, as_of).unwrap();
                let plain = DayRange::of(Measure::Day, comparison, i64::from(as_of) + number, as_of).unwrap();
                for other in as_of - 100..as_of + 100 {
                    let days = i64::from(as_of) - i64::from(other);
                    assert_eq!(is_in(since, other), holds(comparison, days, number));
                    let is_expected = holds(comparison, i64::from(other), i64::from(as_of) + number);
                    assert_eq!(is_in(plain, other), is_expected);
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_calendar_and_of_numbers_are_ranges_as_any() {
        let days = [i32::MIN, i32::MIN + 1, -1, 0, 1, i32::MAX - 1, i32::MAX];
        let edges = [i64::MIN, i64::MIN + 1, -6_000_000, -5_877_641, 0, 5_881_580, 11_759_222, i64::MAX - 1, i64::MAX];
        for as_of in days {
            let today = Day::from_number(as_of);
            let near = days.map(|born| Day::from_number(born).years_until(today));
            for number in edges.into_iter().chain(near).chain(near.map(|age| age + 1)) {
                for comparison in COMPARISONS {
                    let ages = DayRange::of(Measure::Age, comparison, number, as_of).unwrap();
                    let since = DayRange::of(Measure::DaysSince, comparison, number, as_of).unwrap();
                    for born in days {
                        let age = Day::from_number(born).years_until(today);
                        assert_eq!(is_in(ages, born), holds(comparison, age, number), "{as_of} {number} {born}");
                        let distance = i64::from(as_of) - i64::from(born);
                        assert_eq!(is_in(since, born), holds(comparison, distance, number));
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_of_one_day_are_cut_with_each_other() {
        let as_of = day("2026-03-01");
        let adult = DayRange::of(Measure::Age, Comparison::GreaterOrEqual, 18, as_of).unwrap();
        let young = DayRange::of(Measure::Age, Comparison::Less, 60, as_of).unwrap();
        let both = adult.intersection(young);
        assert_eq!(both.ends(), Some((day("1966-03-02"), day("2008-03-01"))));
        let old = DayRange::of(Measure::Age, Comparison::Greater, 70, as_of).unwrap();
        assert_eq!(young.intersection(old).ends(), None);
    }
}
