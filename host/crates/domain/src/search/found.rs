//! How a search is answered.

use super::order::{Position, SortKey};
use crate::record::RecordId;

/// How a search wants its answer.
#[derive(Debug, Clone, Copy)]
pub struct Sorting<'a> {
    /// By what, the most important first. Nothing: by the order in which records were registered.
    pub keys: &'a [SortKey],
    /// The place of each code number among all codes, for keys that are codes.
    pub code_ranks: &'a [u32],
}

impl Sorting<'_> {
    /// The order in which records were registered.
    pub const REGISTERED: Self = Self { keys: &[], code_ranks: &[] };
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// How many records match, whatever the page.
    pub total: u64,
    /// The records of the page, in order.
    pub ids: Vec<RecordId>,
    /// Where the next page begins; absent where this one is the last.
    pub next: Option<Position>,
}
