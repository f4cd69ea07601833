//! Photos of people: taken from a request, and fetched for whom may see them.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::registry::Registry;
use daftar_domain::error::AppError;
use daftar_domain::photo::{PHOTO_BYTES_MAX, Photo, PhotoError, PhotoReference};

/// A photo up to this size waits for no other.
const SMALL_BYTES_MAX: u32 = 64 << 10;
/// What is counted as one, so that the counts of a semaphore do.
const UNIT_BYTES: u32 = 1 << 10;

/// Bounds the bytes of photos of which bodies are made at the same time: each takes several times its size until its body is finished.
/// So a client that asks for many at once costs no more memory than one that asks for sequentially.
///
/// **Invariant:** a request holds one permit at a time, so that none waits for itself.
#[derive(Debug)]
pub struct PhotoReads(Arc<Semaphore>);

impl Default for PhotoReads {
    /// As many bytes as the largest photo has.
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PHOTO_BYTES_MAX.div_ceil(UNIT_BYTES as usize))))
    }
}

impl PhotoReads {
    /// Waits until a body with that photo may be made; for how long it may, where the photo is large.
    ///
    /// # Errors
    /// Never, as long as the register is open.
    pub async fn begin(&self, photo: PhotoReference) -> Result<Option<OwnedSemaphorePermit>, AppError> {
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
/// [`PhotoError`] when there are none, or too many.
pub fn of(bytes: Vec<u8>) -> Result<Photo, PhotoError> {
    Photo::new(bytes, |bytes| Sha256::digest(bytes).into())
}

/// The bytes of the photo that a record has.
///
/// # Errors
/// If the store fails; a photo that is not there is a defect.
pub async fn fetch(registry: &Registry, reference: PhotoReference) -> Result<Arc<[u8]>, AppError> {
    let found = registry.store.photo(reference).await?;
    found.ok_or_else(|| AppError::internal("the photo of a record is not there"))
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
        let largest = begin(PHOTO_BYTES_MAX).expect("nothing else is read");
        assert!(begin(100_000).is_none(), "it waits");
        assert!(begin(30_000).expect("a small one waits for none").is_none());
        drop(largest);
        let several: Vec<_> = (0..4).map(|_| begin(PHOTO_BYTES_MAX / 5)).collect();
        assert!(several.iter().all(Option::is_some));
        assert!(begin(PHOTO_BYTES_MAX / 2).is_none());
    }
}
