//! How a registered system of identifiers is stored.

use serde::{Deserialize, Serialize};

use crate::StoreError;
use daftar_domain::identifier::SystemUri;
use daftar_domain::identifier_system::IdentifierSystem;

use super::instant::{instant, milliseconds};
use super::{StoredForm, Unreadable, decode_as};

/// A system, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIdentifierSystemV1 {
    uri: String,
    created_at_ms: i64,
}

impl StoredForm for StoredIdentifierSystemV1 {
    const VERSION: u8 = 1;
    const WHAT: &'static str = "identifier system";
}

/// The bytes of a system.
///
/// # Errors
/// [`StoreError::TooLarge`] when they are too many.
pub fn encode(system: &IdentifierSystem) -> Result<Vec<u8>, StoreError> {
    let (uri, created_at_ms) = (system.uri.as_str().to_owned(), milliseconds(system.created_at));
    super::encode(&StoredIdentifierSystemV1 { uri, created_at_ms })
}

/// The system that the bytes hold.
///
/// # Errors
/// [`StoreError::Corrupt`] when they cannot be read.
pub fn decode(bytes: &[u8]) -> Result<IdentifierSystem, StoreError> {
    decode_as(bytes, |stored: StoredIdentifierSystemV1| {
        Ok(IdentifierSystem {
            uri: SystemUri::parse(&stored.uri).map_err(|_| Unreadable::field("uri"))?,
            created_at: instant(stored.created_at_ms)?,
        })
    })
}
