//! Data that the operations work on: records, indexes, vocabularies and the audit log.

use std::sync::Arc;

use crate::audit::AuditLog;
use crate::eligibility::ExhaustedExpressions;
use crate::eligibility::preview::PartedRegister;
use crate::photo::PhotoReads;
use crate::response_cache::ResponseCache;
use crate::shared_index::{Indexes, SharedIndex};
use daftar_index::Columns;
use daftar_store::Store;
use daftar_vocabulary::Vocabularies;

/// One register with its indexes, caches and audit log.
#[derive(Clone)]
pub struct Registry {
    /// Store of the records.
    pub store: Arc<dyn Store>,
    /// Index for searches and queries over the complete register.
    pub index: Indexes,
    /// The in-memory register, for rules.
    pub columns: Arc<Columns>,
    /// The register in partitions, if it is in a database.
    pub parted: Option<Arc<PartedRegister>>,
    /// Updates the in-memory register, if other processes write to the register too.
    pub shared_index: Option<Arc<SharedIndex>>,
    /// The active vocabularies.
    pub vocabularies: Arc<Vocabularies>,
    /// Log of reads and denials.
    pub audit: AuditLog,
    /// Recent evaluations in which expressions of clients exceeded a budget.
    pub exhausted: Arc<ExhaustedExpressions>,
    /// Cached bodies of individuals. The registry of an uncommitted transaction caches none.
    pub bodies: Arc<ResponseCache>,
    /// The reads of large photos in progress.
    pub photo_reads: Arc<PhotoReads>,
}

#[cfg(test)]
impl Registry {
    /// An empty register in that store, without vocabularies.
    pub(crate) fn of_store(store: &Arc<daftar_store::testing::ProxyStore>) -> Self {
        let columns = Arc::default();
        Self {
            store: store.clone(),
            index: Indexes::One(Arc::new(crate::memory_index::MemoryIndex(Arc::clone(&columns)))),
            columns,
            parted: None,
            shared_index: None,
            vocabularies: Arc::new(Vocabularies::new(daftar_vocabulary::testing::generation_of([]))),
            audit: AuditLog::new(store.clone()),
            exhausted: Arc::default(),
            bodies: Arc::default(),
            photo_reads: Arc::default(),
        }
    }
}
