//! What a handler is given: parsed, bounded, and with our error shape when it is not right.

pub mod accept;
pub mod auth;
pub mod body;
pub mod filters;
pub mod path;
pub mod query;
