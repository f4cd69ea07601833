//! A sound register gives nothing; one in which a single thing is wrong gives that thing, by its name.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tempfile::TempDir;

use super::*;
use crate::domain::code::{CodeUri, CodedValue, Namespace};
use crate::domain::deployment::Setting;
use crate::domain::group::Member;
use crate::domain::idempotency::{RememberedAnswer, RememberedRequest};
use crate::domain::individual::IndividualDetails;
use crate::domain::photo::Photo;
use crate::domain::program_membership::{MembershipSlot, MembershipStatus, ProgramMembershipDetails};
use crate::domain::record::VersionId;
use crate::domain::subject::{Subject, SubjectReference};
use crate::domain::vocabulary::CodedField;
use crate::store::record::samples;
use crate::store::sled::tests::{Folder, copied, with_database};
use crate::store::sled::{SledOptions, keys};
use crate::store::suite::{audit_entry, commit, create, group, key, person, write};
use crate::store::{IdentifierOwner, Operation, RecordDetails, Store, record};

const ONE: RecordId = RecordId(1);
const TWO: RecordId = RecordId(2);

fn photo() -> Photo {
    use sha2::{Digest, Sha256};
    Photo::new(vec![7; 300_000], |bytes| Sha256::digest(bytes).into()).unwrap()
}

fn somebody() -> IndividualDetails {
    let coded =
        CodedValue { number: crate::domain::code::CodeNumber(1), edition: crate::domain::code::EditionNumber(0) };
    IndividualDetails {
        codes: vec![(CodedField::Gender, coded)],
        photo: Some(photo().reference()),
        ..person(&["urn:x:a|1"])
    }
}

fn place(status: MembershipStatus) -> ProgramMembershipDetails {
    ProgramMembershipDetails {
        identifiers: Vec::new(),
        program: ONE,
        beneficiary: SubjectReference { kind: Subject::Individual, id: TWO },
        status,
        ..samples::full_membership().details
    }
}

/// A register with two of everything, in a folder that nobody uses.
async fn register() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    let codes = ["a", "b"].map(|code| CodeUri::from_parts("urn:x", code).unwrap()).to_vec();
    store.number_codes(codes, vec![(Namespace::parse("urn:x").unwrap(), "1".to_owned())]).await.unwrap();
    let member = |individual| Member { individual, role: None, period: None, is_inactive: false };
    let mut household = group(&["urn:x:h|1"]);
    household.members = Some(vec![member(ONE), member(TWO)]);
    let mut program = samples::full_program().details;
    program.identifiers = person(&["urn:x:p|1"]).identifiers;
    let mut consent = samples::full_consent().details;
    consent.subject = SubjectReference { kind: Subject::Individual, id: ONE };
    let operations = vec![
        Operation::PutPhoto(photo()),
        Operation::CreateIndividual(somebody()),
        Operation::CreateIndividual(person(&["urn:x:a|2"])),
        Operation::CreateGroup(household),
        Operation::Create(RecordDetails::Program(program)),
        Operation::Create(RecordDetails::ProgramMembership(place(MembershipStatus::Exited))),
        Operation::Create(RecordDetails::ProgramMembership(place(MembershipStatus::Enrolled))),
        Operation::Create(RecordDetails::Consent(consent)),
        Operation::CreateClient(samples::full_client()),
        Operation::PutSetting(Setting::LocalCode(samples::local_code())),
    ];
    commit(&store, operations).await.unwrap();
    commit(&store, vec![Operation::UpdateIndividual(ONE, VersionId(1), somebody())]).await.unwrap();
    let answered = RememberedAnswer { status: 200, record: Some((RecordKind::Individual, TWO, VersionId(2))) };
    let request = RememberedRequest { answers: vec![answered], ..samples::remembered_request() };
    let update = write(vec![Operation::UpdateIndividual(TWO, VersionId(1), person(&["urn:x:a|2"]))]);
    store.commit_once(update, request).await.unwrap();
    store.raise_counter("day", 7).await.unwrap();
    for number in 0..17_u64 {
        store.append_audit(vec![audit_entry(&number.to_string()); 256]).await.unwrap();
        store.audit(1).await.unwrap();
    }
    drop(store);
    folder
}

