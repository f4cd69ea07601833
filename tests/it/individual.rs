//! `/Individual`

mod change;
mod codes;
mod create;
mod elements;
mod filters;
mod kept;
mod malformed;
mod order;
mod photo;
mod read;
mod refused;
mod search;
