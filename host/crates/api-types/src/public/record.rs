//! Parts that records of every kind have. `_elements` may leave some of them out.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

/// An identifier of a record.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Identifier<'a> {
    /// The kind of identifier: a URI.
    pub system: Cow<'a, str>,
    /// The identifier itself.
    pub value: Cow<'a, str>,
    /// The days on which it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = period)]
    pub period: Option<Period>,
}

/// The component of the document that the schema of records describes.
fn period() -> Ref {
    Ref::from_schema_name("Period")
}

/// Days from a first to a last one, both included.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Period {
    /// The first day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The last day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// A code of a vocabulary, with its name in the client's language.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Code<'a> {
    /// `<namespace>#<code>`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<Cow<'a, str>>,
    /// The code without its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display: Option<Cow<'a, str>>,
    /// The vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Cow<'a, str>>,
}

/// The version of a record.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Meta<'a> {
    /// Counts the changes; the `ETag` without its quotation marks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_id: Option<Cow<'a, str>>,
    /// The time of the last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub last_updated: Option<Cow<'a, str>>,
    /// The client that wrote this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Cow<'a, str>>,
}
