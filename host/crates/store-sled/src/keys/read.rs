//! Decoding of keys.
//!
//! **Invariant:** a decoded key encodes to the same bytes; any other key is rejected.

use super::{
    HISTORY, IDENTIFIER, OPEN_MEMBERSHIP, PHOTO, RECORD, history, identifier, kind_byte, open_membership, photo_part,
    record,
};
use daftar_domain::identifier::{IdentifierKey, IdentifierValue, SystemUri};
use daftar_domain::photo::PhotoDigest;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};

fn kind(byte: u8) -> Option<RecordKind> {
    RecordKind::ALL.into_iter().find(|kind| kind_byte(*kind) == byte)
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// Decodes the key of a record.
pub(crate) fn record_of(key: &[u8]) -> Option<(RecordKind, RecordId)> {
    let [RECORD, of, id @ ..] = key else { return None };
    let (kind, id) = (kind(*of)?, RecordId(number(id)?));
    (record(kind, id) == key).then_some((kind, id))
}

/// Decodes the key of an older version.
pub(crate) fn version_of(key: &[u8]) -> Option<(RecordKind, RecordId, VersionId)> {
    let [HISTORY, of, rest @ ..] = key else { return None };
    let (id, version) = rest.split_first_chunk::<8>()?;
    let (kind, id, version) = (kind(*of)?, RecordId(u64::from_be_bytes(*id)), VersionId(number(version)?));
    (history(kind, id, version) == key).then_some((kind, id, version))
}

/// Decodes the key of an identifier.
pub(crate) fn identifier_of(key: &[u8]) -> Option<(RecordKind, IdentifierKey)> {
    let [IDENTIFIER, of, rest @ ..] = key else { return None };
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (system, value) = rest.split_at(end);
    let system = SystemUri::parse(str::from_utf8(system).ok()?).ok()?;
    let value = IdentifierValue::parse(str::from_utf8(value.strip_prefix(&[0])?).ok()?).ok()?;
    let (kind, named) = (kind(*of)?, IdentifierKey { system, value });
    (identifier(kind, &named) == key).then_some((kind, named))
}

/// Decodes the key of a slot.
pub(crate) fn slot_of(key: &[u8]) -> Option<MembershipSlot> {
    let [OPEN_MEMBERSHIP, rest @ ..] = key else { return None };
    let (program, rest) = rest.split_first_chunk::<8>()?;
    let (of, id) = rest.split_first()?;
    let subject = Subject::ALL.into_iter().find(|subject| Some(subject.record_kind()) == kind(*of))?;
    let beneficiary = SubjectReference { kind: subject, id: RecordId(number(id)?) };
    let slot = MembershipSlot { program: RecordId(u64::from_be_bytes(*program)), beneficiary };
    (open_membership(slot) == key).then_some(slot)
}

/// Decodes the key of a part of a photo.
pub(crate) fn photo_of(key: &[u8]) -> Option<(PhotoDigest, u64)> {
    let [PHOTO, rest @ ..] = key else { return None };
    let (digest, part) = rest.split_first_chunk::<32>()?;
    let (digest, part) = (PhotoDigest(*digest), number(part)?);
    (photo_part(digest, part) == key).then_some((digest, part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_decode_to_their_parts(kind in 0_usize..5, id: u64, version: u64, is_group: bool, digest: [u8; 32]) {
            let kind = RecordKind::ALL[kind];
            let (id, version) = (RecordId(id), VersionId(version));
            prop_assert_eq!(record_of(&record(kind, id)), Some((kind, id)));
            prop_assert_eq!(version_of(&history(kind, id, version)), Some((kind, id, version)));
            let named = IdentifierKey::parse(&format!("urn:x:{}#a|{}|b", version.0, id.0)).unwrap();
            prop_assert_eq!(identifier_of(&identifier(kind, &named)), Some((kind, named)));
            let beneficiary = SubjectReference { kind: Subject::ALL[usize::from(is_group)], id };
            let slot = MembershipSlot { program: RecordId(version.0), beneficiary };
            prop_assert_eq!(slot_of(&open_membership(slot)), Some(slot));
            let digest = PhotoDigest(digest);
            prop_assert_eq!(photo_of(&photo_part(digest, version.0)), Some((digest, version.0)));
        }

        #[test]
        fn no_bytes_make_reading_panic(first in prop::sample::select(b"rhiop".to_vec()), rest: Vec<u8>) {
            let key: Vec<u8> = std::iter::once(first).chain(rest).collect();
            let _ = (record_of(&key), version_of(&key), identifier_of(&key), slot_of(&key), photo_of(&key));
        }
    }
}
