//! Conditions on the time of the last write.
//!
//! **Invariant:** timestamps are compared in milliseconds, as returned to clients: a value of `meta.last_updated` is
//! equal to itself, and no value is between it and the next millisecond.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::DateOperator;
use crate::calendar::parse_date;

/// Nanoseconds in a millisecond.
const MILLISECOND_NS: i128 = 1_000_000;

/// A condition on a timestamp: its relation to a range of milliseconds since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstantCondition {
    /// The operator.
    pub operator: DateOperator,
    /// First millisecond of the day or timestamp to compare with.
    pub first_ms: i64,
    /// Last millisecond. Before the first if the timestamp is between two milliseconds.
    pub last_ms: i64,
}

impl InstantCondition {
    /// Parses a day, which is a full UTC day, or an RFC 3339 timestamp; none if the text is neither.
    #[must_use]
    pub fn parse(operator: DateOperator, text: &str) -> Option<Self> {
        if let Ok(day) = parse_date(text) {
            return Some(Self { operator, first_ms: begins(day)?, last_ms: begins(day.tomorrow().ok()?)? - 1 });
        }
        // Years that are invalid in a day are invalid in a timestamp.
        let day = text.get(..10)?;
        parse_date(day).ok()?;
        text.get(10..).filter(|rest| is_time_of_rfc_3339(rest))?;
        let instant: Timestamp = text.parse().ok()?;
        let at = instant.as_nanosecond();
        let last_ms = i64::try_from(at.div_euclid(MILLISECOND_NS)).ok()?;
        let is_between = at.rem_euclid(MILLISECOND_NS) != 0;
        Some(Self { operator, first_ms: last_ms + i64::from(is_between), last_ms })
    }

    /// True if a timestamp meets the condition.
    #[must_use]
    pub fn holds(&self, at_ms: i64) -> bool {
        self.operator.holds(at_ms, self.first_ms, self.last_ms)
    }
}

/// True if a text has the form of RFC 3339, section 5.6, after the day: `T12:00:00.5+02:00`. The parser also accepts
/// other forms of ISO 8601, which omit seconds or name a time zone.
fn is_time_of_rfc_3339(text: &str) -> bool {
    let is_shaped = |part: &[u8], shape: &[u8]| {
        part.len() == shape.len()
            && part.iter().zip(shape).all(|(byte, wanted)| match wanted {
                b'0' => byte.is_ascii_digit(),
                b'T' => byte.eq_ignore_ascii_case(&b'T'),
                wanted => byte == wanted,
            })
    };
    let Some((time, rest)) = text.as_bytes().split_at_checked(b"T00:00:00".len()) else { return false };
    let offset = match rest.strip_prefix(b".") {
        None => rest,
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            fraction.get(digits..).unwrap_or_default()
        }
    };
    let is_offset = matches!(offset, b"Z" | b"z") || is_shaped(offset, b"+00:00") || is_shaped(offset, b"-00:00");
    is_shaped(time, b"T00:00:00") && is_offset
}

fn begins(day: Date) -> Option<i64> {
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATORS: [DateOperator; 6] = [
        DateOperator::Equal,
        DateOperator::NotEqual,
        DateOperator::After,
        DateOperator::OnOrAfter,
        DateOperator::Before,
        DateOperator::OnOrBefore,
    ];

    /// Returns the operators that a timestamp meets, in the order eq ne gt ge lt le.
    fn matching(text: &str, at: &str) -> String {
        let at: Timestamp = at.parse().unwrap();
        let names = ["eq", "ne", "gt", "ge", "lt", "le"];
        let conditions = OPERATORS.map(|operator| InstantCondition::parse(operator, text).unwrap());
        let met = names.iter().zip(conditions).filter(|(_, condition)| condition.holds(at.as_millisecond()));
        met.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_day_is_a_range_of_time() {
        for (at, expected) in [
            ("2026-01-30T23:59:59.999Z", "ne lt le"),
            ("2026-01-31T00:00:00Z", "eq ge le"),
            ("2026-01-31T23:59:59.999Z", "eq ge le"),
            ("2026-02-01T00:00:00Z", "ne gt ge"),
        ] {
            assert_eq!(matching("2026-01-31", at), expected, "{at}");
        }
    }

    #[test]
    fn a_timestamp_is_compared_in_milliseconds() {
        for (text, at, expected) in [
            ("2026-01-31T12:00:00.005Z", "2026-01-31T12:00:00.005Z", "eq ge le"),
            ("2026-01-31T12:00:00.005Z", "2026-01-31T12:00:00.006Z", "ne gt ge"),
            ("2026-01-31T14:00:00.005+02:00", "2026-01-31T12:00:00.005Z", "eq ge le"),
            ("2026-01-31t12:00:00.005z", "2026-01-31T12:00:00.005Z", "eq ge le"),
            ("2026-01-31T02:00:00-10:00", "2026-01-31T12:00:00Z", "eq ge le"),
            ("2026-01-31T12:00:00.0055Z", "2026-01-31T12:00:00.005Z", "ne lt le"),
            ("2026-01-31T12:00:00.0055Z", "2026-01-31T12:00:00.006Z", "ne gt ge"),
        ] {
            assert_eq!(matching(text, at), expected, "{text} {at}");
        }
    }

    #[test]
    fn anything_else_is_neither() {
        for wrong in [
            "",
            "2026",
            "2026-02-30",
            "2026-01-31T25:00:00Z",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00Z",
            "x",
            "2026-01-31T12:00Z",
            "2026-01-31T12Z",
            "2026-01-31T120000Z",
            "2026-01-31T12:00:00Z[UTC]",
            "2026-01-31T12:00:00+02:00[Africa/Cairo]",
            "2026-01-31T12:00:00+02",
            "2026-01-31T12:00:00+0200",
            "2026-01-31T12:00:00+02:00:30",
            "2026-01-31T12:00:00,5Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.0000000001Z",
            "2026-01-31T12:00:00 Z",
            "2026-01-31T12:00:00Z ",
            "2026-01-31T12:00:0\u{660}Z",
        ] {
            assert_eq!(InstantCondition::parse(DateOperator::Equal, wrong), None, "{wrong}");
        }
    }
}
