//! The OpenAPI document, the page that shows it, and `/metadata`.

mod description;
mod document;
mod examples;
mod parameters;
