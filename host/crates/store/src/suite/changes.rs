use crate::Operation;
use crate::change_log::{CHANGES_MAX, Touched};
use daftar_domain::change::Sequence;
use daftar_domain::record::{RecordId, RecordKind, VersionId};

use super::*;

pub async fn the_change_log_contains_the_records_of_each_write<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let both = vec![Operation::create(person(&[])), Operation::create(group(&[]))];
    commit(backend.store(), both).await.unwrap();
    let change = vec![Operation::update(RecordId(1), VersionId(1), person(&["urn:x:a|1"]))];
    commit(backend.store(), change).await.unwrap();
    let (individual, household) = ((RecordKind::Individual, RecordId(1)), (RecordKind::Group, RecordId(1)));
    let touched = |sequence, records: &[_]| Touched { sequence: Sequence(sequence), records: records.to_vec() };
    let (first, second) = (touched(1, &[individual, household]), touched(2, &[individual]));
    for _ in 0..2 {
        let log = backend.store();
        assert_eq!(log.changes_after(Sequence(0), 10).await.unwrap(), [first.clone(), second.clone()]);
        assert_eq!(log.changes_after(Sequence(0), 1).await.unwrap(), std::slice::from_ref(&first));
        assert_eq!(log.changes_after(Sequence(1), CHANGES_MAX).await.unwrap(), std::slice::from_ref(&second));
        assert!(log.changes_after(Sequence(2), 10).await.unwrap().is_empty());
        assert!(log.changes_after(Sequence(9), 10).await.unwrap().is_empty());
        reopened(&mut backend).await;
    }
}

pub async fn a_mark_identifies_one_history<B: Backend>() {
    let (mut backend, _) = listening::<B>();
    let (other, _) = listening::<B>();
    for store in [backend.store(), other.store()] {
        commit(store, vec![Operation::create(person(&[]))]).await.unwrap();
        commit(store, vec![Operation::create(person(&[]))]).await.unwrap();
    }
    let mut marks = Vec::new();
    for log in [backend.store(), other.store()] {
        for sequence in 0..=2 {
            marks.push(log.history_mark(Sequence(sequence)).await.unwrap().unwrap());
        }
        assert_eq!(log.history_mark(Sequence(3)).await.unwrap(), None);
    }
    for (at, mark) in marks.iter().enumerate() {
        assert!(!marks[at + 1..].contains(mark), "{at}");
    }
    let ids = (backend.store().register_id().await.unwrap(), other.store().register_id().await.unwrap());
    assert_ne!(ids.0, ids.1);
    assert_eq!(ids.0.to_string().len(), 32);
    reopened(&mut backend).await;
    assert_eq!(backend.store().register_id().await.unwrap(), ids.0);
    assert_eq!(backend.store().history_mark(Sequence(2)).await.unwrap(), Some(marks[2]), "it stays the same");
}
