//! Indexes of tables that are filled: taken down before and made at the end, when all rows are there to be sorted at once.
//!
//! Both are in the transaction that fills: what breaks off leaves the indexes as they were.

use deadpool_postgres::Transaction;

use super::super::super::failure::Failure;

/// Primary keys stay: rows come in their order, mostly, and whatever else is asked meanwhile is asked by them.
const PRESENT: &str = "SELECT format('%I.%I', schema.nspname, made.relname), pg_get_indexdef(pg_index.indexrelid) \
                       FROM pg_index JOIN pg_class AS made ON made.oid = pg_index.indexrelid \
                       JOIN pg_namespace AS schema ON schema.oid = made.relnamespace \
                       WHERE schema.nspname = 'daftar' AND NOT pg_index.indisprimary \
                       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = pg_index.indexrelid) \
                       ORDER BY made.relname";
/// Sorting takes memory once, for the one index that is being made.
const MORE_MEMORY: &str = "SELECT set_config('maintenance_work_mem', '256MB', true) \
                           WHERE pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('256MB')";

/// Indexes that were taken down, as the statements that make them.
pub(super) struct TakenDown(Vec<String>);

impl TakenDown {
    /// Takes down what is not needed to fill the tables.
    pub(super) async fn all(transaction: &Transaction<'_>) -> Result<Self, Failure> {
        let mut statements = Vec::new();
        for row in transaction.query(PRESENT, &[]).await? {
            let (name, statement): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            transaction.batch_execute(&format!("DROP INDEX {name}")).await?;
            statements.push(statement);
        }
        Ok(Self(statements))
    }

    /// Makes them again.
    pub(super) async fn make(self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        transaction.query(MORE_MEMORY, &[]).await?;
        for statement in self.0 {
            transaction.batch_execute(&statement).await?;
        }
        Ok(())
    }
}
