//! Who joined and left a group, and what was changed of a place: read from the versions of its record.

use std::collections::HashMap;

use super::{find, name_members, reference, seen_members};
use crate::context::OpContext;
use crate::domain::audit::{AuditAction, AuditOutcome};
use crate::domain::group::Member;
use crate::domain::identifier::IdentifierKey;
use crate::domain::individual::IndividualDetails;
use crate::domain::record::{RecordId, RecordKind, RecordMeta, VersionId};
use crate::domain::scope::Resource;
use crate::domain::search::Page;
use crate::error::{AppError, FieldUse};
use crate::service::audit;
use crate::service::codes::CodeView;
use crate::service::registry::Registry;
use crate::service::visibility::{self, Seen};
use crate::vocab::LanguagePreference;

/// How many versions are read before others have their turn.
const VERSIONS_PER_TURN: u64 = 16;

/// The most versions that are looked at, the newest ones.
pub const VERSIONS_MAX: u64 = 1_000;

/// What happened to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceChange {
    /// It was not there before.
    Added,
    /// It says something else.
    Changed,
    /// It is no longer in the record.
    Removed,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// What.
    pub change: PlaceChange,
    /// To which place: as it is since then, or as it was before it was removed.
    pub member: Member,
    /// In which version of the group, when and by whom.
    pub meta: RecordMeta,
}

/// A page of what happened.
pub struct HistoryPage {
    /// How much happened in all.
    pub total: u64,
    /// The entries of the page, oldest first.
    pub entries: Vec<HistoryEntry>,
    /// Those they are about.
    pub members: HashMap<RecordId, Seen<IndividualDetails>>,
    /// How codes are shown.
    pub codes: CodeView,
}

/// The history of a group's members.
///
/// # Errors
/// [`AppError::FieldNotGranted`] where the client may not see members, [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn membership_history(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
    page: Page,
) -> Result<HistoryPage, AppError> {
    let found = match visibility::check_read(ctx, Resource::Group, "member", FieldUse::Read) {
        Ok(()) => find(ctx, registry, key).await,
        Err(error) => Err(error),
    };
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    let mut entry = audit::entry(ctx, AuditAction::Read, outcome, vec![reference(key)]);
    entry.note = Some("membership history".to_owned());
    registry.audit.record(ctx, entry).await?;
    let (group, fields) = found?;
    let last = group.meta.version.0;
    let first = last.saturating_sub(VERSIONS_MAX).max(1);
    let mut entries = Vec::new();
    let mut before: Option<Vec<Member>> = (first == 1).then(Vec::new);
    for version in first..=last {
        if version % VERSIONS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
        let Some(stored) = registry.store.group_version(group.id, VersionId(version)).await? else { continue };
        let now = stored.details.members.clone().unwrap_or_default();
        if let Some(before) = &before {
            let changes = differences(before, &now);
            entries.extend(changes.into_iter().map(|(change, member)| HistoryEntry {
                change,
                member,
                meta: stored.meta.clone(),
            }));
        }
        before = Some(now);
    }
    let members: Vec<RecordId> = entries.iter().map(|entry| entry.member.individual).collect();
    let there = visibility::there(ctx, registry, RecordKind::Individual, &members).await?;
    entries.retain(|entry| there.contains(&entry.member.individual) && fields.allows("member"));
    let total = entries.len() as u64;
    let skipped = usize::try_from(page.offset).unwrap_or(usize::MAX);
    let entries: Vec<HistoryEntry> = entries.into_iter().skip(skipped).take(page.count as usize).collect();
    let members = seen_members(ctx, registry, entries.iter().map(|entry| &entry.member)).await?;
    name_members(ctx, &members);
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(HistoryPage { total, entries, members, codes })
}

/// What became of the places: those that are the same are left out, the others are paired by person, in their order.
fn differences(before: &[Member], now: &[Member]) -> Vec<(PlaceChange, Member)> {
    let mut gone: Vec<&Member> = before.iter().collect();
    let mut new = Vec::new();
    for member in now {
        match gone.iter().position(|former| *former == member) {
            Some(at) => drop(gone.remove(at)),
            None => new.push(member),
        }
    }
    let mut changes = Vec::new();
    for member in new {
        let change = match gone.iter().position(|former| former.individual == member.individual) {
            Some(at) => {
                gone.remove(at);
                PlaceChange::Changed
            }
            None => PlaceChange::Added,
        };
        changes.push((change, member.clone()));
    }
    changes.extend(gone.into_iter().map(|member| (PlaceChange::Removed, member.clone())));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(individual: u64, is_inactive: bool) -> Member {
        Member { individual: RecordId(individual), role: None, period: None, is_inactive }
    }

    #[test]
    fn tells_who_joined_who_left_and_whose_place_was_changed() {
        use PlaceChange::{Added, Changed, Removed};
        let differ = |before: &[Member], now: &[Member]| {
            let changes = differences(before, now).into_iter();
            changes.map(|(change, member)| (change, member.individual.0)).collect::<Vec<_>>()
        };
        let (one, two) = (place(1, false), place(2, false));
        assert_eq!(differ(&[], &[one.clone(), two.clone()]), [(Added, 1), (Added, 2)]);
        assert_eq!(differ(&[one.clone(), two.clone()], &[two.clone(), one.clone()]), [], "the order does not count");
        assert_eq!(differ(&[one.clone(), two.clone()], &[place(1, true)]), [(Changed, 1), (Removed, 2)]);
        assert_eq!(differ(&[place(1, true)], &[place(1, true), one.clone()]), [(Added, 1)], "who comes back");
        assert_eq!(differ(&[one.clone(), one], &[two]), [(Added, 2), (Removed, 1), (Removed, 1)]);
    }
}
