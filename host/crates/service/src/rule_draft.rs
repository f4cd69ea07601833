//! Drafts of eligibility rules. A client with `eligibility:create` writes drafts of its organization; the administrator
//! accepts a draft for its program, or rejects it.
//!
//! A draft is stored as a setting: its present version, and each of its versions. A write adds the next version and
//! fails if another write has added it, so that no change is lost. A deleted draft leaves one version without content,
//! for the same reason.
//!
//! **Invariant:** for a client, a draft of another organization does not exist.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::registry::Registry;
use crate::{audit, program, records};
use daftar_domain::audit::{AuditAction, AuditEntry, AuditOutcome};
use daftar_domain::context::{IdSource, OpContext};
use daftar_domain::deployment::{Setting, SettingKey};
use daftar_domain::error::{AppError, FieldProblem};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::record::{RecordKind, UnmetCondition, VersionCondition, VersionId};
use daftar_domain::rule_draft::{
    DRAFT_VERSIONS_MAX, DraftAuthor, DraftContent, DraftOwner, DraftStatus, RULE_DRAFTS_MAX, RuleDraft, RuleDraftId,
};
use daftar_domain::search::Page;
use daftar_sandbox::EligibilityEngine;
use daftar_store::Operation;
use daftar_store::record::instant::as_stored;
use daftar_store::record::setting::{SettingKind, SettingRange, drafts_of, key_bytes};

/// Conditions on drafts, all of which must hold. Empty: every draft.
#[derive(Debug, Default)]
pub struct DraftQuery {
    /// The program.
    pub program: Option<IdentifierKey>,
    /// The id of the client that created it.
    pub author: Option<String>,
    /// The state.
    pub status: Option<DraftStatus>,
    /// A part of its name, in upper or lower case.
    pub name: Option<String>,
}

/// Adds a draft.
///
/// # Errors
/// [`AppError::Conflict`] if there are too many.
pub async fn create(
    ctx: &OpContext,
    registry: &Registry,
    ids: &dyn IdSource,
    content: DraftContent,
) -> Result<Arc<RuleDraft>, AppError> {
    let client = ctx.client().ok_or_else(|| AppError::internal("a draft without a client"))?.clone();
    let author = DraftAuthor { client, organization: ctx.organization.clone() };
    let prefix = drafts_of(&author.owner());
    if registry.store.setting_count(SettingKind::RuleDraft, &prefix).await? >= RULE_DRAFTS_MAX {
        let message = format!("the organization has {RULE_DRAFTS_MAX} rule drafts, the maximum: delete some");
        return Err(AppError::conflict(ErrorCode::LimitReached, message));
    }
    let id = RuleDraftId::parse(&ids.next_id()).map_err(|error| AppError::internal(error.to_string()))?;
    let draft = RuleDraft {
        id,
        version: VersionId::FIRST,
        content,
        author,
        status: DraftStatus::Open,
        reason: None,
        created_at: as_stored(ctx.now),
        last_updated: as_stored(ctx.now),
    };
    write(ctx, registry, draft, Vec::new(), entry(ctx, AuditAction::Create, AuditOutcome::Allowed, id)).await
}

/// Reads a draft.
///
/// # Errors
/// [`AppError::NotThere`] if it does not exist, or is not visible to the caller.
pub async fn read(ctx: &OpContext, registry: &Registry, id: RuleDraftId) -> Result<Arc<RuleDraft>, AppError> {
    let found = find(ctx, registry, id).await;
    registry.audit.record_read(ctx, &found, vec![id.reference()], None).await?;
    found
}

/// Drafts, or versions of one, with the number of all that were found.
#[derive(Debug)]
pub struct DraftPage {
    /// Those of the page.
    pub drafts: Vec<Arc<RuleDraft>>,
    /// The number of all.
    pub total: u64,
}

/// Returns a page of the versions of a draft, newest first.
///
/// # Errors
/// As [`read`].
pub async fn history(ctx: &OpContext, registry: &Registry, id: RuleDraftId, page: Page) -> Result<DraftPage, AppError> {
    let found = match find(ctx, registry, id).await {
        // Versions are counted from 1.
        Ok(present) => Ok(present.version.0),
        Err(error) => Err(error),
    };
    registry.audit.record_read(ctx, &found, vec![id.reference()], Some("versions")).await?;
    let total = found?;
    let keys = (1..=total).rev().map(|version| SettingKey::RuleDraftVersion(id, VersionId(version)));
    Ok(DraftPage { drafts: of_page(registry, keys, page).await?, total })
}

