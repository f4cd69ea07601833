//! `/Eligibility`

mod conformance;
mod diagnostics;
mod evidence;
mod explain;
mod fairness;
mod hostile;
mod household;
mod inline;
mod library;
pub mod preview;
mod replay;
mod scopes;
mod sealed;
mod validate;
