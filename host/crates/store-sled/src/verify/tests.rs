//! A valid register has no findings; a single problem is reported with its name.

mod damages;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tempfile::TempDir;

use self::damages::{DAMAGES, take};
use super::*;
use crate::testing::Folder;
use crate::tests::{copied, with_database};
use crate::{SledOptions, SledStore, keys};
use daftar_domain::code::{CodeUri, CodedValue, Namespace};
use daftar_domain::consent::{ConsentRecord, SUBJECT};
use daftar_domain::deployment::Setting;
use daftar_domain::group::{GroupRecord, MEMBER, Member};
use daftar_domain::idempotency::{IdempotentRequest, StoredResponse};
use daftar_domain::individual::{GENDER, IndividualDetails, PHOTO};
use daftar_domain::photo::Photo;
use daftar_domain::program_membership::{MembershipSlot, MembershipStatus, ProgramMembershipDetails};
use daftar_domain::record::VersionId;
use daftar_domain::subject::{Subject, SubjectReference};
use daftar_domain::value::Reference;
use daftar_domain::verification::VerificationEvent;
use daftar_store::archive::{Archive as _, Held};
use daftar_store::change_log::RegisterId;
use daftar_store::record::samples;
use daftar_store::suite::{audit_entry, commit, create, group, key, membership, person, write};
use daftar_store::testing::AuditReads as _;
use daftar_store::verify::{Pace, verify};
use daftar_store::{IdentifierOwner, Operation, Store, Write, record};

const ONE: RecordId = RecordId(1);
const TWO: RecordId = RecordId(2);

fn photo() -> Photo {
    use sha2::{Digest, Sha256};
    Photo::new(vec![7; 300_000], |bytes| Sha256::digest(bytes).into()).unwrap()
}

fn sample_person() -> IndividualDetails {
    let coded =
        CodedValue { number: daftar_domain::code::CodeNumber(1), edition: daftar_domain::code::EditionNumber(0) };
    person(&["urn:x:a|1"]).with(GENDER, coded).with(PHOTO, photo().reference())
}

fn place(status: MembershipStatus) -> ProgramMembershipDetails {
    membership(ONE, SubjectReference { kind: Subject::Individual, id: TWO }, status)
}

/// A register with two of everything, in a folder without a server.
async fn register() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    let codes = ["a", "b"].map(|code| CodeUri::from_parts("urn:x", code).unwrap()).to_vec();
    store.number_codes(codes, vec![(Namespace::parse("urn:x").unwrap(), "1".to_owned())]).await.unwrap();
    let member = |individual| Member { individual, role: None, period: None, is_inactive: false };
    let household = group(&["urn:x:h|1"]).with(MEMBER, vec![member(ONE), member(TWO)]);
    let mut program = samples::full_program().details;
    program.identifiers = person(&["urn:x:p|1"]).identifiers;
    let subject = Reference { kind: RecordKind::Individual, id: ONE };
    let consent = samples::full_consent().details.with(SUBJECT, subject);
    let operations = vec![
        Operation::PutPhoto(photo()),
        Operation::create(sample_person()),
        Operation::create(person(&["urn:x:a|2"])),
        Operation::create(household),
        Operation::create(program),
        Operation::create(place(MembershipStatus::Exited)),
        Operation::create(place(MembershipStatus::Enrolled)),
        Operation::create(consent),
        Operation::CreateClient(samples::full_client()),
        Operation::PutSetting(Setting::LocalCode(samples::local_code())),
    ];
    commit(&store, operations).await.unwrap();
    commit(&store, vec![Operation::update(ONE, VersionId(1), sample_person())]).await.unwrap();
    let answered = StoredResponse { status: 200, record: Some((RecordKind::Individual, TWO, VersionId(2))) };
    let request = IdempotentRequest { responses: vec![answered], ..samples::idempotent_request() };
    let update = write(vec![Operation::update(TWO, VersionId(1), person(&["urn:x:a|2"]))]);
    store.commit_once(update, request).await.unwrap();
    store.raise_counter("day", 7).await.unwrap();
    for number in 0..17_u64 {
        store.append_audit(vec![audit_entry(&number.to_string()); 256]).await.unwrap();
        store.audit(1).await.unwrap();
    }
    drop(store);
    folder
}

/// Returns the findings of two verifications: of a stopped folder, and of the same one in use.
async fn findings(path: &Path) -> Vec<String> {
    let stopped = StoppedStore::open(path, 1024 * 1024).unwrap();
    let at_rest = listed(stopped.raw_values(), Pace::Fast).await;
    drop(stopped);
    match SledStore::open(path, SledOptions::default()) {
        Ok(store) => assert_eq!(
            listed(store.raw_values().await.unwrap(), Pace::Yielding).await,
            at_rest,
            "a running server finds the same"
        ),
        Err(refused) => assert!(refused.to_string().contains("cannot be opened"), "{refused}"),
    }
    at_rest
}

