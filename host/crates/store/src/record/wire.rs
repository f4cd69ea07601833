//! Encoding of numbers, texts and tagged values in stored records.
//!
//! A number is a varint: seven bits per byte, the lowest first, the eighth set if more follow. A signed number is the
//! number that counts 0, -1, 1, -2 and so on (zigzag). A text is its length and its UTF-8. A tagged value is a head,
//! which is the tag times four plus the length of the value if that is 1 to 3 bytes, and the value; if the head has 0
//! for the length, the length follows it.

use jiff::civil::Date;

use daftar_domain::calendar::{date_from_days, days_since_epoch};
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::schema::Tag;

/// Bytes that are read from their beginning; a read returns nothing if they do not match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl<'b> Bytes<'b> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// All remaining bytes.
    pub(super) fn take_rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0_u32..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has one bit of 64.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn small_number(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// A finite number with a fraction.
    pub(super) fn real(&mut self) -> Option<f64> {
        let bytes: [u8; 8] = self.take(8)?.try_into().ok()?;
        Some(f64::from_le_bytes(bytes)).filter(|number| number.is_finite())
    }

    /// A length, and that many bytes.
    pub(super) fn prefixed(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.prefixed()?).ok()
    }

    pub(super) fn day(&mut self) -> Option<Date> {
        date_from_days(i32::try_from(self.signed()?).ok()?)
    }

    pub(super) fn code(&mut self) -> Option<CodedValue> {
        Some(CodedValue { number: CodeNumber(self.small_number()?), edition: EditionNumber(self.small_number()?) })
    }

    /// A tagged value.
    pub(super) fn tagged(&mut self) -> Option<(Tag, &'b [u8])> {
        let head = self.number()?;
        let tag = Tag(u16::try_from(head >> 2).ok()?);
        let bytes = match head & 3 {
            0 => self.prefixed()?,
            length => self.take(usize::try_from(length).ok()?)?,
        };
        Some((tag, bytes))
    }

    /// The number of times that something can be read before the bytes end.
    pub(super) fn count<T>(mut self, read: impl Fn(&mut Self) -> Option<T>) -> usize {
        let mut count = 0_usize;
        while !self.is_empty() && read(&mut self).is_some() {
            count = count.saturating_add(1);
        }
        count
    }
}

pub(super) fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub(super) fn put_signed(to: &mut Vec<u8>, number: i64) {
    put_number(to, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

pub(super) fn put_text(to: &mut Vec<u8>, text: &str) {
    put_number(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

pub(super) fn put_day(to: &mut Vec<u8>, day: Date) {
    put_signed(to, i64::from(days_since_epoch(day)));
}

pub(super) fn put_code(to: &mut Vec<u8>, code: CodedValue) {
    put_number(to, u64::from(code.number.0));
    put_number(to, u64::from(code.edition.0));
}

/// Inserts the length of the bytes from `at` on before them.
pub(super) fn prefix_length(to: &mut Vec<u8>, at: usize) {
    let mut length = to.len().saturating_sub(at);
    let mut at = at;
    while length >= 0x80 {
        to.insert(at, length as u8 | 0x80);
        length >>= 7;
        at = at.saturating_add(1);
    }
    to.insert(at, length as u8);
}

/// Writes a tagged value.
///
/// # Errors
/// The error of `put`.
pub(super) fn put_tagged<E>(
    to: &mut Vec<u8>,
    tag: Tag,
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let head = to.len();
    put_number(to, u64::from(tag.0) << 2);
    let at = to.len();
    put(to)?;
    match (to.len().saturating_sub(at), to.get_mut(head)) {
        // The two lowest bits of the head are in its first byte.
        (length @ 1..=3, Some(head)) => *head |= length as u8,
        _ => prefix_length(to, at),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tagged(tag: u16, value: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        let put = |to: &mut Vec<u8>| {
            to.extend_from_slice(value);
            Ok::<(), ()>(())
        };
        put_tagged(&mut to, Tag(tag), put).unwrap();
        to
    }

    #[test]
    fn a_short_value_has_its_length_in_its_head() {
        assert_eq!(tagged(3, &[7]), [3 << 2 | 1, 7]);
        assert_eq!(tagged(31, &[7, 8, 9]), [31 << 2 | 3, 7, 8, 9]);
        assert_eq!(tagged(32, &[7]), [0x81, 1, 7], "a head of two bytes");
        assert_eq!(tagged(3, &[]), [3 << 2, 0]);
        assert_eq!(tagged(3, &[1, 2, 3, 4]), [3 << 2, 4, 1, 2, 3, 4]);
        let long = tagged(3, &[1; 300]);
        assert_eq!((long.len(), &long[..4]), (303, &[3 << 2, 0xac, 0x02, 1][..]));
        for written in [tagged(900, &[1]), tagged(u16::MAX, &[]), long] {
            let mut bytes = Bytes(&written);
            assert!(bytes.tagged().is_some() && bytes.is_empty());
        }
    }

    #[test]
    fn a_number_has_64_bits_at_most() {
        let mut most = vec![0xff; 9];
        most.push(1);
        assert_eq!(Bytes(&most).number(), Some(u64::MAX));
        for wrong in [&[][..], &[0x80], &[0xff; 10], &[0x80; 11]] {
            assert_eq!(Bytes(wrong).number(), None);
        }
        assert_eq!(Bytes(&most).small_number(), None);
        assert_eq!(Bytes(&most).signed(), Some(i64::MIN));
        assert_eq!(Bytes(&[2]).boolean(), None);
        assert_eq!(Bytes(&f64::NAN.to_le_bytes()).real(), None);
        assert_eq!(Bytes(&[2, 0xff, 0xff]).text(), None, "no UTF-8");
    }

    proptest! {
        #[test]
        fn numbers_and_texts_read_back_as_written(number in any::<u64>(), signed in any::<i64>(), text in "\\PC{0,200}") {
            let mut to = Vec::new();
            put_number(&mut to, number);
            put_signed(&mut to, signed);
            put_text(&mut to, &text);
            let mut from = Bytes(&to);
            prop_assert_eq!(from.number(), Some(number));
            prop_assert_eq!(from.signed(), Some(signed));
            prop_assert_eq!(from.text(), Some(text.as_str()));
            prop_assert!(from.is_empty());
        }
    }
}
