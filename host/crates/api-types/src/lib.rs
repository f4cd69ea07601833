//! Bodies of HTTP calls that are not records, each once: the server writes them, the command line reads them, and the
//! OpenAPI document derives the schemas of the public ones. The bodies of records come from the schema of records
//! (`daftar_domain::schema`).
//!
//! A type has the wire's names and plain values (texts, numbers, lists): the server checks requests with a reader that
//! reports every problem at once, before such a value becomes a type of the domain.

pub mod admin;
pub mod problem;
pub mod public;
