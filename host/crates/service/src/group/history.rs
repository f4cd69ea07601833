//! Members that joined and left a group, and changes of memberships, computed from the versions of its record.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::{name_members, reference};
use crate::codes::CodeView;
use crate::registry::Registry;
use crate::visibility::{self, Seen};
use daftar_domain::context::{Cancellation, OpContext};
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::group::{GroupDetails, Member};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::individual::IndividualDetails;
use daftar_domain::record::{RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::search::Page;
use daftar_store::Store;
use daftar_vocabulary::LanguagePreference;

/// Maximum number of versions that are compared, the newest ones.
pub const VERSIONS_MAX: u64 = 1_000;

/// Kind of change of a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceChange {
    /// It did not exist before.
    Added,
    /// Its content changed.
    Changed,
    /// It is no longer in the record.
    Removed,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Kind of the change.
    pub change: PlaceChange,
    /// The membership as it is after the change, or as it was before its removal.
    pub member: Member,
    /// The version of the group, with its time and author.
    pub meta: RecordMeta,
}

/// A page of changes.
pub struct HistoryPage {
    /// Total number of changes.
    pub total: u64,
    /// The entries of the page, oldest first.
    pub entries: Vec<HistoryEntry>,
    /// The individuals that they concern.
    pub members: HashMap<RecordId, Seen<IndividualDetails>>,
    /// Display form of codes.
    pub codes: CodeView,
}

/// The history of a group's members.
///
/// # Errors
/// [`AppError::FieldNotGranted`] if the client may not see members, [`AppError::NotFound`] and [`AppError::Ambiguous`].
pub async fn membership_history(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    key: &IdentifierKey,
    page: Page,
) -> Result<HistoryPage, AppError> {
    let found = match visibility::check_read(ctx, Resource::Group, "member", FieldUse::Read) {
        Ok(()) => visibility::read_record::<GroupDetails>(ctx, registry, key).await,
        Err(error) => Err(error),
    };
    registry.audit.record_read(ctx, &found, vec![reference(key)], Some("membership history")).await?;
    let Seen { record: group, fields } = found?;
    let mut entries = changes(registry, group.id, group.meta.version).await?;
    let members: Vec<RecordId> = entries.iter().map(|entry| entry.member.individual).collect();
    let there = visibility::there(ctx, registry, RecordKind::Individual, &members).await?;
    entries.retain(|entry| there.contains(&entry.member.individual) && fields.allows("member"));
    let total = entries.len() as u64;
    let skipped = usize::try_from(page.offset).unwrap_or(usize::MAX);
    let entries: Vec<HistoryEntry> = entries.into_iter().skip(skipped).take(page.count as usize).collect();
    let members =
        visibility::seen(ctx, registry, entries.iter().map(|entry| entry.member.individual).collect()).await?;
    name_members(ctx, &members);
    let codes = CodeView::new(registry.vocabularies.current(), languages);
    Ok(HistoryPage { total, entries, members, codes })
}

/// Changes of the memberships of a group up to a version. Up to a thousand versions of some hundred members are decoded
/// and compared, which runs on a thread for blocking work and ends when the request is cancelled.
async fn changes(registry: &Registry, group: RecordId, last: VersionId) -> Result<Vec<HistoryEntry>, AppError> {
    let (store, runtime) = (Arc::clone(&registry.store), Handle::current());
    let cancellation = Cancellation::default();
    let _cancelled_when_this_is_dropped = cancellation.guard();
    let reading = move || runtime.block_on(changes_here(&*store, group, last, &cancellation));
    spawn_blocking(reading).await.map_err(AppError::of_task)?
}

async fn changes_here(
    store: &dyn Store,
    group: RecordId,
    last: VersionId,
    cancellation: &Cancellation,
) -> Result<Vec<HistoryEntry>, AppError> {
    let first = last.0.saturating_sub(VERSIONS_MAX).max(1);
    let mut entries = Vec::new();
    let mut before: Option<Vec<Member>> = (first == 1).then(Vec::new);
    for version in first..=last.0 {
        if cancellation.is_cancelled() {
            return Err(AppError::Busy);
        }
        let Some(stored) = store.find_version::<GroupDetails>(group, VersionId(version)).await? else { continue };
        let now: Vec<Member> = stored.details.members().collect();
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
    Ok(entries)
}

/// Changes between two lists of memberships: equal ones are left out, the others are paired by individual, in their
/// order. The memberships of each individual are compared with those of the same individual only, so that the time is
/// linear in the number of memberships.
fn differences(before: &[Member], now: &[Member]) -> Vec<(PlaceChange, Member)> {
    let mut former: HashMap<RecordId, VecDeque<usize>> = HashMap::new();
    for (at, member) in before.iter().enumerate() {
        former.entry(member.individual).or_default().push_back(at);
    }
    let mut is_gone = vec![true; before.len()];
    let mut take = |member: &Member, is_meant: &dyn Fn(&Member) -> bool| {
        let places = former.get_mut(&member.individual)?;
        let found = places.iter().position(|at| before.get(*at).is_some_and(is_meant))?;
        let at = places.remove(found)?;
        is_gone.get_mut(at).map(|gone| *gone = false)
    };
    let new: Vec<&Member> = now.iter().filter(|member| take(member, &|former| former == *member).is_none()).collect();
    let mut changes = Vec::new();
    for member in new {
        let is_changed = take(member, &|_| true).is_some();
        changes.push((if is_changed { PlaceChange::Changed } else { PlaceChange::Added }, member.clone()));
    }
    let gone = before.iter().zip(is_gone).filter(|(_, gone)| *gone);
    changes.extend(gone.map(|(member, _)| (PlaceChange::Removed, member.clone())));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(individual: u64, is_inactive: bool) -> Member {
        Member { individual: RecordId(individual), role: None, period: None, is_inactive }
    }

    #[test]
    fn reports_joined_left_and_changed_members() {
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

    #[test]
    fn places_in_another_order_are_compared_in_proportion_to_their_number() {
        // A search of all others for each membership would take many minutes here.
        let before: Vec<Member> = (0..200_000).map(|individual| place(individual, false)).collect();
        let now: Vec<Member> = before.iter().rev().cloned().collect();
        assert_eq!(differences(&before, &now), []);
        let all_changed: Vec<Member> = (0..200_000).rev().map(|individual| place(individual, true)).collect();
        let changes = differences(&before, &all_changed);
        assert!(changes.len() == 200_000 && changes.iter().all(|(change, _)| *change == PlaceChange::Changed));
    }
}
