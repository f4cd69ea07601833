//! A position in the blob, and the primitives to read there. No input makes it panic.

use super::BlobError;

/// A position in the blob that advances as it is read.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at an offset from the start of the blob.
    pub fn at(bytes: &'a [u8], offset: u32) -> Result<Self, BlobError> {
        let offset = usize::try_from(offset).map_err(|_| BlobError::Truncated)?;
        Ok(Self { rest: bytes.get(offset..).ok_or(BlobError::Truncated)? })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], BlobError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(BlobError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A little-endian `u32`.
    pub fn fixed(&mut self) -> Result<u32, BlobError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| BlobError::Truncated)?))
    }

    /// An unsigned LEB128 number of at most 32 bits.
    pub fn number(&mut self) -> Result<u32, BlobError> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let (&byte, rest) = self.rest.split_first().ok_or(BlobError::Truncated)?;
            self.rest = rest;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0x0f {
                return Err(BlobError::Malformed);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(BlobError::Malformed)
    }

    /// A text.
    pub fn text(&mut self) -> Result<String, BlobError> {
        let length = usize::try_from(self.number()?).map_err(|_| BlobError::Truncated)?;
        let text = str::from_utf8(self.take(length)?).map_err(|_| BlobError::Malformed)?;
        Ok(text.to_owned())
    }

    /// A list of items that `item` reads.
    pub fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, BlobError>) -> Result<Vec<T>, BlobError> {
        // Not preallocated: the count may be wrong.
        let mut items = Vec::new();
        for _ in 0..self.number()? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// An optional value.
    pub fn option<T>(&mut self, value: impl Fn(&mut Self) -> Result<T, BlobError>) -> Result<Option<T>, BlobError> {
        match self.number()? {
            0 => Ok(None),
            1 => value(self).map(Some),
            _ => Err(BlobError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> Result<u32, BlobError> {
        Reader::at(bytes, 0)?.number()
    }

    #[test]
    fn reads_numbers_of_every_length() {
        assert_eq!(number(&[0]), Ok(0));
        assert_eq!(number(&[0x7f]), Ok(127));
        assert_eq!(number(&[0x80, 0x01]), Ok(128));
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
    }

    #[test]
    fn refuses_numbers_beyond_32_bits() {
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(BlobError::Malformed));
        assert_eq!(number(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]), Err(BlobError::Malformed));
    }

    #[test]
    fn refuses_what_ends_early() {
        assert_eq!(number(&[0x80]), Err(BlobError::Truncated));
        assert_eq!(Reader::at(&[5, b'a'], 0).and_then(|mut reader| reader.text()), Err(BlobError::Truncated));
        assert!(Reader::at(&[1], 2).is_err());
    }

    #[test]
    fn refuses_text_that_is_not_utf_8() {
        assert_eq!(Reader::at(&[1, 0xff], 0).and_then(|mut reader| reader.text()), Err(BlobError::Malformed));
    }

    #[test]
    fn refuses_an_option_that_is_neither() {
        let mut reader = Reader::at(&[2], 0).unwrap();
        assert_eq!(reader.option(Reader::text), Err(BlobError::Malformed));
    }
}
