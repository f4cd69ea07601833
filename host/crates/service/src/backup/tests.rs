//! Tests of the backup format: a written backup can be read, and every change is detected.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::format::{BLOCK_BYTES, End};
use super::*;
use daftar_domain::change::{Change, Sequence};
use daftar_domain::client::ClientId;
use daftar_domain::hexadecimal;
use daftar_domain::idempotency::{IdempotencyKey, RequestName};
use daftar_domain::individual::{IndividualDetails, PHOTO};
use daftar_domain::photo::PhotoDigest;
use daftar_domain::record::{RecordId, RecordKind, VersionId};
use daftar_sandbox::PrivateKey;
use daftar_store::archive::{Entry, SettingKind};
use daftar_store::{ChangeSink, Operation, Store, Write, record};
use daftar_store_sled::SledStore;

struct Deaf;

impl ChangeSink for Deaf {
    fn apply(&self, _: &[Change]) {}
}

/// A store with two individuals, one of whom was changed and has a photo.
async fn store() -> SledStore {
    let store = SledStore::temporary();
    store.attach_sink(Arc::new(Deaf)).unwrap();
    let photo = crate::photo::of(b"a portrait".to_vec()).unwrap();
    let pictured = IndividualDetails::default().with(PHOTO, photo.reference());
    let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let audit = vec![record::samples::audit_entries().remove(0)];
    for operations in [
        vec![Operation::create(IndividualDetails::default()), Operation::CreateClient(record::samples::full_client())],
        vec![Operation::PutPhoto(photo), Operation::update(RecordId(1), VersionId(1), pictured)],
        vec![Operation::create(IndividualDetails::default())],
    ] {
        store.commit(Write { at, source: None, operations, audit: audit.clone(), read_set: Vec::new() }).await.unwrap();
    }
    store
}

/// Content of a backup of that store, with its header.
async fn contents() -> (Head, Vec<Item>) {
    let store = store().await;
    let mut snapshot = store.snapshot().await.unwrap();
    let head = head(snapshot.mark(), KeyInclusion::LeftOut, "2026-03-01T12:00:00Z".parse().unwrap());
    let mut items = Vec::new();
    loop {
        let entries = snapshot.next().await.unwrap();
        if entries.is_empty() {
            return (head, items);
        }
        items.extend(entries.into_iter().map(Item::ItemKind));
    }
}

fn written(head: &Head, items: Vec<Item>) -> Vec<u8> {
    let (mut writer, mut bytes) = BackupWriter::new(head).unwrap();
    bytes.extend(writer.add(items).unwrap().concat());
    bytes.extend(writer.finish().unwrap().blocks.concat());
    bytes
}

fn read(bytes: &[u8], depth: Depth) -> Result<Contents, BackupProblem> {
    inspect(bytes, depth, &mut |_, _| ())
}

#[tokio::test]
async fn a_backup_is_complete_only_when_its_reader_has_taken_every_block() {
    let (sender, mut bytes) = mpsc::channel(BLOCKS_WAITING);
    assert!(give(&sender, vec![vec![1], vec![2]]).await.is_ok());
    let mut taken = std::pin::pin!(until_taken(&sender));
    for block in [vec![1], vec![2]] {
        assert!(taken.as_mut().now_or_never().is_none(), "{block:?} was not taken");
        assert_eq!(bytes.recv().await.unwrap().unwrap(), block);
    }
    assert!(taken.await.is_ok());
    assert!(give(&sender, vec![vec![3]]).await.is_ok());
    drop(bytes);
    assert!(matches!(until_taken(&sender).await, Err(Interrupted::Reader(_))));
}

