//! Operations on memberships in programs: enrol, change, read, search.

mod write;

use std::sync::Arc;

pub use self::write::{MakeMembership, create, replace};
use crate::registry::Registry;
use crate::search::{self, FoundPage, Paging};
use crate::{identifiers, records, subjects, visibility};
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::error_code::ErrorCode;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{
    BENEFICIARY, FIELDS, MembershipStatus, PROGRAM, ProgramMembership, ProgramMembershipDetails,
};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::schema::{self, Tag};
use daftar_domain::scope::Resource;
use daftar_domain::search::instant::InstantCondition;
use daftar_domain::search::{Found, MembershipConditions, MembershipTerm, PAGE_COUNT_MAX, Page, Sorting};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::Reference;

/// A membership as a request contains it: program and beneficiary by identifier.
pub type MembershipDraft = ProgramMembershipDetails<IdentifierKey>;

/// A membership with the references of its program and its beneficiary.
pub struct MembershipView {
    /// The membership.
    pub membership: Arc<ProgramMembership>,
    /// `Program/<system>|<value>`
    pub program: String,
    /// `Individual/<system>|<value>` or `Group/<system>|<value>`
    pub beneficiary: String,
    /// Its fields that the client may see.
    pub fields: FieldSet,
}

/// The address of a membership.
#[derive(Debug, Clone)]
pub struct MembershipAddress {
    /// Its own identifier, or the beneficiary's.
    pub key: IdentifierKey,
    /// The program.
    pub program: Option<IdentifierKey>,
}

/// A membership with the current references of its program and its beneficiary, and its fields that the client may
/// see.
///
/// # Errors
/// If the store fails; a missing record is a defect.
pub async fn view(
    registry: &Registry,
    membership: Arc<ProgramMembership>,
    fields: FieldSet,
) -> Result<MembershipView, AppError> {
    let details = &membership.details;
    let program = Reference { kind: RecordKind::Program, id: details.program() };
    let program = subjects::called(&*registry.store, program).await?;
    let beneficiary = subjects::called(&*registry.store, details.beneficiary()).await?;
    Ok(MembershipView { membership, program, beneficiary, fields })
}

/// The program and the beneficiary of a draft: the parser of bodies ensures that a body names both.
///
/// # Errors
/// [`AppError::Internal`] when one is missing.
pub(crate) fn named_in(draft: &MembershipDraft) -> Result<(IdentifierKey, SubjectReference<IdentifierKey>), AppError> {
    let program = draft.get(PROGRAM).map(|program| program.id.clone());
    let beneficiary = draft.get(BENEFICIARY).cloned().and_then(SubjectReference::of);
    let named = program.zip(beneficiary);
    named.ok_or_else(|| AppError::internal("a membership was read without its program or its beneficiary"))
}

/// The name of a field in bodies.
fn name_of(tag: Tag) -> &'static str {
    schema::row(FIELDS, tag).map_or("", |field| field.name)
}

/// Reads a membership.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] if the address matches several; [`AppError::Ambiguous`].
pub async fn read(
    ctx: &OpContext,
    registry: &Registry,
    address: &MembershipAddress,
) -> Result<MembershipView, AppError> {
    let found = find(ctx, registry, address).await;
    let targets = vec![records::reference(RecordKind::ProgramMembership, &address.key)];
    registry.audit.record_read(ctx, &found, targets, None).await?;
    let membership = found?;
    let fields = visibility::of(ctx, registry, RecordKind::ProgramMembership, membership.id).await?;
    let fields = fields.ok_or_else(|| absent(registry, address))?;
    let view = view(registry, membership, fields).await?;
    if view.fields.allows("beneficiary") {
        ctx.trail.names([view.beneficiary.clone()]);
    }
    Ok(view)
}

