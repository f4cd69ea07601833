//! The index in PostgreSQL against the register in memory: whatever is written and asked, both answer the same.

mod calendar;
mod database;
mod plans;
mod random;
mod same;
mod words;
