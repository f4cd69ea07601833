//! Photos of individuals: read from a request, and fetched for clients that may see them.

use std::ops::Deref;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::registry::Registry;
use daftar_domain::error::AppError;
use daftar_domain::photo::{PHOTO_BYTES_MAX, Photo, PhotoError, PhotoReference};

/// A photo up to this size needs no permit.
const SMALL_BYTES_MAX: u32 = 64 << 10;
/// Unit of the semaphore, in bytes, so that its counts fit.
const UNIT_BYTES: u32 = 1 << 10;

/// Bounds the memory of photos whose bodies are created concurrently: each uses several times its size until its body
/// is complete. A client with many concurrent requests therefore uses no more memory than a client that sends them
/// sequentially.
///
/// **Invariant:** a request has at most one permit at a time, so that it never waits for itself.
#[derive(Debug)]
pub struct PhotoReads(Arc<Semaphore>);

impl Default for PhotoReads {
    /// The permits of as many bytes as the largest photo has.
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PHOTO_BYTES_MAX.div_ceil(UNIT_BYTES as usize))))
    }
}

/// The photo of a record, for a body. The body is created before it is dropped.
#[derive(Debug)]
pub struct ReadPhoto {
    bytes: Arc<[u8]>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Deref for ReadPhoto {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PhotoReads {
    /// Waits until a body with that photo may be created; returns the permit to hold, if the photo is large.
    ///
    /// # Errors
    /// Never, as long as the register is open.
    async fn begin(&self, photo: PhotoReference) -> Result<Option<OwnedSemaphorePermit>, AppError> {
        if photo.length <= SMALL_BYTES_MAX {
            return Ok(None);
        }
        let permit = Arc::clone(&self.0).acquire_many_owned(photo.length.div_ceil(UNIT_BYTES)).await;
        permit.map(Some).map_err(|error| AppError::Internal(error.into()))
    }
}

/// A photo of these bytes.
///
/// # Errors
/// [`PhotoError`] if it is empty, or too large.
pub fn of(bytes: Vec<u8>) -> Result<Photo, PhotoError> {
    Photo::new(bytes, |bytes| Sha256::digest(bytes).into())
}

/// Waits until a body with that photo may be created, and fetches it.
///
/// # Errors
/// As [`fetch`].
pub async fn read(registry: &Registry, reference: PhotoReference) -> Result<ReadPhoto, AppError> {
    let permit = registry.photo_reads.begin(reference).await?;
    Ok(ReadPhoto { bytes: fetch(registry, reference).await?, _permit: permit })
}

/// The bytes of the photo of a record.
///
/// # Errors
/// If the store fails; a missing photo is a defect.
pub async fn fetch(registry: &Registry, reference: PhotoReference) -> Result<Arc<[u8]>, AppError> {
    let found = registry.store.photo(reference).await?;
    found.ok_or_else(|| AppError::internal("the photo of a record is missing"))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use daftar_domain::photo::PhotoDigest;

    #[test]
    fn one_of_the_largest_photos_is_read_at_a_time_or_several_smaller_ones() {
        let reads = PhotoReads::default();
        let begin = |length: usize| {
            let photo = PhotoReference { digest: PhotoDigest([7; 32]), length: u32::try_from(length).unwrap() };
            reads.begin(photo).now_or_never().map(Result::unwrap)
        };
        let largest = begin(PHOTO_BYTES_MAX).expect("no other photo is read");
        assert!(begin(100_000).is_none(), "it waits");
        assert!(begin(30_000).expect("a small photo does not wait").is_none());
        drop(largest);
        let several: Vec<_> = (0..4).map(|_| begin(PHOTO_BYTES_MAX / 5)).collect();
        assert!(several.iter().all(Option::is_some));
        assert!(begin(PHOTO_BYTES_MAX / 2).is_none());
    }
}