/// The membership of an address: the membership with that identifier, or else the beneficiary's, the open one if it
/// has several in the named program. A client that may not read beneficiaries finds memberships by their own
/// identifiers alone. A client that may not read statuses does not learn which of several memberships is open. The
/// program of a membership is compared only if the client may read it on that record.
///
/// # Errors
/// [`AppError::FieldNotGranted`] if a program is named that the client may not see; [`AppError::NotFound`];
/// [`AppError::Conflict`] if the address matches several; [`AppError::Ambiguous`].
async fn find(
    ctx: &OpContext,
    registry: &Registry,
    address: &MembershipAddress,
) -> Result<Arc<ProgramMembership>, AppError> {
    let store = &*registry.store;
    let known = visibility::known(ctx, Resource::ProgramMembership);
    let program = match &address.program {
        Some(key) => {
            visibility::check(&known, Resource::ProgramMembership, "program", FieldUse::Filter)?;
            Some(programs_of(registry, key).await?)
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
            // The fields that a search may read apply here as in the search below.
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
    let beneficiaries = visibility::addressed_beneficiaries(ctx, registry, &address.key).await?;
    let mut conditions = vec![terms_of(&beneficiaries, MembershipTerm::Beneficiary)];
    conditions.extend(program.as_ref().map(|programs| terms_of(programs, MembershipTerm::Program)));
    let several = matching(ctx, registry, conditions.clone()).await?;
    match several.ids.as_slice() {
        [] => Err(absent(registry, address)),
        [only] => records::by_id(store, *only).await,
        [..] => {
            let open = MembershipStatus::ALL.into_iter().filter(|status| status.is_open());
            conditions.push(open.map(MembershipTerm::Status).collect());
            let open = matching(ctx, registry, conditions).await?;
            let detail = match (open.ids.as_slice(), &program) {
                ([only], Some(_)) if known.allows("status") => return records::by_id(store, *only).await,
                (_, None) => {
                    "the beneficiary has several memberships: name the program with `?program=`, or the membership by its own identifier"
                }
                (_, Some(_)) => {
                    "the beneficiary has several memberships in that program and none that is known to be open: name the membership by its own identifier"
                }
            };
            Err(AppError::conflict(ErrorCode::SeveralMemberships, detail))
        }
    }
}

/// The error for an address without a membership visible to the client.
fn absent(registry: &Registry, address: &MembershipAddress) -> AppError {
    identifiers::explained(registry, &address.key, AppError::NotFound(RecordKind::ProgramMembership))
}

/// The memberships visible to the client that contain one term of each list.
async fn matching(ctx: &OpContext, registry: &Registry, terms: Vec<Vec<MembershipTerm>>) -> Result<Found, AppError> {
    let conditions = MembershipConditions { terms, ..MembershipConditions::default() };
    let (sees, window) = (visibility::sees(ctx), Page { offset: 0, count: PAGE_COUNT_MAX }.into());
    Ok(registry.index.current().await.search_memberships(&conditions, sees, Sorting::REGISTERED, &window).await?)
}

/// One term for each record.
fn terms_of<R: Copy>(records: &[R], term: impl Fn(R) -> MembershipTerm) -> Vec<MembershipTerm> {
    records.iter().copied().map(term).collect()
}

/// Every program that has or had an identifier by which memberships are selected.
async fn programs_of(registry: &Registry, key: &IdentifierKey) -> Result<Vec<RecordId>, AppError> {
    let programs = identifiers::carriers(registry, RecordKind::Program, key).await?;
    identifiers::check_filter(registry, "program", key, !programs.is_empty())?;
    Ok(programs)
}

/// Conditions on memberships, all of which must hold. Empty: every membership.
#[derive(Debug, Clone, Default)]
pub struct MembershipQuery {
    /// The beneficiary, of these kinds; each of them.
    pub beneficiaries: Vec<(Vec<Subject>, IdentifierKey)>,
    /// In that program; each of them.
    pub programs: Vec<IdentifierKey>,
    /// The status: one of these, if any are named.
    pub statuses: Vec<MembershipStatus>,
    /// When the record was last written.
    pub last_updated: Vec<InstantCondition>,
}

/// The reference of a membership in a response for the audit log: its beneficiary, or the membership itself if the
/// client may not read the beneficiary.
fn named(view: &MembershipView) -> Option<String> {
    if view.fields.allows("beneficiary") {
        return Some(view.beneficiary.clone());
    }
    records::name_of(&view.membership)
}

/// Searches memberships. The caller must have called [`search::check_fields`].
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
        let beneficiaries = visibility::beneficiaries(ctx, registry, kinds, key).await?;
        identifiers::check_filter(registry, "beneficiary", key, !beneficiaries.is_empty())?;
        terms.push(terms_of(&beneficiaries, MembershipTerm::Beneficiary));
    }
    for key in &query.programs {
        terms.push(terms_of(&programs_of(registry, key).await?, MembershipTerm::Program));
    }
    if !query.statuses.is_empty() {
        terms.push(query.statuses.iter().copied().map(MembershipTerm::Status).collect());
    }
    let conditions = MembershipConditions { terms, last_updated: query.last_updated };
    let sorting = search::sorting(paging, &[]);
    let sees = visibility::sees(ctx);
    let found = registry.index.current().await.search_memberships(&conditions, sees, sorting, &paging.window).await?;
    let seen = visibility::of_each_found(ctx, registry, RecordKind::ProgramMembership, &found.ids).await?;
    let mut memberships = Vec::with_capacity(found.ids.len());
    for (id, fields) in found.ids.into_iter().zip(seen) {
        let Some(fields) = fields else { continue };
        memberships.push(view(registry, records::by_id(&*registry.store, id).await?, fields).await?);
    }
    let targets = memberships.iter().filter_map(named).collect();
    registry.audit.record_search(ctx, targets, "searched memberships").await?;
    Ok(FoundPage { total: found.total, records: memberships, next: found.next })
}
