//! The keys of the one tree.
//!
//! **Invariant:** the first byte is the type of a key, and never changes its meaning; numbers are big-endian, so that
//! keys sort by their numbers.

pub(super) mod read;

use daftar_domain::client::ClientId;
use daftar_domain::deployment::SettingKey;
use daftar_domain::idempotency::{IdempotencyKey, RequestName};
use daftar_domain::identifier::IdentifierKey;
use daftar_domain::photo::PhotoDigest;
use daftar_domain::program_membership::MembershipSlot;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_store::record::setting::{SettingKind, key_bytes};

/// The version of the layout.
pub(super) const FORMAT: &[u8] = b"f";
/// Audit entries, by number.
pub(super) const AUDIT: u8 = b'a';
/// Summaries of the audit log, by the number of the last value of each.
pub(super) const AUDIT_SEGMENT: u8 = b'A';
/// Clients, by id.
pub(super) const CLIENT: u8 = b'c';
/// Settings of the deployment, by kind and name.
pub(super) const SETTING: u8 = b'd';
/// Older versions of records, by kind, key and version.
pub(super) const HISTORY: u8 = b'h';
/// Owners of identifiers, by kind, system and value.
pub(super) const IDENTIFIER: u8 = b'i';
/// Idempotency records, by client, name and part.
pub(super) const REQUEST: u8 = b'k';
/// Counters, by name.
pub(super) const COUNTER: u8 = b'n';
/// The state of a register that was copied into the folder.
pub(super) const ORIGIN: &[u8] = b"O";
/// Open memberships, by program and beneficiary.
pub(super) const OPEN_MEMBERSHIP: u8 = b'o';
/// Parts of photos, by digest and number.
pub(super) const PHOTO: u8 = b'p';
/// Parts of a long value, by its key and number.
pub(super) const PART: u8 = b'l';
/// The id of the register itself.
pub(super) const REGISTER: &[u8] = b"R";
/// Records, by kind and key.
pub(super) const RECORD: u8 = b'r';
/// The keys touched by each write, by sequence number.
pub(super) const CHANGE: u8 = b's';
/// Parts of the table of codes, by number.
pub(super) const CODE_TABLE: u8 = b't';

/// Returns the key prefix of all older versions of a record.
pub(super) fn history_prefix(kind: RecordKind, id: RecordId) -> Vec<u8> {
    numbered(&[HISTORY, kind_byte(kind)], id.0)
}

/// The number of a kind, from 1. The order of the kinds is fixed.
fn kind_byte(kind: RecordKind) -> u8 {
    kind as u8 + 1
}

fn numbered(prefix: &[u8], number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 8);
    key.extend_from_slice(prefix);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Returns the key prefix of all records of a kind.
pub(super) fn record_prefix(kind: RecordKind) -> [u8; 2] {
    [RECORD, kind_byte(kind)]
}

/// Returns the key of a record.
pub(super) fn record(kind: RecordKind, id: RecordId) -> Vec<u8> {
    numbered(&record_prefix(kind), id.0)
}

/// Returns the key of an older version of a record.
pub(super) fn history(kind: RecordKind, id: RecordId, version: VersionId) -> Vec<u8> {
    numbered(&history_prefix(kind, id), version.0)
}

/// Returns the key of an identifier's owners. A system contains visible characters only, so that the zero byte ends it.
pub(super) fn identifier(kind: RecordKind, key: &IdentifierKey) -> Vec<u8> {
    let (system, value) = (key.system.as_str().as_bytes(), key.value.as_str().as_bytes());
    let mut bytes = Vec::with_capacity(system.len() + value.len() + 3);
    bytes.extend_from_slice(&[IDENTIFIER, kind_byte(kind)]);
    bytes.extend_from_slice(system);
    bytes.push(0);
    bytes.extend_from_slice(value);
    bytes
}

/// Returns the key of the open membership in a slot.
pub(super) fn open_membership(slot: MembershipSlot) -> Vec<u8> {
    let mut program = numbered(&[OPEN_MEMBERSHIP], slot.program.0);
    program.push(kind_byte(slot.beneficiary.kind.record_kind()));
    numbered(&program, slot.beneficiary.id.0)
}

/// Returns the key prefix of all parts of a photo.
pub(super) fn photo_prefix(digest: PhotoDigest) -> Vec<u8> {
    [&[PHOTO], digest.0.as_slice()].concat()
}

