//! Asks the eligibility engine about subjects.
//!
//! The engine lives in the sandbox and reads columns; this module knows which facts a rule reads, fetches them as the
//! client, lays them out, and returns the inputs that repeat the decision.

pub mod check;
pub mod decision;
pub mod evaluate;
pub mod facts;
mod failure;
mod layout;
mod load;
pub mod preview;
pub mod schema;

pub use failure::ExhaustedExpressions;
