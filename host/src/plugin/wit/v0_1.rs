//! Interface version 0.1.0 in domain types.

pub(in crate::plugin) mod eligibility;
mod eligibility_input;
mod explanation;
pub(in crate::plugin) mod log;
pub(in crate::plugin) mod vocabulary;
