//! Who belongs where: in which groups people are, and in which programs, the writes of a transaction included that no index knows
//! yet.

use std::collections::HashSet;

use super::registry::Registry;
use daftar_domain::error::AppError;
use daftar_domain::record::RecordId;
use daftar_domain::search::Page;
use daftar_domain::search::terms::MembershipTerm;
use daftar_domain::subject::SubjectReference;

/// The groups that name a person as a member, be it a former one, in the order in which they were registered. Of those that the
/// transaction changed one or the other may not name it any more: what they say themselves counts.
///
/// # Errors
/// When the store fails.
pub async fn groups_of(registry: &Registry, individual: RecordId) -> Result<Vec<RecordId>, AppError> {
    let mut groups = registry.index.groups_of(individual).await?;
    if let Some(staged) = registry.store.kept_back() {
        add(&mut groups, staged.groups_of(individual));
    }
    Ok(groups)
}

/// The memberships of a subject, whatever their status: how many there are, and the first so many of them.
///
/// # Errors
/// When the store fails.
pub async fn memberships_of(
    registry: &Registry,
    subject: SubjectReference,
    count: u32,
) -> Result<(u64, Vec<RecordId>), AppError> {
    let of_subject = [vec![MembershipTerm::Beneficiary(subject)]];
    let found = registry.index.memberships(&of_subject, Page { offset: 0, count }).await?;
    let (mut total, mut ids) = (found.total, found.ids);
    if let Some(staged) = registry.store.kept_back() {
        // A membership never changes its beneficiary: those that the indexes know are counted already.
        let new: Vec<RecordId> =
            staged.memberships_of(subject).into_iter().filter(|id| id.pending_number().is_some()).collect();
        total = total.saturating_add(new.len() as u64);
        add(&mut ids, new);
        ids.truncate(count as usize);
    }
    Ok((total, ids))
}

fn add(known: &mut Vec<RecordId>, more: Vec<RecordId>) {
    let already: HashSet<RecordId> = known.iter().copied().collect();
    known.extend(more.into_iter().filter(|id| !already.contains(id)));
}
