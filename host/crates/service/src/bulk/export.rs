//! The records of one kind as they stood at an instant, in the order in which they were made.
//!
//! **Invariant:** what is given of a record is its last version written at that instant or before, however long the export takes. A
//! write that was on its way at that instant may be missing.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::registry::Registry;
use crate::{photo, records};
use daftar_domain::calendar::utc_day;
use daftar_domain::change::{ChangedRecord, Details};
use daftar_domain::consent::{Consent, ConsentStatus};
use daftar_domain::context::OpContext;
use daftar_domain::error::AppError;
use daftar_domain::group::{Group, GroupDetails};
use daftar_domain::individual::{Individual, IndividualDetails, PHOTO};
use daftar_domain::program::{Program, ProgramDetails};
use daftar_domain::program_membership::ProgramMembership;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};

/// How many exports are sent at once.
pub const EXPORTS_MAX: usize = 8;

/// How many records are read from the store at once.
pub const PAGE_RECORDS: usize = 500;

/// A page ends with the record with which its photos take that much: a page waits in memory for as long as its reader takes nothing, and
/// there may be many readers.
const PAGE_PHOTO_BYTES: usize = 1 << 20;

/// A record with what is needed to write its body.
pub enum Exported {
    /// A person, with the bytes of the photo, and what the people are called that it names.
    Individual(Arc<Individual>, Option<Arc<[u8]>>, HashMap<RecordId, String>),
    /// A group, with what the people and groups are called that it names.
    Group(Arc<Group>, HashMap<RecordId, String>, HashMap<RecordId, String>),
    /// A program.
    Program(Arc<Program>),
    /// A membership, with what program and beneficiary are called.
    ProgramMembership(Arc<ProgramMembership>, String, String),
    /// A consent, with what its subject is called and where it stands.
    Consent(Arc<Consent>, String, ConsentStatus),
}

/// A page of an export.
pub struct ExportedPage {
    /// The records.
    pub records: Vec<Exported>,
    /// The key of the last record that was looked at; none at the end of the kind.
    pub last: Option<RecordId>,
}

/// The records of a kind after a key; `chosen` has the keys of those that are wanted, where not all are.
///
/// # Errors
/// When the store fails.
pub async fn page(
    ctx: &OpContext,
    registry: &Registry,
    (kind, after, at): (RecordKind, RecordId, Timestamp),
    chosen: Option<&[RecordId]>,
) -> Result<ExportedPage, AppError> {
    let store = &*registry.store;
    let found = match chosen {
        None => store.scan_records(kind, after, PAGE_RECORDS).await?,
        Some(chosen) => {
            let from = chosen.partition_point(|id| *id <= after);
            let ids: Vec<RecordId> = chosen.iter().skip(from).take(PAGE_RECORDS).copied().collect();
            store.records(kind, &ids).await?
        }
    };
    let mut last = None;
    let mut exported = Vec::with_capacity(found.len());
    let mut photo_bytes = 0_usize;
    for record in found {
        last = Some(record.place().1);
        if let Some(record) = as_of(registry, record, at).await? {
            let record = with_references(ctx, registry, record, at).await?;
            if let Exported::Individual(_, Some(photo), _) = &record {
                photo_bytes = photo_bytes.saturating_add(photo.len());
            }
            exported.push(record);
        }
        if photo_bytes >= PAGE_PHOTO_BYTES {
            break;
        }
    }
    Ok(ExportedPage { records: exported, last })
}

/// A record as it stood at an instant; nothing where it was made later.
async fn as_of(
    registry: &Registry,
    mut record: ChangedRecord,
    at: Timestamp,
) -> Result<Option<ChangedRecord>, AppError> {
    while record.meta().last_updated > at {
        let (kind, id, VersionId(version)) = record.place();
        if version <= VersionId::FIRST.0 {
            return Ok(None);
        }
        let earlier = registry.store.record_version(kind, id, VersionId(version - 1)).await?;
        record = earlier.ok_or_else(|| AppError::internal(format!("an older version of a {kind} is not there")))?;
    }
    Ok(Some(record))
}

async fn with_references(
    ctx: &OpContext,
    registry: &Registry,
    record: ChangedRecord,
    at: Timestamp,
) -> Result<Exported, AppError> {
    Ok(match record {
        ChangedRecord::Individual(person) => {
            let photo = match person.details.get(PHOTO) {
                Some(reference) => Some(photo::fetch(registry, reference).await?),
                None => None,
            };
            let mut people = HashMap::new();
            for other in person.details.references() {
                people.insert(other.id, called::<IndividualDetails>(registry, other.id, at).await?);
            }
            Exported::Individual(person, photo, people)
        }
        ChangedRecord::Group(group) => {
            let (mut people, mut groups) = (HashMap::new(), HashMap::new());
            for other in group.details.references().into_iter().copied().filter_map(SubjectReference::of) {
                let called = subject(registry, other, at).await?;
                let of_kind = match other.kind {
                    Subject::Individual => &mut people,
                    Subject::Group => &mut groups,
                };
                of_kind.insert(other.id, called);
            }
            Exported::Group(group, people, groups)
        }
        ChangedRecord::Program(program) => Exported::Program(program),
        ChangedRecord::ProgramMembership(membership) => {
            let program = called::<ProgramDetails>(registry, membership.details.program(), at).await?;
            let beneficiary = subject(registry, membership.details.beneficiary(), at).await?;
            Exported::ProgramMembership(membership, program, beneficiary)
        }
        ChangedRecord::Consent(consent) => {
            let subject = subject(registry, consent.details.subject(), at).await?;
            let status = consent.details.status(utc_day(ctx.now));
            Exported::Consent(consent, subject, status)
        }
    })
}

async fn subject(registry: &Registry, subject: SubjectReference, at: Timestamp) -> Result<String, AppError> {
    match subject.kind {
        Subject::Individual => called::<IndividualDetails>(registry, subject.id, at).await,
        Subject::Group => called::<GroupDetails>(registry, subject.id, at).await,
    }
}

/// What a record was called at an instant: `<kind>/<system>|<value>`.
async fn called<D: Details>(registry: &Registry, id: RecordId, at: Timestamp) -> Result<String, AppError> {
    let gone = || AppError::internal(format!("a reference leads to no {}", D::KIND));
    let present = registry.store.record(D::KIND, id).await?.ok_or_else(gone)?;
    let then = as_of(registry, present.clone(), at).await?.unwrap_or(present);
    let identifiers = then.identifiers();
    let key = records::called(&identifiers).ok_or_else(gone)?;
    Ok(records::reference(D::KIND, key))
}
