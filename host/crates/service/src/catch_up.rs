//! Applies the writes after a state of the register in memory to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringTreemap;

use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_index::Columns;
use daftar_store::StoreError;
use daftar_store::change_log::{CHANGES_MAX, Touched};
use daftar_store::verify::{RawValues, changes_after, readable_by_key, readable_records};

/// Number of records that are read per page.
pub const RECORDS_PER_PAGE: usize = 1_024;

/// The record kinds of a checkpoint, in the order in which they are read: members before their group, individuals
/// before their consents. Programs are few and always read from the store.
pub const KINDS: [RecordKind; 4] =
    [RecordKind::Individual, RecordKind::Group, RecordKind::ProgramMembership, RecordKind::Consent];

/// Returns the records that were written after a write, by kind; `changes_after` returns the next writes. Uses one bit
/// of memory per record.
///
/// # Errors
/// If the store fails or a record cannot be read.
pub async fn touched_after<F: Future<Output = Result<Vec<Touched>, StoreError>>>(
    changes_after: impl Fn(Sequence) -> F,
    mut after: Sequence,
) -> Result<BTreeMap<RecordKind, RoaringTreemap>, StoreError> {
    let mut touched: BTreeMap<RecordKind, RoaringTreemap> = BTreeMap::new();
    loop {
        let changes = changes_after(after).await?;
        let Some(last) = changes.last() else { return Ok(touched) };
        after = last.sequence;
        for (kind, id) in changes.into_iter().flat_map(|change| change.records) {
            touched.entry(kind).or_default().insert(id.0);
        }
    }
}

/// Splits keys into pages of the size of one read.
pub fn pages(ids: Option<RoaringTreemap>) -> impl Iterator<Item = Vec<RecordId>> {
    let mut ids = ids.unwrap_or_default().into_iter().map(RecordId);
    std::iter::from_fn(move || {
        Some(ids.by_ref().take(RECORDS_PER_PAGE).collect()).filter(|page: &Vec<_>| !page.is_empty())
    })
}

/// Applies the writes after one to columns that have all before, as far as their records can be read. There are no
/// concurrent writes, or the values are a snapshot.
///
/// # Errors
/// If the database fails. [`StoreError::Corrupt`] if the change log cannot be read.
pub async fn catch_up_readable(
    values: &Arc<dyn RawValues>,
    columns: &Columns,
    after: Sequence,
) -> Result<(), StoreError> {
    let mut program = RecordId(0);
    while let (programs, Some(last)) = readable_records(values, RecordKind::Program, program, RECORDS_PER_PAGE).await? {
        columns.load(&programs);
        program = last;
    }
    let mut touched = touched_after(|after| changes_after(values, after, CHANGES_MAX), after).await?;
    for kind in KINDS {
        for page in pages(touched.remove(&kind)) {
            columns.load(&readable_by_key(values, kind, page).await?);
        }
    }
    Ok(())
}
