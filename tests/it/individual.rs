//! `/Individual`

mod change;
mod codes;
mod create;
mod elements;
mod malformed;
mod read;
mod refused;
mod search;
