//! Bodies of the public API.
//!
//! A response borrows its texts where the server has them, and owns them where a client has read it. The derived
//! schemas leave objects open; the OpenAPI document closes them in one place (`openapi/shape.rs` of the HTTP crate).

pub mod batch;
pub mod concept_group;
pub mod eligibility;
pub mod page;
pub mod preview;
pub mod record;
pub mod rule_draft;
pub mod server;
pub mod vocabulary;
