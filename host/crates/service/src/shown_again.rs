//! Records as a request wrote them, for a client that sends the request again.
//!
//! **Invariant:** they are shown by what the client may see now. Of one that the request made and that is not there for the client
//! any more only what it sent itself is left: type, identifiers and meta. One that it changed is not there, as for any other call.

use super::codes::LanguagePreference;
use super::group::{self, GroupView};
use super::individual::{self, IndividualView};
use super::program_membership::{self, MembershipView};
use super::records;
use super::registry::Registry;
use super::visibility::{self, Seen};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::field::FieldSet;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

/// A record as it was written.
pub enum ShownAgain {
    /// A person.
    Individual(IndividualView),
    /// A group.
    Group(GroupView),
    /// A membership in a program.
    ProgramMembership(MembershipView),
    /// Of nothing else an answer shows anything.
    Nothing,
}

/// Shows a record at a version.
///
/// # Errors
/// [`AppError::NotFound`] for one that was changed, not made, and is not there any more for the client. When the store fails; a
/// version that is not there is a defect.
pub async fn shown_again(
    ctx: &OpContext,
    registry: &Registry,
    languages: LanguagePreference,
    (kind, id, version): (RecordKind, RecordId, VersionId),
) -> Result<ShownAgain, AppError> {
    let gone = || AppError::internal("a request is remembered to have written what is not there");
    let fields = match visibility::of(ctx, registry, kind, id).await? {
        Some(fields) => fields,
        None if version == VersionId::FIRST => FieldSet::none(),
        None => {
            let changed = registry.store.record_version(kind, id, version).await?.ok_or_else(gone)?;
            ctx.trail.about(records::references(kind, &changed.identifiers()));
            return Err(AppError::NotFound(kind));
        }
    };
    Ok(match kind {
        RecordKind::Individual => {
            let record = registry.store.find_version(id, version).await?.ok_or_else(gone)?;
            let seen = Seen { record, fields };
            ShownAgain::Individual(individual::view(ctx, registry, languages, seen, individual::Wanted::ALL).await?)
        }
        RecordKind::Group => {
            let record = registry.store.find_version(id, version).await?.ok_or_else(gone)?;
            let seen = Seen { record, fields };
            ShownAgain::Group(group::answer(ctx, registry, languages, seen, group::Wanted::ALL).await?)
        }
        RecordKind::ProgramMembership => {
            let membership = registry.store.find_version(id, version).await?.ok_or_else(gone)?;
            ShownAgain::ProgramMembership(program_membership::view(registry, membership, fields).await?)
        }
        RecordKind::Program | RecordKind::Consent => ShownAgain::Nothing,
    })
}
