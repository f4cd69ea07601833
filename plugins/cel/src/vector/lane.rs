//! Values of consecutive rows, with a mask of the known ones.
//!
//! **Invariant:** the value of an unknown row is arbitrary; no operation may fail or be slow for it.

use super::{Truth, UNKNOWN};
use crate::columns::Bitmap;
use std::borrow::Cow;

/// The mask byte of a known row; that of an unknown one is zero.
const IS_KNOWN: u8 = u8::MAX;

/// The known rows.
#[derive(Clone, Debug)]
pub enum Known {
    /// Every row.
    All,
    /// One byte per row.
    Each(Vec<u8>),
}

/// The values of a type, known or not.
#[derive(Clone, Debug)]
pub enum Values<'a, T: Copy> {
    /// The same for all rows.
    One(T),
    /// One per row.
    Each(Cow<'a, [T]>),
}

/// Values, with a mask of the known ones.
#[derive(Clone, Debug)]
pub struct Lane<'a, T: Copy> {
    /// The values.
    pub values: Values<'a, T>,
    /// The mask of known values.
    pub known: Known,
}

/// Values of one of the types of the columns.
#[derive(Clone, Debug)]
pub enum Vector<'a> {
    /// Whole numbers.
    Integers(Lane<'a, i64>),
    /// Numbers with a fraction.
    Numbers(Lane<'a, f64>),
    /// Days since 1970-01-01.
    Days(Lane<'a, i32>),
    /// Code numbers.
    Codes(Lane<'a, u32>),
    /// Texts.
    Texts(Lane<'a, &'a str>),
}

/// Applies the same expression to the lane of any vector.
macro_rules! with_lane {
    ($vector:expr, $lane:ident => $made:expr) => {
        match $vector {
            Vector::Integers($lane) => Vector::Integers($made),
            Vector::Numbers($lane) => Vector::Numbers($made),
            Vector::Days($lane) => Vector::Days($made),
            Vector::Codes($lane) => Vector::Codes($made),
            Vector::Texts($lane) => Vector::Texts($made),
        }
    };
}
pub(super) use with_lane;

impl Known {
    /// The bits of `rows` rows from `start` on.
    pub fn of(bitmap: &Bitmap, start: usize, rows: usize) -> Self {
        let bytes = bitmap.bytes();
        if bytes.is_empty() {
            return Self::All;
        }
        let bytes = bytes.get(start / 8..).unwrap_or_default();
        match start % 8 {
            0 => Self::of_bits(bytes.get(..rows.div_ceil(8)).unwrap_or(bytes), rows),
            shift => {
                // The bits of the next byte are above those of this one.
                let following = bytes.iter().skip(1).chain([&0]);
                let shifted = bytes.iter().zip(following).map(|(low, high)| {
                    let [byte, _] = (u16::from_le_bytes([*low, *high]) >> shift).to_le_bytes();
                    byte
                });
                Self::of_bits(&shifted.take(rows.div_ceil(8)).collect::<Vec<u8>>(), rows)
            }
        }
    }

    /// The bits of as many bytes as the rows need.
    fn of_bits(bytes: &[u8], rows: usize) -> Self {
        const BLOCK: usize = 4;
        // Often every value of a block is recorded, even if not every value of the batch is.
        let (full, last) = (rows / 8, u8::MAX >> ((8 - rows % 8) % 8));
        let all_of = |bytes: &[u8]| bytes.iter().fold(u8::MAX, |all, byte| all & byte);
        let (whole, partial) = bytes.split_at_checked(full).unwrap_or((bytes, &[]));
        if all_of(whole) == u8::MAX && whole.len() == full && all_of(partial) & last == last {
            return Self::All;
        }
        let mut known = vec![0; rows.next_multiple_of(8)];
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let (to_blocks, to_rest) = known.as_chunks_mut::<8>().0.as_chunks_mut::<BLOCK>();
        for (masks, bytes) in to_blocks.iter_mut().zip(blocks) {
            for (mask, byte) in masks.iter_mut().zip(bytes) {
                *mask = spread(*byte);
            }
        }
        for (mask, byte) in to_rest.iter_mut().zip(rest) {
            *mask = spread(*byte);
        }
        known.truncate(rows);
        Self::Each(known)
    }

    /// A mask of bytes, each with all bits or none.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let all = bytes.iter().fold(IS_KNOWN, |all, byte| all & byte);
        if all == IS_KNOWN { Self::All } else { Self::Each(bytes) }
    }

    /// The rows for which it holds.
    pub fn where_true(truths: &Values<'_, bool>, rows: usize) -> Self {
        match truths {
            Values::One(true) => Self::All,
            Values::One(false) => Self::none(rows),
            Values::Each(truths) => Self::from_bytes(truths.iter().map(|truth| mask(*truth)).collect()),
        }
    }

    /// No row.
    pub fn none(rows: usize) -> Self {
        Self::Each(vec![0; rows])
    }

    /// The intersection.
    pub fn and(self, other: &Self) -> Self {
        match (self, other) {
            (known, Self::All) => known,
            (Self::All, Self::Each(known)) => Self::Each(known.clone()),
            (Self::Each(mut known), Self::Each(other)) => {
                for (byte, other) in known.iter_mut().zip(other) {
                    *byte &= other;
                }
                Self::Each(known)
            }
        }
    }

    /// Makes truths unknown for unknown rows.
    pub fn apply(&self, truths: &mut [Truth]) {
        if let Self::Each(known) = self {
            for (truth, known) in truths.iter_mut().zip(known) {
                *truth = (*truth & known) | (UNKNOWN & !known);
            }
        }
    }

    /// Returns true if a row is known.
    pub fn has(&self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::Each(known) => known.get(row).is_some_and(|byte| *byte == IS_KNOWN),
        }
    }

    /// Repeats each row of a frame for each of its items.
    pub fn repeated(self, offsets: &[u32]) -> Self {
        match self {
            Self::All => Self::All,
            Self::Each(known) => Self::Each(repeat(&known, offsets)),
        }
    }
}

impl<'a, T: Copy> Values<'a, T> {
    /// The value of a row; none beyond the last.
    pub fn get(&self, row: usize) -> Option<T> {
        match self {
            Self::One(value) => Some(*value),
            Self::Each(values) => values.get(row).copied(),
        }
    }

    /// Maps each value.
    pub fn map<R: Copy + Default + 'static>(&self, make: impl Fn(T) -> R) -> Values<'static, R> {
        match self {
            Self::One(value) => Values::One(make(*value)),
            Self::Each(values) => Values::Each(Cow::Owned(by_blocks(values, make))),
        }
    }

    /// Combines pairs of values. Each form has its own branchless loop.
    pub fn zip<U: Copy, R: Copy + Default + 'static>(
        &self,
        other: &Values<'_, U>,
        make: impl Fn(T, U) -> R,
    ) -> Values<'static, R> {
        let made = match (self, other) {
            (Self::One(value), Values::One(other)) => return Values::One(make(*value, *other)),
            (Self::One(value), Values::Each(others)) => by_blocks(others, |other| make(*value, other)),
            (Self::Each(values), Values::One(other)) => by_blocks(values, |value| make(value, *other)),
            (Self::Each(values), Values::Each(others)) => {
                values.iter().zip(others.iter()).map(|(value, other)| make(*value, *other)).collect()
            }
        };
        Values::Each(Cow::Owned(made))
    }

    /// One value per row.
    pub fn into_vec(self, rows: usize) -> Vec<T> {
        match self {
            Self::One(value) => vec![value; rows],
            Self::Each(values) => values.into_owned(),
        }
    }
}

