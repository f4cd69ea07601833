//! Results of searches.

use super::order::{Position, SortKey};
use crate::record::RecordId;

/// The sort order of a search.
#[derive(Debug, Clone, Copy)]
pub struct Sorting<'a> {
    /// Sort keys, the most important first. Empty: by the order of registration.
    pub keys: &'a [SortKey],
    /// The rank of each code number among all codes, for keys that are codes.
    pub code_ranks: &'a [u32],
}

impl Sorting<'_> {
    /// The order of registration.
    pub const REGISTERED: Self = Self { keys: &[], code_ranks: &[] };
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Number of matching records, independent of the page.
    pub total: u64,
    /// The records of the page, in order.
    pub ids: Vec<RecordId>,
    /// Start of the next page; absent for the last page.
    pub next: Option<Position>,
}
