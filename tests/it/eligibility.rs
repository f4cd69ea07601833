//! `/Eligibility`

mod diagnostics;
mod explain;
mod hostile;
mod household;
mod inline;
mod replay;
mod scopes;
mod validate;
