//! The register as it is searched: rows beside the values of the records, written with them.
//!
//! **Invariant:** the rows of a record say what its value says, whoever looks: both are written in one transaction.

mod failure;
mod row;
mod statements;
mod tally;
mod term;
mod write;

pub use write::write;
