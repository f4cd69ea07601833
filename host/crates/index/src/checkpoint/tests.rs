//! Tests of checkpoint files: validation, retention, and that the layout is raised when it changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;

use super::*;
use crate::identifiers::IdentifierHasher;
use crate::{Columns, Corrupt, Image};
use daftar_domain::change::{Change, ChangedRecord};
use daftar_domain::code::{CodeNumber, CodedValue, EditionNumber};
use daftar_domain::consent::{self, ConsentDetails, ConsentId};
use daftar_domain::extension::Extension;
use daftar_domain::group::{self, GroupDetails, Member};
use daftar_domain::identifier::{Identifier, IdentifierKey};
use daftar_domain::individual::{self, IndividualDetails};
use daftar_domain::organization::LegalBasis;
use daftar_domain::program_membership::{self, MembershipStatus, ProgramMembershipDetails};
use daftar_domain::record::{Record, RecordId, RecordKind, RecordMeta, VersionId};
use daftar_domain::scope::Resource;
use daftar_domain::value::{Reference, Values};
use daftar_domain::{address, person_name};

const MARK: Mark = [7; 32];

fn record<D>(id: u64, details: D) -> Arc<Record<D>> {
    let meta = RecordMeta { version: VersionId::FIRST, last_updated: Timestamp::UNIX_EPOCH, source: None };
    Arc::new(Record { id: RecordId(id), meta, details })
}

fn code(number: u32) -> CodedValue {
    CodedValue { number: CodeNumber(number), edition: EditionNumber(0) }
}

fn write(columns: &Columns, sequence: u64, record: ChangedRecord) {
    columns.apply(&[Change { sequence: Sequence(sequence), record }]);
}

fn person(id: u64) -> ChangedRecord {
    let key = IdentifierKey::parse(&format!("urn:x:a|{id}")).unwrap();
    let address: Values = Values::default()
        .with(address::LINE, vec!["12 Rue de l'Église".to_owned()])
        .with(address::REGION, "Đồng bằng".to_owned())
        .with(address::COUNTRY, code(4));
    let name: Values = Values::default()
        .with(person_name::FAMILY, "ወልደ ማርያም".to_owned())
        .with(person_name::GIVEN, format!("Zoë {}", id % 100));
    let identifiers = vec![Identifier { key, period: None }];
    let details = IndividualDetails::new(identifiers, Values::default(), Extension::default())
        .with(individual::ACTIVE, [None, Some(false)][(id % 2) as usize])
        .with(individual::NAME, name)
        .with(individual::BIRTH_DATE, Date::constant(1990, 2, 3))
        .with(individual::GENDER, code(id as u32 % 3))
        .with(individual::LANGUAGES, vec![code(8), code(9)])
        .with(individual::ADDRESS, vec![address]);
    ChangedRecord::Individual(record(id, details))
}

/// Builds a register with records of every kind.
fn register() -> Columns {
    let columns = Columns::default();
    fill(&columns);
    columns
}

fn fill(columns: &Columns) {
    for id in 1..=5 {
        write(columns, id, person(id));
    }
    let member =
        |id, role| Member { individual: RecordId(id), role: Some(code(role)), period: None, is_inactive: false };
    for id in 1..=2 {
        let members = vec![member(1, 20), member(id + 1, 21)];
        let group = GroupDetails::default().with(group::NAME, "Diallo".to_owned()).with(group::MEMBER, members);
        write(columns, 5 + id, ChangedRecord::Group(record(id, group)));
    }
    let subject = Reference { kind: RecordKind::Individual, id: RecordId(3) };
    let membership = ProgramMembershipDetails::default()
        .with(program_membership::PROGRAM, Reference { kind: RecordKind::Program, id: RecordId(1) })
        .with(program_membership::BENEFICIARY, subject)
        .with(program_membership::STATUS, MembershipStatus::Enrolled)
        .with(program_membership::ENROLLMENT_DATE, Date::constant(2026, 1, 1));
    write(columns, 8, ChangedRecord::ProgramMembership(record(1, membership)));
    let consent = ConsentDetails::default()
        .with(consent::CONSENT_ID, ConsentId::from_bytes([1; 16]))
        .with(consent::SUBJECT, subject)
        .with(consent::GRANTEE, "Ministry of Health".to_owned())
        .with(consent::PURPOSE, "meals".to_owned())
        .with(consent::EFFECTIVE_DATE, Date::constant(2026, 1, 1))
        .with(consent::EXPIRY_DATE, Date::constant(2026, 9, 1))
        .with(consent::SCOPES, vec![Resource::Individual, Resource::ProgramMembership])
        .with(consent::FIELD_NAMES, vec!["name".to_owned()])
        .with(consent::LEGAL_BASIS, LegalBasis::Consent);
    write(columns, 9, ChangedRecord::Consent(record(1, consent)));
}

