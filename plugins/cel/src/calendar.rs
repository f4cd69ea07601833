//! Calendar days of the proleptic Gregorian calendar, counted from 1970-01-01.

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// Days in four hundred years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01, with which an era begins here, to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

impl Day {
    /// The day that many days after 1970-01-01.
    pub fn from_number(number: i32) -> Self {
        // A year starts in March, so that the leap day is its last day.
        let days = i64::from(number) + EPOCH_DAYS;
        let era = days.div_euclid(ERA_DAYS);
        let day_of_era = days.rem_euclid(ERA_DAYS);
        let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leap_days) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Self { year, month: small(month), day: small(day) }
    }

    /// Days since 1970-01-01; none if the day is invalid or the number overflows.
    pub fn number(self) -> Option<i32> {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let number = i32::try_from(era * ERA_DAYS + day_of_era - EPOCH_DAYS).ok()?;
        (Self::from_number(number) == self).then_some(number)
    }

    /// Whole years from this day to `later`, negative if `later` is earlier.
    ///
    /// The birthday of a person born on 29 February is 1 March in common years.
    pub fn years_until(self, later: Day) -> i64 {
        let is_before_birthday = (later.month, later.day) < (self.month, self.day);
        later.year - self.year - i64::from(is_before_birthday)
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Parses a day in the form `YYYY-MM-DD`; none if it is invalid.
pub fn parse_date(text: &str) -> Option<i32> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let digits = |part: &str, count: usize| {
        (part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse::<u16>().ok())?
    };
    let day = Day {
        year: i64::from(digits(year, 4)?),
        month: u8::try_from(digits(month, 2)?).ok()?,
        day: u8::try_from(digits(day, 2)?).ok()?,
    };
    day.number()
}

fn small(part: i64) -> u8 {
    u8::try_from(part).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(born: &str, requested: &str) -> i64 {
        Day::from_number(parse_date(born).unwrap()).years_until(Day::from_number(parse_date(requested).unwrap()))
    }

    #[test]
    fn numbers_and_days_turn_into_each_other() {
        for (text, number) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2026-01-31", 20_484),
            ("0001-01-01", -719_162),
        ] {
            assert_eq!(parse_date(text), Some(number), "{text}");
        }
        let mut before = Day::from_number(-1_000_001);
        for number in -1_000_000..1_000_000 {
            let day = Day::from_number(number);
            assert!(day > before && day.number() == Some(number), "{number}");
            before = day;
        }
        for number in [i32::MIN, i32::MAX] {
            assert_eq!(Day::from_number(number).number(), Some(number));
        }
    }

    #[test]
    fn refuses_texts_that_are_no_day() {
        for text in [
            "",
            "2026",
            "2026-1-31",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-10",
            "+026-01-01",
            "2026-01-31 ",
            "2026-01-3١",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn a_birthday_on_29_february_is_1_march_in_common_years() {
        assert_eq!(age("2008-02-29", "2026-02-28"), 17);
        assert_eq!(age("2008-02-29", "2026-03-01"), 18);
        assert_eq!(age("2008-02-29", "2028-02-28"), 19);
        assert_eq!(age("2008-02-29", "2028-02-29"), 20);
    }

    #[test]
    fn age_changes_on_the_birthday_and_is_negative_before_birth() {
        assert_eq!(age("1966-05-10", "2026-05-09"), 59);
        assert_eq!(age("1966-05-10", "2026-05-10"), 60);
        assert_eq!(age("2026-05-10", "2026-05-10"), 0);
        assert_eq!(age("2026-05-10", "2026-05-09"), -1);
    }
}
