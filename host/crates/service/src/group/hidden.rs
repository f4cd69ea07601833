//! Those parts of a group that are about somebody who is not there for the client: they stay as they are, whatever it changes.

use std::collections::HashSet;

use crate::registry::Registry;
use crate::visibility;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::group::{GroupDetails, MEMBERS_MAX};
use daftar_domain::record::{RecordId, RecordKind};

/// Who is named by a group and not there for the client.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    individuals: HashSet<RecordId>,
    groups: HashSet<RecordId>,
}

impl Hidden {
    /// Of a group as it is.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn of(ctx: &OpContext, registry: &Registry, details: &GroupDetails) -> Result<Self, AppError> {
        let members = details.members.iter().flatten().map(|member| member.individual).collect();
        let targets = details.relationships.iter().flatten().map(|relationship| relationship.target).collect();
        Ok(Self {
            individuals: hidden(ctx, registry, RecordKind::Individual, members).await?,
            groups: hidden(ctx, registry, RecordKind::Group, targets).await?,
        })
    }

    /// Whether a member is not there.
    pub(super) fn holds(&self, individual: RecordId) -> bool {
        self.individuals.contains(&individual)
    }

    /// A group without its hidden members and relationships.
    pub(super) fn without(&self, details: &GroupDetails) -> GroupDetails {
        let mut details = details.clone();
        details.members.iter_mut().for_each(|members| members.retain(|member| !self.holds(member.individual)));
        let is_hidden = |target| self.groups.contains(&target);
        details.relationships.iter_mut().for_each(|all| all.retain(|one| !is_hidden(one.target)));
        details
    }

    /// What a client wants instead of what it sees, with the rest in the places where it was.
    pub(super) fn kept(
        &self,
        before: &GroupDetails,
        now: GroupDetails,
        problems: &mut Vec<FieldProblem>,
    ) -> GroupDetails {
        let members = merged(before.members.as_deref(), now.members, |member| self.holds(member.individual));
        let relationships =
            merged(before.relationships.as_deref(), now.relationships, |one| self.groups.contains(&one.target));
        if !self.individuals.is_empty() && members.as_ref().is_some_and(|members| members.len() > MEMBERS_MAX) {
            let message = format!("a group has at most {MEMBERS_MAX} members, those that left included");
            problems.push(FieldProblem { field: "member".to_owned(), code: "too_many", message });
        }
        GroupDetails { members, relationships, ..now }
    }

    /// The place of a member among those who are there: where the client sees it.
    pub(super) fn shown_place(&self, details: &GroupDetails, at: usize) -> usize {
        let before = details.members.iter().flatten().take(at);
        before.filter(|member| !self.holds(member.individual)).count()
    }
}

/// Those of some records that are not there.
async fn hidden(
    ctx: &OpContext,
    registry: &Registry,
    kind: RecordKind,
    ids: Vec<RecordId>,
) -> Result<HashSet<RecordId>, AppError> {
    let there = visibility::there(ctx, registry, kind, &ids).await?;
    Ok(ids.into_iter().filter(|id| !there.contains(id)).collect())
}

/// A list with what is wanted instead of what is seen of it, and the hidden rest in its places.
fn merged<T: Clone>(before: Option<&[T]>, now: Option<Vec<T>>, is_hidden: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    let before = before.unwrap_or_default();
    if !before.iter().any(&is_hidden) {
        return now;
    }
    let mut wanted = now.unwrap_or_default().into_iter();
    let mut all = Vec::new();
    for item in before {
        if is_hidden(item) {
            all.push(item.clone());
        } else {
            all.extend(wanted.next());
        }
    }
    all.extend(wanted);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daftar_domain::group::Member;

    fn details(members: Option<&[u64]>) -> GroupDetails {
        let place = |id: &u64| Member { individual: RecordId(*id), role: None, period: None, is_inactive: false };
        GroupDetails { members: members.map(|ids| ids.iter().map(place).collect()), ..GroupDetails::default() }
    }

    fn hidden(individuals: &[u64]) -> Hidden {
        Hidden { individuals: individuals.iter().copied().map(RecordId).collect(), groups: HashSet::new() }
    }

    #[test]
    fn hidden_members_stay_in_their_places() {
        let hidden = hidden(&[8, 9]);
        for (before, wanted, after) in [
            (&[8, 1, 9, 2][..], Some(&[3, 1][..]), Some(&[8, 3, 9, 1][..])),
            (&[8, 1, 9, 2], Some(&[1, 2, 3]), Some(&[8, 1, 9, 2, 3])),
            (&[1, 8, 2], Some(&[2]), Some(&[2, 8])),
            (&[8], None, Some(&[8])),
            (&[1, 9], Some(&[]), Some(&[9])),
            (&[1], None, None),
            (&[1], Some(&[]), Some(&[])),
        ] {
            let mut problems = Vec::new();
            let merged = hidden.kept(&details(Some(before)), details(wanted), &mut problems);
            assert_eq!(merged.members, details(after).members, "{before:?} {wanted:?}");
            assert!(problems.is_empty());
        }
        assert_eq!(hidden.shown_place(&details(Some(&[8, 1, 9, 2])), 3), 1);
    }

    #[test]
    fn hidden_members_count_towards_the_most_there_can_be() {
        let hidden = hidden(&[1_000]);
        let wanted: Vec<u64> = (0..MEMBERS_MAX as u64).collect();
        for (count, is_refused) in [(MEMBERS_MAX - 1, false), (MEMBERS_MAX, true)] {
            let mut problems = Vec::new();
            let wanted = details(Some(&wanted[..count]));
            drop(hidden.kept(&details(Some(&[1_000])), wanted, &mut problems));
            assert_eq!(!problems.is_empty(), is_refused, "{count}");
        }
    }
}