/// Returns the key of a part of a photo, counted from 0.
pub(super) fn photo_part(digest: PhotoDigest, part: u64) -> Vec<u8> {
    numbered(&photo_prefix(digest), part)
}

/// Returns the key prefix of all parts of the value of a key. The length of the key is first, so that no prefix begins
/// with another one.
pub(super) fn parts(key: &[u8]) -> Vec<u8> {
    let length = u16::try_from(key.len()).unwrap_or(u16::MAX);
    [&[PART], length.to_be_bytes().as_slice(), key].concat()
}

/// Returns the key of a part of a long value, counted from 0.
pub(super) fn part(key: &[u8], part: u32) -> Vec<u8> {
    [parts(key).as_slice(), &part.to_be_bytes()].concat()
}

/// Returns the key of a long value and the number of the part with that key.
pub(super) fn part_of(part: &[u8]) -> Option<(&[u8], u32)> {
    let (_, key_and_number) = part.strip_prefix(&[PART])?.split_first_chunk::<2>()?;
    let (key, number) = key_and_number.split_last_chunk::<4>()?;
    part.starts_with(&parts(key)).then_some((key, u32::from_be_bytes(*number)))
}

/// Returns the key of a client.
pub(super) fn client(id: &ClientId) -> Vec<u8> {
    named(CLIENT, id.as_str())
}

/// Returns the key prefix of all settings of a kind.
pub(super) fn setting_prefix(kind: SettingKind) -> [u8; 2] {
    [SETTING, kind as u8]
}

/// Returns the key prefix of the settings of a kind whose keys begin with those bytes.
pub(super) fn settings(kind: SettingKind, prefix: &[u8]) -> Vec<u8> {
    [setting_prefix(kind).as_slice(), prefix].concat()
}

/// Returns the key of a setting.
pub(super) fn setting(key: &SettingKey) -> Vec<u8> {
    settings(SettingKind::of(key), &key_bytes(key))
}

/// Returns the key prefix of a client's requests. The zero byte ends the id: it contains visible characters only.
pub(super) fn requests_of(client: &ClientId) -> Vec<u8> {
    let mut key = named(REQUEST, client.as_str());
    key.push(0);
    key
}

/// Returns the key prefix of a client's requests with this name.
pub(super) fn requests_called(client: &ClientId, key: &IdempotencyKey) -> Vec<u8> {
    let mut bytes = requests_of(client);
    bytes.extend_from_slice(key.as_str().as_bytes());
    bytes.push(0);
    bytes
}

/// Returns the key of a request.
pub(super) fn request(name: &RequestName) -> Vec<u8> {
    let mut bytes = requests_called(&name.client, &name.key);
    bytes.extend_from_slice(&name.part.to_be_bytes());
    bytes
}

/// Returns the name of the request of a key.
pub(super) fn request_name(key: &[u8]) -> Option<RequestName> {
    let (texts, part) = key.strip_prefix(&[REQUEST])?.split_last_chunk::<2>()?;
    let mut texts = texts.split(|byte| *byte == 0);
    let (client, key) = (str::from_utf8(texts.next()?).ok()?, str::from_utf8(texts.next()?).ok()?);
    let (client, key) = (ClientId::parse(client).ok()?, IdempotencyKey::parse(key).ok()?);
    Some(RequestName { client, key, part: u16::from_be_bytes(*part) })
}

/// Returns the key of a counter, or the key prefix of counters with a name prefix.
pub(super) fn counter(name: &str) -> Vec<u8> {
    named(COUNTER, name)
}

fn named(prefix: u8, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 1);
    key.push(prefix);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Returns the key of the audit entries, change or code table part with this number.
pub(super) fn by_number(prefix: u8, number: u64) -> Vec<u8> {
    numbered(&[prefix], number)
}

