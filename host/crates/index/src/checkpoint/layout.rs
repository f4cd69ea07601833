//! The layout of a checkpoint: a program that builds other columns from the same records cannot use it.

use sha2::{Digest, Sha256};

use crate::chunk::CHUNK_ROWS;
use crate::field_columns::column_fields;
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordKind;
use daftar_domain::schema::REVISION;
use daftar_domain::search::order::SORT_TEXT_BYTES_MAX;
use daftar_domain::search::phrase::PhraseField;
use daftar_domain::vocabulary::CodedField;

/// The version of the column layout. Raise it with every change of the in-memory form of a record (its words, its
/// order) or of the serialisation of a part; a test checks this. The layout also includes the version of daftar, the
/// revision of the schema, its fields that have columns or are searched as whole texts, and the Unicode tables for
/// splitting and sorting words.
pub(super) const LAYOUT: u32 = 5;

/// Returns the digest of the layout.
pub(super) fn layout() -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    add(&format!("{LAYOUT} {REVISION} {CHUNK_ROWS} {SORT_TEXT_BYTES_MAX}"));
    add(env!("CARGO_PKG_VERSION"));
    add(&format!("{:?} {:?}", char::UNICODE_VERSION, unicode_normalization::UNICODE_VERSION));
    // A coded field, and the status of a membership, is written as its index.
    CodedField::ALL.iter().for_each(|field| add(field.path()));
    RecordKind::ALL.iter().flat_map(|kind| column_fields(*kind)).for_each(|field| add(&field.layout()));
    RecordKind::ALL.iter().flat_map(|kind| PhraseField::all(*kind)).for_each(|field| add(&field.term(field.field)));
    MembershipStatus::ALL.iter().for_each(|status| add(status.name()));
    digest.finalize().into()
}
