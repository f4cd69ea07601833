//! Data that the checks of a page require, read with its values: older versions, owners, records, photos and slots.

use std::collections::{BTreeSet, HashMap};

use daftar_domain::change::ChangedRecord;
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::verification::Finding;
use daftar_store::IdentifierOwner;

use super::super::rows::{Json, binary_of, column, kind_number, number, places, signed, slot_cells};
use super::{
    JSON_BYTES, PAGE_BYTES, PostgresValues, bounded, damaged, digest_of, owner_row, place_of, record_row, slot_row,
    wrong,
};

/// Versions of a record with their stored values, in their order.
type StoredVersions = Vec<(VersionId, Vec<u8>)>;

/// Data read with the values of a page.
#[derive(Default)]
pub(super) struct Prefetched {
    /// `None` if there is no such record.
    pub(super) records: HashMap<(RecordKind, RecordId), Option<Vec<u8>>>,
    /// True if there is such a record.
    pub(super) existing: HashMap<(RecordKind, RecordId), bool>,
    pub(super) versions: HashMap<(RecordKind, RecordId), StoredVersions>,
    pub(super) owners: HashMap<(RecordKind, IdentifierKey), Vec<IdentifierOwner>>,
    pub(super) holders: HashMap<MembershipSlot, Option<RecordId>>,
    /// Size in bytes.
    pub(super) photos: HashMap<PhotoDigest, Option<u32>>,
    /// True if their bytes are those of their digest.
    pub(super) whole_photos: HashMap<PhotoDigest, bool>,
}

impl PostgresValues {
    /// Reads the older versions of records, up to about a mebibyte: the rest is read record by record.
    pub(super) fn read_versions(&self, kind: RecordKind, ids: Vec<RecordId>) -> Result<(), Finding> {
        let rows = "SELECT id, value, version FROM daftar.earlier_version WHERE kind = $1 AND id = ANY($2) \
                    ORDER BY id, version";
        let keys: Vec<i64> = ids.iter().map(|id| signed(id.0)).collect();
        let rows = self.query(&bounded(rows, "id, version", JSON_BYTES), &[&kind_number(kind), &keys])?;
        let mut versions: HashMap<_, _> = ids.into_iter().map(|id| ((kind, id), Vec::new())).collect();
        for row in &rows {
            let (id, json, version) = record_row(row).map_err(|error| wrong(&error))?;
            let value = binary_of(kind, id, json).map_err(|error| damaged(kind, id, &error))?;
            versions.entry((kind, id)).or_default().push((version, value));
        }
        if let Some(last) = rows.last() {
            let read = (number(last, 0), number(last, 4));
            let (id, until) = (read.0.map_err(|error| wrong(&error))?, read.1.map_err(|error| wrong(&error))?);
            if until >= PAGE_BYTES {
                versions.retain(|(_, of), _| of.0 < id);
            }
        }
        self.prefetched().versions = versions;
        Ok(())
    }

