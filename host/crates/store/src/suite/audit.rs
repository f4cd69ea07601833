use jiff::{SignedDuration, Timestamp};

use crate::audit_log::{AuditRemoval, AuditRemoved, REMOVAL_VALUES_MAX};
use crate::record::audit::ENTRIES_PER_VALUE_MAX;
use daftar_domain::audit::query::{AuditBounds, AuditPage, AuditPosition, AuditQuery};

use super::*;
use crate::testing::AuditReads as _;

fn day(number: usize) -> Timestamp {
    let first: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    first + SignedDuration::from_hours(24 * i64::try_from(number).unwrap())
}

/// An entry of that day about one of ten records.
fn line(number: usize) -> AuditEntry {
    let targets = vec![format!("Individual/urn:x:a|{}", number % 10)];
    AuditEntry { at: day(number), targets, ..audit_entry(&number.to_string()) }
}

/// Adds entries, each as a stored value of its own.
async fn add_apart<B: Backend>(backend: &B, lines: impl IntoIterator<Item = AuditEntry>) {
    for line in lines {
        backend.store().commit(Write { audit: vec![line], ..write(Vec::new()) }).await.unwrap();
    }
}

async fn page<B: Backend>(
    backend: &B,
    query: &AuditQuery,
    before: AuditPosition,
    (lines_max, examined_max): (usize, usize),
) -> AuditPage {
    backend.store().audit_page(query.clone(), before, AuditBounds { lines_max, examined_max }).await.unwrap()
}

/// Every entry that matches the query, page by page; and the number of pages.
async fn all<B: Backend>(backend: &B, query: &AuditQuery, bounds: (usize, usize)) -> (Vec<String>, usize) {
    let (mut found, mut pages, mut before) = (Vec::new(), 0, AuditPosition::END);
    loop {
        let AuditPage { entries, next } = page(backend, query, before, bounds).await;
        pages += 1;
        assert!(entries.len() <= bounds.0);
        found.extend(entries.into_iter().map(|entry| entry.request_id));
        let Some(next) = next else { return (found, pages) };
        assert!(next < before, "the position decreases");
        before = next;
    }
}

fn requests(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

fn removal(before: Timestamp, reported: Option<AuditRemoved>) -> AuditRemoval {
    AuditRemoval { before, line: AuditEntry { at: day(5_000), ..audit_entry("removal") }, reported }
}

/// Removes entries until none is old enough.
async fn remove_all<B: Backend>(backend: &B, before: Timestamp) -> Option<AuditRemoved> {
    let mut reported = None;
    while let Some(removed) = backend.store().remove_audit(removal(before, reported)).await.unwrap() {
        reported = Some(removed);
    }
    reported
}

pub async fn the_audit_log_is_searched_in_pages<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let total = 6 * ENTRIES_PER_VALUE_MAX;
    backend.store().append_audit((0..total - 5).map(line).collect()).await.unwrap();
    // Flushes them to disk before the next entry is written separately.
    backend.store().audit(0).await.unwrap();
    add_apart(&backend, (total - 5..total).map(line)).await;
    let everything = AuditQuery::default();
    for _ in 0..2 {
        for lines_max in [1, 7, total - 1, total, total + 1] {
            let (found, _) = all(&backend, &everything, (lines_max, usize::MAX)).await;
            assert!(found == requests((0..total).rev()), "{lines_max}");
        }
        let on = AuditQuery { target: Some("urn:x:a|3".to_owned()), ..AuditQuery::default() };
        let expected = requests((0..total).rev().filter(|number| number % 10 == 3));
        for bounds in [(10, usize::MAX), (usize::MAX, 100), (5, 33)] {
            assert_eq!(all(&backend, &on, bounds).await.0, expected, "{bounds:?}");
        }
        let both = AuditQuery { request_id: Some("12".to_owned()), ..on };
        assert!(all(&backend, &both, (9, 200)).await.0.is_empty(), "no entry meets both conditions");
        // No index contains this text.
        let text = AuditQuery { text: Some("in no line".to_owned()), ..AuditQuery::default() };
        let (found, pages) = all(&backend, &text, (9, 200)).await;
        assert_eq!((found.len(), pages > 4), (0, true), "a search is bounded");
        reopened(&mut backend).await;
    }
}

pub async fn the_audit_log_is_searched_by_time<B: Backend>() {
    let (backend, _) = listening::<B>();
    add_apart(&backend, (0..20).map(line)).await;
    let query = AuditQuery { from: Some(day(4)), to: Some(day(9)), ..AuditQuery::default() };
    assert_eq!(all(&backend, &query, (2, 3)).await.0, requests((4..9).rev()));
}

