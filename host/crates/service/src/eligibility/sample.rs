//! Picks some records of the register to try a rule on.

use crate::registry::Registry;
use crate::subjects;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordId;
use daftar_domain::subject::{Subject, SubjectReference};

/// References to up to `count` records, spread evenly over the register in the order of registration: the same ones as long as
/// nobody is registered. For the administrator: it asks for no scope.
///
/// # Errors
/// When the store fails.
pub async fn sample(registry: &Registry, subject: Subject, count: u32) -> Result<Vec<String>, AppError> {
    let mut references = Vec::new();
    for id in picked(registry, subject, count).await? {
        references.push(subjects::called(&*registry.store, SubjectReference { kind: subject, id }).await?);
    }
    Ok(references)
}

async fn picked(registry: &Registry, subject: Subject, count: u32) -> Result<Vec<RecordId>, AppError> {
    let counts = registry.index.record_counts().await?;
    let total = match subject {
        Subject::Individual => counts.individuals,
        Subject::Group => counts.groups,
    };
    // Keys count up from 1 without a gap.
    let picked = u64::from(count).min(total);
    Ok((0..picked).map(|at| RecordId(at * total / picked + 1)).collect())
}