#[tokio::test]
async fn a_backup_says_what_is_in_it() {
    let (head, items) = contents().await;
    let bytes = written(&head, items);
    let whole = read(&bytes, Depth::Everything).unwrap();
    assert_eq!(read(&bytes, Depth::Blocks).unwrap(), whole);
    assert_eq!((whole.bytes, whole.blocks, whole.head.sequence), (bytes.len() as u64, 1, 3));
    let counted = |name: &str| whole.counts.get(name).copied().unwrap_or_default();
    let counts =
        ["individuals", "older_versions", "photos", "clients", "changes", "audit_values", "groups"].map(counted);
    assert_eq!(counts, [2, 1, 1, 1, 3, 3, 0]);
    assert_eq!(head.about(), 5);
}

#[tokio::test]
async fn wherever_a_backup_is_cut_it_is_noticed() {
    let (head, items) = contents().await;
    let bytes = written(&head, items);
    for length in 0..bytes.len() {
        let problem = read(&bytes[..length], Depth::Blocks).unwrap_err();
        let is_reported = matches!(problem, BackupProblem::CutOff { .. } | BackupProblem::Foreign);
        assert!(is_reported && (length > 13 || matches!(problem, BackupProblem::Foreign)), "{length}: {problem}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(read(&longer, Depth::Blocks), Err(BackupProblem::Longer)));
}

#[tokio::test]
async fn a_change_of_any_byte_is_detected() {
    let (head, items) = contents().await;
    let bytes = written(&head, items);
    for at in 0..bytes.len() {
        for bit in [1, 0x10, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            assert!(read(&changed, Depth::Blocks).is_err(), "byte {at}, bit {bit:x}");
        }
    }
}

#[tokio::test]
async fn blocks_that_change_places_or_are_left_out_are_noticed() {
    let (head, items) = contents().await;
    let (mut writer, line) = BackupWriter::new(&head).unwrap();
    let filler = |number| Item::ItemKind(Entry::Counter { name: "n".repeat(BLOCK_BYTES), value: number });
    let mut blocks = writer.add((0..2).map(filler).chain(items)).unwrap();
    blocks.extend(writer.finish().unwrap().blocks);
    assert_eq!(blocks.len(), 4);
    let whole = |order: &[usize]| {
        let blocks: Vec<u8> = order.iter().flat_map(|number| blocks[*number].clone()).collect();
        read(&[line.clone(), blocks].concat(), Depth::Blocks)
    };
    assert_eq!(whole(&[0, 1, 2, 3]).unwrap().blocks, 3);
    for order in [&[1, 0, 2, 3][..], &[0, 2, 3], &[0, 0, 1, 2, 3], &[0, 1, 2, 2, 3], &[3], &[0, 1, 2, 3, 3]] {
        assert!(whole(order).is_err(), "{order:?}");
    }
    let mut other = head.clone();
    other.sequence += 1;
    let line = BackupWriter::new(&other).unwrap().1;
    assert!(read(&[line, blocks.concat()].concat(), Depth::Blocks).is_err(), "the head of another backup");
}

#[tokio::test]
async fn content_that_cannot_be_restored_is_reported() {
    type Spoil = fn(&mut Vec<Item>);
    let cases: [(&str, Spoil); 9] = [
        ("a version of a record is missing", |items| {
            items.retain(|item| !matches!(item, Item::ItemKind(Entry::Version { is_present: false, .. })));
        }),
        ("a record is missing", |items| {
            items.retain(|item| !matches!(item, Item::ItemKind(Entry::Version { id: RecordId(1), .. })));
        }),
        ("the backup declares 2 individuals and contains 1", |items| {
            items.retain(|item| !matches!(item, Item::ItemKind(Entry::Version { id: RecordId(2), .. })));
        }),
        ("a write is missing in the order of writes", |items| {
            items.retain(|item| !matches!(item, Item::ItemKind(Entry::Change { sequence: Sequence(2), .. })));
        }),
        ("the backup declares 3 changes and contains 2", |items| {
            items.retain(|item| !matches!(item, Item::ItemKind(Entry::Change { sequence: Sequence(3), .. })));
        }),
        ("a photo is another one than it is called after", |items| {
            for item in items {
                if let Item::ItemKind(Entry::Photo { digest, .. }) = item {
                    *digest = PhotoDigest([0; 32]);
                }
            }
        }),
        ("its version is 99, and this daftar reads", |items| {
            for item in items {
                if let Item::ItemKind(Entry::Client { value }) = item {
                    value[0] = 99;
                }
            }
        }),
        ("the name of a key file is unknown", |items| {
            items.push(Item::Key { name: "../../etc/passwd".to_owned(), text: "{}".into() });
        }),
        ("a plugin's file is another one than it is called after", |items| {
            items.push(Item::PluginPart { digest: [7; 32], part: 0, bytes: vec![1, 2, 3] });
        }),
    ];
    for (reason, spoil) in cases {
        let (head, mut items) = contents().await;
        spoil(&mut items);
        let bytes = written(&head, items);
        assert!(read(&bytes, Depth::Blocks).is_ok(), "the file is valid");
        let problem = read(&bytes, Depth::Everything).unwrap_err().to_string();
        assert!(problem.contains(reason), "{problem}");
    }
}

#[test]
fn a_backup_of_tomorrow_and_what_is_none_are_refused() {
    let problem = |bytes: &[u8]| read(bytes, Depth::Blocks).unwrap_err().to_string();
    let newer = problem(b"daftar-backup-file 7 {\"later\": true}\n");
    assert!(
        newer.contains("of format 7, and this daftar reads formats up to 1: use the daftar that made it"),
        "{newer}"
    );
    assert!(problem(b"daftar-backup-file 0 {}\n").contains("no such format"));
    assert!(problem(b"daftar-backup-file x {}\n").contains("its format is no number"));
    assert!(problem(b"daftar-backup-file 1 {}\n").contains("missing field"));
    assert!(problem(b"{\"daftar-backup-file\": 1}\n").contains("this is no backup"));
    let before = problem(b"daftar-backup 1 {\"daftar\":\"0.1.0\"}\n");
    assert!(before.starts_with("the backup was made before the first release"), "{before}");
    let endless = [b"daftar-backup-file 1 ".as_slice(), &[b' '; 70_000]].concat();
    assert!(problem(&endless).contains("longer than 65536 bytes"));
}

#[test]
fn a_thing_too_large_for_a_block_is_refused() {
    let head = sample_head();
    let (mut writer, _) = BackupWriter::new(&head).unwrap();
    let large = |bytes: usize| Item::ItemKind(Entry::Audit { number: 1, value: vec![0; bytes] });
    assert_eq!(writer.add([large(15 * BLOCK_BYTES)]).unwrap().len(), 1);
    let problem = writer.add([large(16 * BLOCK_BYTES)]).unwrap_err().to_string();
    assert!(problem.contains("one of its audit_values takes"), "{problem}");
}

fn sample_head() -> Head {
    Head {
        daftar: "0.1.0".to_owned(),
        register: "000102030405060708090a0b0c0d0e0f".to_owned(),
        sequence: 7,
        at: "2026-03-01T12:00:00.000Z".to_owned(),
        keys: true,
        records: [("individuals".to_owned(), 1)].into(),
    }
}

/// One item of each kind, but for later kinds of settings. The values are not in a stored format, for which other golden files exist.
fn sample_items() -> Vec<Item> {
    let value = || vec![1, 2, 3];
    let name = RequestName { client: ClientId::parse("c").unwrap(), key: IdempotencyKey::parse("k").unwrap(), part: 9 };
    let version = |kind, id, is_present| Entry::Version {
        kind,
        id: RecordId(id),
        version: VersionId(300),
        is_present,
        value: value(),
    };
    let mut items = vec![
        Item::Key { name: "token.json".to_owned(), text: "{}".into() },
        Item::PluginPart { digest: [9; 32], part: 2, bytes: value() },
        Item::PluginList { bytes: b"{}".to_vec() },
    ];
    // Those of the golden file: later kinds differ in the number alone.
    items.extend(SettingKind::OF_DEPLOYMENT.map(|kind| Item::ItemKind(Entry::Setting { kind, value: value() })));
    // Listed explicitly: the order is part of the format.
    let kinds = [
        RecordKind::Individual,
        RecordKind::Group,
        RecordKind::Program,
        RecordKind::ProgramMembership,
        RecordKind::Consent,
    ];
    items.extend(kinds.map(|kind| Item::ItemKind(version(kind, 1, kind != RecordKind::Group))));
    items.extend(
        [
            Entry::Client { value: value() },
            Entry::Counter { name: "day/x".to_owned(), value: 1 << 40 },
            Entry::CodeTablePart { number: 0, value: value() },
            Entry::Request { name, value: value() },
            Entry::Photo { digest: PhotoDigest([8; 32]), bytes: Arc::from(value()) },
            Entry::Change { sequence: Sequence(7), value: value() },
            // Long and repetitive, so that the block is packed.
            Entry::Audit { number: 5, value: vec![4; 2_000] },
        ]
        .map(Item::ItemKind),
    );
    items
}

fn lines_of(bytes: &[u8]) -> String {
    bytes.chunks(32).map(|line| hexadecimal::encode(line) + "\n").collect()
}

/// A released format never changes: the golden file, which another program created from host/docs/BACKUP.md, is read
/// with the intended content. It is never changed; another format gets another file.
#[test]
fn a_backup_of_format_1_is_read() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/backup/v1.hex");
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let today = written(&sample_head(), sample_items());
    let bytes = hexadecimal::decode(&golden.split_whitespace().collect::<String>()).unwrap();
    assert!(!bytes.is_empty(), "v1.hex today:\n{}", lines_of(&today));

    let as_written = |items: &[Item]| items.iter().map(|item| item.write(Vec::new()).unwrap()).collect::<Vec<_>>();
    let mut reader = reader::BackupReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.head, sample_head());
    let reader::Next::Items(block) = reader.next_block().unwrap() else { panic!("there is a block") };
    assert_eq!(as_written(&block.items().unwrap()), as_written(&sample_items()));
    let reader::Next::End(End { blocks, counts, .. }) = reader.next_block().unwrap() else { panic!("there is an end") };
    assert_eq!((blocks, counts["settings"], counts["older_versions"]), (1, 5, 1));
    // The compression may change; the header line and the unpacked content may not.
    let first_line = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec);
    assert_eq!(first_line(&today), first_line(&bytes));
}

