//! Interface version 0.1.0 in domain types.

pub(crate) mod eligibility;
mod eligibility_input;
mod explanation;
pub(crate) mod log;
pub(crate) mod vocabulary;
