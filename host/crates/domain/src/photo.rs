//! Photos of people, kept beside their records.
//!
//! **Invariant:** a record holds only which photo is meant: reading, searching and keeping older versions of a person costs
//! nothing more for it. What a photo holds never changes, so that an older version of a record still has its own.

use std::fmt;
use std::sync::Arc;

/// The largest photo, in bytes: 5 MB.
pub const PHOTO_BYTES_MAX: usize = 5_000_000;

/// The SHA-256 digest of a photo: what it is kept under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhotoDigest(pub [u8; 32]);

/// Which photo a record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhotoReference {
    /// Which one.
    pub digest: PhotoDigest,
    /// How many bytes it has.
    pub length: u32,
}

/// Why bytes are no photo that is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhotoError {
    /// There are none.
    #[error("a photo that is given is not empty; leave the field out instead")]
    Empty,
    /// There are too many.
    #[error("at most {PHOTO_BYTES_MAX} bytes are kept of a photo, not {0}")]
    TooLarge(usize),
}

/// A photo: 1 to [`PHOTO_BYTES_MAX`] bytes. Cheap to copy.
#[derive(Clone, PartialEq, Eq)]
pub struct Photo {
    reference: PhotoReference,
    bytes: Arc<[u8]>,
}

impl Photo {
    /// Takes the bytes of a photo, with their digest by `digest`.
    ///
    /// # Errors
    /// [`PhotoError`] when there are none, or too many.
    pub fn new(bytes: Vec<u8>, digest: impl FnOnce(&[u8]) -> [u8; 32]) -> Result<Self, PhotoError> {
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= PHOTO_BYTES_MAX);
        let length = length.ok_or(PhotoError::TooLarge(bytes.len()))?;
        if bytes.is_empty() {
            return Err(PhotoError::Empty);
        }
        Ok(Self { reference: PhotoReference { digest: PhotoDigest(digest(&bytes)), length }, bytes: bytes.into() })
    }

    /// What a record holds of it.
    #[must_use]
    pub fn reference(&self) -> PhotoReference {
        self.reference
    }

    /// The bytes. Personal data: never logged.
    #[must_use]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }
}

impl fmt::Debug for Photo {
    /// Keeps the bytes out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Photo({} bytes)", self.reference.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_its_bounds() {
        let photo = |length: usize| Photo::new(vec![1; length], |_| [7; 32]);
        assert_eq!(photo(0), Err(PhotoError::Empty));
        assert_eq!(photo(1).unwrap().reference(), PhotoReference { digest: PhotoDigest([7; 32]), length: 1 });
        assert_eq!(photo(PHOTO_BYTES_MAX).unwrap().bytes().len(), PHOTO_BYTES_MAX);
        assert_eq!(photo(PHOTO_BYTES_MAX + 1), Err(PhotoError::TooLarge(PHOTO_BYTES_MAX + 1)));
        assert_eq!(format!("{:?}", photo(3).unwrap()), "Photo(3 bytes)");
    }
}
