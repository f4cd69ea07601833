//! Age bands of a preview.

use jiff::ToSpan;
use jiff::civil::Date;

use daftar_domain::calendar::days_since_epoch;

/// The first year of each age band. A band ends at the start of the next; the last has no end. Ages that rules commonly
/// query start a band.
pub const AGE_BANDS: [u8; 14] = [0, 5, 10, 15, 18, 25, 35, 45, 55, 60, 65, 70, 75, 80];

/// Number of age bands, including band 0 for subjects of unknown age or not born yet.
pub(super) const BANDS: usize = AGE_BANDS.len() + 1;

/// Number of days in a span, as a power of two. Two bands never begin within one span.
const SPAN_BITS: u32 = 6;
/// Number of spans: the last one begins after the first day of the last band.
const SPANS: usize = (81 * 366) >> SPAN_BITS;

/// Finds the age bands of birth dates on one day: by a table of spans of 64 days, with at most one comparison.
#[derive(Debug)]
pub(super) struct AgeBands {
    as_of: i32,
    /// By the age in days.
    spans: Vec<Span>,
}

/// Some consecutive birth dates, of one or two bands.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The band of the latest birth date.
    band: u8,
    /// Birth dates before this one belong to the next band.
    next: i32,
}

impl AgeBands {
    /// Creates the table of a day.
    pub fn of(as_of: Date) -> Self {
        let day = days_since_epoch(as_of);
        let lasts = last_births(as_of);
        let span = |number: usize| {
            let latest = i64::from(day) - ((number as i64) << SPAN_BITS);
            let reached = lasts.iter().take_while(|last| latest <= i64::from(**last)).count();
            let next = lasts.get(reached).map_or(i32::MIN, |last| last.saturating_add(1));
            Span { band: u8::try_from(reached).unwrap_or_default(), next }
        };
        Self { as_of: day, spans: (0..SPANS).map(span).collect() }
    }

    /// Returns the index of an age in [`AGE_BANDS`], counted from 1; 0 for an individual who is not born yet.
    pub fn band(&self, born: i32) -> u8 {
        let age = i64::from(self.as_of) - i64::from(born);
        let number = usize::try_from(age >> SPAN_BITS).map(|number| number.min(SPANS - 1));
        let span = number.ok().and_then(|number| self.spans.get(number));
        span.map_or(0, |span| span.band + u8::from(born < span.next))
    }
}

/// Returns for each band the latest birth date that is old enough for it, in days since 1970-01-01. An individual born
/// on 29 February has the birthday on 1 March in years without that day.
fn last_births(as_of: Date) -> [i32; AGE_BANDS.len()] {
    AGE_BANDS.map(|years| as_of.checked_sub(i64::from(years).years()).map_or(i32::MIN, days_since_epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_begins_on_the_birthday() {
        let band = |as_of: Date, born: Date| {
            usize::from(AgeBands::of(as_of).band(days_since_epoch(born))).checked_sub(1).map(|at| AGE_BANDS[at])
        };
        let day = Date::constant;
        assert_eq!(band(day(2026, 3, 1), day(2026, 3, 1)), Some(0));
        assert_eq!(band(day(2026, 3, 1), day(2026, 3, 2)), None, "not born yet");
        assert_eq!(band(day(2026, 3, 1), day(2008, 3, 1)), Some(18));
        assert_eq!(band(day(2026, 3, 1), day(2008, 3, 2)), Some(15));
        assert_eq!(band(day(2026, 2, 28), day(2008, 2, 29)), Some(15), "the birthday is on 1 March");
        assert_eq!(band(day(2026, 3, 1), day(2008, 2, 29)), Some(18));
        assert_eq!(band(day(2028, 2, 29), day(2010, 2, 28)), Some(18));
        assert_eq!(band(day(2028, 2, 29), day(2010, 3, 1)), Some(15));
        assert_eq!(band(day(2026, 3, 1), day(1901, 1, 1)), Some(80));
    }

    #[test]
    fn every_birth_date_has_the_band_that_its_comparisons_find() {
        for as_of in [Date::constant(2026, 3, 1), Date::constant(2028, 2, 29), Date::constant(1999, 12, 31)] {
            let (bands, lasts, day) = (AgeBands::of(as_of), last_births(as_of), days_since_epoch(as_of));
            for born in (day - 130 * 366..day + 400).chain([i32::MIN, i32::MIN + 1, i32::MAX]) {
                let expected = lasts.iter().filter(|last| born <= **last).count();
                assert_eq!(usize::from(bands.band(born)), expected, "{as_of}: {born}");
            }
        }
    }
}
