//! Brings into a store what was written since to the one that it was filled from.

use super::{Comparison, Counts, compare_taken};
use daftar_store::StoreError;
use daftar_store::archive::{Archive, Brought, CatchUp, Ends, Held, Kept, Mark};

/// Why a store is not brought up: it holds no earlier state of the other one.
#[derive(Debug, thiserror::Error)]
pub enum CatchUpError {
    /// It was filled from another register.
    #[error(
        "the database was filled from the register {filled}, and the folder holds the register {found}: name the folder that it was filled from, or fill an empty database from this one"
    )]
    OtherRegister {
        /// From which one.
        filled: String,
        /// Which one is there.
        found: String,
    },
    /// It holds more than the other one.
    #[error(
        "the database holds the register up to {held}, and the folder ends at {found}: an earlier state of the folder was put back. Name the folder as the old server left it, or fill an empty database from this one"
    )]
    Ahead {
        /// Where it ends.
        held: String,
        /// Where the other one ends.
        found: String,
    },
    /// Its history is another one.
    #[error(
        "{what} is not the same in the folder and in the database: an earlier state of the folder was put back and written to. Name the folder as the old server left it, or fill an empty database from this one"
    )]
    OtherHistory {
        /// What shows it.
        what: String,
    },
    /// A store failed, or holds what cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was brought.
#[derive(Debug, Clone)]
pub struct CaughtUp {
    /// What the store held before.
    pub held: Held,
    /// Where it stands now.
    pub mark: Mark,
    /// What is new in it.
    pub brought: Brought,
}

/// Brings a store up. `heard` hears after which write it stood, and how many things were read so far.
///
/// # Errors
/// See [`CatchUpError`]. The store is as it was then.
pub async fn catch_up(
    from: &dyn Archive,
    to: CatchUp,
    mut heard: impl FnMut(&Held, &Mark, u64),
) -> Result<CaughtUp, CatchUpError> {
    let CatchUp { held, ends, mut refill } = to;
    check_ends(&held, &ends, &from.ends(&held).await?)?;
    let mut snapshot = from.since(&held).await?;
    let (mark, mut read) = (snapshot.mark().clone(), 0_u64);
    refill.note_origin(&mark);
    heard(&held, &mark, read);
    loop {
        let entries = snapshot.next().await?;
        if entries.is_empty() {
            break;
        }
        read = read.saturating_add(entries.len() as u64);
        refill.put(entries).await?;
        heard(&held, &mark, read);
    }
    let brought = refill.finish().await?;
    Ok(CaughtUp { held, mark, brought })
}

/// Compares two stores in what was written since one of them held that much, and in how many records they have.
///
/// # Errors
/// When either store fails, or a value cannot be read.
pub async fn compare_since(
    one: &dyn Archive,
    other: &dyn Archive,
    held: &Held,
    heard: impl FnMut(&Mark, u64),
) -> Result<Comparison, StoreError> {
    let (left, right) = (one.since(held).await?, other.since(held).await?);
    let mut comparison = Comparison::default();
    for ((kind, count), (_, other_count)) in left.mark().records.iter().zip(&right.mark().records) {
        if count != other_count {
            comparison.differ(format!("the number of {}", Kept::of_kind(*kind).name()));
        }
    }
    let (ends, other_ends) = (one.ends(held).await?, other.ends(held).await?);
    if ends.code_table_parts != other_ends.code_table_parts {
        comparison.differ(format!("the number of {}", Kept::CodeTableParts.name()));
    }
    if ends.audit != other_ends.audit {
        comparison.differ(format!("the last number of {}", Kept::AuditValues.name()));
    }
    compare_taken(left, right, comparison, heard).await
}

/// Refuses what is no later state.
fn check_ends(held: &Held, own: &Ends, found: &Ends) -> Result<(), CatchUpError> {
    if found.register != held.register {
        let (filled, found) = (held.register.to_string(), found.register.to_string());
        return Err(CatchUpError::OtherRegister { filled, found });
    }
    let is_behind =
        found.sequence < held.sequence || found.code_table_parts < held.code_table_parts || found.audit < held.audit;
    if is_behind {
        let told = |sequence: u64, parts: u64, audit: u64| {
            format!("write {sequence}, part {parts} of the table of codes and value {audit} of the audit log")
        };
        return Err(CatchUpError::Ahead {
            held: told(held.sequence.0, held.code_table_parts, held.audit),
            found: told(found.sequence.0, found.code_table_parts, found.audit),
        });
    }
    let other = |what: String| Err(CatchUpError::OtherHistory { what });
    if own.change != found.change {
        return other(format!("write {}", held.sequence.0));
    }
    // It may have been removed since, as it was old enough; and the line that tells of a removal is written again with each step.
    let may_differ = found.audit_value.is_none() || held.removal == Some(held.audit);
    if own.audit_value != found.audit_value && !may_differ {
        return other(format!("value {} of the audit log", held.audit));
    }
    Ok(())
}

impl CaughtUp {
    /// Whether there was nothing to bring.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.brought.is_empty()
    }

    /// How many things of each kind are new or changed.
    #[must_use]
    pub fn written(&self) -> &Counts {
        &self.brought.written
    }

    /// How many things of each kind were taken out.
    #[must_use]
    pub fn taken_out(&self) -> &Counts {
        &self.brought.taken_out
    }
}
