//! The document as it is sent, and the page that shows it.
//!
//! **Invariant:** both are made again only when the installed modules add other fields; every request in between gets the same
//! bytes.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;

use super::{document, page};
use crate::api::conditional::tag_of;
use crate::api::endpoint::Endpoint;
use daftar_domain::extension::ExtensionFields;

/// Bytes with their entity tag.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The bytes.
    pub bytes: Bytes,
    /// The tag, in quotation marks.
    pub tag: String,
}

impl Kept {
    /// Those bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { tag: tag_of(&bytes), bytes: bytes.into() }
    }
}

/// What describes a server.
#[derive(Debug)]
pub struct Description {
    /// The document.
    pub document: Kept,
    /// The page that shows it.
    pub page: Kept,
    fields: ExtensionFields,
}

/// Makes the description of a server and keeps it.
#[derive(Debug)]
pub struct ServedDescription {
    public_url: String,
    made: Mutex<Option<Arc<Description>>>,
}

impl ServedDescription {
    /// Of a server that clients know by that URL.
    #[must_use]
    pub fn new(public_url: String) -> Self {
        Self { public_url, made: Mutex::default() }
    }

    /// The description of those endpoints, the same for the whole life of a server, with the fields that installed modules add.
    #[must_use]
    pub fn of(&self, endpoints: &[Endpoint], fields: &ExtensionFields) -> Arc<Description> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.as_ref().filter(|made| made.fields == *fields) {
            return Arc::clone(made);
        }
        let document = document::document(endpoints, &self.public_url, fields);
        let description = Arc::new(Description {
            page: Kept::new(page::page(&document).into_bytes()),
            document: Kept::new(serde_json::to_vec(&document).unwrap_or_default()),
            fields: fields.clone(),
        });
        *made = Some(Arc::clone(&description));
        description
    }
}
