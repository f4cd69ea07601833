//! The description of the API: OpenAPI 3.1, generated from the table of routes.
//!
//! **Invariant:** a route without an [`Operation`] does not compile, so every route is in the document.
//!
//! **Invariant:** the permitted callers of an operation are declared by the handler's first argument, not here.
//!
//! The shapes of records come from the schema of records (`openapi/record.rs`), as their readers and writers do. Other
//! bodies are types of `daftar-api-types`, and their shapes are derived from these (`openapi/shape.rs`). The few
//! requests that no type describes completely, because they contain records or filters of a search, are completed in
//! `openapi/<noun>.rs`. The end-to-end tests check every response against them.
//!
//! Examples of requests and of values are rows of `openapi/examples.json`, by operation and by shape.

pub mod batch;
pub mod document;
pub mod eligibility;
pub mod group;
pub mod individual;
pub mod operation;
pub mod page;
pub mod parameter;
pub mod program;
pub mod record;
pub mod refusal;
pub mod rule_draft;
pub mod server;
pub mod shape;
pub mod vocabulary;

pub use operation::Operation;
