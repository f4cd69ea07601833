//! Stored records in both forms, and the other stored values: audit entries, clients, codes, settings, entries of the
//! change log and outcomes of requests. The first byte chooses the form.

use daftar_domain::change::ChangedRecord;
use daftar_domain::client::ClientId;
use daftar_domain::idempotency::{IdempotencyKey, RequestName};
use daftar_domain::record::{RecordId, RecordKind};
use daftar_store::StoreError;
use daftar_store::record::json::CodeNames;
use daftar_store::record::setting::SettingKind;
use daftar_store::record::{self, audit, change, client, code_table, remembered, setting};

/// Maximum length of a message, in bytes: reasons name fields and numbers.
const MESSAGE_BYTES_MAX: usize = 2_000;
const ID: RecordId = RecordId(9);
const KINDS: [RecordKind; 5] = [
    RecordKind::Individual,
    RecordKind::Group,
    RecordKind::Program,
    RecordKind::ProgramMembership,
    RecordKind::Consent,
];

pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let kind = KINDS[usize::from(*choice) % KINDS.len()];
    match usize::from(*choice) / KINDS.len() % 4 {
        0 => of_record(kind, record::decode_any(kind, ID, rest)),
        // With the checksum that the bytes should have.
        1 => {
            let sealed = [rest, crc32fast::hash(rest).to_le_bytes().as_slice()].concat();
            of_record(kind, record::decode_any(kind, ID, &sealed));
        }
        2 => of_record(kind, record::json::decode(kind, ID, rest)),
        _ => of_other(usize::from(*choice) % KINDS.len(), rest),
    }
}

/// A record that can be read is written in both forms, and both are read as that record.
fn of_record(kind: RecordKind, read: Result<ChangedRecord, StoreError>) {
    let Some(found) = read_or_explained(read) else { return };
    assert_eq!((found.place().0, found.place().1), (kind, ID));
    let Some(bytes) = read_or_explained(record::encode_any(&found)) else { return };
    let again = record::decode_any(kind, ID, &bytes).expect("a record that was written can be read");
    assert_eq!(record::encode_any(&again).expect("it can be written again"), bytes);
    let Some(json) = read_or_explained(record::json::encode(&found, &CodeNames::new())) else { return };
    let again = record::json::decode(kind, ID, &json)
        .unwrap_or_else(|error| panic!("stored JSON can be read: {error}: {}", String::from_utf8_lossy(&json)));
    assert_eq!(record::encode_any(&again).expect("it can be written again"), bytes, "both forms mean the same");
}

fn of_other(choice: usize, bytes: &[u8]) {
    match choice {
        0 => {
            let Some(entries) = read_or_explained(audit::decode(bytes)) else { return };
            let Some(values) = read_or_explained(audit::encode(&entries)) else { return };
            let again: Vec<_> = values.iter().flat_map(|value| audit::decode(value).expect("it can be read")).collect();
            assert_eq!(again, entries);
        }
        1 => {
            let Some(found) = read_or_explained(client::decode(bytes)) else { return };
            let Some(written) = read_or_explained(client::encode(&found)) else { return };
            let again = client::decode(&written).expect("it can be read");
            assert_eq!(client::encode(&again).expect("it can be written again"), written);
        }
        2 => {
            let Some(found) = read_or_explained(code_table::decode(bytes)) else { return };
            let Some(written) = read_or_explained(code_table::encode(&found)) else { return };
            let again = code_table::decode(&written).expect("it can be read");
            assert_eq!(code_table::encode(&again).expect("it can be written again"), written);
        }
        3 => {
            for kind in SettingKind::ALL {
                let Some(found) = read_or_explained(setting::decode(kind, bytes)) else { continue };
                let Some(written) = read_or_explained(setting::encode(&found)) else { continue };
                let again = setting::decode(kind, &written).expect("it can be read");
                assert_eq!(setting::encode(&again).expect("it can be written again"), written);
            }
        }
        _ => {
            of_change(bytes);
            of_request(bytes);
        }
    }
}

/// An entry of the change log.
fn of_change(bytes: &[u8]) {
    let Some(touched) = read_or_explained(change::decode(bytes)) else { return };
    let versions = change::touched_versions(bytes).expect("an entry that was read can be read again");
    let is_record = |touched: &&change::Touched| matches!(touched, change::Touched::Record(..));
    assert_eq!(versions.len(), touched.iter().filter(is_record).count());
}

/// The outcome of a request with an idempotency key.
fn of_request(bytes: &[u8]) {
    let client = ClientId::parse("a-client").expect("the id of a client");
    let key = IdempotencyKey::parse("a-key").expect("a key");
    let name = RequestName { client, key, part: 0 };
    let Some(found) = read_or_explained(remembered::decode(name.clone(), bytes)) else { return };
    let Some(written) = read_or_explained(remembered::encode(&found)) else { return };
    assert_eq!(remembered::decode(name, &written).expect("it can be read"), found);
}

/// The value; none for an error, which must have a short text.
fn read_or_explained<T>(read: Result<T, StoreError>) -> Option<T> {
    read.inspect_err(|error| {
        let message = error.to_string();
        assert!(!message.is_empty() && message.len() <= MESSAGE_BYTES_MAX, "{message}");
    })
    .ok()
}
