//! Tables with a header, as records and back: which column is which field, and how its values are written.
//!
//! **Invariant:** what a mapping does not say is refused, not guessed: a column that nothing takes, a field that there is not, a
//! value that a translation does not have.

pub mod cells;
pub mod field;
pub mod mapping;
pub mod path;
pub mod rows;
pub mod value;
