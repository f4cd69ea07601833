//! Programs, memberships and consents.

use crate::record::samples;
use crate::{Operation, StoreError};
use daftar_domain::change::{ChangedRecord, Details};
use daftar_domain::consent::{ConsentDetails, WITHDRAWN};
use daftar_domain::program::{PROGRAMS_MAX, ProgramDetails};
use daftar_domain::program_membership::{MembershipStatus, ProgramMembershipDetails};
use daftar_domain::record::{Record, RecordId, RecordKind, VersionId};
use daftar_domain::subject::{Subject, SubjectReference};

use super::*;

fn program(identifier: &str) -> ProgramDetails {
    let mut details = samples::full_program().details;
    details.identifiers = person(&[identifier]).identifiers;
    details
}

fn create(details: ProgramDetails) -> Operation {
    Operation::create(details)
}

fn membership(program: u64, beneficiary: u64, status: MembershipStatus) -> ProgramMembershipDetails {
    let beneficiary = SubjectReference { kind: Subject::Group, id: RecordId(beneficiary) };
    super::membership(RecordId(program), beneficiary, status)
}

fn enrol(details: ProgramMembershipDetails) -> Operation {
    Operation::create(details)
}

fn change(id: u64, version: u64, details: ProgramMembershipDetails) -> Operation {
    Operation::update(RecordId(id), VersionId(version), details)
}

async fn read<D: Details>(store: &dyn Store, id: u64) -> Arc<Record<D>> {
    store.record(D::KIND, RecordId(id)).await.unwrap().and_then(D::of).unwrap()
}

pub async fn every_kind_reads_back_with_its_older_versions<B: Backend>() {
    let (mut backend, listener) = listening::<B>();
    let (program, place, consent) =
        (samples::full_program().details, samples::full_membership().details, samples::full_consent().details);
    let withdrawn = consent.clone().with(WITHDRAWN, true);
    let operations = vec![
        create(program.clone()),
        enrol(place.clone()),
        Operation::create(consent.clone()),
        Operation::update(RecordId::pending(1), VersionId(1), withdrawn.clone()),
    ];
    commit(backend.store(), operations).await.unwrap();
    assert_eq!(listener.0.lock().unwrap().len(), 4);
    for _ in 0..2 {
        let store = backend.store();
        assert_eq!(read::<ProgramDetails>(store, 1).await.details, program);
        assert_eq!(read::<ProgramMembershipDetails>(store, 1).await.details, place);
        let now = read::<ConsentDetails>(store, 1).await;
        assert_eq!((now.meta.version, &now.details), (VersionId(2), &withdrawn));
        let then = store.record_version(RecordKind::Consent, RecordId(1), VersionId(1)).await.unwrap();
        assert_eq!(ConsentDetails::of(then.unwrap()).unwrap().details, consent);
        let found = store.identifier_owners(RecordKind::Consent, &consent.id().key(), 9).await.unwrap();
        assert_eq!(found.iter().map(|owner| owner.id).collect::<Vec<_>>(), [RecordId(1)]);
        for kind in [RecordKind::Program, RecordKind::ProgramMembership, RecordKind::Consent] {
            let all = store.scan_records(kind, RecordId(0), 9).await.unwrap();
            assert_eq!(all.iter().map(|record| record.place().0).collect::<Vec<_>>(), [kind]);
            assert!(store.scan_records(kind, RecordId(1), 9).await.unwrap().is_empty());
            assert!(store.record_version(kind, RecordId(1), VersionId(9)).await.unwrap().is_none());
            assert!(store.record(kind, RecordId(2)).await.unwrap().is_none());
            let requested = store.records(kind, &[RecordId(7), RecordId(1), RecordId(1)]).await.unwrap();
            assert_eq!(requested.len(), 2);
        }
        reopened(&mut backend).await;
    }
}

