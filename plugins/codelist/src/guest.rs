//! The component: owns the blob's memory, and serves the host from it.

use std::sync::RwLock;

use daftar_sdk::vocabulary::{ConceptGroup, ConceptPage, PageError, VocabularyDescription, VocabularyPack};

use crate::blob::{Blob, BlobError};

/// The blob. The builder writes to the address that `reserve` returned, before the snapshot is taken.
static BLOB: RwLock<Vec<u8>> = RwLock::new(Vec::new());

#[expect(unsafe_code, reason = "the builder finds the function by this name; no other symbol has it")]
#[unsafe(export_name = "daftar-codelist-reserve")]
extern "C" fn reserve(length: u32) -> *mut u8 {
    let Ok(mut blob) = BLOB.write() else { std::process::abort() };
    *blob = vec![0; length as usize];
    blob.as_mut_ptr()
}

/// Reads from the blob. An unreadable blob means a broken pack: the call traps.
fn read<T>(part: impl FnOnce(&Blob<'_>) -> Result<T, BlobError>) -> T {
    let Ok(bytes) = BLOB.read() else { std::process::abort() };
    match Blob::open(&bytes).and_then(|blob| part(&blob)) {
        Ok(value) => value,
        Err(_) => std::process::abort(),
    }
}

struct Codelist;

impl VocabularyPack for Codelist {
    fn describe() -> Vec<VocabularyDescription> {
        read(|blob| blob.descriptions())
    }

    fn concept_groups() -> Vec<ConceptGroup> {
        read(|blob| blob.concept_groups())
    }

    fn concepts(namespace: &str, cursor: u32, limit: u32) -> Result<ConceptPage, PageError> {
        read(|blob| blob.page(namespace, cursor, limit))
    }
}

daftar_sdk::export_vocabulary_pack!(Codelist);
