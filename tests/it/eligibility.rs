//! `/Eligibility`

mod conformance;
mod diagnostics;
mod explain;
mod hostile;
mod household;
mod inline;
mod library;
mod preview;
mod replay;
mod scopes;
mod sealed;
mod validate;