pub async fn audit_entries_are_found_by_the_names_they_contain<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let total = 40 * ENTRIES_PER_VALUE_MAX;
    for from in (0..total).step_by(ENTRIES_PER_VALUE_MAX) {
        backend.store().append_audit((from..from + ENTRIES_PER_VALUE_MAX).map(line).collect()).await.unwrap();
    }
    for _ in 0..2 {
        for number in [0, 4_095, 4_096, 8_191, 8_192, total - 1] {
            let query = AuditQuery { request_id: Some(number.to_string()), ..AuditQuery::default() };
            let (found, pages) = all(&backend, &query, (10, 20_000)).await;
            assert_eq!((found, pages), (requests([number].into_iter()), 1), "{number}");
        }
        let found = all(&backend, &AuditQuery::default(), (1_000, usize::MAX)).await.0;
        assert!(found == requests((0..total).rev()), "every line, in order");
        reopened(&mut backend).await;
    }
}

pub async fn old_audit_entries_are_removed_in_small_steps<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let total = REMOVAL_VALUES_MAX * 2 + 10;
    add_apart(&backend, (0..total).map(line)).await;
    let first = backend.store().remove_audit(removal(day(total - 5), None)).await.unwrap().unwrap();
    assert_eq!(first.lines as usize, REMOVAL_VALUES_MAX);
    // After a stop here the removed entries are already reported.
    reopened(&mut backend).await;
    let newest = backend.store().audit(1).await.unwrap();
    assert_eq!((newest[0].request_id.as_str(), newest[0].count), ("removal", first.lines));
    assert_eq!(backend.store().audit(usize::MAX).await.unwrap().len(), total - REMOVAL_VALUES_MAX + 1);
    // Later steps update the same entry with the total.
    let mut reported = Some(first);
    while let Some(removed) = backend.store().remove_audit(removal(day(total - 5), reported)).await.unwrap() {
        assert_eq!(removed.at, first.at);
        reported = Some(removed);
    }
    assert_eq!(reported.unwrap().lines as usize, total - 5);
    reopened(&mut backend).await;
    let left = backend.store().audit(usize::MAX).await.unwrap();
    assert_eq!(left[0].count as usize, total - 5);
    let left: Vec<_> = left.into_iter().map(|entry| entry.request_id).collect();
    assert_eq!(left, [vec!["removal".to_owned()], requests((total - 5..total).rev())].concat());
    assert!(remove_all(&backend, day(total - 5)).await.is_none(), "nothing is left to remove");
    add_apart(&backend, [line(total)]).await;
    assert_eq!(backend.store().audit(1).await.unwrap(), [line(total)]);
}

pub async fn audit_entries_as_old_as_the_limit_stay<B: Backend>() {
    let (backend, _) = listening::<B>();
    add_apart(&backend, (0..3).map(line)).await;
    assert!(remove_all(&backend, day(0)).await.is_none());
    let just_after = day(0) + SignedDuration::from_millis(1);
    assert_eq!(remove_all(&backend, just_after).await.unwrap().lines, 1);
}

pub async fn audit_entries_with_a_wrong_time_do_not_block_removal<B: Backend>() {
    let (backend, _) = listening::<B>();
    add_apart(&backend, [4_000, 4_001, 0, 1].map(line)).await;
    assert_eq!(remove_all(&backend, day(100)).await.unwrap().lines, 2);
    let left: Vec<_> = backend.store().audit(9).await.unwrap().into_iter().map(|entry| entry.request_id).collect();
    assert_eq!(left, ["removal", "4001", "4000"]);
}

pub async fn entries_left_after_a_removal_are_found<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let total = 40 * ENTRIES_PER_VALUE_MAX;
    for from in (0..total).step_by(ENTRIES_PER_VALUE_MAX) {
        backend.store().append_audit((from..from + ENTRIES_PER_VALUE_MAX).map(line).collect()).await.unwrap();
        // Flushes them to disk, so that values contain complete days.
        backend.store().audit(0).await.unwrap();
    }
    let stored_from = 24 * ENTRIES_PER_VALUE_MAX;
    assert_eq!(remove_all(&backend, day(stored_from)).await.unwrap().lines as usize, stored_from);
    for _ in 0..2 {
        for (number, is_left) in [(0, false), (stored_from - 1, false), (stored_from, true), (total - 1, true)] {
            let query = AuditQuery { request_id: Some(number.to_string()), ..AuditQuery::default() };
            let expected = if is_left { requests([number].into_iter()) } else { Vec::new() };
            assert_eq!(all(&backend, &query, (10, usize::MAX)).await.0, expected, "{number}");
        }
        assert_eq!(backend.store().audit(usize::MAX).await.unwrap().len(), total - stored_from + 1);
        reopened(&mut backend).await;
    }
}
