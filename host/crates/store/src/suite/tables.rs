use std::sync::atomic::{AtomicUsize, Ordering};

use crate::record::audit::ENTRIES_PER_VALUE_MAX;
use crate::{NewCodes, NumbersGiven, Operation};
use daftar_domain::code::{CodeNumber, CodeUri, EditionNumber, Namespace};

use super::*;
use crate::testing::AuditReads as _;

fn uri(text: &str) -> CodeUri {
    CodeUri::parse(text).unwrap()
}

fn edition(namespace: &str, version: &str) -> (Namespace, String) {
    (Namespace::parse(namespace).unwrap(), version.to_owned())
}

pub async fn codes_keep_their_numbers<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let (codes, editions) =
        backend.store().number_codes(vec![uri("urn:x#a"), uri("urn:x#b")], vec![edition("urn:x", "1")]).await.unwrap();
    assert_eq!((codes, editions), (vec![CodeNumber(0), CodeNumber(1)], vec![EditionNumber(0)]));
    reopened(&mut backend).await;
    let requested = vec![uri("urn:y#a"), uri("urn:x#b"), uri("urn:x#c"), uri("urn:y#a"), uri("urn:x#a")];
    let (codes, editions) = backend
        .store()
        .number_codes(requested.clone(), vec![edition("urn:x", "2"), edition("urn:y", "1"), edition("urn:x", "1")])
        .await
        .unwrap();
    assert_eq!(codes.iter().map(|number| number.0).collect::<Vec<_>>(), [2, 1, 3, 2, 0]);
    assert_eq!(editions.iter().map(|number| number.0).collect::<Vec<_>>(), [1, 2, 0]);
    reopened(&mut backend).await;
    let table = backend.store().code_table().await.unwrap();
    assert_eq!(table.codes, [uri("urn:x#a"), uri("urn:x#b"), uri("urn:y#a"), uri("urn:x#c")]);
    assert_eq!(table.editions, [edition("urn:x", "1"), edition("urn:x", "2"), edition("urn:y", "1")]);
    let (codes, editions) = backend.store().number_codes(requested, Vec::new()).await.unwrap();
    assert_eq!(codes.iter().map(|number| number.0).collect::<Vec<_>>(), [2, 1, 3, 2, 0]);
    assert!(editions.is_empty());
}

pub async fn codes_are_numbered_with_their_write_or_not_at_all<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    backend.store().number_codes(vec![uri("urn:x#a")], Vec::new()).await.unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&heard);
    let given: NumbersGiven = Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let new = |first: u32, codes: &[&str]| {
        let counters = vec![("open:one".to_owned(), u64::from(first))];
        let codes = codes.iter().map(|code| uri(code)).collect();
        Operation::NumberCodes(NewCodes { first: CodeNumber(first), codes, counters, given: given.clone() })
    };
    let of = |value: &str, new: Vec<Operation>| {
        let created = Operation::create(person(&[&format!("urn:x:id|{value}")]));
        std::iter::once(created).chain(new).collect::<Vec<_>>()
    };
    let written =
        commit(backend.store(), of("1", vec![new(1, &["urn:x#b", "urn:y#b"]), new(3, &["urn:x#c"])])).await.unwrap();
    assert_eq!(written.written.len(), 1, "the numbers are not reported");
    assert_eq!(heard.load(Ordering::Relaxed), 2);
    // Numbers of another write, codes with a number, and a rejected write.
    for (value, new) in [
        ("2", new(3, &["urn:x#d"])),
        ("2", new(5, &["urn:x#d"])),
        ("2", new(4, &["urn:x#d", "urn:x#a"])),
        ("2", new(4, &["urn:x#d", "urn:x#d"])),
        ("1", new(4, &["urn:x#d"])),
    ] {
        let refused = commit(backend.store(), of(value, vec![new])).await.unwrap_err();
        let is_reported = matches!(refused, StoreError::Overtaken) || value == "1";
        assert!(is_reported && !matches!(refused, StoreError::Failed(_)), "{refused:?}");
    }
    let numbered = ["urn:x#a", "urn:x#b", "urn:y#b", "urn:x#c"].map(uri);
    assert_eq!(backend.store().code_table().await.unwrap().codes, numbered);
    assert_eq!(backend.store().counter("open:one").await.unwrap(), Some(3));
    assert_eq!(heard.load(Ordering::Relaxed), 2);
    reopened(&mut backend).await;
    assert_eq!(backend.store().code_table().await.unwrap().codes, numbered);
    assert_eq!(backend.store().counter("open:one").await.unwrap(), Some(3));
    commit(backend.store(), of("2", vec![new(4, &["urn:x#d"])])).await.unwrap();
    let (numbers, _) = backend.store().number_codes(vec![uri("urn:x#d"), uri("urn:x#e")], Vec::new()).await.unwrap();
    assert_eq!(numbers, [CodeNumber(4), CodeNumber(5)]);
}

pub async fn many_codes_are_numbered_together<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let all: Vec<CodeUri> = (0..2_345).map(|number| uri(&format!("urn:x:{}#{number}", number / 1_000))).collect();
    let (numbers, _) = backend.store().number_codes(all.clone(), Vec::new()).await.unwrap();
    assert!(numbers.iter().enumerate().all(|(at, number)| number.0 as usize == at));
    reopened(&mut backend).await;
    assert_eq!(backend.store().code_table().await.unwrap().codes, all);
}

