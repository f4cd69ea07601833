//! Stored form of photos: split into parts, as the embedded database is slow with large values.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::photo::Photo;

use super::StoredForm as _;

/// Maximum size of a part, in bytes: the embedded store splits longer values.
const PART_BYTES_MAX: usize = 16 * 1024;

/// A part of a photo, version 1; its key contains its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPhotoPartV1 {
    /// Number of parts of the photo.
    parts: u32,
    bytes: Vec<u8>,
}

/// Encodes a photo as values, in order.
///
/// # Errors
/// [`StoreError::TooLarge`], which is impossible: parts are small.
pub fn encode(photo: &Photo) -> Result<Vec<Vec<u8>>, StoreError> {
    let chunks = photo.bytes().chunks(PART_BYTES_MAX);
    let parts = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
    chunks.map(|bytes| super::encode(&StoredPhotoPartV1 { parts, bytes: bytes.to_vec() })).collect()
}

/// Returns the number of parts of the photo of a value, and the bytes of this one.
///
/// # Errors
/// [`StoreError::Corrupt`] if the value cannot be read.
pub fn decode_part(value: &[u8]) -> Result<(u32, Vec<u8>), StoreError> {
    let part: StoredPhotoPartV1 = super::decode(value)?;
    Ok((part.parts, part.bytes))
}

/// True if a photo of that many bytes may have that many parts.
#[must_use]
pub fn fits_in(parts: u32, length: u32) -> bool {
    (length as usize).div_ceil(PART_BYTES_MAX) == parts as usize
}

/// Decodes a photo from its values in order.
///
/// # Errors
/// [`StoreError::Corrupt`] if one is missing or cannot be read.
pub fn decode(values: impl Iterator<Item = Result<impl AsRef<[u8]>, StoreError>>) -> Result<Vec<u8>, StoreError> {
    decode_into(Vec::new(), values)
}

/// As [`decode`], into allocated memory.
///
/// # Errors
/// As [`decode`].
pub fn decode_into(
    mut bytes: Vec<u8>,
    values: impl Iterator<Item = Result<impl AsRef<[u8]>, StoreError>>,
) -> Result<Vec<u8>, StoreError> {
    let (mut expected, mut found) = (0, 0_u32);
    for value in values {
        let part: StoredPhotoPartV1 = super::decode(value?.as_ref())?;
        bytes.extend(part.bytes);
        expected = part.parts;
        found = found.saturating_add(1);
    }
    if found == expected {
        return Ok(bytes);
    }
    let reason = format!("{found} of its {expected} parts exist");
    Err(StoreError::Corrupt { what: StoredPhotoPartV1::WHAT, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_photo_is_put_together_from_its_parts() {
        for length in [1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let photo = Photo::new(bytes.clone(), |_| [0; 32]).unwrap();
            let values = encode(&photo).unwrap();
            assert_eq!(values.len(), length.div_ceil(PART_BYTES_MAX));
            assert!(fits_in(values.len() as u32, length as u32));
            assert!(!fits_in(values.len() as u32 + 1, length as u32));
            assert_eq!(decode(values.iter().map(Ok)).unwrap(), bytes);
            assert!(decode(values.iter().skip(1).map(Ok)).is_err() || values.len() == 1, "a part is missing");
        }
        assert_eq!(decode(std::iter::empty::<Result<Vec<u8>, StoreError>>()).unwrap(), Vec::<u8>::new());
    }
}