async fn listed(values: Arc<dyn RawValues>, pace: Pace) -> Vec<String> {
    let (events, mut reported) = tokio::sync::mpsc::channel(4);
    let listen = async {
        let mut findings = Vec::new();
        while let Some(event) = reported.recv().await {
            if let VerificationEvent::Finding(finding) = event {
                findings.push(finding.to_string());
            }
        }
        findings
    };
    let (ended, findings) = tokio::join!(verify(values, pace, events), listen);
    ended.unwrap();
    findings
}

#[tokio::test]
async fn a_valid_register_has_no_findings() {
    let folder = register().await;
    assert_eq!(findings(folder.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn every_damage_is_found_and_named_and_nothing_else() {
    let sound = register().await;
    for (what, damage, expected) in DAMAGES {
        let folder = copied(sound.path());
        with_database(folder.path(), damage);
        // Its content has a test of its own.
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
    let found = listed(stopped.raw_values(), Pace::Fast).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("files: the end of the database: the data folder `"), "{found:#?}");
    assert!(found[0].contains("ends at write 2 (audit log 34, table of codes 2), and write 3 (audit log 34, table of codes 2) was acknowledged"), "{found:#?}");
    assert!(found[1].starts_with("changes: Individual `urn:x:a|2`: "), "{found:#?}");
}

#[tokio::test]
async fn lines_that_were_removed_for_their_age_are_no_damage() {
    use daftar_store::audit_log::AuditRemoval;
    let folder = register().await;
    let store = Folder::listening(folder.path());
    let now = audit_entry("x").at + jiff::SignedDuration::from_hours(1);
    let note = Some(format!("{} something", daftar_domain::audit::REMOVAL_NOTE));
    let action = daftar_domain::audit::AuditAction::Audit;
    let line = daftar_domain::audit::AuditEntry { at: now, note, action, ..audit_entry("removal") };
    let removal = AuditRemoval { before: now, line, reported: None };
    let reported = store.remove_audit(removal.clone()).await.unwrap();
    assert!(reported.is_some());
    // The clock was set back since: the newest entry, whose number a start requires, is old enough.
    store.commit(Write { audit: vec![audit_entry("late")], ..write(Vec::new()) }).await.unwrap();
    assert_eq!(store.remove_audit(AuditRemoval { reported, ..removal }).await.unwrap(), None);
    drop(store);
    drop(Folder::open(folder.path()));
    assert_eq!(findings(folder.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn concurrent_writes_are_never_reported_as_damage() {
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
            let update = Operation::update(created.id, VersionId(1), other);
            let status = if number % 2 == 1 { MembershipStatus::Exited } else { MembershipStatus::Enrolled };
            let moved = Operation::update(TWO, VersionId(number), place(status));
            commit(&store, vec![update, moved]).await.unwrap();
            written.store(number, Ordering::SeqCst);
        }
    };
    let looking = async {
        let mut found = Vec::new();
        // Even on a slow disk, some writes could be mistaken for damage.
        while written.load(Ordering::SeqCst) < 30 {
            found.extend(listed(store.raw_values().await.unwrap(), Pace::Fast).await);
        }
        is_over.store(true, Ordering::SeqCst);
        found
    };
    let ((), found) = tokio::join!(writing, looking);
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn a_failure_of_the_database_while_a_backup_reads_is_one_of_the_store_and_none_while_it_is_verified() {
    let store = SledStore::temporary();
    store.attach_sink(std::sync::Arc::new(daftar_store::suite::Listener::default())).unwrap();
    let error = ::sled::Error::Unsupported("a disk that fails".to_owned());
    let verified = store.raw_values().await.unwrap();
    refused(None, &error);
    assert!(verified.failure().is_none() && store.readiness().is_ok());
    let values = RawKeys::with_health(&store.reader);
    refused(values.health.as_deref(), &error);
    assert!(matches!(values.failure(), Some(StoreError::Failed(_))));
    assert!(matches!(store.readiness(), Err(StoreError::Failed(_))));
}

#[tokio::test]
async fn a_page_ends_after_about_a_mebibyte() {
    let store = SledStore::temporary();
    let values = RawKeys::new(store.reader.database.clone());
    for number in 1..=5_u64 {
        values.database.insert(keys::by_number(keys::AUDIT, number), vec![0; 400_000]).unwrap();
    }
    let (mut after, mut sizes) = (None, Vec::new());
    loop {
        let page = values.page(Table::Audit, after.as_deref(), 512);
        sizes.push(page.values.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [3, 2]);
}

#[tokio::test]
async fn looking_changes_no_value() {
    let folder = register().await;
    let stopped = StoppedStore::open(folder.path(), 1024 * 1024).unwrap();
    let before = stopped.values.database.tree().checksum().unwrap();
    listed(stopped.raw_values(), Pace::Fast).await;
    assert_eq!(stopped.values.database.tree().checksum().unwrap(), before);
}

#[test]
fn a_folder_without_a_register_is_rejected_and_stays_empty() {
    let folder = TempDir::new().unwrap();
    let error = StoppedStore::open(folder.path(), 1024 * 1024).err().unwrap();
    assert!(error.to_string().ends_with("contains no daftar register: there is no file `db` in it"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
