//! Truncated, changed or missing database files: an error, valid results, or a finding; never a panic, and never wrong
//! results without a finding.

use super::*;
use crate::StoppedStore;
use daftar_domain::verification::VerificationEvent;
use daftar_store::verify::{Pace, verify};

/// The content of a store: persons by number, audit entries, codes.
type Contents = (Vec<Arc<Individual>>, usize, usize);

async fn contents(store: &SledStore) -> Result<Contents, StoreError> {
    let people = (store as &dyn Store).scan::<IndividualDetails>(RecordId(0), 10_000).await?;
    Ok((people, logged(store)?.len(), store.code_table().await?.codes.len()))
}

/// A closed register of some hundred people, and its content.
async fn register() -> (TempDir, Contents) {
    let folder = TempDir::new().unwrap();
    let mut all = (Vec::new(), 0, 0);
    // Opened more than once: the database then has a snapshot beside its log.
    for turn in 0..3_u64 {
        let store = Folder::listening(folder.path());
        for number in 0..60 {
            let sample = samples::full_individual().details;
            let telecom: Vec<Values> = sample.items(TELECOM).cloned().collect();
            let details = person(&[&format!("urn:x:{turn}|{number}")]).with(TELECOM, telecom);
            let operations = vec![Operation::create(details)];
            let audited = Write { audit: vec![audit_entry(&number.to_string())], ..write(operations) };
            store.commit(audited).await.unwrap();
        }
        let code = CodeUri::from_parts("urn:x", &turn.to_string()).unwrap();
        store.number_codes(vec![code], Vec::new()).await.unwrap();
        all = contents(&store).await.unwrap();
    }
    (folder, all)
}

/// Returns the findings of a verification of a stopped folder.
pub(super) async fn findings(store: &StoppedStore) -> Result<Vec<String>, StoreError> {
    let (events, mut heard) = tokio::sync::mpsc::channel(64);
    let listen = async {
        let mut findings = Vec::new();
        while let Some(event) = heard.recv().await {
            if let VerificationEvent::Finding(finding) = event {
                findings.push(finding.to_string());
            }
        }
        findings
    };
    let (looked, findings) = tokio::join!(verify(store.raw_values(), Pace::Fast, events), listen);
    looked.map(|_| findings)
}

/// Checks a server start and a verification on a folder; an error if the content is wrong and neither reports it.
async fn outcome(path: &Path, right: &Contents) -> Result<(), String> {
    let looked = copied(path);
    let is_noticed = match StoppedStore::open(looked.path(), 1024 * 1024) {
        Err(error) => {
            check_sentence(&error.to_string());
            true
        }
        Ok(store) => findings(&store).await.map_or(true, |findings| !findings.is_empty()),
    };
    let is_right = match SledStore::open(path, options()) {
        Err(error) => {
            check_sentence(&error.to_string());
            return Ok(());
        }
        Ok(store) => match contents(&store).await {
            Ok(contents) => contents == *right,
            // An error counts as a report.
            Err(_) => return Ok(()),
        },
    };
    if is_right || is_noticed { Ok(()) } else { Err("wrong results without a finding".to_owned()) }
}

/// Checks that an error names the folder and is one line without the database's request for a bug report.
fn check_sentence(refusal: &str) {
    assert!(refusal.contains("the data folder `") || refusal.contains("the folder `"), "{refusal}");
    assert!(!refusal.contains("PLEASE") && !refusal.contains('\n') && !refusal.contains("panicked"), "{refusal}");
}

#[tokio::test]
async fn a_file_with_changed_bytes_gives_no_wrong_answers_silently() {
    let (folder, right) = register().await;
    let length = std::fs::metadata(folder.path().join("db")).unwrap().len();
    let used = std::fs::read(folder.path().join("db")).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64;
    assert!(used < length);
    // Positions all over the used part, the same each time.
    let mut at = 11_u64;
    for turn in 0..48_u64 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let position = if turn < 4 { turn * 7 } else { (at >> 20) % used };
        let damaged = copied(folder.path());
        let path = damaged.path().join("db");
        let mut bytes = std::fs::read(&path).unwrap();
        for byte in bytes.iter_mut().skip(position as usize).take(1 + (turn % 3) as usize * 40) {
            *byte ^= 0x5a;
        }
        std::fs::write(&path, bytes).unwrap();
        outcome(damaged.path(), &right).await.unwrap_or_else(|wrong| panic!("byte {position} of {used}: {wrong}"));
    }
}

