//! What the operations work on: records, indexes, vocabularies and the audit log.

use std::sync::Arc;

use crate::audit::AuditLog;
use crate::eligibility::ExhaustedExpressions;
use crate::eligibility::preview::PartedRegister;
use crate::photo::PhotoReads;
use crate::response_cache::ResponseCache;
use crate::shared_index::SharedIndex;
use daftar_index::Columns;
use daftar_store::Store;
use daftar_store::index::Index;
use daftar_vocabulary::Vocabularies;

/// One register with everything that is kept beside it.
#[derive(Clone)]
pub struct Registry {
    /// Where records live.
    pub store: Arc<dyn Store>,
    /// What searches and questions about the whole register are asked of.
    pub index: Arc<dyn Index>,
    /// The register in memory, for rules.
    pub columns: Arc<Columns>,
    /// The register in partitions, where it is in a database.
    pub parted: Option<Arc<PartedRegister>>,
    /// What brings the register in memory forward, where other processes write to it too.
    pub shared_index: Option<Arc<SharedIndex>>,
    /// The active vocabularies.
    pub vocabularies: Arc<Vocabularies>,
    /// Where reads and refusals are written down.
    pub audit: AuditLog,
    /// What clients' expressions exhausted a moment ago.
    pub exhausted: Arc<ExhaustedExpressions>,
    /// Bodies of people that are kept. A register of which not all is written yet keeps none.
    pub bodies: Arc<ResponseCache>,
    /// The reads of large photos that continue.
    pub photo_reads: Arc<PhotoReads>,
}