/// Returns a page of the drafts that are visible to the caller, newest first.
///
/// # Errors
/// If the store fails.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    query: &DraftQuery,
    page: Page,
) -> Result<DraftPage, AppError> {
    let prefixes = DraftOwner::seen_by(ctx).map(|owners| owners.iter().map(drafts_of).collect());
    let mut found = Vec::new();
    for prefix in prefixes.unwrap_or_else(|| vec![Vec::new()]) {
        let mut after = Vec::new();
        loop {
            let range = SettingRange { prefix: &prefix, after: &after, limit: DRAFTS_AT_ONCE };
            let drafts = stored(registry, SettingKind::RuleDraft, range).await?;
            let matching = drafts.iter().filter(|draft| query.matches(draft));
            found.extend(matching.map(|draft| (draft.created_at, draft.id, draft.author.owner())));
            match drafts.last() {
                Some(last) if drafts.len() == DRAFTS_AT_ONCE => {
                    after = key_bytes(&SettingKey::RuleDraft(last.author.owner(), last.id));
                }
                Some(_) | None => break,
            }
        }
    }
    found.sort_by_key(|(created_at, id, _)| std::cmp::Reverse((*created_at, *id)));
    registry.audit.record_search(ctx, Vec::new(), "searched rule drafts").await?;
    let total = found.len() as u64;
    let keys = found.into_iter().map(|(_, id, owner)| SettingKey::RuleDraft(owner, id));
    let mut drafts = of_page(registry, keys, page).await?;
    // They may have changed since they were found.
    drafts.retain(|draft| query.matches(draft));
    Ok(DraftPage { drafts, total })
}

/// Number of drafts that a search reads at once: one has up to 85 kB.
const DRAFTS_AT_ONCE: usize = 32;

/// Reads the drafts of a page; those that were deleted since they were found are missing.
async fn of_page(
    registry: &Registry,
    keys: impl Iterator<Item = SettingKey>,
    page: Page,
) -> Result<Vec<Arc<RuleDraft>>, AppError> {
    let mut drafts = Vec::new();
    for key in keys.skip(usize::try_from(page.offset).unwrap_or(usize::MAX)).take(page.count as usize) {
        drafts.extend(only(registry, &key).await?);
    }
    Ok(drafts)
}

impl DraftQuery {
    fn matches(&self, draft: &RuleDraft) -> bool {
        let name = |wanted: &String| draft.content.name.to_lowercase().contains(&wanted.to_lowercase());
        self.program.as_ref().is_none_or(|program| draft.content.program.as_ref() == Some(program))
            && self.author.as_ref().is_none_or(|author| draft.author.client.as_str() == author)
            && self.status.is_none_or(|status| draft.status == status)
            && self.name.as_ref().is_none_or(name)
    }
}

/// Replaces the content of an open draft.
///
/// # Errors
/// As [`read`]; [`AppError::Conflict`] if it is at another version (412), is not open, or has too many versions.
pub async fn replace(
    ctx: &OpContext,
    registry: &Registry,
    (id, condition): (RuleDraftId, &VersionCondition),
    content: DraftContent,
) -> Result<Arc<RuleDraft>, AppError> {
    let refusal = || entry(ctx, AuditAction::Update, AuditOutcome::Refused, id);
    let change = || async {
        let before = open_at(ctx, registry, id, condition).await?;
        let after = RuleDraft { content: content.clone(), ..next(ctx, &before)? };
        write(ctx, registry, after, Vec::new(), entry(ctx, AuditAction::Update, AuditOutcome::Allowed, id)).await
    };
    records::changed(ctx, registry, &VersionCondition::Any, refusal, change).await
}