/// The lines of what is found, by two looks: at a stopped folder, and at the same one in use.
async fn findings(path: &Path) -> Vec<String> {
    let stopped = StoppedStore::open(path, 1024 * 1024).unwrap();
    let at_rest = listed(&stopped, Pace::Fast).await;
    drop(stopped);
    match SledStore::open(path, SledOptions::default()) {
        Ok(store) => assert_eq!(listed(&store, Pace::Yielding).await, at_rest, "a running server finds the same"),
        Err(refused) => assert!(refused.to_string().contains("cannot be opened"), "{refused}"),
    }
    at_rest
}

async fn listed(store: &dyn Verification, pace: Pace) -> Vec<String> {
    let (events, mut told) = tokio::sync::mpsc::channel(4);
    let listen = async {
        let mut findings = Vec::new();
        while let Some(event) = told.recv().await {
            if let VerificationEvent::Finding(finding) = event {
                findings.push(finding.to_string());
            }
        }
        findings
    };
    let (ended, findings) = tokio::join!(store.verify(pace, events), listen);
    ended.unwrap();
    findings
}

#[tokio::test]
async fn a_sound_register_gives_nothing() {
    let folder = register().await;
    assert_eq!(findings(folder.path()).await, Vec::<String>::new());
}

type Damage = (&'static str, fn(&::sled::Db), &'static [&'static str]);

fn put(database: &::sled::Db, key: Vec<u8>, value: Vec<u8>) {
    database.insert(key, value).unwrap();
}

fn take(database: &::sled::Db, key: Vec<u8>) -> Vec<u8> {
    database.remove(&key).unwrap().expect("there is such a value").to_vec()
}

fn slot(beneficiary: RecordId) -> Vec<u8> {
    let beneficiary = SubjectReference { kind: Subject::Individual, id: beneficiary };
    keys::open_membership(MembershipSlot { program: ONE, beneficiary })
}

fn of(kind: RecordKind, id: RecordId) -> Vec<u8> {
    keys::record(kind, id)
}

/// What is broken, and the beginnings of what is told, in the order of the parts.
const DAMAGES: &[Damage] = &[
    (
        "a record with bytes that say nothing",
        |database| put(database, of(RecordKind::Individual, TWO), vec![3, 255, 255]),
        &["records: Individual number 2: the stored individual cannot be read: "],
    ),
    (
        "a record of a newer daftar",
        |database| put(database, of(RecordKind::Program, ONE), vec![99, 1]),
        &[
            "records: Program number 1: the stored program cannot be read: its version is 99, and this daftar reads 1; use the newer daftar",
        ],
    ),
    (
        "a record that is gone",
        |database| drop(take(database, of(RecordKind::Group, ONE))),
        &[
            "records: Group number 1: write 1 made its version 1, and it is not there",
            "identifiers: Group `urn:x:h|1`: it leads to Group number 1, which is not there",
        ],
    ),
    (
        "a record before others that is gone",
        |database| drop(take(database, of(RecordKind::ProgramMembership, ONE))),
        &["records: ProgramMembership number 1: there are records before and after, and this is missing"],
    ),
    (
        "an older version that is gone",
        |database| drop(take(database, keys::history(RecordKind::Individual, ONE, VersionId(1)))),
        &["history: Individual `urn:x:a|1`: version 1 is missing"],
    ),
    (
        "an older version that is another one",
        |database| {
            let present = database.get(of(RecordKind::Individual, ONE)).unwrap().unwrap();
            put(database, keys::history(RecordKind::Individual, ONE, VersionId(1)), present.to_vec());
        },
        &["history: Individual `urn:x:a|1`: what is kept as version 1 says that it is version 2"],
    ),
    (
        "an older version of nobody",
        |database| {
            let old = database.get(keys::history(RecordKind::Individual, ONE, VersionId(1))).unwrap().unwrap();
            put(database, keys::history(RecordKind::Individual, RecordId(9), VersionId(1)), old.to_vec());
        },
        &["history: Individual number 9: version 1 of it is kept, and it is not there itself"],
    ),
    (
        "an older version as new as the record",
        |database| {
            let old = database.get(keys::history(RecordKind::Individual, ONE, VersionId(1))).unwrap().unwrap();
            put(database, keys::history(RecordKind::Individual, ONE, VersionId(2)), old.to_vec());
        },
        &["history: Individual `urn:x:a|1`: an older version 2 is kept of a record at version 2"],
    ),
    (
        "an identifier that leads to nobody",
        |database| drop(take(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|1")))),
        &[
            "identifiers: Individual `urn:x:a|1`: it is not found by its identifier of system `urn:x:a`; write the record again",
        ],
    ),
    (
        "an identifier that leads to somebody else",
        |database| {
            let owners = record::identifier::encode(&[IdentifierOwner { id: TWO, is_open: true }]).unwrap();
            put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|1")), owners);
        },
        &[
            "identifiers: Individual `urn:x:a|1`: it is not found by its identifier of system `urn:x:a`",
            "identifiers: Individual `urn:x:a|1`: it is kept as holding for Individual number 2, whose record says otherwise",
        ],
    ),
    (
        "an identifier that somebody never carried",
        |database| {
            let owners = record::identifier::encode(&[IdentifierOwner { id: TWO, is_open: false }]).unwrap();
            put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|9")), owners);
        },
        &["identifiers: Individual `urn:x:a|9`: it leads to Individual number 2, which never carried it"],
    ),
    (
        "an identifier that is kept as ended",
        |database| {
            let owners = record::identifier::encode(&[IdentifierOwner { id: TWO, is_open: false }]).unwrap();
            put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|2")), owners);
        },
        &[
            "identifiers: Individual `urn:x:a|2`: its identifier of system `urn:x:a` is kept as ended, and the record says that it holds",
        ],
    ),
    (
        "an identifier with bytes that say nothing",
        |database| put(database, keys::identifier(RecordKind::Individual, &key("urn:x:a|2")), vec![1, 7]),
        &["identifiers: Individual `urn:x:a|2`: the stored identifier cannot be read: "],
    ),
    (
        "a write that is gone from the order",
        |database| drop(take(database, keys::by_number(keys::CHANGE, 2))),
        &["changes: the writes 2 to 2: 1 are missing in the order of writes"],
    ),
    (
        "the last write gone from the order",
        |database| drop(take(database, keys::by_number(keys::CHANGE, 3))),
        &["changes: Individual `urn:x:a|2`: it is at version 2, and the writes made 1 versions of it"],
    ),
    (
        "a write with bytes that say nothing",
        |database| put(database, keys::by_number(keys::CHANGE, 2), vec![7]),
        &["changes: write 2: the stored change cannot be read: "],
    ),
    (
        "a write that made another version",
        |database| {
            let second = take(database, keys::by_number(keys::CHANGE, 2));
            put(database, keys::by_number(keys::CHANGE, 2), take(database, keys::by_number(keys::CHANGE, 3)));
            put(database, keys::by_number(keys::CHANGE, 3), second.clone());
            put(database, keys::by_number(keys::CHANGE, 4), second);
        },
        &["changes: Individual `urn:x:a|1`: write 4 made its version 2 where version 3 was next"],
    ),
    (
        "a membership in a slot that nothing holds",
        |database| drop(take(database, slot(TWO))),
        &["open_memberships: ProgramMembership number 2: it is enrolled, and kept as not open"],
    ),
    (
        "a slot held by a membership that has ended",
        |database| put(database, slot(TWO), record::open_membership::encode(Some(ONE)).unwrap()),
        &[
            "open_memberships: ProgramMembership number 1: it is exited, and kept as open",
            "open_memberships: ProgramMembership number 2: it is enrolled, and kept as not open",
            "open_memberships: the open membership of Individual `urn:x:a|2` in Program `urn:x:p|1`: it is ProgramMembership number 1, which is not open there",
        ],
    ),
    (
        "a slot held by nothing that there is",
        |database| put(database, slot(ONE), record::open_membership::encode(Some(RecordId(9))).unwrap()),
        &[
            "open_memberships: the open membership of Individual `urn:x:a|1` in Program `urn:x:p|1`: it is ProgramMembership number 9, which is not there",
        ],
    ),
    (
        "a photo of which a part is gone",
        |database| drop(take(database, keys::photo_part(photo().reference().digest, 1))),
        &["photos: the photo with the digest "],
    ),
    (
        "a photo that is gone",
        |database| {
            for part in 0..2 {
                drop(take(database, keys::photo_part(photo().reference().digest, part)));
            }
        },
        &[
            "photos: Individual `urn:x:a|1`: the photo of version 1 is not there",
            "photos: Individual `urn:x:a|1`: the photo is not there",
        ],
    ),
    (
        "a photo with a changed byte",
        |database| {
            let key = keys::photo_part(photo().reference().digest, 1);
            let mut part = take(database, key.clone());
            *part.last_mut().unwrap() ^= 1;
            put(database, key, part);
        },
        &["photos: the photo with the digest "],
    ),
    (
        "the codes of the table of codes",
        |database| drop(take(database, keys::by_number(keys::CODE_TABLE, 0))),
        &[
            "codes: part 0 of the table of codes: 1 parts are missing: the numbers in records have lost their meaning",
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) of version 1 is not in the table of codes",
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) is not in the table of codes",
        ],
    ),
    (
        "the versions of vocabularies at the end of the table of codes",
        |database| drop(take(database, keys::by_number(keys::CODE_TABLE, 1))),
        &[
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) of version 1 is not in the table of codes",
            "codes: Individual `urn:x:a|1`: the code number 1 (vocabulary version number 0) is not in the table of codes",
        ],
    ),
    (
        "a member that is nobody",
        |database| {
            let mut household = record::group::decode(ONE, &take(database, of(RecordKind::Group, ONE))).unwrap();
            household.details.members.as_mut().unwrap()[1].individual = RecordId(8);
            put(database, of(RecordKind::Group, ONE), record::group::encode(&household).unwrap());
        },
        &["references: Group `urn:x:h|1`: its `member[1]` is Individual number 8, which is not there"],
    ),
    (
        "a consent of nobody",
        |database| {
            let mut consent = record::consent::decode(ONE, &take(database, of(RecordKind::Consent, ONE))).unwrap();
            consent.details.subject.id = RecordId(8);
            put(database, of(RecordKind::Consent, ONE), record::consent::encode(&consent).unwrap());
        },
        &[
            "references: Consent `urn:uuid|123e4567-e89b-42d3-a456-426614174000`: its `subject` is Individual number 8, which is not there",
        ],
    ),
    (
        "a request that wrote what is not there",
        |database| {
            let answered =
                RememberedAnswer { status: 201, record: Some((RecordKind::Group, RecordId(9), VersionId(1))) };
            let request = RememberedRequest { answers: vec![answered], ..samples::remembered_request() };
            put(database, keys::request(&request.name), record::remembered::encode(&request).unwrap());
        },
        &["requests: a request of client `"],
    ),
    (
        "lines of the audit log that are gone",
        |database| drop(take(database, keys::by_number(keys::AUDIT, 5))),
        &["audit: value 5 of the audit log: lines are missing that no removal of old lines took out"],
    ),
    (
        "lines of the audit log that say nothing",
        |database| put(database, keys::by_number(keys::AUDIT, 5), vec![2]),
        &["audit: value 5 of the audit log: the stored "],
    ),
    (
        "a summary that would hide lines",
        |database| {
            let number = summary(database);
            let stored = take(database, keys::by_number(keys::AUDIT_SEGMENT, number));
            let mut segment = record::audit_segment::decode(&stored).unwrap();
            segment.filter.fill(0);
            put(
                database,
                keys::by_number(keys::AUDIT_SEGMENT, number),
                record::audit_segment::encode(&segment).unwrap(),
            );
        },
        &["audit_summaries: the summary of the audit log up to value "],
    ),
    (
        "a summary of more lines than there are",
        |database| {
            let number = summary(database);
            let stored = take(database, keys::by_number(keys::AUDIT_SEGMENT, number));
            let mut segment = record::audit_segment::decode(&stored).unwrap();
            segment.lines += 1;
            put(
                database,
                keys::by_number(keys::AUDIT_SEGMENT, number),
                record::audit_segment::encode(&segment).unwrap(),
            );
        },
        &["audit_summaries: the summary of the audit log up to value "],
    ),
    (
        "a setting under another name",
        |database| {
            let from = keys::setting(&Setting::LocalCode(samples::local_code()).key());
            let setting = take(database, from);
            put(database, keys::setting(&Setting::LocalCode(samples::starter_code()).key()), setting);
        },
        &["settings: local code `"],
    ),
    (
        "a client with bytes that say nothing",
        |database| put(database, keys::client(&samples::full_client().id), vec![1, 200]),
        &["clients: client `demo-client_1`: the stored client cannot be read: "],
    ),
    (
        "a client that is gone",
        |database| drop(take(database, keys::client(&samples::full_client().id))),
        &["clients: client `demo-client_1`: write 1 names it, and it is not there"],
    ),
    (
        "a counter with bytes that say nothing",
        |database| put(database, keys::counter("day"), vec![]),
        &["counters: counter `day`: the stored counter cannot be read: it is empty"],
    ),
    (
        "a register whose id says nothing",
        |database| put(database, keys::REGISTER.to_vec(), vec![77]),
        &["files: the id of the register: the stored "],
    ),
    (
        "a key that nobody writes",
        |database| put(database, b"zz".to_vec(), vec![1]),
        &["files: a key of 2 bytes that begins with 0x7a: it is no key that daftar writes"],
    ),
];

fn summary(database: &::sled::Db) -> u64 {
    let (key, _) = database.scan_prefix([keys::AUDIT_SEGMENT]).next().unwrap().unwrap();
    keys::number_of(&key).unwrap()
}

#[tokio::test]
async fn whatever_is_wrong_is_found_and_named_and_nothing_else_is() {
    let sound = register().await;
    for (what, damage, expected) in DAMAGES {
        let folder = copied(sound.path());
        with_database(folder.path(), damage);
        // What it says has a test of its own.
        std::fs::remove_file(folder.path().join("acknowledged")).unwrap();
        let mut found = findings(folder.path()).await;
        found.sort_by_key(|line| line.split(':').next().map(str::to_owned));
        let mut expected = expected.to_vec();
        expected.sort_by_key(|line| line.split(':').next().map(str::to_owned));
        assert_eq!(found.len(), expected.len(), "{what}: {found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{what}: {found}\nexpected: {expected}");
        }
    }
}

