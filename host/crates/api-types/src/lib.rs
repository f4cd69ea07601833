//! Bodies of HTTP calls that are not records, each once: the server writes them and the command line reads them. The body of a problem is
//! described in the OpenAPI document by the schema of its type. The bodies of records come from the schema of records
//! (`daftar_domain::schema`).
//!
//! A type has the wire's names and plain values (texts, numbers, lists): the server checks requests with a reader that reports every problem
//! at once, before such a value becomes a type of the domain.

pub mod admin;
pub mod problem;
