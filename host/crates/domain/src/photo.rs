//! Photos of individuals, stored separately from their records.
//!
//! **Invariant:** a record contains only the reference of its photo, so that reading, searching and storing versions
//! cost no more. Photos are immutable: an older version of a record still has its own photo.

use std::fmt;
use std::sync::Arc;

/// Maximum size of a photo, in bytes: 5 MB.
pub const PHOTO_BYTES_MAX: usize = 5_000_000;

/// The SHA-256 digest of a photo, its storage key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhotoDigest(pub [u8; 32]);

/// A reference to a photo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhotoReference {
    /// Digest of the photo.
    pub digest: PhotoDigest,
    /// Size in bytes.
    pub length: u32,
}

/// Error: bytes are not a valid photo.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhotoError {
    /// There are no bytes.
    #[error("the photo is empty; omit the field instead")]
    Empty,
    /// There are too many bytes.
    #[error("the maximum size of a photo is {PHOTO_BYTES_MAX} bytes, got {0}")]
    TooLarge(usize),
}

/// A photo: 1 to [`PHOTO_BYTES_MAX`] bytes. Cheap to copy.
#[derive(Clone, PartialEq, Eq)]
pub struct Photo {
    reference: PhotoReference,
    bytes: Arc<[u8]>,
}

impl Photo {
    /// Creates a photo from its bytes; `digest` computes the digest.
    ///
    /// # Errors
    /// [`PhotoError`] if there are no bytes, or too many.
    pub fn new(bytes: Vec<u8>, digest: impl FnOnce(&[u8]) -> [u8; 32]) -> Result<Self, PhotoError> {
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= PHOTO_BYTES_MAX);
        let length = length.ok_or(PhotoError::TooLarge(bytes.len()))?;
        if bytes.is_empty() {
            return Err(PhotoError::Empty);
        }
        Ok(Self { reference: PhotoReference { digest: PhotoDigest(digest(&bytes)), length }, bytes: bytes.into() })
    }

    /// Returns the reference for a record.
    #[must_use]
    pub fn reference(&self) -> PhotoReference {
        self.reference
    }

    /// Returns the bytes. Personal data: never logged.
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