/// Deletes a draft with all its versions.
///
/// # Errors
/// As [`read`]; [`AppError::Conflict`] if it is at another version (412).
pub async fn delete(
    ctx: &OpContext,
    registry: &Registry,
    id: RuleDraftId,
    condition: &VersionCondition,
) -> Result<(), AppError> {
    let refusal = || entry(ctx, AuditAction::Update, AuditOutcome::Refused, id).with_note("rule draft not deleted");
    let change = || async {
        let before = find(ctx, registry, id).await?;
        check_precondition(condition, before.version)?;
        let nothing = DraftContent {
            name: String::new(),
            expression: String::new(),
            subject: before.content.subject,
            comment: None,
            program: None,
            engine: None,
            cases: None,
            as_of: None,
        };
        let after = RuleDraft {
            version: before.version.next(),
            content: nothing,
            status: DraftStatus::Deleted,
            reason: None,
            last_updated: as_stored(ctx.now),
            ..RuleDraft::clone(&before)
        };
        let versions = (1..=before.version.0).map(|version| SettingKey::RuleDraftVersion(id, VersionId(version)));
        let mut operations = vec![
            Operation::AddSetting(Setting::RuleDraftVersion(Arc::new(after))),
            Operation::RemoveSetting(SettingKey::RuleDraft(before.author.owner(), id)),
        ];
        operations.extend(versions.map(Operation::RemoveSetting));
        let entry = entry(ctx, AuditAction::Update, AuditOutcome::Allowed, id).with_note("rule draft deleted");
        registry.store.commit(records::write(ctx, operations, entry)).await?;
        Ok(())
    };
    records::changed(ctx, registry, &VersionCondition::Any, refusal, change).await
}

/// Writes the rule of a draft to its program, in one write with the draft.
///
/// # Errors
/// As [`read`]; [`AppError::Conflict`] and [`AppError::VersionMismatch`] if it is not open, is at another version, or has
/// no program with its kind of subjects; [`AppError::Expression`] if the expression is not valid.
pub async fn accept(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    (id, version): (RuleDraftId, VersionId),
) -> Result<Arc<RuleDraft>, AppError> {
    let condition = VersionCondition::OneOf(vec![version]);
    let refusal = || refused(ctx, id, "accepted");
    let change = || async {
        let before = decidable(ctx, registry, id, &condition).await?;
        let Some(key) = &before.content.program else {
            let message = "the draft names no program: its author adds `program`";
            return Err(AppError::conflict(ErrorCode::Conflict, message));
        };
        let rule = (before.content.subject, before.content.expression.as_str(), before.content.engine.as_deref());
        let (program, fields) = program::rule_change(ctx, registry, engine, key, rule).await?;
        let after = RuleDraft { status: DraftStatus::Accepted, ..next(ctx, &before)? };
        let target = records::reference(RecordKind::Program, key);
        let targets = vec![id.reference(), target];
        let entry = audit::entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, targets).with_fields(fields);
        write(ctx, registry, after, vec![program], entry.with_note("rule draft accepted")).await
    };
    records::changed(ctx, registry, &condition, refusal, change).await
}

/// Rejects a draft.
///
/// # Errors
/// As [`read`]; [`AppError::Conflict`] and [`AppError::VersionMismatch`] if it is not open, or is at another version.
pub async fn reject(
    ctx: &OpContext,
    registry: &Registry,
    (id, version): (RuleDraftId, VersionId),
    reason: String,
) -> Result<Arc<RuleDraft>, AppError> {
    let condition = VersionCondition::OneOf(vec![version]);
    let refusal = || refused(ctx, id, "rejected");
    let change = || async {
        let before = decidable(ctx, registry, id, &condition).await?;
        let after = RuleDraft { status: DraftStatus::Rejected, reason: Some(reason.clone()), ..next(ctx, &before)? };
        let entry = entry(ctx, AuditAction::Administer, AuditOutcome::Allowed, id).with_note("rule draft rejected");
        write(ctx, registry, after, Vec::new(), entry).await
    };
    records::changed(ctx, registry, &condition, refusal, change).await
}

fn entry(ctx: &OpContext, action: AuditAction, outcome: AuditOutcome, id: RuleDraftId) -> AuditEntry {
    audit::entry(ctx, action, outcome, vec![id.reference()])
}

fn refused(ctx: &OpContext, id: RuleDraftId, decision: &str) -> AuditEntry {
    entry(ctx, AuditAction::Administer, AuditOutcome::Refused, id).with_note(format!("rule draft not {decision}"))
}

