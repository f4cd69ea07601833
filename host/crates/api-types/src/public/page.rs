//! Pages of lists and searches.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page with its position in the whole list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items of the page.
    pub data: Vec<T>,
    /// The number of items in all.
    pub total: u64,
    /// The position of the page.
    pub meta: PageMeta,
    /// The page and its neighbours.
    pub links: Links,
}

/// The position of a page in the whole list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PageMeta {
    /// The number of items in all.
    pub total: u64,
    /// The number of items of this page.
    pub count: usize,
    /// The number of items before it.
    pub offset: u64,
}

/// The URLs of a page and of its neighbours.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Links {
    /// This page.
    #[serde(rename = "self")]
    pub this: String,
    /// The next page; `null` after the last.
    #[schema(required)]
    pub next: Option<String>,
    /// The page before; `null` before the first.
    #[schema(required)]
    pub prev: Option<String>,
}

impl<T> Page<T> {
    /// A page that begins after `offset` items.
    #[must_use]
    pub fn new(data: Vec<T>, total: u64, offset: u64, links: Links) -> Self {
        Self { meta: PageMeta { total, count: data.len(), offset }, data, total, links }
    }
}