#[tokio::test]
async fn the_end_of_the_order_of_writes_is_missed_on_a_stopped_folder() {
    let folder = register().await;
    with_database(folder.path(), |database| drop(take(database, keys::by_number(keys::CHANGE, 3))));
    let stopped = StoppedStore::open(folder.path(), 1024 * 1024).unwrap();
    let found = listed(&stopped, Pace::Fast).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("files: the end of the database: the data folder `"), "{found:#?}");
    assert!(found[0].contains("ends at write 2 (audit log 17, table of codes 2), and write 3 (audit log 17, table of codes 2) was acknowledged"), "{found:#?}");
    assert!(found[1].starts_with("changes: Individual `urn:x:a|2`: "), "{found:#?}");
}

#[tokio::test]
async fn lines_that_were_removed_for_their_age_are_no_damage() {
    use crate::store::audit_archive::{AuditArchive, AuditRemoval};
    let folder = register().await;
    let store = Folder::listening(folder.path());
    let now = audit_entry("x").at + jiff::SignedDuration::from_hours(1);
    let note = Some(format!("{} something", crate::domain::audit::REMOVAL_NOTE));
    let action = crate::domain::audit::AuditAction::Audit;
    let line = crate::domain::audit::AuditEntry { at: now, note, action, ..audit_entry("removal") };
    let removed = store.remove_audit(AuditRemoval { before: now, line, told: None }).await.unwrap();
    assert!(removed.is_some());
    drop(store);
    assert_eq!(findings(folder.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_written_meanwhile_is_never_told_as_damage() {
    let folder = register().await;
    let store = Folder::listening(folder.path());
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writing = async {
        for number in 1_u64.. {
            if is_over.load(Ordering::SeqCst) {
                break;
            }
            // Each person has an identifier that ends, and one that begins; a membership opens and closes.
            let created = create(&store, person(&[&format!("urn:x:w|{number}")])).await;
            let other = person(&[&format!("urn:x:v|{number}")]);
            let update = Operation::UpdateIndividual(created.id, VersionId(1), other);
            let status = if number % 2 == 1 { MembershipStatus::Exited } else { MembershipStatus::Enrolled };
            let moved = Operation::Update(TWO, VersionId(number), RecordDetails::ProgramMembership(place(status)));
            commit(&store, vec![update, moved]).await.unwrap();
            written.store(number, Ordering::SeqCst);
        }
    };
    let looking = async {
        let mut found = Vec::new();
        // However slow the disk is, there is something to be mistaken for damage.
        while written.load(Ordering::SeqCst) < 30 {
            found.extend(listed(&store, Pace::Fast).await);
        }
        is_over.store(true, Ordering::SeqCst);
        found
    };
    let ((), found) = tokio::join!(writing, looking);
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn looking_changes_no_value() {
    let folder = register().await;
    let stopped = StoppedStore::open(folder.path(), 1024 * 1024).unwrap();
    let before = stopped.database.checksum().unwrap();
    listed(&stopped, Pace::Fast).await;
    assert_eq!(stopped.database.checksum().unwrap(), before);
}

#[test]
fn a_folder_without_a_register_is_refused_and_stays_empty() {
    let folder = TempDir::new().unwrap();
    let error = StoppedStore::open(folder.path(), 1024 * 1024).err().unwrap();
    assert!(error.to_string().ends_with("holds no registry of daftar's: there is no file `db` in it"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
