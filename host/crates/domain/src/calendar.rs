//! Dates and timestamps in the format of the registry.

use jiff::civil::Date;
use jiff::{Span, Timestamp};

/// First valid year of a date.
pub const YEAR_MIN: i16 = 1800;
/// Last valid year of a date.
pub const YEAR_MAX: i16 = 2999;

/// Error: a text is not a valid date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a date must be a valid day in the format YYYY-MM-DD, between the years {YEAR_MIN} and {YEAR_MAX}")]
pub struct DateError;

/// Parses a date in the format `YYYY-MM-DD`.
///
/// # Errors
/// The text has another format, is not a valid date or is outside [`YEAR_MIN`]..=[`YEAR_MAX`].
pub fn parse_date(text: &str) -> Result<Date, DateError> {
    let bytes = text.as_bytes();
    let is_shaped = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !is_shaped {
        return Err(DateError);
    }
    let date: Date = text.parse().map_err(|_| DateError)?;
    if (YEAR_MIN..=YEAR_MAX).contains(&date.year()) { Ok(date) } else { Err(DateError) }
}

/// Returns the number of days since 1970-01-01, negative before it.
#[must_use]
pub fn days_since_epoch(date: Date) -> i32 {
    let epoch = Date::constant(1970, 1, 1);
    // Both are within the years -9999 to 9999, so the number of days fits.
    date.duration_since(epoch).as_hours().div_euclid(24) as i32
}

/// Returns the date `days` after 1970-01-01, if it is in the range of the calendar.
#[must_use]
pub fn date_from_days(days: i32) -> Option<Date> {
    let span = Span::new().try_days(days).ok()?;
    Date::constant(1970, 1, 1).checked_add(span).ok()
}

/// Returns the UTC date of a timestamp.
#[must_use]
pub fn utc_day(instant: Timestamp) -> Date {
    jiff::tz::TimeZone::UTC.to_datetime(instant).date()
}

/// Formats a timestamp as RFC 3339 in UTC with milliseconds.
#[must_use]
pub fn format_instant(instant: Timestamp) -> String {
    format!("{instant:.3}")
}

/// A range of days; either end may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// The first day; open when absent.
    pub start: Option<Date>,
    /// The last day; open when absent.
    pub end: Option<Date>,
}

impl Period {
    /// True if the day is in this period.
    #[must_use]
    pub fn contains(&self, day: Date) -> bool {
        self.start.is_none_or(|start| start <= day) && self.end.is_none_or(|end| day <= end)
    }

    /// True if the periods have a day in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_before = |one: &Self, other: &Self| one.end.zip(other.start).is_some_and(|(end, start)| end < start);
        !is_before(self, other) && !is_before(other, self)
    }

    /// True if the period has no end.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_the_one_written_form() {
        assert_eq!(parse_date("2024-02-29").unwrap(), Date::constant(2024, 2, 29));
        for wrong in ["2023-02-29", "2024-2-29", "20240229", "2024-02-29T00:00:00", "1799-12-31", "+002024-02-29", ""] {
            assert_eq!(parse_date(wrong), Err(DateError), "{wrong}");
        }
    }

    #[test]
    fn counts_days_both_ways() {
        for (text, days) in [("1970-01-01", 0), ("1969-12-31", -1), ("2000-03-01", 11_017), ("1800-01-01", -62_091)] {
            let date = parse_date(text).unwrap();
            assert_eq!(days_since_epoch(date), days, "{text}");
            assert_eq!(date_from_days(days), Some(date), "{text}");
        }
        assert_eq!((date_from_days(i32::MIN), date_from_days(i32::MAX)), (None, None));
    }

    #[test]
    fn a_period_includes_its_first_and_last_day() {
        let period = Period { start: parse_date("2024-01-01").ok(), end: parse_date("2024-01-31").ok() };
        assert!(period.contains(parse_date("2024-01-01").unwrap()));
        assert!(period.contains(parse_date("2024-01-31").unwrap()));
        assert!(!period.contains(parse_date("2024-02-01").unwrap()));
    }
}
