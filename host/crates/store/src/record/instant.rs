//! Stored form of timestamps: milliseconds since 1970-01-01T00:00:00Z; finer parts are truncated.

use jiff::Timestamp;

use super::Unreadable;

/// The milliseconds of a timestamp, rounded towards the past.
#[must_use]
pub fn milliseconds(instant: Timestamp) -> i64 {
    // The last timestamp has 18 digits in nanoseconds of an i128 and 15 in milliseconds: it always fits.
    i64::try_from(instant.as_nanosecond().div_euclid(1_000_000)).unwrap_or(i64::MAX)
}

/// The timestamp of those milliseconds.
///
/// # Errors
/// If it is outside the calendar.
pub fn instant(milliseconds: i64) -> Result<Timestamp, Unreadable> {
    Timestamp::from_nanosecond(i128::from(milliseconds) * 1_000_000)
        .map_err(|_| Unreadable("a timestamp is outside the calendar".to_owned()))
}

/// The timestamp as it will be read: in milliseconds.
#[must_use]
pub fn as_stored(instant: Timestamp) -> Timestamp {
    // The earliest timestamp is a whole millisecond, so truncation never leaves the calendar.
    self::instant(milliseconds(instant)).unwrap_or(instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_to_milliseconds() {
        for (nanosecond, stored) in [(1_999_999, 1), (1_000_000, 1), (999_999, 0), (-1, -1), (-1_000_001, -2)] {
            let given = Timestamp::from_nanosecond(nanosecond).unwrap();
            assert_eq!(milliseconds(given), stored, "{nanosecond}");
            assert_eq!(as_stored(given), instant(stored).unwrap(), "{nanosecond}");
            assert_eq!(as_stored(as_stored(given)), as_stored(given), "{nanosecond}");
        }
        assert!(instant(i64::MAX).is_err());
        for end in [Timestamp::MIN, Timestamp::MAX] {
            assert_eq!(instant(milliseconds(end)).unwrap(), as_stored(end));
            assert!(as_stored(end) <= end);
        }
    }
}
