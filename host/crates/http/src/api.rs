//! The public HTTP API: extract, delegate, convert.
//!
//! **Invariant:** handlers decide nothing; rules live in `service` and `domain`.
//!
//! **Invariant:** a handler that does not declare its callers does not compile; see [`access`].

pub mod access;
pub mod batch;
pub mod conditional;
pub mod dto {
    //! Request and response bodies.
    //!
    //! **Invariant:** domain types are never serialized directly. Bodies of records are read and written here by the
    //! schema of records, other bodies member by member.

    pub mod eligibility;
    pub mod extension;
    pub mod field;
    pub mod member;
    pub mod reader;
    pub mod record;
    pub mod rule_draft;
    pub mod vocabulary;
}
pub mod elements;
pub mod endpoint;
pub mod error;
pub mod extract {
    //! Arguments of handlers: parsed, limited, and rejected with a problem if they are invalid.

    pub mod accept;
    pub mod auth;
    pub mod body;
    pub mod body_memory;
    pub mod filters;
    pub mod path;
    pub mod query;
}
mod idempotency;
pub mod lines;
pub mod middleware {
    //! Layers around every request and response.

    pub mod audit;
    pub mod entrance;
    pub mod response;
    pub mod shown;
}
pub mod openapi;
pub mod router;
pub mod routes {
    //! Handlers, one file for each noun.

    pub mod description;
    pub mod documentation;
    pub mod eligibility;
    pub mod group_member;
    pub mod program;
    pub mod record;
    pub mod record_search;
    pub mod rule_draft;
    pub mod token;
    pub mod vocabulary;
    pub mod workbench;
}
pub mod site;