/// Returns the image with another sequence.
fn at(image: &Image, sequence: u64) -> Image {
    let columns = Columns::from_image(image.clone());
    columns.reach(Sequence(sequence));
    columns.image()
}

fn folder(of: &tempfile::TempDir) -> CheckpointFolder {
    CheckpointFolder::open(of.path().join("checkpoints")).unwrap()
}

fn names(of: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(of.path().join("checkpoints")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn load(path: &Path) -> Result<Columns, Corrupt> {
    CheckpointFile::open(path)?.load()
}

/// Writes a checkpoint of a small register and returns its path.
fn written() -> (tempfile::TempDir, std::path::PathBuf, Image) {
    let temporary = tempfile::tempdir().unwrap();
    let image = register().image();
    folder(&temporary).write(&image, MARK).unwrap();
    let path = temporary.path().join("checkpoints/00000000000000000009.checkpoint");
    (temporary, path, image)
}

#[test]
fn a_loaded_checkpoint_equals_the_written_one() {
    let (temporary, path, image) = written();
    let file = folder(&temporary).newest_first().unwrap().remove(0).unwrap();
    assert_eq!((&file.path, file.sequence, file.mark), (&path, Sequence(9), MARK));
    let loaded = file.load().unwrap();
    assert_eq!(loaded.image().fingerprint(), image.fingerprint());
    assert_eq!((loaded.sequence(), loaded.image().record_count()), (Sequence(9), 9));
}

#[test]
fn a_register_of_many_segments_is_loaded_unchanged() {
    let columns = Columns::default();
    let people: Vec<_> = (1..=140_000).map(person).collect();
    people.chunks(1_000).for_each(|page| columns.load(page));
    let temporary = tempfile::tempdir().unwrap();
    let bytes = folder(&temporary).write(&columns.image(), MARK).unwrap();
    let file = folder(&temporary).newest_first().unwrap().remove(0).unwrap();
    assert_eq!(bytes, fs::metadata(&file.path).unwrap().len());
    let loaded = file.load().unwrap();
    // Applies the same changes to both, in rows of full and of half-empty chunks.
    for columns in [&columns, &loaded] {
        for id in [1, 65_536, 65_537, 139_999, 140_000, 140_001] {
            write(columns, id, ChangedRecord::Individual(record(id, IndividualDetails::default())));
        }
    }
    let fingerprint = loaded.image().fingerprint();
    assert_eq!(fingerprint.differs_in(&columns.image().fingerprint()), Vec::<&str>::new());
}

#[test]
fn an_empty_register_has_a_checkpoint_too() {
    let temporary = tempfile::tempdir().unwrap();
    folder(&temporary).write(&Columns::default().image(), MARK).unwrap();
    let loaded = folder(&temporary).newest_first().unwrap().remove(0).unwrap().load().unwrap();
    assert_eq!(loaded.image().record_count(), 0);
}

#[test]
fn only_the_owner_may_read_a_checkpoint() {
    let (temporary, path, _) = written();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&temporary.path().join("checkpoints"))), (0o600, 0o700));
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let (_temporary, path, _) = written();
    let sound = fs::read(&path).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        assert!(load(&path).is_err(), "byte {at} of {}", sound.len());
    }
    fs::write(&path, &sound).unwrap();
    assert!(load(&path).is_ok());
}

#[test]
fn a_truncated_or_extended_checkpoint_is_rejected() {
    let (_temporary, path, _) = written();
    let sound = fs::read(&path).unwrap();
    for length in (0..sound.len()).step_by(7).chain([sound.len() - 1]) {
        fs::write(&path, &sound[..length]).unwrap();
        assert!(load(&path).is_err(), "{length} of {}", sound.len());
    }
    fs::write(&path, [&sound[..], &[0]].concat()).unwrap();
    assert_eq!(load(&path).unwrap_err(), Corrupt("it is truncated"));
    fs::write(&path, [&sound[..], &sound[..]].concat()).unwrap();
    assert!(load(&path).is_err());
}

#[test]
fn another_format_or_layout_is_rejected_with_the_reason() {
    let (_temporary, path, image) = written();
    let with_head = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        let checksum = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        load(&path).map(|columns| columns.image().fingerprint())
    };
    assert_eq!(with_head(&|_| ()), Ok(image.fingerprint()));
    assert_eq!(with_head(&|bytes| bytes[8] = 2), Err(Corrupt("it has another format")));
    assert_eq!(with_head(&|bytes| bytes[8] = 1), Ok(image.fingerprint()));
    assert_eq!(with_head(&|bytes| bytes[12] ^= 1), Err(Corrupt("it was written by another version of daftar")));
    assert_eq!(with_head(&|bytes| bytes[0] = b'x'), Err(Corrupt("it is not a checkpoint")));
}

