//! Finding one membership by its own identifier or by its beneficiary's.

use std::sync::Arc;

use super::{MembershipAddress, MembershipView, view};
use crate::registry::Registry;
use crate::{audit, identifiers, records, visibility};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{MembershipStatus, ProgramMembership};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::scope::Resource;
use daftar_domain::search::found::{Found, Sorting};
use daftar_domain::search::terms::{MembershipConditions, MembershipTerm};
use daftar_domain::search::{PAGE_COUNT_MAX, Page};
use daftar_domain::subject::Subject;
use daftar_store::IDENTIFIER_OWNERS_MAX;

/// Reads a membership.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] where several are meant; [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    address: &MembershipAddress,
) -> Result<MembershipView, AppError> {
    let found = find(ctx, registry, address).await;
    let outcome = if found.is_ok() { AuditOutcome::Allowed } else { AuditOutcome::Refused };
    let targets = vec![records::reference(RecordKind::ProgramMembership, &address.key)];
    registry.audit.record(ctx, audit::entry(ctx, AuditAction::Read, outcome, targets)).await?;
    let membership = found?;
    let fields = visibility::of(ctx, registry, RecordKind::ProgramMembership, membership.id).await?;
    let fields = fields.ok_or_else(|| absent(registry, address))?;
    let view = view(registry, membership, fields).await?;
    if view.fields.allows("beneficiary") {
        ctx.trail.names([view.beneficiary.clone()]);
    }
    Ok(view)
}

/// The membership of an address: the one of that identifier; or else the beneficiary's, the open one if it has several in the
/// program that is named. Who may not see beneficiaries finds memberships by their own identifiers alone, and who may not see
/// statuses is not told which of several is open. Whether a membership is in a program counts only where the client may see its
/// program on that record.
///
/// # Errors
/// [`AppError::FieldNotGranted`] where a program is named that the client may not see; [`AppError::NotFound`]; [`AppError::Conflict`] where several are meant; [`AppError::Ambiguous`].
pub(super) async fn find(
    ctx: &OpContext,
    registry: &Registry,
    address: &MembershipAddress,
) -> Result<Arc<ProgramMembership>, AppError> {
    let store = &*registry.store;
    let known = visibility::known(ctx, Resource::ProgramMembership);
    if address.program.is_some() {
        visibility::check(&known, Resource::ProgramMembership, "program", FieldUse::Filter)?;
    }
    let program = match &address.program {
        Some(key) => {
            let programs = owners(registry, RecordKind::Program, key).await?;
            identifiers::check_filter(registry, "program", key, !programs.is_empty())?;
            Some(programs)
        }
        None => None,
    };
    let is_in = |membership: &ProgramMembership, fields: &FieldSet| {
        let is_of =
            |programs: &Vec<RecordId>| fields.allows("program") && programs.contains(&membership.details.program());
        program.as_ref().is_none_or(is_of)
    };
    match visibility::find(ctx, registry, RecordKind::ProgramMembership, &address.key).await {
        Ok((id, fields)) => {
            let own = records::by_id(store, id).await?;
            // The fields that a search may read count here as they do in the search below.
            let fields = match &program {
                Some(_) => visibility::of_found(ctx, registry, RecordKind::ProgramMembership, id).await?,
                None => Some(fields),
            };
            if fields.is_some_and(|fields| is_in(&own, &fields)) {
                return Ok(own);
            }
        }
        Err(AppError::NotFound(_) | AppError::NotThere(_)) => {}
        Err(error) => return Err(error),
    }
    if !known.allows("beneficiary") {
        return Err(absent(registry, address));
    }
    let mut conditions =
        vec![beneficiary_terms(ctx, registry, &[Subject::Individual, Subject::Group], &address.key).await?];
    conditions.extend(program.as_ref().map(|programs| terms_of(programs, MembershipTerm::Program)));
    let page = Page { offset: 0, count: PAGE_COUNT_MAX };
    let several = matching(ctx, registry, conditions.clone(), page).await?;
    match several.ids.as_slice() {
        [] => Err(absent(registry, address)),
        [only] => records::by_id(store, *only).await,
        [..] => {
            conditions.push(open_terms());
            let open = matching(ctx, registry, conditions, page).await?;
            match (open.ids.as_slice(), &program) {
                ([only], Some(_)) if known.allows("status") => records::by_id(store, *only).await,
                (_, None) => Err(AppError::conflict(
                    ErrorCode::SeveralMemberships,
                    "the beneficiary has several memberships: name the program with `?program=`, or the membership by its own identifier",
                )),
                (_, Some(_)) => Err(AppError::conflict(
                    ErrorCode::SeveralMemberships,
                    "the beneficiary has several memberships in that program and none that is known to be open: name the membership by its own identifier",
                )),
            }
        }
    }
}

/// That no membership is there for the client that has an address.
pub(super) fn absent(registry: &Registry, address: &MembershipAddress) -> AppError {
    identifiers::explained(registry, &address.key, AppError::NotFound(RecordKind::ProgramMembership))
}

/// The memberships that are there for the client and hold one term of each list.
async fn matching(
    ctx: &OpContext,
    registry: &Registry,
    terms: Vec<Vec<MembershipTerm>>,
    page: Page,
) -> Result<Found, AppError> {
    let conditions = MembershipConditions { terms, ..MembershipConditions::default() };
    let (sees, window) = (visibility::sees(ctx), page.into());
    Ok(registry.index.search_memberships(&conditions, sees, Sorting::REGISTERED, &window).await?)
}

fn open_terms() -> Vec<MembershipTerm> {
    let open = MembershipStatus::ALL.into_iter().filter(|status| status.is_open());
    open.map(MembershipTerm::Status).collect()
}

/// One term for each record.
pub(super) fn terms_of(ids: &[RecordId], term: impl Fn(RecordId) -> MembershipTerm) -> Vec<MembershipTerm> {
    ids.iter().copied().map(term).collect()
}

/// Every record of a kind that carries or carried an identifier.
pub(super) async fn owners(
    registry: &Registry,
    kind: RecordKind,
    key: &IdentifierKey,
) -> Result<Vec<RecordId>, AppError> {
    let owners = registry.store.identifier_owners(kind, key, IDENTIFIER_OWNERS_MAX).await?;
    Ok(owners.into_iter().map(|owner| owner.id).collect())
}

/// The terms of all beneficiaries that carry or carried an identifier and that the client may see.
pub(super) async fn beneficiary_terms(
    ctx: &OpContext,
    registry: &Registry,
    kinds: &[Subject],
    key: &IdentifierKey,
) -> Result<Vec<MembershipTerm>, AppError> {
    let beneficiaries = visibility::beneficiaries(ctx, registry, kinds, key).await?;
    Ok(beneficiaries.into_iter().map(MembershipTerm::Beneficiary).collect())
}
