//! Reading the lines that an administrator brings, and telling what became of them.

pub mod lines;
pub mod read;
pub mod told;

pub use crate::api::extract::body::strict_value;
