//! What an enrolment rests on beside the membership itself: it holds when the membership is written, or the enrolment is decided
//! anew. So two programs that exclude each other never both take somebody whom two clients enrol at the same time.

use crate::registry::Registry;
use crate::standing;
use daftar_domain::change::Sequence;
use daftar_domain::error::AppError;
use daftar_domain::group::GroupDetails;
use daftar_domain::record::{RecordId, RecordKind};
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_store::RestsOn;

/// Somebody who enters a program: that it is open, and what its expression may look at, where that decides.
///
/// # Errors
/// When the store fails.
pub(super) async fn of_entry(
    registry: &Registry,
    since: Sequence,
    program: RecordId,
    asked_about: Option<SubjectReference>,
) -> Result<RestsOn, AppError> {
    let mut records = vec![(RecordKind::Program, program)];
    if let Some(beneficiary) = asked_about {
        records.push((beneficiary.kind.record_kind(), beneficiary.id));
        let groups = match beneficiary.kind {
            Subject::Individual => standing::groups_of(registry, beneficiary.id).await?,
            Subject::Group => vec![beneficiary.id],
        };
        for id in groups {
            records.push((RecordKind::Group, id));
            let Some(group) = registry.store.find::<GroupDetails>(id).await? else { continue };
            let members = group.details.members();
            records.extend(members.map(|member| (RecordKind::Individual, member.individual)));
        }
    }
    // What the same transaction creates nobody else can touch.
    records.retain(|(_, id)| id.pending_number().is_none());
    Ok(RestsOn { since, records })
}
