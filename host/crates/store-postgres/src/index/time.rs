//! Days and instants in the representation of PostgreSQL.
//!
//! **Invariant:** the least and the greatest number represent `-infinity` and `infinity`. So does any value outside
//! PostgreSQL's calendar, which begins in 4713 BC: no record has such a value, and as a bound it excludes nothing.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use jiff::civil::Date;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use daftar_domain::calendar::days_since_epoch;

/// Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
const EPOCH_DAYS: i32 = 10_957;
/// The same in milliseconds.
const EPOCH_MS: i64 = 86_400_000 * EPOCH_DAYS as i64;
/// The first day of PostgreSQL's `date` and `timestamptz`, 4713-11-24 BC, as it counts.
const FIRST_DAY: i32 = -2_451_545;
/// The day after the last of `date`, 5874897-12-31.
const END_DAY: i32 = 2_145_031_949;
/// The first day in microseconds.
const FIRST_US: i64 = 86_400_000_000 * FIRST_DAY as i64;
/// The end of `timestamptz`, which is that of the year 294276.
const END_US: i64 = 9_223_371_331_200_000_000;

/// A `date`: days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(pub(super) i32);

impl Day {
    /// Before every day.
    pub(super) const FIRST: Self = Self(i32::MIN);
    /// After every day.
    pub(super) const LAST: Self = Self(i32::MAX);
}

impl From<Date> for Day {
    fn from(day: Date) -> Self {
        Self(days_since_epoch(day))
    }
}

impl ToSql for Day {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(match self.0.saturating_sub(EPOCH_DAYS) {
            ..FIRST_DAY => i32::MIN,
            day @ FIRST_DAY..END_DAY => day,
            END_DAY.. => i32::MAX,
        });
        Ok(IsNull::No)
    }

    accepts!(DATE);
    to_sql_checked!();
}

impl FromSql<'_> for Day {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let day = i32::from_be_bytes(raw.try_into()?);
        Ok(match day {
            i32::MIN => Self::FIRST,
            i32::MAX => Self::LAST,
            day => Self(day.saturating_add(EPOCH_DAYS)),
        })
    }

    accepts!(DATE);
}

/// A `timestamptz`: milliseconds since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(pub(crate) i64);

impl Instant {
    /// Before every instant.
    pub(super) const FIRST: Self = Self(i64::MIN);
    /// After every instant.
    pub(super) const LAST: Self = Self(i64::MAX);
}

impl ToSql for Instant {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let instant = i128::from(self.0) * 1_000 - i128::from(EPOCH_MS) * 1_000;
        let beyond = if instant < 0 { i64::MIN } else { i64::MAX };
        out.put_i64(
            i64::try_from(instant).ok().filter(|instant| (FIRST_US..END_US).contains(instant)).unwrap_or(beyond),
        );
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl FromSql<'_> for Instant {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let instant = i64::from_be_bytes(raw.try_into()?);
        Ok(match instant {
            i64::MIN => Self::FIRST,
            i64::MAX => Self::LAST,
            instant => Self(instant.div_euclid(1_000).saturating_add(EPOCH_MS)),
        })
    }

    accepts!(TIMESTAMPTZ);
}
