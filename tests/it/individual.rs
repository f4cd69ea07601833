//! `/Individual`

mod codes;
mod create;
mod malformed;
mod read;
mod refused;
mod search;
