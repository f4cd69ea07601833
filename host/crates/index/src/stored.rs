//! How what the register in memory is made of is written as bytes, for checkpoints and for fingerprints.
//!
//! **Invariant:** reading never panics and never takes more memory than the bytes have, whatever they are.

use std::sync::Arc;

use jiff::civil::Date;

use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::code::CodeNumber;
use daftar_domain::record::RecordId;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::vocabulary::CodedField;

/// Why bytes are not what they should be. Names what was being read, never what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsound(pub &'static str);

/// Something that is written as bytes and read again.
pub(super) trait Stored: Sized {
    /// Appends the bytes.
    fn put(&self, to: &mut Vec<u8>);

    /// Reads what [`Stored::put`] wrote.
    ///
    /// # Errors
    /// When the bytes are something else.
    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound>;
}

/// Bytes that are read from their beginning on.
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl<'b> Bytes<'b> {
    /// Whether all have been read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes.
    pub(super) fn slice(&mut self, length: usize) -> Result<&'b [u8], Unsound> {
        let (slice, rest) = self.0.split_at_checked(length).ok_or(Unsound("it ends too early"))?;
        self.0 = rest;
        Ok(slice)
    }

    /// The next bytes, as many as the array has.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unsound> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Unsound("it ends too early"))?;
        self.0 = rest;
        Ok(*array)
    }

    /// A number that [`put_number`] wrote.
    pub(super) fn number(&mut self) -> Result<u64, Unsound> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Unsound("a number is too long"))
    }

    /// A count of things of which each takes at least `least_bytes` of what is still to be read.
    pub(super) fn count(&mut self, least_bytes: usize) -> Result<usize, Unsound> {
        let count = usize::try_from(self.number()?).map_err(|_| Unsound("a count is too great"))?;
        let is_possible = count.checked_mul(least_bytes).is_some_and(|bytes| bytes <= self.0.len());
        if is_possible { Ok(count) } else { Err(Unsound("a count is too great")) }
    }

    /// A text that [`put_text`] wrote.
    pub(super) fn text(&mut self) -> Result<&'b str, Unsound> {
        let length = self.count(1)?;
        str::from_utf8(self.slice(length)?).map_err(|_| Unsound("a text is no UTF-8"))
    }
}

/// Appends a number, seven bits a byte.
pub(super) fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends a text with its length.
pub(super) fn put_text(to: &mut Vec<u8>, text: &str) {
    put_number(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Appends a list with its length.
pub(super) fn put_list<T: Stored>(to: &mut Vec<u8>, items: &[T]) {
    put_number(to, items.len() as u64);
    items.iter().for_each(|item| item.put(to));
}

/// A list that [`put_list`] wrote, of things of at least one byte each.
pub(super) fn take_list<T: Stored>(from: &mut Bytes<'_>) -> Result<Vec<T>, Unsound> {
    let count = from.count(1)?;
    (0..count).map(|_| T::take(from)).collect()
}

macro_rules! whole_numbers {
    ($($number:ty),+) => {$(
        impl Stored for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
                from.array().map(<$number>::from_le_bytes)
            }
        }
    )+};
}

whole_numbers!(u8, u16, u32, u64, i32, i64, f64);

impl Stored for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Bytes<'_>) -> Result<Self, Unsound> {
        Ok(())
    }
}

impl Stored for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        match from.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Unsound("a truth value is neither")),
        }
    }
}

impl Stored for Arc<str> {
    fn put(&self, to: &mut Vec<u8>) {
        put_text(to, self);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        from.text().map(Arc::from)
    }
}

impl Stored for String {
    fn put(&self, to: &mut Vec<u8>) {
        put_text(to, self);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        from.text().map(str::to_owned)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        self.iter().for_each(|value| value.put(to));
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_list(to, self);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        take_list(from)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<A: Stored, B: Stored, C: Stored> Stored for (A, B, C) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
        self.2.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        Ok((A::take(from)?, B::take(from)?, C::take(from)?))
    }
}

impl Stored for RecordId {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        u64::take(from).map(Self)
    }
}

impl Stored for CodeNumber {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        u32::take(from).map(Self)
    }
}

impl Stored for CodedField {
    fn put(&self, to: &mut Vec<u8>) {
        let place = Self::ALL.iter().position(|field| field == self);
        to.push(place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX));
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        let [place] = from.array()?;
        Self::ALL.get(usize::from(place)).copied().ok_or(Unsound("a coded field is unknown"))
    }
}

impl Stored for SubjectReference {
    fn put(&self, to: &mut Vec<u8>) {
        (self.kind == Subject::Group).put(to);
        self.id.put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        let kind = if bool::take(from)? { Subject::Group } else { Subject::Individual };
        Ok(Self { kind, id: RecordId::take(from)? })
    }
}

impl Stored for Date {
    fn put(&self, to: &mut Vec<u8>) {
        days_since_epoch(*self).put(to);
    }

    fn take(from: &mut Bytes<'_>) -> Result<Self, Unsound> {
        date_from_days(i32::take(from)?).ok_or(Unsound("a day lies outside the calendar"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn again<T: Stored>(value: &T) -> T {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut from = Bytes(&bytes);
        let read = T::take(&mut from).unwrap();
        assert!(from.is_empty());
        read
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(number: u64, text in ".{0,9}", days in -9_000_i32..9_000, items: Vec<u32>) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            put_list(&mut bytes, &items);
            let mut from = Bytes(&bytes);
            prop_assert_eq!(from.number(), Ok(number));
            prop_assert_eq!(take_list::<u32>(&mut from), Ok(items));
            let value = (Some(text), date_from_days(days).unwrap(), RecordId(number));
            prop_assert_eq!(again(&value), value);
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes: Vec<u8>) {
            let _ = Bytes(&bytes).number();
            let _ = Bytes(&bytes).text();
            let _ = take_list::<(String, u64)>(&mut Bytes(&bytes));
            let _ = <Option<(bool, Date)> as Stored>::take(&mut Bytes(&bytes));
            let _ = <(CodedField, SubjectReference)>::take(&mut Bytes(&bytes));
        }
    }

    #[test]
    fn a_count_that_the_bytes_cannot_hold_is_refused_before_memory_is_taken() {
        let mut bytes = Vec::new();
        put_number(&mut bytes, u64::MAX);
        assert_eq!(take_list::<u64>(&mut Bytes(&bytes)), Err(Unsound("a count is too great")));
        assert_eq!(Bytes(&[0xFF; 11]).number(), Err(Unsound("a number is too long")));
    }

    #[test]
    fn every_coded_field_has_a_place() {
        for field in CodedField::ALL {
            assert_eq!(again(&field), field);
        }
    }
}
