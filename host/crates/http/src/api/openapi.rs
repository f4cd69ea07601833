//! The description of the API: OpenAPI 3.1, made from the table of routes.
//!
//! **Invariant:** a route without an [`Operation`] does not compile, so nothing is served that the document does not tell.
//!
//! **Invariant:** who may call an operation is not written here: it is what the handler's first argument says.
//!
//! The shapes of records come from the schema of records (`openapi/record.rs`), as their readers and writers do. Other bodies are types of
//! `daftar-api-types`, and their shapes are derived from these (`openapi/shape.rs`). The few requests that no type can describe whole,
//! because they hold records or filters of a search, are completed in `openapi/<noun>.rs`. The end-to-end tests hold every answer to them.
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
pub mod server;
pub mod shape;
pub mod vocabulary;

pub use operation::Operation;