pub async fn people_and_groups_are_records_too<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let operations = vec![
        Operation::create(person(&[])),
        Operation::create(group(&[])),
        Operation::update(RecordId::pending(1), VersionId(1), group(&["urn:x:a|1"])),
    ];
    commit(store, operations).await.unwrap();
    let one = store.record(RecordKind::Individual, RecordId(1)).await.unwrap().unwrap();
    assert!(matches!(&one, ChangedRecord::Individual(found) if found.details == person(&[])));
    let now = store.scan_records(RecordKind::Group, RecordId(0), 9).await.unwrap();
    assert!(matches!(&now[..], [ChangedRecord::Group(found)] if found.meta.version == VersionId(2)));
    let then = store.record_version(RecordKind::Group, RecordId(1), VersionId(1)).await.unwrap().unwrap();
    assert!(matches!(then, ChangedRecord::Group(found) if found.details == group(&[])));
}

pub async fn a_beneficiary_has_one_open_membership_in_a_program<B: Backend>() {
    use MembershipStatus::{Draft, Duplicated, Enrolled, Exited, Paused};
    let (mut backend, _) = listening::<B>();
    commit(backend.store(), vec![enrol(membership(1, 1, Enrolled))]).await.unwrap();
    for status in [Draft, Enrolled, Paused] {
        let error = commit(backend.store(), vec![enrol(membership(1, 1, status))]).await.unwrap_err();
        assert!(matches!(error, StoreError::MembershipOpen), "{error}");
    }
    let person = SubjectReference { kind: Subject::Individual, id: RecordId(1) };
    let other_kind = super::membership(RecordId(1), person, Enrolled);
    let beside = [membership(1, 1, Exited), membership(2, 1, Enrolled), membership(1, 2, Enrolled), other_kind];
    commit(backend.store(), beside.into_iter().map(enrol).collect()).await.unwrap();
    let error = commit(backend.store(), vec![change(2, 1, membership(1, 1, Draft))]).await.unwrap_err();
    assert!(matches!(error, StoreError::MembershipOpen), "a closed one is not opened beside it: {error}");
    reopened(&mut backend).await;
    let slot = membership(1, 1, Enrolled).slot();
    assert_eq!(backend.store().open_membership(slot).await.unwrap(), Some(RecordId(1)));

    commit(backend.store(), vec![change(1, 1, membership(1, 1, Paused))]).await.unwrap();
    let swapped = vec![change(1, 2, membership(1, 1, Duplicated)), enrol(membership(1, 1, Enrolled))];
    commit(backend.store(), swapped).await.unwrap();
    reopened(&mut backend).await;
    assert_eq!(backend.store().open_membership(slot).await.unwrap(), Some(RecordId(6)));
    commit(backend.store(), vec![change(6, 1, membership(1, 1, Exited))]).await.unwrap();
    assert_eq!(backend.store().open_membership(slot).await.unwrap(), None);
    reopened(&mut backend).await;
    assert_eq!(backend.store().open_membership(slot).await.unwrap(), None);
    commit(backend.store(), vec![enrol(membership(1, 1, Draft))]).await.unwrap();
}

pub async fn one_of_many_is_enrolled<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let attempts = (0..16).map(|_| commit(store, vec![enrol(membership(1, 1, MembershipStatus::Enrolled))]));
    let outcomes = futures_join(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let refused = |outcome: &&Result<Committed, StoreError>| matches!(outcome, Err(StoreError::MembershipOpen));
    assert_eq!(outcomes.iter().filter(refused).count(), 15);
}

pub async fn programs_are_few<B: Backend>() {
    let (backend, _) = listening::<B>();
    let store = backend.store();
    let many = |from: u64, to: u64| (from..=to).map(|number| create(program(&format!("urn:x:p|{number}")))).collect();
    for from in (1..PROGRAMS_MAX).step_by(1_000) {
        commit(store, many(from, (from + 999).min(PROGRAMS_MAX))).await.unwrap();
    }
    let error = commit(store, many(PROGRAMS_MAX + 1, PROGRAMS_MAX + 1)).await.unwrap_err();
    assert!(matches!(error, StoreError::LimitReached(_)), "{error}");
}