proptest! {
    #[test]
    fn anything_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), is_headed: bool) {
        let line = if is_headed { BackupWriter::new(&sample_head()).unwrap().1 } else { Vec::new() };
        prop_assert!(read(&[line, bytes].concat(), Depth::Everything).is_err());
    }

    #[test]
    fn things_of_any_bytes_come_back(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5_000), 1..20)) {
        let items = |values: &[Vec<u8>]| (0..).zip(values).map(|(number, value)| Item::ItemKind(Entry::Audit { number, value: value.clone() })).collect::<Vec<_>>();
        let bytes = written(&sample_head(), items(&values));
        let mut reader = reader::BackupReader::new(bytes.as_slice()).unwrap();
        let mut read = Vec::new();
        while let reader::Next::Items(block) = reader.next_block().unwrap() {
            for item in block.items().unwrap() {
                let Item::ItemKind(Entry::Audit { value, .. }) = item else { panic!("another thing") };
                read.push(value);
            }
        }
        prop_assert_eq!(read, values);
    }
}

#[tokio::test]
async fn a_signature_covers_everything_and_is_judged_by_the_keys_that_are_trusted() {
    let (head, items) = contents().await;
    let bytes = written(&head, items);
    let unsigned = read(&bytes, Depth::Everything).unwrap();
    let (key, other) = (PrivateKey::from_bytes([7; 32]), PrivateKey::from_bytes([8; 32]));
    let signed_by = |key: &PrivateKey| {
        [bytes.as_slice(), BackupSignature::sign(key, &unsigned.checksum).line().as_bytes()].concat()
    };
    let signed = read(&signed_by(&key), Depth::Blocks).unwrap();
    let id = key.public_key().id();
    assert_eq!((signed.checksum, signed.signature.as_ref().map(BackupSignature::key)), (unsigned.checksum, Some(id)));
    assert_eq!(signed.bytes, signed_by(&key).len() as u64);
    let (none, some) = (BackupTrust::default(), BackupTrust::configured(vec![key.public_key()]));
    let required = BackupTrust::required(key.public_key());
    assert_eq!(some.judge(&signed).unwrap(), Authenticity::Signed(id));
    assert_eq!(required.judge(&signed).unwrap(), Authenticity::Signed(id));
    assert_eq!(none.judge(&signed).unwrap(), Authenticity::UnknownKey(id));
    assert_eq!(some.judge(&unsigned).unwrap(), Authenticity::Unsigned);
    assert!(matches!(required.judge(&unsigned), Err(BackupProblem::Unsigned)));
    let foreign = read(&signed_by(&other), Depth::Blocks).unwrap();
    assert!(matches!(some.judge(&foreign), Err(BackupProblem::UnknownKey { .. })));
    // The signature of another backup, and a signature by another key that names this key.
    let mut sequence = head.clone();
    sequence.daftar.push('x');
    let elsewhere = read(&written(&sequence, contents().await.1), Depth::Blocks).unwrap();
    let moved = Contents { signature: signed.signature.clone(), ..elsewhere };
    assert!(matches!(some.judge(&moved), Err(BackupProblem::SignatureMismatch { .. })));
    let claimed = String::from_utf8_lossy(&signed_by(&other)[bytes.len()..]).into_owned();
    let claimed = claimed.replace(&other.public_key().id().to_string(), &id.to_string());
    let claimed = read(&[bytes.as_slice(), claimed.as_bytes()].concat(), Depth::Blocks).unwrap();
    assert!(matches!(some.judge(&claimed), Err(BackupProblem::SignatureMismatch { .. })));
    // A plugin signature is not a valid backup signature.
    let plain = key.sign(unsigned.checksum.to_hex().as_bytes()).to_string();
    let renamed = plain.replace("daftar-plugin-signature", "daftar-backup-signature");
    let renamed = read(&[bytes.as_slice(), renamed.as_bytes()].concat(), Depth::Blocks).unwrap();
    assert!(matches!(some.judge(&renamed), Err(BackupProblem::SignatureMismatch { .. })));
}

#[tokio::test]
async fn any_change_of_a_signed_backup_is_detected_before_its_use() {
    let (head, items) = contents().await;
    let bytes = written(&head, items);
    let key = PrivateKey::from_bytes([7; 32]);
    let checksum = read(&bytes, Depth::Blocks).unwrap().checksum;
    let signed = [bytes.as_slice(), BackupSignature::sign(&key, &checksum).line().as_bytes()].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("register.daftar");
    let judged = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        BackupTrust::required(key.public_key()).judge_file(&mut File::open(&path).unwrap())
    };
    let (authenticity, verified) = judged(&signed).unwrap();
    assert_eq!((authenticity, verified), (Authenticity::Signed(key.public_key().id()), Some(checksum)));
    // Only the line end may be missing.
    for at in 0..signed.len() - 1 {
        let mut changed = signed.clone();
        changed[at] ^= 1;
        assert!(judged(&changed).is_err(), "byte {at}");
        assert!(judged(&signed[..at]).is_err(), "cut at {at}");
    }
    assert!(judged(&[signed.as_slice(), b"more"].concat()).is_err());
    assert!(judged(&[signed.as_slice(), &signed[bytes.len()..]].concat()).is_err());
}