pub async fn counters_never_decrease<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    for (value, stored) in [(16, 16), (7, 16), (32, 32), (0, 32)] {
        backend.store().raise_counter("day:2026-01-02:a", value).await.unwrap();
        let counters = backend.store().counters("day:").await.unwrap();
        assert_eq!(counters, [("day:2026-01-02:a".to_owned(), stored)]);
        assert_eq!(backend.store().counter("day:2026-01-02:a").await.unwrap(), Some(stored));
        assert_eq!(backend.store().counter("day:2026-01-02:").await.unwrap(), None);
        reopened(&mut backend).await;
    }
    let names: Vec<String> = (0..40).map(|value| format!("at-once:{}", value % 3)).collect();
    let raising = names.iter().zip(0..).map(|(name, value)| backend.store().raise_counter(name, value));
    for raised in futures_join(raising).await {
        raised.unwrap();
    }
    let counters = backend.store().counters("at-once").await.unwrap();
    assert_eq!(counters.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [39, 37, 38]);
}

pub async fn counters_are_removed_by_prefix<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    for name in ["day:1:a", "day:1:b", "day:10:a", "day:2:a", "week:1"] {
        backend.store().raise_counter(name, 5).await.unwrap();
    }
    backend.store().remove_counters("day:1:").await.unwrap();
    reopened(&mut backend).await;
    let names = |counters: Vec<(String, u64)>| counters.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(backend.store().counters("").await.unwrap()), ["day:10:a", "day:2:a", "week:1"]);
    assert_eq!(names(backend.store().counters("day:2").await.unwrap()), ["day:2:a"]);
    backend.store().raise_counter("day:1:a", 1).await.unwrap();
    assert_eq!(backend.store().counters("day:1:").await.unwrap(), [("day:1:a".to_owned(), 1)]);
}

pub async fn the_audit_log_is_newest_first<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let total = ENTRIES_PER_VALUE_MAX * 2 + 50;
    for number in 0..total {
        backend.store().append_audit(vec![audit_entry(&number.to_string())]).await.unwrap();
    }
    let requests = |limit: usize| (0..total).rev().take(limit).map(|number| number.to_string()).collect::<Vec<_>>();
    for limit in [0, 1, 300, total, total + 1] {
        let found = backend.store().audit(limit).await.unwrap();
        assert_eq!(found.into_iter().map(|entry| entry.request_id).collect::<Vec<_>>(), requests(limit), "{limit}");
    }
    backend.store().append_audit(vec![audit_entry("last")]).await.unwrap();
    reopened(&mut backend).await;
    assert_eq!(backend.store().audit(1).await.unwrap(), [audit_entry("last")]);
    assert_eq!(backend.store().audit(usize::MAX).await.unwrap().len(), total + 1);
}

pub async fn the_audit_log_contains_entries_of_writes_and_of_denials<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let operations = vec![Operation::create(person(&[]))];
    let audited = Write { audit: vec![audit_entry("1"), audit_entry("2")], ..write(operations) };
    backend.store().commit(audited).await.unwrap();
    backend.store().append_audit(vec![audit_entry("3")]).await.unwrap();
    // A write may be an audit entry alone.
    assert_eq!(backend.store().audit(1).await.unwrap(), [audit_entry("3")]);
    backend.store().commit(Write { audit: vec![audit_entry("4")], ..write(Vec::new()) }).await.unwrap();
    reopened(&mut backend).await;
    let found = backend.store().audit(9).await.unwrap();
    assert_eq!(found.iter().map(|entry| entry.request_id.as_str()).collect::<Vec<_>>(), ["4", "3", "2", "1"]);
}

/// An entry with that many targets of 500 bytes.
fn long_line(request: &str, targets: usize) -> AuditEntry {
    let target = |number| format!("{number:0>500}");
    AuditEntry { targets: (0..targets).map(target).collect(), ..audit_entry(request) }
}

pub async fn long_entries_of_the_audit_log_are_all_stored<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let lines: Vec<AuditEntry> = (0..9).map(|number| long_line(&number.to_string(), 1_000)).collect();
    backend.store().append_audit(vec![audit_entry("another client's")]).await.unwrap();
    backend.store().append_audit(lines[..4].to_vec()).await.unwrap();
    assert_eq!(backend.store().audit(9).await.unwrap().len(), 5);
    backend.store().commit(Write { audit: lines[4..8].to_vec(), ..write(Vec::new()) }).await.unwrap();
    backend.store().append_audit(lines[8..].to_vec()).await.unwrap();
    reopened(&mut backend).await;
    let mut found = backend.store().audit(usize::MAX).await.unwrap();
    found.reverse();
    assert_eq!(found.first(), Some(&audit_entry("another client's")));
    assert!(found[1..] == lines, "every line, as it was and in order");
}

pub async fn an_audit_entry_over_the_limit_is_truncated<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    backend.store().append_audit(vec![audit_entry("1"), long_line("2", 5_000), audit_entry("3")]).await.unwrap();
    // A store may write the audit entries of reads and of writes separately.
    backend.store().audit(0).await.unwrap();
    backend.store().commit(Write { audit: vec![long_line("4", 5_000)], ..write(Vec::new()) }).await.unwrap();
    reopened(&mut backend).await;
    let found = backend.store().audit(9).await.unwrap();
    assert_eq!(found.iter().map(|entry| entry.request_id.as_str()).collect::<Vec<_>>(), ["4", "3", "2", "1"]);
    for line in [&found[0], &found[2]] {
        let stored = line.targets.len();
        assert!(line.targets == long_line("", stored).targets, "the first {stored}");
        let note = line.note.as_deref().unwrap();
        assert!(note.starts_with(&format!("{} of 5000 targets were omitted", 5_000 - stored)), "{note}");
    }
}