#[tokio::test]
async fn a_file_that_was_cut_is_noticed() {
    let (folder, right) = register().await;
    let bytes = std::fs::read(folder.path().join("db")).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    for tenths in 0..=9 {
        let damaged = copied(folder.path());
        let stored = used / 10 * tenths;
        std::fs::write(damaged.path().join("db"), &bytes[..stored]).unwrap();
        outcome(damaged.path(), &right).await.unwrap_or_else(|wrong| panic!("{stored} of {used} bytes: {wrong}"));
        let Err(refused) = SledStore::open(damaged.path(), options()) else {
            panic!("{stored} of {used} bytes: it opens")
        };
        check_sentence(&refused.to_string());
    }
}

#[tokio::test]
async fn a_snapshot_with_changed_bytes_gives_no_wrong_answers_silently() {
    let (folder, right) = register().await;
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name.to_string_lossy() != "db").collect();
    assert!(names.iter().any(|name| name.to_string_lossy().starts_with("snap.")), "{names:?}");
    for name in names {
        for damage in ["changed", "cut", "gone"] {
            let damaged = copied(folder.path());
            let path = damaged.path().join(&name);
            if path.is_dir() {
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            match damage {
                "changed" => bytes.iter_mut().skip(3).step_by(5).for_each(|byte| *byte ^= 0x11),
                "cut" => bytes.truncate(bytes.len() / 2),
                _ => {}
            }
            if damage == "gone" {
                std::fs::remove_file(&path).unwrap()
            } else {
                std::fs::write(&path, bytes).unwrap()
            }
            outcome(damaged.path(), &right).await.unwrap_or_else(|wrong| panic!("{name:?} {damage}: {wrong}"));
        }
    }
}

#[test]
fn a_folder_without_the_database_file_is_rejected_unchanged() {
    let folder = TempDir::new().unwrap();
    drop(Folder::open(folder.path()));
    std::fs::remove_file(folder.path().join("db")).unwrap();
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for error in [
        SledStore::open(folder.path(), options()).err().unwrap(),
        StoppedStore::open(folder.path(), 1024 * 1024).err().unwrap(),
    ] {
        assert!(matches!(error, OpenError::Incomplete(_)), "{error}");
        assert!(error.to_string().contains("lacks the file `db`, which contains the register"), "{error}");
    }
    assert_eq!(names(), before);
}

#[tokio::test]
async fn older_files_put_back_are_noticed() {
    let folder = TempDir::new().unwrap();
    let store = Folder::listening(folder.path());
    create(&store, person(&["urn:x:a|1"])).await;
    drop(store);
    let older = copied(folder.path());
    let store = Folder::listening(folder.path());
    create(&store, person(&["urn:x:a|2"])).await;
    drop(store);
    std::fs::copy(folder.path().join("acknowledged"), older.path().join("acknowledged")).unwrap();
    let error = SledStore::open(older.path(), options()).err().unwrap();
    let sentence =
        "ends at write 1 (audit log 0, table of codes 0), and write 2 (audit log 0, table of codes 0) was acknowledged";
    assert!(error.to_string().contains(sentence), "{error}");
    std::fs::remove_file(older.path().join("acknowledged")).unwrap();
    assert_eq!(all_individuals(&Folder::open(older.path())).await, [1], "on purpose, as the refusal says");
}

#[test]
fn a_folder_of_an_unknown_layout_is_rejected() {
    let folder = TempDir::new().unwrap();
    for mark in [open::layout_mark(0), b"daftar-store".to_vec(), b"another-store\0\0\0\x01".to_vec()] {
        let folder = folder.path().join(mark.len().to_string());
        with_database(&folder, |database| {
            database.insert(keys::FORMAT, mark.as_slice()).unwrap();
        });
        let error = SledStore::open(&folder, options()).err().unwrap();
        assert!(error.to_string().ends_with("its database has no layout marker"), "{error}");
    }
}
