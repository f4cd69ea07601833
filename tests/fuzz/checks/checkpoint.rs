//! Checkpoints. The input is a list of edits to a valid checkpoint, so that it does not depend on the layout of this
//! version: where, how, and with which byte; then the checksums are repaired or not.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use daftar_domain::change::{Change, ChangedRecord, Sequence};
use daftar_domain::group::{self, GroupDetails};
use daftar_domain::individual::{self, IndividualDetails};
use daftar_domain::record::Record;
use daftar_domain::value::Values;
use daftar_domain::{extension::Extension, person_name};
use daftar_index::Columns;
use daftar_index::checkpoint::{CheckpointFile, CheckpointFolder};
use daftar_index::testing::{code, identifier, member, record};

const MARK: [u8; 32] = [7; 32];
/// Lengths of the header and of the footer, in bytes.
const HEADER_BYTES: usize = 88;
const END_BYTES: usize = 28;

/// The table of a checkpoint, as `daftar_index::checkpoint` specifies it.
#[derive(Serialize, Deserialize)]
struct FrameTable {
    sections: Vec<u8>,
    frames: Vec<(u8, u64, u64, u32)>,
}

struct Base {
    folder: TempDir,
    bytes: Vec<u8>,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let folder = crate::temporary();
    let checkpoints = CheckpointFolder::open(folder.path().join("base")).unwrap();
    checkpoints.write(&register().image(), MARK).unwrap();
    let file = checkpoints.newest_first().unwrap().remove(0).unwrap();
    let bytes = std::fs::read(file.path).unwrap();
    Base { folder, bytes }
});

/// Some people, one of whom is in a group.
fn register() -> Columns {
    let columns = Columns::default();
    let mut sequence = 0;
    let mut apply = |record| {
        sequence += 1;
        columns.apply(&[Change { sequence: Sequence(sequence), record }]);
    };
    for id in 1..=3 {
        let name: Values = Values::default().with(person_name::FAMILY, format!("Family {id}"));
        let identifiers = vec![identifier(&format!("urn:x:a|{id}"))];
        let details = IndividualDetails::new(identifiers, Values::default(), Extension::default())
            .with(individual::NAME, name)
            .with(individual::GENDER, code(u32::try_from(id).unwrap()));
        apply(ChangedRecord::Individual(record(id, details)));
    }
    let group =
        GroupDetails::default().with(group::NAME, "Diallo".to_owned()).with(group::MEMBER, vec![member(1, None)]);
    let group: Arc<Record<GroupDetails>> = record(1, group);
    apply(ChangedRecord::Group(group));
    columns
}

pub fn check(input: &[u8]) {
    let Some((choice, edits)) = input.split_first() else { return };
    let mut bytes = BASE.bytes.clone();
    for edit in edits.chunks_exact(4) {
        let [high, low, how, value] = edit else { return };
        let at = usize::from(u16::from_be_bytes([*high, *low])) % bytes.len().max(1);
        match how % 4 {
            0 => bytes[at] = *value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => bytes[at] = bytes[at].wrapping_add(*value),
            _ => bytes.truncate(bytes.len().saturating_sub(usize::from(*value))),
        }
        if bytes.is_empty() {
            break;
        }
    }
    let is_changed = bytes != BASE.bytes;
    if choice % 2 == 1 {
        repair(&mut bytes);
    }
    match load(&bytes, "edited") {
        Some(columns) => reads_again(&columns),
        None => assert!(is_changed, "a valid checkpoint is not loaded"),
    }
    assert!(choice % 2 == 1 || !is_changed || load(&bytes, "edited").is_none(), "a change is not detected");
}

fn path(name: &str) -> PathBuf {
    BASE.folder.path().join(name)
}

fn load(bytes: &[u8], name: &str) -> Option<Columns> {
    let path = path(name);
    std::fs::write(&path, bytes).unwrap();
    CheckpointFile::open(&path).and_then(|file| file.load()).ok()
}

/// A register that was loaded is written, and the file is loaded as the same register.
fn reads_again(columns: &Columns) {
    let folder = CheckpointFolder::open(path("again")).unwrap();
    let image = columns.image();
    folder.write(&image, MARK).unwrap();
    let file = folder.newest_first().unwrap().remove(0).unwrap();
    let again = file.load().expect("a checkpoint that was written can be loaded");
    assert!(again.image().fingerprint() == image.fingerprint(), "it is the same register");
    std::fs::remove_file(file.path).unwrap();
}

/// Computes all checksums again, if the table can be found.
fn repair(bytes: &mut [u8]) {
    let Some(end_at) = bytes.len().checked_sub(END_BYTES).filter(|end| *end >= HEADER_BYTES) else { return };
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (table_at, length) = (number(bytes, end_at), number(bytes, end_at + 8));
    let table_at = usize::try_from(table_at).unwrap_or(usize::MAX);
    if length != (end_at as u64).saturating_sub(table_at as u64) || table_at > end_at {
        return;
    }
    let checksum = crc32fast::hash(&bytes[..HEADER_BYTES - 4]).to_le_bytes();
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum);
    if let Ok(mut table) = postcard::from_bytes::<FrameTable>(&bytes[table_at..end_at]) {
        for (_, offset, length, checksum) in &mut table.frames {
            let Some(end) = offset.checked_add(*length).and_then(|end| usize::try_from(end).ok()) else { continue };
            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
            if let Some(frame) = bytes.get(start..end) {
                *checksum = crc32fast::hash(frame);
            }
        }
        let written = postcard::to_allocvec(&table).unwrap_or_default();
        // A checksum may take more or fewer bytes than before: then the table stays as it is, and is rejected.
        if written.len() == end_at - table_at {
            bytes[table_at..end_at].copy_from_slice(&written);
        }
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[table_at..end_at]);
    hasher.update(&bytes[end_at..end_at + 16]);
    let checksum = hasher.finalize().to_le_bytes();
    bytes[end_at + 16..end_at + 20].copy_from_slice(&checksum);
}
