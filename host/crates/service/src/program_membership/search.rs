//! Searching memberships in programs.

use super::read::{beneficiary_terms, owners, terms_of};
use super::{MembershipView, view};
use crate::registry::Registry;
use crate::search::{self, FoundPage, Paging};
use crate::{audit, identifiers, records, visibility};
use daftar_domain::audit::{AuditAction, AuditOutcome};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::MembershipStatus;
use daftar_domain::record::RecordKind;
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::terms::{MembershipConditions, MembershipTerm};
use daftar_domain::subject::Subject;

/// Conditions on memberships, all of which must hold. Empty: every membership.
#[derive(Debug, Clone, Default)]
pub struct MembershipQuery {
    /// Whose, of these kinds; each of them.
    pub beneficiaries: Vec<(Vec<Subject>, IdentifierKey)>,
    /// In that program; each of them.
    pub programs: Vec<IdentifierKey>,
    /// Where it stands: one of these, where any are named.
    pub statuses: Vec<MembershipStatus>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// Checks that the client may look at every field that a search filters or sorts by. `filtered` are fields of the API.
///
/// # Errors
/// [`AppError::FieldNotGranted`].
pub fn check_search(ctx: &OpContext, filtered: &[String], paging: &Paging) -> Result<(), AppError> {
    search::check_fields(ctx, Resource::ProgramMembership, filtered, &paging.sort)
}

/// What the audit log calls a membership that is shown: its beneficiary, or itself to whom that is not shown.
fn named(view: &MembershipView) -> Option<String> {
    if view.fields.allows("beneficiary") {
        return Some(view.beneficiary.clone());
    }
    let own = records::called(&view.membership.details.identifiers);
    own.map(|key| records::reference(RecordKind::ProgramMembership, key))
}

/// Searches memberships. What it looks at was checked by [`check_search`].
///
/// # Errors
/// [`AppError::Invalid`] when the system of an identifier is not known; when the store fails.
pub async fn search(
    ctx: &OpContext,
    registry: &Registry,
    query: MembershipQuery,
    paging: &Paging,
) -> Result<FoundPage<MembershipView>, AppError> {
    let mut terms = Vec::new();
    for (kinds, key) in &query.beneficiaries {
        let beneficiaries = beneficiary_terms(ctx, registry, kinds, key).await?;
        identifiers::check_filter(registry, "beneficiary", key, !beneficiaries.is_empty())?;
        terms.push(beneficiaries);
    }
    for key in &query.programs {
        let programs = owners(registry, RecordKind::Program, key).await?;
        identifiers::check_filter(registry, "program", key, !programs.is_empty())?;
        terms.push(terms_of(&programs, MembershipTerm::Program));
    }
    if !query.statuses.is_empty() {
        terms.push(query.statuses.iter().copied().map(MembershipTerm::Status).collect());
    }
    let conditions = MembershipConditions { terms, last_updated: query.last_updated };
    let sorting = search::sorting(paging, &[]);
    let sees = visibility::sees(ctx);
    let found = registry.index.search_memberships(&conditions, sees, sorting, &paging.window).await?;
    let seen = visibility::of_each_found(ctx, registry, RecordKind::ProgramMembership, &found.ids).await?;
    let mut memberships = Vec::with_capacity(found.ids.len());
    for (id, fields) in found.ids.into_iter().zip(seen) {
        let Some(fields) = fields else { continue };
        memberships.push(view(registry, records::by_id(&*registry.store, id).await?, fields).await?);
    }
    let targets = memberships.iter().filter_map(named).collect();
    let entry = audit::entry(ctx, AuditAction::Search, AuditOutcome::Allowed, targets);
    registry.audit.record(ctx, entry.with_note("searched memberships")).await?;
    Ok(FoundPage { total: found.total, records: memberships, next: found.next })
}