/// The drafts of a kind of setting in a range.
async fn stored(
    registry: &Registry,
    kind: SettingKind,
    range: SettingRange<'_>,
) -> Result<Vec<Arc<RuleDraft>>, AppError> {
    let settings = registry.store.settings_of(kind, range).await?.into_iter();
    let drafts = settings.filter_map(|setting| match setting {
        Setting::RuleDraft(draft) | Setting::RuleDraftVersion(draft) => Some(draft),
        _ => None,
    });
    Ok(drafts.collect())
}

/// The version of a draft under that key.
async fn only(registry: &Registry, key: &SettingKey) -> Result<Option<Arc<RuleDraft>>, AppError> {
    Ok(stored(registry, SettingKind::of(key), SettingRange::of(&key_bytes(key))).await?.into_iter().next())
}

/// The present version of a draft that is visible to the caller.
async fn find(ctx: &OpContext, registry: &Registry, id: RuleDraftId) -> Result<Arc<RuleDraft>, AppError> {
    let unknown = || AppError::NotThere(FieldProblem::new("id", "unknown", "no such rule draft"));
    // The first version has the owner, which is a part of the key of the present one.
    let first = only(registry, &SettingKey::RuleDraftVersion(id, VersionId::FIRST)).await?;
    let visible = first.filter(|draft| draft.is_visible(ctx)).ok_or_else(unknown)?;
    only(registry, &SettingKey::RuleDraft(visible.author.owner(), id)).await?.ok_or_else(unknown)
}

/// The same if it is open and at a version that `If-Match` accepts.
async fn open_at(
    ctx: &OpContext,
    registry: &Registry,
    id: RuleDraftId,
    condition: &VersionCondition,
) -> Result<Arc<RuleDraft>, AppError> {
    let draft = find(ctx, registry, id).await?;
    check_precondition(condition, draft.version)?;
    check_open(&draft)?;
    Ok(draft)
}

/// The same if it is open and at the version that the administrator has seen.
async fn decidable(
    ctx: &OpContext,
    registry: &Registry,
    id: RuleDraftId,
    condition: &VersionCondition,
) -> Result<Arc<RuleDraft>, AppError> {
    let draft = find(ctx, registry, id).await?;
    records::check_version(condition, draft.version)?;
    check_open(&draft)?;
    Ok(draft)
}

fn check_open(draft: &RuleDraft) -> Result<(), AppError> {
    if draft.status == DraftStatus::Open {
        return Ok(());
    }
    let message = format!("the draft is {}: only an open draft changes; create another one", draft.status.name());
    Err(AppError::conflict(ErrorCode::Conflict, message))
}

fn check_precondition(condition: &VersionCondition, actual: VersionId) -> Result<(), AppError> {
    match condition.unmet_at(actual) {
        None => Ok(()),
        Some(UnmetCondition::Expected(expected)) => {
            let message =
                format!("the draft is at version {actual}, not {expected}: read it again and repeat the change");
            Err(AppError::conflict(ErrorCode::PreconditionFailed, message))
        }
        Some(UnmetCondition::Excluded) => Err(records::excluded(actual)),
    }
}

/// The version that follows, with the same content.
fn next(ctx: &OpContext, before: &RuleDraft) -> Result<RuleDraft, AppError> {
    if before.version.0 >= DRAFT_VERSIONS_MAX {
        let message = format!("the draft has {DRAFT_VERSIONS_MAX} versions, the maximum: create another one");
        return Err(AppError::conflict(ErrorCode::LimitReached, message));
    }
    Ok(RuleDraft { version: before.version.next(), last_updated: as_stored(ctx.now), ..before.clone() })
}

/// Writes a version of a draft, with other operations and the audit entry.
async fn write(
    ctx: &OpContext,
    registry: &Registry,
    draft: RuleDraft,
    mut operations: Vec<Operation>,
    entry: AuditEntry,
) -> Result<Arc<RuleDraft>, AppError> {
    let draft = Arc::new(draft);
    operations.push(Operation::AddSetting(Setting::RuleDraftVersion(Arc::clone(&draft))));
    operations.push(Operation::PutSetting(Setting::RuleDraft(Arc::clone(&draft))));
    registry.store.commit(records::write(ctx, operations, entry)).await?;
    Ok(draft)
}
