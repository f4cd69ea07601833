//! Audit entries that were removed in the meantime because of their age.

use jiff::SignedDuration;

use super::into_folder::Folder;
use super::*;
use daftar_domain::audit::{AuditAction, REMOVAL_NOTE};
use daftar_store::audit_log::{AuditRemoval, AuditRemoved, REMOVAL_PASSED_OVER_MAX, REMOVAL_VALUES_MAX};
use daftar_store::suite::{audit_entry, write};

fn day(number: usize) -> Timestamp {
    let first: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    first + SignedDuration::from_hours(24 * i64::try_from(number).unwrap())
}

/// Adds an entry of each of these days, each in a stored value of its own.
async fn add(store: &SledStore, days: impl IntoIterator<Item = usize>) {
    for number in days {
        let line = AuditEntry { at: day(number), ..audit_entry(&number.to_string()) };
        store.commit(Write { audit: vec![line], ..write(Vec::new()) }).await.unwrap();
    }
}

/// One step of a removal.
async fn remove(store: &SledStore, before: usize, reported: Option<AuditRemoved>) -> Option<AuditRemoved> {
    let note = Some(format!("{REMOVAL_NOTE} {}, as it is", day(before)));
    let line = AuditEntry { at: day(5_000), action: AuditAction::Audit, note, ..audit_entry("removal") };
    store.remove_audit(AuditRemoval { before: day(before), line, reported }).await.unwrap()
}

async fn remove_all(store: &SledStore, before: usize, mut reported: Option<AuditRemoved>) -> Option<AuditRemoved> {
    while let Some(removed) = remove(store, before, reported).await {
        reported = Some(removed);
    }
    reported
}

/// Applies writes and removals, and fails unless the store then equals the folder.
async fn assert_caught_up(from: &SledStore, target: &impl Target) -> CaughtUp {
    let caught_up = target.catch_up(from).await.unwrap();
    target.assert_equals(from, &caught_up).await;
    let lines =
        |lines: Vec<AuditEntry>| lines.into_iter().map(|line| (line.request_id, line.count)).collect::<Vec<_>>();
    let there = target.with_store(async |store| store.audit(usize::MAX).await.unwrap()).await;
    assert_eq!(lines(there), lines(from.audit(usize::MAX).await.unwrap()));
    assert!(target.catch_up(from).await.unwrap().brought.is_empty());
    caught_up
}

#[tokio::test]
async fn an_unfinished_removal_is_applied_with_the_entry_that_reports_it() {
    unfinished_removal(&Database::new()).await;
    unfinished_removal(&Folder::new()).await;
}

async fn unfinished_removal(target: &impl Target) {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    add(&from, 0..200).await;
    let reported = remove(&from, 150, None).await;
    assert_eq!(reported.map(|reported| reported.lines), Some(REMOVAL_VALUES_MAX as u64));
    target.fill(&from).await;
    // It continues, and the entry that reports it is the last one of the copy.
    let reported = remove_all(&from, 150, reported).await.unwrap();
    assert_eq!((reported.at, reported.lines), (201, 150));
    let caught_up = assert_caught_up(&from, target).await;
    assert_eq!(caught_up.brought.taken_out[&ItemKind::AuditValues], 150 - REMOVAL_VALUES_MAX as u64);
    assert_eq!(caught_up.brought.written[&ItemKind::AuditValues], 1, "the entry was written again");

    // The next one begins and ends in between, with entries before and after it.
    add(&from, 200..210).await;
    assert_eq!(remove_all(&from, 160, None).await.unwrap().lines, 10);
    add(&from, 210..215).await;
    let caught_up = assert_caught_up(&from, target).await;
    assert_eq!(
        (caught_up.brought.taken_out[&ItemKind::AuditValues], caught_up.brought.written[&ItemKind::AuditValues]),
        (10, 16)
    );
}

#[tokio::test]
async fn the_report_of_a_removal_is_found_after_many_other_entries() {
    report_after_others(&Database::new()).await;
    report_after_others(&Folder::new()).await;
}

async fn report_after_others(target: &impl Target) {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    let many = REMOVAL_PASSED_OVER_MAX * 3;
    add(&from, 0..many).await;
    let reported = remove(&from, 100, None).await;
    add(&from, many..many + 5).await;
    target.fill(&from).await;
    let reported = remove_all(&from, 100, reported).await.unwrap();
    assert_eq!((reported.at, reported.lines), (many as u64 + 1, 100));
    let caught_up = assert_caught_up(&from, target).await;
    assert_eq!(caught_up.brought.taken_out[&ItemKind::AuditValues], 100 - REMOVAL_VALUES_MAX as u64);
}

#[tokio::test]
async fn entries_that_a_removal_passes_over_stay_and_later_ones_are_removed() {
    passed_over(&Database::new()).await;
    passed_over(&Folder::new()).await;
}

async fn passed_over(target: &impl Target) {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    // As many entries of a wrong clock as are passed over, before old ones.
    let wrong = REMOVAL_PASSED_OVER_MAX - 1;
    add(&from, (0..wrong).map(|number| 4_000 + number)).await;
    add(&from, 0..120).await;
    target.fill(&from).await;
    assert_eq!(remove_all(&from, 110, None).await.unwrap().lines, 110);
    let caught_up = assert_caught_up(&from, target).await;
    assert_eq!(caught_up.brought.taken_out[&ItemKind::AuditValues], 110);
    // All entries of the copy are removed except for these; and then they are removed as well.
    add(&from, 4_500..4_510).await;
    assert!(remove_all(&from, 130, None).await.is_some());
    assert_caught_up(&from, target).await;
    assert!(remove_all(&from, 4_505, None).await.is_some());
    let caught_up = assert_caught_up(&from, target).await;
    assert!(caught_up.brought.taken_out[&ItemKind::AuditValues] > wrong as u64);
}

#[tokio::test]
async fn the_last_entry_of_the_copy_may_be_removed() {
    let database = Database::new();
    let (_path, from) = last_entry(&database).await;
    assert_same(&from, &database).await;
    last_entry(&Folder::new()).await;
}

async fn last_entry(target: &impl Target) -> (TempDir, SledStore) {
    let path = TempDir::new().unwrap();
    let from = folder(path.path());
    add(&from, 0..30).await;
    target.fill(&from).await;
    add(&from, 100..110).await;
    assert_eq!(remove_all(&from, 50, None).await.unwrap().lines, 30);
    let caught_up = assert_caught_up(&from, target).await;
    assert_eq!(
        (caught_up.brought.taken_out[&ItemKind::AuditValues], caught_up.brought.written[&ItemKind::AuditValues]),
        (30, 11)
    );
    (path, from)
}
