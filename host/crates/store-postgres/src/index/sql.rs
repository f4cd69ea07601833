//! Statements put together from parts.
//!
//! **Invariant:** no text of a caller stands in a statement: every value is a parameter, so there are few statements and each is
//! prepared once.

use tokio_postgres::types::ToSql;

/// Values of a statement.
#[derive(Default)]
pub(super) struct Parameters(Vec<Box<dyn ToSql + Sync + Send>>);

impl Parameters {
    /// Takes a value of a type, and says how the statement names it.
    pub(super) fn bind(&mut self, value: impl ToSql + Sync + Send + 'static, of_type: &str) -> String {
        self.0.push(Box::new(value));
        format!("${}::{of_type}", self.0.len())
    }

    /// The values, in the order of their names.
    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|value| value.as_ref() as _).collect()
    }
}
