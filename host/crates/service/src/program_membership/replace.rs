//! Replacing what a membership says.

use std::sync::Arc;

use super::read::{absent, find};
use super::write::{answer, write};
use super::{MembershipAddress, MembershipDraft, MembershipView, name_of, view};
use crate::registry::Registry;
use crate::written::{self, Spoken};
use crate::{records, visibility};
use daftar_domain::audit::AuditAction;
use daftar_domain::context::OpContext;
use daftar_domain::error::{AppError, FieldUse};
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::program_membership::{EXIT_DATE, EXIT_REASON, ProgramMembership};
use daftar_domain::record::{RecordKind, VersionCondition};
use daftar_domain::scope::Resource;
use daftar_domain::subject::SubjectReference;
use daftar_sandbox::EligibilityEngine;

/// Says what a membership is to be, given what it is and which fields are written.
pub type MakeMembership<'a> =
    dyn Fn(&MembershipView, &FieldSet) -> Result<MembershipDraft, AppError> + Send + Sync + 'a;

/// Replaces what a membership says: `make` says what it is to be, given what it is and the fields that the client may write. The
/// others stay as they are.
///
/// # Errors
/// As [`create`](super::create); [`AppError::NotFound`], [`AppError::Ambiguous`], [`AppError::Conflict`] where several are meant; and [`AppError::VersionMismatch`] when the condition is not met.
pub async fn replace(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    address: &MembershipAddress,
    (condition, spoken): (&VersionCondition, &Spoken),
    make: &MakeMembership<'_>,
) -> Result<MembershipView, AppError> {
    let targets = vec![records::reference(RecordKind::ProgramMembership, &address.key)];
    let attempt = || replace_once(ctx, registry, engine, address, (condition, spoken), make);
    let outcome = records::retried(condition, attempt).await;
    answer(ctx, registry, AuditAction::Update, targets, outcome).await
}

async fn replace_once(
    ctx: &OpContext,
    registry: &Registry,
    engine: &Arc<dyn EligibilityEngine>,
    address: &MembershipAddress,
    (condition, spoken): (&VersionCondition, &Spoken),
    make: &MakeMembership<'_>,
) -> Result<Arc<ProgramMembership>, AppError> {
    let before = find(ctx, registry, address).await?;
    let seen = visibility::of_found(ctx, registry, RecordKind::ProgramMembership, before.id).await?;
    let seen = seen.ok_or_else(|| absent(registry, address))?;
    let written = written::of_change(ctx, Resource::ProgramMembership, &seen, spoken)?;
    let written = without_status(written, spoken)?;
    records::check_version(condition, before.meta.version)?;
    let present = view(registry, Arc::clone(&before), FieldSet::All).await?;
    let draft = make(&present, &written)?;
    let known = &before.details.identifiers;
    written::check_identifiers(ctx, Resource::ProgramMembership, known, &draft.identifiers)?;
    let (program, beneficiary) = (present.program.as_str(), present.beneficiary.as_str());
    write(ctx, registry, engine, Some(Present { before: &before, seen, written, program, beneficiary }), draft).await
}

/// Which days go with a membership depends on its status: who may not write the status writes only what it names, and not how and
/// when somebody left; it would learn the status from what is filled in and refused.
fn without_status(written: FieldSet, spoken: &Spoken) -> Result<FieldSet, AppError> {
    if written.allows("status") {
        return Ok(written);
    }
    let (Spoken::Whole(named) | Spoken::Named(named)) = spoken;
    if [EXIT_DATE.tag(), EXIT_REASON.tag()].into_iter().any(|field| named.names(name_of(field))) {
        let (resource, field) = (Resource::ProgramMembership, "status".to_owned());
        return Err(AppError::FieldNotGranted { resource, field, usage: FieldUse::Write });
    }
    Ok(written.intersection(named))
}

/// A membership that is being replaced.
pub(super) struct Present<'a> {
    /// As it is.
    pub before: &'a ProgramMembership,
    /// What of it the client may see.
    pub seen: FieldSet,
    /// What of it is written.
    pub written: FieldSet,
    /// What its program is called: `Program/<system>|<value>`.
    pub program: &'a str,
    /// What its beneficiary is called.
    pub beneficiary: &'a str,
}

/// What was received may be sent back: a reference that is what the record shows means whom it holds, be it that the identifiers of
/// that one have all ended and somebody else took one up. A client that may not read the reference received none.
impl Present<'_> {
    /// Whether the program is shown so.
    pub(super) fn is_program(&self, key: &IdentifierKey) -> bool {
        self.seen.allows("program") && self.program == records::reference(RecordKind::Program, key)
    }

    /// Whether the beneficiary is shown so.
    pub(super) fn is_beneficiary(&self, given: &SubjectReference<IdentifierKey>) -> bool {
        self.seen.allows("beneficiary") && self.beneficiary == records::reference(given.kind.record_kind(), &given.id)
    }
}