impl<'a, T: Copy> Lane<'a, T> {
    /// The same value for all rows.
    pub fn one(value: T) -> Self {
        Self { values: Values::One(value), known: Known::All }
    }

    /// Maps the values; the known rows stay the same.
    pub fn map<R: Copy + Default + 'static>(self, make: impl Fn(T) -> R) -> Lane<'static, R> {
        Lane { values: self.values.map(make), known: self.known }
    }

    /// Maps the values; rows without a result become unknown.
    pub fn try_map<R: Copy + Default + 'static>(self, rows: usize, make: impl Fn(T) -> Option<R>) -> Lane<'static, R> {
        let made = self.values.map(make);
        let known = Known::where_true(&made.map(|made| made.is_some()), rows);
        Lane { values: made.map(Option::unwrap_or_default), known: self.known.and(&known) }
    }

    /// Repeats each row of a frame for each of its items.
    pub fn repeated(self, offsets: &[u32]) -> Self {
        let values = match self.values {
            Values::One(value) => Values::One(value),
            Values::Each(values) => Values::Each(Cow::Owned(repeat(&values, offsets))),
        };
        Self { values, known: self.known.repeated(offsets) }
    }

    /// These values where a truth holds, and the others where it does not.
    pub fn or_else(self, choice: &[Truth], other: &Self) -> Option<Self> {
        let mut values = Vec::with_capacity(choice.len());
        let mut known = Vec::with_capacity(choice.len());
        for (row, truth) in choice.iter().enumerate() {
            let chosen = if *truth == super::YES { &self } else { other };
            values.push(chosen.values.get(row)?);
            known.push(mask(*truth != UNKNOWN && chosen.known.has(row)));
        }
        Some(Self { values: Values::Each(Cow::Owned(values)), known: Known::from_bytes(known) })
    }
}

