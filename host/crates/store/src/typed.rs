//! Reads of records whose kind the caller's type says.

use std::sync::Arc;

use super::{Store, StoreError};
use daftar_domain::change::Details;
use daftar_domain::record::{Record, RecordId, VersionId};

/// The reads of [`Store`] for one kind of record, by the type of its details.
pub trait TypedReads: Store {
    /// As [`Store::record`].
    fn find<D: Details>(
        &self,
        id: RecordId,
    ) -> impl Future<Output = Result<Option<Arc<Record<D>>>, StoreError>> + Send {
        async move { Ok(self.record(D::KIND, id).await?.and_then(D::of)) }
    }

    /// As [`Store::records`].
    fn find_all<D: Details>(
        &self,
        ids: &[RecordId],
    ) -> impl Future<Output = Result<Vec<Arc<Record<D>>>, StoreError>> + Send {
        async move { Ok(self.records(D::KIND, ids).await?.into_iter().filter_map(D::of).collect()) }
    }

    /// As [`Store::record_version`].
    fn find_version<D: Details>(
        &self,
        id: RecordId,
        version: VersionId,
    ) -> impl Future<Output = Result<Option<Arc<Record<D>>>, StoreError>> + Send {
        async move { Ok(self.record_version(D::KIND, id, version).await?.and_then(D::of)) }
    }

    /// As [`Store::scan_records`].
    fn scan<D: Details>(
        &self,
        after: RecordId,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Arc<Record<D>>>, StoreError>> + Send {
        async move { Ok(self.scan_records(D::KIND, after, limit).await?.into_iter().filter_map(D::of).collect()) }
    }
}

impl<S: Store + ?Sized> TypedReads for S {}
