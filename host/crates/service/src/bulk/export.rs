//! The records of one kind at a point in time, in the order of their creation.
//!
//! **Invariant:** an exported record is its last version written at or before that time, regardless of the duration of
//! the export. A write in progress at that time may be missing.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::registry::Registry;
use crate::{photo, records};
use daftar_domain::change::ChangedRecord;
use daftar_domain::error::AppError;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::schema::Tag;
use daftar_domain::value::{Reference, Value};
use daftar_domain::{group, individual};

/// Maximum number of concurrent exports.
pub const EXPORTS_MAX: usize = 8;

/// Number of records per read from the store.
pub const PAGE_RECORDS: usize = 500;

/// Maximum size of the photos of a page, which ends with the record that reaches it: a page stays in memory while its
/// reader consumes no data, and there may be many readers.
const PAGE_PHOTO_BYTES: usize = 1 << 20;

/// The part of each record that an export sends.
///
/// An import resolves the references of a line to records of earlier lines. The relationships of a record from the
/// first one on that leads to a record created later are therefore sent a second time, after all records of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportPart {
    /// The complete record.
    Whole,
    /// These relationships, of the records that have some.
    LaterRelationships,
}

/// A record with the data required to write its body.
pub struct Exported {
    /// The record.
    pub record: ChangedRecord,
    /// The bytes of its photo.
    pub photo: Option<Arc<[u8]>>,
    /// Its references: `<kind>/<system>|<value>`.
    pub named: HashMap<Reference, String>,
    /// Number of its relationships from the first one on that leads to a record created later.
    pub later_relationships: usize,
}

/// A page of an export.
pub struct ExportedPage {
    /// The records.
    pub records: Vec<Exported>,
    /// The key of the last record that was checked; none at the end of the kind.
    pub last: Option<RecordId>,
}

/// Requested parts of the records.
#[derive(Debug, Clone, Copy)]
pub struct ExportRequest<'a> {
    /// The keys of the records, if the export is limited to some of the kind.
    pub chosen: Option<&'a [RecordId]>,
    /// True if the bytes of their photos are read.
    pub photos: bool,
    /// The part of each record.
    pub part: ExportPart,
}

/// The records of a kind after a key.
///
/// # Errors
/// If the store fails.
pub async fn page(
    registry: &Registry,
    (kind, after, at): (RecordKind, RecordId, Timestamp),
    wanted: ExportRequest<'_>,
) -> Result<ExportedPage, AppError> {
    let store = &*registry.store;
    let found = match wanted.chosen {
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
        if let Some(mut record) = as_of(registry, record, at).await? {
            let later = later_relationships(&record);
            let later_relationships = later.as_ref().map_or(0, |(_, later)| later.len());
            if wanted.part == ExportPart::LaterRelationships {
                let Some((tag, later)) = later else { continue };
                record.put(tag, Some(Value::List(later)));
            }
            let photo = match record.photo().filter(|_| wanted.photos) {
                Some(reference) => Some(photo::fetch(registry, reference).await?),
                None => None,
            };
            photo_bytes = photo_bytes.saturating_add(photo.as_ref().map_or(0, |photo| photo.len()));
            let mut named = HashMap::new();
            for other in record.values().references() {
                named.insert(*other, called(registry, *other, at).await?);
            }
            exported.push(Exported { record, photo, named, later_relationships });
        }
        if photo_bytes >= PAGE_PHOTO_BYTES {
            break;
        }
    }
    Ok(ExportedPage { records: exported, last })
}

/// The relationships of a record from the first one on that leads to a record created later, and their field.
fn later_relationships(record: &ChangedRecord) -> Option<(Tag, Vec<Value>)> {
    let (kind, id, _) = record.place();
    let tag = match kind {
        RecordKind::Individual => individual::RELATIONSHIP.tag(),
        RecordKind::Group => group::RELATIONSHIP.tag(),
        RecordKind::Program | RecordKind::ProgramMembership | RecordKind::Consent => return None,
    };
    let Some(Value::List(relationships)) = record.values().value(tag) else { return None };
    let leads_to_later = |one: &Value| one.references().into_iter().any(|other| other.kind == kind && other.id > id);
    let first = relationships.iter().position(leads_to_later)?;
    Some((tag, relationships.get(first..)?.to_vec()))
}

/// A record at a point in time; none if it was created later.
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

/// Identifiers of a record at a point in time.
async fn called(registry: &Registry, Reference { kind, id }: Reference, at: Timestamp) -> Result<String, AppError> {
    let gone = || AppError::internal(format!("a reference leads to no {kind}"));
    let present = registry.store.record(kind, id).await?.ok_or_else(gone)?;
    let then = as_of(registry, present.clone(), at).await?.unwrap_or(present);
    let identifiers = then.identifiers();
    let key = records::called(&identifiers).ok_or_else(gone)?;
    Ok(records::reference(kind, key))
}