    /// Reads the owners, records, photos and slots that versions of records reference.
    pub(super) fn prefetch(&self, kind: RecordKind, versions: &[ChangedRecord]) -> Result<(), Finding> {
        let (mut keys, mut named, mut photos, mut slots) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), Vec::new());
        for version in versions {
            keys.extend(version.identifiers().iter().map(|identifier| identifier.key.clone()));
            for (_, value) in version.values().iter() {
                named.extend(value.references().into_iter().map(|reference| (reference.kind, reference.id)));
            }
            photos.extend(version.photo().map(|photo| photo.digest.0));
            if let ChangedRecord::ProgramMembership(membership) = version {
                slots.push(membership.details.slot());
            }
        }
        self.read_owners(kind, &keys)?;
        self.read_records(&named, false)?;
        self.read_photos(&photos)?;
        self.read_holders(&slots)
    }

    pub(super) fn read_owners(&self, kind: RecordKind, keys: &BTreeSet<IdentifierKey>) -> Result<(), Finding> {
        const OWNERS: &str = "SELECT owner.system, owner.value, owner.id, owner.is_open FROM daftar.identifier AS owner \
                              JOIN unnest($2::text[], $3::text[]) AS asked (system, value) \
                              ON owner.system = asked.system AND owner.value = asked.value \
                              WHERE owner.kind = $1 ORDER BY owner.is_open DESC, owner.id";
        let (systems, values): (Vec<&str>, Vec<&str>) =
            keys.iter().map(|key| (key.system.as_str(), key.value.as_str())).unzip();
        if systems.is_empty() {
            return Ok(());
        }
        let rows = self.query(OWNERS, &[&kind_number(kind), &systems, &values])?;
        let mut owners: HashMap<(&str, &str), Vec<IdentifierOwner>> = HashMap::new();
        for row in &rows {
            let (named, owner) = owner_row(row).map_err(|error| wrong(&error))?;
            owners.entry(named).or_default().push(owner);
        }
        let mut beside = self.prefetched();
        for key in keys {
            let owners = owners.remove(&(key.system.as_str(), key.value.as_str())).unwrap_or_default();
            beside.owners.insert((kind, key.clone()), owners);
        }
        Ok(())
    }

    /// Reads whether records exist, and their values if wanted.
    pub(super) fn read_records(
        &self,
        named: &BTreeSet<(RecordKind, RecordId)>,
        has_values: bool,
    ) -> Result<(), Finding> {
        const NAMED: &str = "SELECT asked.kind, asked.id, CASE WHEN $3 THEN record.value END \
                             FROM unnest($1::smallint[], $2::bigint[]) AS asked (kind, id) \
                             JOIN daftar.record AS record ON record.kind = asked.kind AND record.id = asked.id";
        if named.is_empty() {
            return Ok(());
        }
        let (kinds, ids) = places(named);
        let rows = self.query(NAMED, &[&kinds, &ids, &has_values])?;
        let mut beside = self.prefetched();
        for place in named {
            beside.existing.insert(*place, false);
            if has_values {
                beside.records.insert(*place, None);
            }
        }
        for row in &rows {
            let read = place_of(row).and_then(|place| Ok((place, column::<Option<Json<&[u8]>>>(row, 2)?)));
            let (place, json) = read.map_err(|error| wrong(&error))?;
            // An unreadable one is reported by the check of records, not here.
            let value = json.map(|json| binary_of(place.0, place.1, json.0).unwrap_or_default());
            beside.existing.insert(place, true);
            if has_values {
                beside.records.insert(place, value);
            }
        }
        Ok(())
    }

    pub(super) fn read_photos(&self, digests: &BTreeSet<[u8; 32]>) -> Result<(), Finding> {
        if digests.is_empty() {
            return Ok(());
        }
        let statement = "SELECT digest, octet_length(bytes) FROM daftar.photo WHERE digest = ANY($1)";
        let requested: Vec<&[u8]> = digests.iter().map(<[u8; 32]>::as_slice).collect();
        let rows = self.query(statement, &[&requested])?;
        let mut beside = self.prefetched();
        beside.photos.extend(digests.iter().map(|digest| (PhotoDigest(*digest), None)));
        for row in &rows {
            let read = digest_of(row).and_then(|digest| Ok((digest, column::<i32>(row, 1)?)));
            let (digest, length) = read.map_err(|error| wrong(&error))?;
            beside.photos.insert(digest, u32::try_from(length).ok());
        }
        Ok(())
    }

    /// True if the bytes of a photo match its digest, and if there is no such photo any more.
    pub(super) fn is_whole_photo(&self, digest: PhotoDigest) -> Result<bool, Finding> {
        let statement = "SELECT sha256(bytes) = digest FROM daftar.photo WHERE digest = $1";
        let rows = self.query(statement, &[&digest.0.as_slice()])?;
        rows.first().map_or(Ok(true), |row| column(row, 0)).map_err(|error| wrong(&error))
    }

    pub(super) fn read_holders(&self, slots: &[MembershipSlot]) -> Result<(), Finding> {
        const HOLDERS: &str = "SELECT slot.program, slot.beneficiary_kind, slot.beneficiary, slot.membership \
                               FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS asked (program, kind, id) \
                               JOIN daftar.open_membership AS slot ON slot.program = asked.program \
                               AND slot.beneficiary_kind = asked.kind AND slot.beneficiary = asked.id";
        if slots.is_empty() {
            return Ok(());
        }
        let (programs, kinds, ids): (Vec<_>, Vec<_>, Vec<_>) = slots.iter().map(slot_cells).collect();
        let rows = self.query(HOLDERS, &[&programs, &kinds, &ids])?;
        let mut beside = self.prefetched();
        beside.holders.extend(slots.iter().map(|slot| (*slot, None)));
        for row in &rows {
            let (slot, holder) = slot_row(row).map_err(|error| wrong(&error))?;
            beside.holders.insert(slot, Some(holder));
        }
        Ok(())
    }
}
