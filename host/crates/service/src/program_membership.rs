//! What is done with memberships in programs: enrol, change, read, search.

mod read;
mod replace;
mod rests_on;
mod rules;
mod search;
mod write;

use std::sync::Arc;

pub use self::read::read;
pub use self::replace::{MakeMembership, replace};
pub use self::search::{MembershipQuery, check_search, search};
pub use self::write::create;

use super::registry::Registry;
use super::{records, subjects};
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::program::ProgramDetails;
use daftar_domain::program_membership::{BENEFICIARY, FIELDS, PROGRAM, ProgramMembership, ProgramMembershipDetails};
use daftar_domain::record::RecordKind;
use daftar_domain::schema::{self, Tag};
use daftar_domain::subject::SubjectReference;

/// A membership as a request gives it: program and beneficiary by identifier.
pub type MembershipDraft = ProgramMembershipDetails<IdentifierKey>;

/// A membership with what its program and its beneficiary are called.
pub struct MembershipView {
    /// The membership.
    pub membership: Arc<ProgramMembership>,
    /// `Program/<system>|<value>`
    pub program: String,
    /// `Individual/<system>|<value>` or `Group/<system>|<value>`
    pub beneficiary: String,
    /// What of it may be shown.
    pub fields: FieldSet,
}

/// How one membership is addressed.
#[derive(Debug, Clone)]
pub struct MembershipAddress {
    /// Its own identifier, or the beneficiary's.
    pub key: IdentifierKey,
    /// In which program.
    pub program: Option<IdentifierKey>,
}

/// A membership with what its program and its beneficiary are called now, and what of it may be shown.
///
/// # Errors
/// When the store fails; a record that is not there is a defect.
pub async fn view(
    registry: &Registry,
    membership: Arc<ProgramMembership>,
    fields: FieldSet,
) -> Result<MembershipView, AppError> {
    let details = &membership.details;
    let program = records::by_id::<ProgramDetails>(&*registry.store, details.program()).await?;
    let program = called(RecordKind::Program, &program.details.identifiers)?;
    let beneficiary = subjects::called(&*registry.store, details.beneficiary()).await?;
    Ok(MembershipView { membership, program, beneficiary, fields })
}

/// The program and the beneficiary of a draft: the reader of bodies sees to it that a body names both.
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

fn called(kind: RecordKind, identifiers: &[Identifier]) -> Result<String, AppError> {
    let key = records::called(identifiers);
    let key = key.ok_or_else(|| AppError::internal(format!("a {kind} has no identifier")))?;
    Ok(records::reference(kind, key))
}
