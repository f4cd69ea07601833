//! Arguments of handlers: parsed, limited, and rejected with a problem if they are invalid.

pub mod accept;
pub mod auth;
pub mod body;
pub mod filters;
pub mod path;
pub mod query;
