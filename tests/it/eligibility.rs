//! `/Eligibility`

mod conformance;
mod diagnostics;
mod explain;
mod hostile;
mod household;
mod inline;
mod library;
mod replay;
mod scopes;
mod validate;
