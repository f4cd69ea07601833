//! `/Eligibility`

mod diagnostics;
mod hostile;
mod household;
mod inline;
mod scopes;
