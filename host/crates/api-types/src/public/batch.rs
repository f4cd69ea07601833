//! Several calls in one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::preview::problem;

/// The responses, in the order of the entries.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResponse<'a> {
    /// The type, after that of the request.
    #[serde(rename = "type")]
    pub kind: BatchResponseKind,
    /// One response for each entry.
    pub entry: Vec<BatchResponseEntry<'a>>,
}

/// Type of a batch response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchResponseKind {
    /// The entries were one transaction: all were applied, or none.
    TransactionResponse,
    /// The entries were independent.
    BatchResponse,
}

/// The response to an entry.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchResponseEntry<'a> {
    /// The URL of the record or list.
    pub full_url: Cow<'a, str>,
    /// Status and headers.
    pub response: EntryResponse<'a>,
    /// The body of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub resource: Option<Map<String, Value>>,
    /// The body of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = problem)]
    pub problem: Option<Value>,
}

/// Status and headers of the response to an entry.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EntryResponse<'a> {
    /// The status.
    #[schema(minimum = 200)]
    pub status: u16,
    /// The URL of a record that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Cow<'a, str>>,
    /// The version of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<Cow<'a, str>>,
    /// The number of seconds after which a new attempt makes sense, where the status is 503.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub retry_after: Option<u64>,
}