#[test]
fn a_table_with_missing_parts_is_rejected() {
    let (_temporary, path, _) = written();
    let sound = fs::read(&path).unwrap();
    // The table counts its parts, then lists each; this one has a part fewer, with a valid checksum.
    let end_at = sound.len() - END_BYTES;
    let table_at = u64::from_le_bytes(sound[end_at..end_at + 8].try_into().unwrap()) as usize;
    let mut table = sound[table_at..end_at].to_vec();
    let parts = usize::from(table[0]);
    assert_eq!(usize::from(table[parts]), parts - 1);
    table[0] -= 1;
    table.remove(parts);
    let mut bytes = sound[..table_at].to_vec();
    bytes.extend_from_slice(&table);
    let end = [(table_at as u64).to_le_bytes(), (table.len() as u64).to_le_bytes()].concat();
    let checksum = crc32fast::hash(&[&table[..], &end[..]].concat());
    bytes.extend_from_slice(&end);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(END);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(load(&path).unwrap_err(), Corrupt("a part is missing"));
}

#[test]
fn the_two_newest_are_retained_and_corrupt_ones_quarantined() {
    let temporary = tempfile::tempdir().unwrap();
    let checkpoints = folder(&temporary);
    let image = register().image();
    for sequence in [9, 10, 11, 100] {
        checkpoints.write(&at(&image, sequence), MARK).unwrap();
    }
    let sequences = |folder: &CheckpointFolder| -> Vec<u64> {
        folder.newest_first().unwrap().into_iter().map(|file| file.unwrap().sequence.0).collect()
    };
    assert_eq!(sequences(&checkpoints), [100, 11]);
    fs::write(temporary.path().join("checkpoints/00000000000000000200.checkpoint.writing"), b"half").unwrap();
    let newest = checkpoints.newest_first().unwrap().remove(0).unwrap().path;
    checkpoints.quarantine(&newest).unwrap();
    let again = folder(&temporary);
    assert_eq!(sequences(&again), [11]);
    let aside = "00000000000000000100.checkpoint.corrupt";
    assert_eq!(names(&temporary), ["00000000000000000011.checkpoint", aside], "temporary files are removed");
    let newest = again.newest_first().unwrap().remove(0).unwrap().path;
    again.quarantine(&newest).unwrap();
    assert_eq!(names(&temporary), ["00000000000000000011.checkpoint.corrupt"], "a quarantined checkpoint is retained");
}

#[test]
fn a_checkpoint_after_lost_writes_replaces_those_of_the_writes() {
    let temporary = tempfile::tempdir().unwrap();
    let checkpoints = folder(&temporary);
    let image = register().image();
    for sequence in [90, 100, 80] {
        checkpoints.write(&at(&image, sequence), MARK).unwrap();
    }
    assert_eq!(names(&temporary), ["00000000000000000080.checkpoint"]);
}

#[test]
fn a_failed_write_leaves_no_file() {
    let temporary = tempfile::tempdir().unwrap();
    let checkpoints = folder(&temporary);
    // A folder has the name of the new file.
    fs::create_dir_all(temporary.path().join("checkpoints/00000000000000000009.checkpoint/x")).unwrap();
    checkpoints.write(&register().image(), MARK).unwrap_err();
    assert_eq!(names(&temporary), ["00000000000000000009.checkpoint"]);
}

#[test]
fn a_fingerprint_names_the_differing_parts() {
    let columns = register();
    let before = columns.image().fingerprint();
    let ChangedRecord::Individual(original) = person(2) else { panic!("a person") };
    let mut details = original.details.clone();
    details.set(individual::NAME, None);
    write(&columns, 10, ChangedRecord::Individual(record(2, details)));
    let after = columns.image().fingerprint();
    assert_eq!(after.differs_in(&before), ["words of individuals", "names of individuals", "terms of individuals"]);
    write(&columns, 11, ChangedRecord::Individual(original));
    assert_eq!(columns.image().fingerprint().differs_in(&before), Vec::<&str>::new());
    write(&columns, 12, ChangedRecord::Group(record(1, GroupDetails::default())));
    let after = columns.image().fingerprint();
    let differences = after.differs_in(&before);
    for part in ["members of groups", "places of individuals", "names of groups", "codes of groups", "terms of groups"]
    {
        assert!(differences.contains(&part), "{part}: {differences:?}");
    }
}

/// A change of the in-memory form of a record requires a new `LAYOUT`; otherwise old checkpoints would count as valid.
#[test]
fn the_layout_is_raised_when_the_in_memory_form_changes() {
    let mut secret = Columns::default().image();
    secret.snapshot.hasher = IdentifierHasher::of_key([5; 16]);
    let columns = Columns::from_image(secret);
    fill(&columns);
    let mut bytes = Vec::new();
    let head = Head { layout: [0; 32], sequence: Sequence(9), mark: MARK };
    write::write(&columns.image(), &head, &mut bytes).unwrap();
    insta::assert_snapshot!(format!("{} {:08x}", LAYOUT, crc32fast::hash(&bytes)), @"6 7e7579c1");
}
