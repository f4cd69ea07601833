//! Writing records as lines that an import takes.

pub mod body;
pub mod cursor;
