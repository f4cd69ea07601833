//! Serialisation of the in-memory register for checkpoints and fingerprints, by postcard.
//!
//! Derived forms are for small values. The columns, which are most of a checkpoint, are lists of numbers as in memory,
//! so that reading needs no step for each number.
//!
//! **Invariant:** reading arbitrary bytes never panics, and allocates no more values than the bytes can contain.

use std::mem;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason why bytes are invalid. Names the item that was read, never its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(pub &'static str);

/// Appends the bytes of a value.
pub(super) fn put<T: Serialize + ?Sized>(to: &mut Vec<u8>, value: &T) {
    // Writing to memory cannot fail, and each list has a known length.
    let written = postcard::to_io(value, to);
    debug_assert!(written.is_ok(), "a value cannot be written");
}

/// Returns the bytes of a value.
pub(super) fn bytes_of<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, value);
    bytes
}

/// Reads the value at the beginning of the bytes and removes its bytes; an error if they are invalid.
pub(super) fn take<'b, T: Deserialize<'b>>(from: &mut &'b [u8]) -> Result<T, Corrupt> {
    let (value, rest) = postcard::take_from_bytes(mem::take(from)).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => Corrupt("it is truncated"),
        postcard::Error::DeserializeBadUtf8 => Corrupt("a text is not UTF-8"),
        _ => Corrupt("a value is invalid"),
    })?;
    *from = rest;
    Ok(value)
}

/// A number type of long lists. A list is stored as the little-endian bytes of its numbers.
pub(super) trait Number: Copy {
    /// Returns the bytes of a list.
    fn bytes_of(numbers: &[Self]) -> Vec<u8>;
    /// Returns the list of these bytes; `None` if its last number is truncated.
    fn list<C: FromIterator<Self>>(bytes: &[u8]) -> Option<C>;
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Number for $number {
            fn bytes_of(numbers: &[Self]) -> Vec<u8> {
                numbers.iter().map(|number| number.to_le_bytes()).collect::<Vec<_>>().into_flattened()
            }

            fn list<C: FromIterator<Self>>(bytes: &[u8]) -> Option<C> {
                let (numbers, rest) = bytes.as_chunks::<{ size_of::<$number>() }>();
                rest.is_empty().then(|| numbers.iter().map(|number| Self::from_le_bytes(*number)).collect())
            }
        }
    )+};
}

numbers!(u8, u32, u64, i32, i64, f64);

/// Writes a list of numbers.
pub(super) fn put_numbers<T: Number, S: Serializer>(numbers: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(&T::bytes_of(numbers))
}

/// Reads a list that [`put_numbers`] wrote.
pub(super) fn take_numbers<'de, T, C, D>(from: D) -> Result<C, D::Error>
where
    T: Number,
    C: FromIterator<T>,
    D: Deserializer<'de>,
{
    T::list(<&[u8]>::deserialize(from)?).ok_or_else(|| D::Error::custom("a number is truncated"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::bitmaps::Posting;
    use crate::chunk::Chunk;
    use daftar_domain::record::RecordId;
    use daftar_domain::search::{ConsentTerm, MembershipTerm};
    use daftar_domain::vocabulary::CodedField;

    fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
        let bytes = bytes_of(value);
        let mut from = bytes.as_slice();
        let read = take(&mut from).unwrap();
        assert!(from.is_empty());
        read
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(number: u64, text in ".{0,9}", items: Vec<u32>) {
            let value = (Some(text), RecordId(number), items.clone());
            prop_assert_eq!(again(&value), value);
            prop_assert_eq!(u32::list::<Vec<_>>(&u32::bytes_of(&items)), Some(items));
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes: Vec<u8>) {
            let _ = take::<Vec<(String, u64)>>(&mut bytes.as_slice());
            let _ = take::<Option<(bool, i32)>>(&mut bytes.as_slice());
            let _ = take::<(CodedField, MembershipTerm)>(&mut bytes.as_slice());
            let _ = take::<ConsentTerm>(&mut bytes.as_slice());
            let _ = take::<Posting>(&mut bytes.as_slice());
            let _ = take::<Chunk>(&mut bytes.as_slice());
        }
    }

    #[test]
    fn a_count_that_exceeds_the_bytes_is_rejected_before_allocation() {
        let count = bytes_of(&u64::MAX);
        assert_eq!(take::<Vec<u64>>(&mut count.as_slice()), Err(Corrupt("it is truncated")));
        assert_eq!(take::<String>(&mut count.as_slice()), Err(Corrupt("it is truncated")));
        assert_eq!(take::<u64>(&mut [0xFF_u8; 11].as_slice()), Err(Corrupt("a value is invalid")));
    }

    #[test]
    fn every_coded_field_has_a_place() {
        for field in CodedField::ALL {
            assert_eq!(again(&field), field);
        }
    }
}
