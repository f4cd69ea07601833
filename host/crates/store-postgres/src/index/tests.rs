//! The index in PostgreSQL against the register in memory: after any writes, both return the same for any query.

mod calendar;
mod database;
mod plans;
mod random;
mod same;
mod words;
