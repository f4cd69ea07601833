//! What the database was filled from.

use deadpool_postgres::Transaction;

use daftar_domain::change::Sequence;
use daftar_store::archive::Held;
use daftar_store::change_log::RegisterId;

use super::super::super::group::Broken;
use super::super::super::rows::{column, number, signed, unsigned};
use super::super::super::state::Locked;
use super::super::register_of;

const PUT: &str = "INSERT INTO daftar.origin (register, sequence, code_table_parts, audit, audit_removal) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (is_only) DO UPDATE SET register = EXCLUDED.register, \
                   sequence = EXCLUDED.sequence, code_table_parts = EXCLUDED.code_table_parts, \
                   audit = EXCLUDED.audit, audit_removal = EXCLUDED.audit_removal";

/// Keeps that everything up to where the register stands came from that one.
pub(super) async fn put(
    transaction: &Transaction<'_>,
    register: RegisterId,
    locked: &Locked,
    (audit, removal): (u64, Option<u64>),
) -> Result<(), Broken> {
    let [sequence, parts, audit] = [locked.last.sequence.0, locked.code_table_parts, audit].map(signed);
    let statement = transaction.prepare_cached(PUT).await?;
    let removal = removal.map(signed);
    transaction.execute(&statement, &[&register.0.as_slice(), &sequence, &parts, &audit, &removal]).await?;
    Ok(())
}

/// What the database was filled from; nothing where it was not.
pub(super) async fn read(transaction: &Transaction<'_>) -> Result<Option<Held>, Broken> {
    let statement = "SELECT register, sequence, code_table_parts, audit, audit_removal FROM daftar.origin";
    let Some(row) = transaction.query_opt(statement, &[]).await? else { return Ok(None) };
    let removal: Option<i64> = column(&row, 4)?;
    Ok(Some(Held {
        register: register_of(&row)?,
        sequence: Sequence(number(&row, 1)?),
        code_table_parts: number(&row, 2)?,
        audit: number(&row, 3)?,
        removal: removal.map(unsigned).transpose()?,
    }))
}

/// Says where a database stands that was written to since it was filled.
pub(super) fn written_since(held: &Held, locked: &Locked, audit: u64) -> Option<String> {
    let there = (locked.last.sequence, locked.code_table_parts, audit);
    if there == (held.sequence, held.code_table_parts, held.audit) {
        return None;
    }
    let ends = |sequence: Sequence, audit: u64| format!("write {} and value {audit} of the audit log", sequence.0);
    Some(format!("it is at {}, and what was moved ends at {}", ends(there.0, there.2), ends(held.sequence, held.audit)))
}
