//! `/Individual`

mod cached;
mod change;
mod codes;
mod create;
mod elements;
mod filters;
mod malformed;
mod order;
mod photo;
mod read;
mod refused;
mod search;