/// Returns the number at the end of a key.
pub(super) fn number_of(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;
    use daftar_domain::code::{CodeUri, Namespace};
    use daftar_domain::hexadecimal;
    use daftar_domain::identifier::SystemUri;
    use daftar_domain::organization::Organization;
    use daftar_domain::rule_draft::{DraftOwner, RuleDraftId};
    use daftar_domain::subject::{Subject, SubjectReference};

    /// A key of every kind, in hexadecimal. A released layout is never edited.
    #[test]
    fn the_layout_is_as_it_was_released() {
        let (id, version, named) = (RecordId(300), VersionId(2), IdentifierKey::parse("urn:x:a#b|c|d").unwrap());
        let (client, digest) = (ClientId::parse("demo").unwrap(), PhotoDigest([7; 32]));
        let request = RequestName { client: client.clone(), key: IdempotencyKey::parse("k-1").unwrap(), part: 258 };
        let beneficiary = SubjectReference { kind: Subject::Group, id };
        let namespace = Namespace::parse("urn:x").unwrap();
        let uri = CodeUri::from_parts("urn:x", "c").unwrap();
        let organization = DraftOwner::Organization(Organization::parse("head").unwrap());
        let draft = RuleDraftId::from_bytes([7; 16]);
        let keys = [
            ("format", FORMAT.to_vec()),
            ("register", REGISTER.to_vec()),
            ("state of a copied register", ORIGIN.to_vec()),
            ("record", record(RecordKind::Individual, id)),
            ("record", record(RecordKind::Consent, id)),
            ("history", history(RecordKind::Group, id, version)),
            ("identifier", identifier(RecordKind::Program, &named)),
            ("open membership", open_membership(MembershipSlot { program: RecordId(5), beneficiary })),
            ("photo part", photo_part(digest, 1)),
            ("client", super::client(&client)),
            ("setting", setting(&SettingKey::LocalCode(uri))),
            ("setting", setting(&SettingKey::ConceptGroup("head".to_owned()))),
            ("setting", setting(&SettingKey::RetainedConcepts(namespace.clone(), 1))),
            ("setting", setting(&SettingKey::EarlierVersion(namespace, 1))),
            ("setting", setting(&SettingKey::IdentifierSystem(SystemUri::parse("urn:x:a").unwrap()))),
            ("setting", setting(&SettingKey::RuleDraft(organization, draft))),
            ("setting", setting(&SettingKey::RuleDraft(DraftOwner::Client(client.clone()), draft))),
            ("setting", setting(&SettingKey::RuleDraftVersion(draft, version))),
            ("request", super::request(&request)),
            ("counter", counter("day")),
            ("audit", by_number(AUDIT, 300)),
            ("audit summary", by_number(AUDIT_SEGMENT, 300)),
            ("change", by_number(CHANGE, 300)),
            ("code table", by_number(CODE_TABLE, 300)),
        ];
        let mut today = String::new();
        for (what, key) in keys {
            writeln!(today, "{what}: {}", hexadecimal::encode(&key)).unwrap();
        }
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/data/stored/layout-v1.txt");
        assert_eq!(std::fs::read_to_string(golden).unwrap_or_default(), today, "today:\n{today}");
    }

    proptest! {
        #[test]
        fn keys_stand_in_the_order_of_their_numbers(one: u64, other: u64, version: u64) {
            let key = |id| record(RecordKind::Individual, RecordId(id));
            prop_assert_eq!(key(one).cmp(&key(other)), one.cmp(&other));
            prop_assert_eq!(number_of(&key(one)), Some(one));
            let old = |id, version| history(RecordKind::Group, RecordId(id), VersionId(version));
            prop_assert_eq!(old(one, version).cmp(&old(other, 7)), (one, version).cmp(&(other, 7)));
        }

        #[test]
        fn requests_are_named_by_their_keys(client in "[a-z0-9_-]{1,8}", key in "[!-~&&[^\"\\\\]]{1,9}", part: u16) {
            let (client, key) = (ClientId::parse(&client).unwrap(), IdempotencyKey::parse(&key).unwrap());
            let name = RequestName { client, key, part };
            prop_assert_eq!(request_name(&request(&name)), Some(name));
        }

        #[test]
        fn identifiers_never_share_a_key(one in "[a-z]{1,3}:[a-z#]{1,3}\\|[a-z|]{1,4}", other in "[a-z]{1,3}:[a-z#]{1,3}\\|[a-z|]{1,4}") {
            let (one, other) = (IdentifierKey::parse(&one).unwrap(), IdentifierKey::parse(&other).unwrap());
            let same = identifier(RecordKind::Individual, &one) == identifier(RecordKind::Individual, &other);
            prop_assert_eq!(same, one == other);
            prop_assert_ne!(identifier(RecordKind::Individual, &one), identifier(RecordKind::Group, &one));
        }
    }
}
