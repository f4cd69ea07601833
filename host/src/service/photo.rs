//! Photos of people: taken from a request, and fetched for whom may see them.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::registry::Registry;
use crate::domain::photo::{Photo, PhotoError, PhotoReference};
use crate::error::AppError;

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
/// When the store fails; a photo that is not there is a defect.
pub async fn fetch(registry: &Registry, reference: PhotoReference) -> Result<Arc<[u8]>, AppError> {
    let found = registry.store.photo(reference).await?;
    found.ok_or_else(|| AppError::internal("the photo of a record is not there"))
}