impl Vector<'_> {
    /// The known rows.
    pub fn known(&self) -> &Known {
        match self {
            Self::Integers(lane) => &lane.known,
            Self::Numbers(lane) => &lane.known,
            Self::Days(lane) => &lane.known,
            Self::Codes(lane) => &lane.known,
            Self::Texts(lane) => &lane.known,
        }
    }
}

/// Maps values, a block of them in each iteration of the loop. In the sandbox each iteration costs a check of the time
/// limit, and only blocks of this size become SIMD instructions for all types.
fn by_blocks<T: Copy, R: Copy + Default>(values: &[T], make: impl Fn(T) -> R) -> Vec<R> {
    const BLOCK: usize = 16;
    let mut made = vec![R::default(); values.len()];
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    let (to_blocks, to_rest) = made.as_chunks_mut::<BLOCK>();
    for (to, from) in to_blocks.iter_mut().zip(blocks) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = make(*from);
        }
    }
    for (to, from) in to_rest.iter_mut().zip(rest) {
        *to = make(*from);
    }
    made
}

/// Repeats the value of each owner for each of its items.
pub fn repeat<T: Copy>(values: &[T], offsets: &[u32]) -> Vec<T> {
    let mut repeated = Vec::with_capacity(offsets.last().copied().unwrap_or(0) as usize);
    for (value, end) in values.iter().zip(offsets.iter().skip(1)) {
        repeated.resize(*end as usize, *value);
    }
    repeated
}

fn mask(is_known: bool) -> u8 {
    if is_known { IS_KNOWN } else { 0 }
}

/// The mask of eight rows.
fn spread(byte: u8) -> [u8; 8] {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const BITS: u64 = u64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);
    // One bit in each byte, at different places. The sum has the highest bit of the byte set if that bit is.
    let bits = u64::from(byte).wrapping_mul(EACH) & BITS;
    let is_set = (bits.wrapping_add(EACH * 0x7F) >> 7) & EACH;
    is_set.wrapping_mul(u64::from(IS_KNOWN)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_a_byte_has_its_bits() {
        for byte in 0..=u8::MAX {
            let expected = [1, 2, 4, 8, 16, 32, 64, 128].map(|bit| mask(byte & bit != 0));
            assert_eq!(spread(byte), expected, "{byte}");
        }
    }
}
